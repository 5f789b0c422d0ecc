"""A disk that hangs: what clients go on sending must not pile up in memory, and others are still served."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel.broker import embedded
from runnel.files import DISK
from runnel.protocol.versions import Api
from tests.abuse.broker_process import wait_until
from tests.abuse.wire import Client, batch_of, fetch, fetched, make_topics, parsed_address, produce, produced
from tests.threaded_syncs import ThreadedSyncs

TOPIC = "hangs"
LIMIT = 8_000_000
BATCH = batch_of(bytes(500_000))


class HangingFile:
    """A file whose sync waits while the disk hangs."""

    def __init__(self, file: Any, goes_on: threading.Event) -> None:
        self._file = file
        self._goes_on = goes_on

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        self._goes_on.wait()
        self._file.sync()


class HangingDisk:
    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(DISK, name)

    def open(self, path: str, *, create: bool = False) -> HangingFile:
        return HangingFile(DISK.open(path, create=create), self.goes_on)

    def syncs(self) -> ThreadedSyncs:
        return ThreadedSyncs()


@contextmanager
def broker_on(disk: HangingDisk, data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[runnel.Broker]:
    original = embedded.start_server
    monkeypatch.setattr(embedded, "start_server", lambda data, configs: original(data, configs, files=disk))
    settings = {"queued.max.request.bytes": LIMIT, "socket.request.max.bytes": LIMIT}
    with runnel.Broker(data, settings=settings) as broker:
        try:
            yield broker
        finally:
            disk.goes_on.set()


def send_until_it_is_not_read(clients: list[Client], acks: int) -> int:
    """How many bytes the broker and the system took before they took no more."""
    request = produce(TOPIC, BATCH, acks=acks)
    sent = 0
    for client in clients:
        client.socket.settimeout(0.5)
        try:
            for _ in range(400):
                rest = memoryview(request)
                while rest:
                    count = client.socket.send(rest)
                    sent += count
                    rest = rest[count:]
        except TimeoutError:
            pass
    return sent


@pytest.mark.parametrize("acks", [-1, 1, 0])
def test_requests_do_not_pile_up_while_the_disk_hangs(tmp_path, monkeypatch, acks):
    """Four clients would send 800 MB. What the system keeps for their sockets is theirs, not ours."""
    disk = HangingDisk()
    with broker_on(disk, tmp_path / "data", monkeypatch) as broker:
        address = parsed_address(broker.bootstrap)
        make_topics(address, TOPIC)
        clients = [Client(address) for _ in range(4)]
        disk.goes_on.clear()
        try:
            sent = send_until_it_is_not_read(clients, acks)
            # Twice the limit, one request for each, and at most 8 MiB in the system for each socket.
            assert sent <= 2 * LIMIT + 4 * (500_100 + 8 * 2**20)
        finally:
            disk.goes_on.set()
            for client in clients:
                client.reset()


def test_readers_are_served_while_the_disk_hangs(tmp_path, monkeypatch):
    disk = HangingDisk()
    with broker_on(disk, tmp_path / "data", monkeypatch) as broker:
        address = parsed_address(broker.bootstrap)
        make_topics(address, TOPIC)
        with Client(address) as writer, Client(address) as reader:
            writer.send(produce(TOPIC, batch_of(b"before")))
            assert produced(writer.read(Api.PRODUCE, 9)) == (0, 0)
            disk.goes_on.clear()
            writer.send(produce(TOPIC, batch_of(b"while it hangs"), correlation_id=1))
            reader.send(fetch(TOPIC, correlation_id=2))
            code, data = fetched(reader.read(Api.FETCH, 11, 2))
            assert (code, b"before" in data, b"while it hangs" in data) == (0, True, False)
            assert reader.is_answered()
            disk.goes_on.set()
            assert produced(writer.read(Api.PRODUCE, 9, 1)) == (0, 1)


def test_all_goes_on_when_the_disk_does(tmp_path, monkeypatch):
    disk = HangingDisk()
    with broker_on(disk, tmp_path / "data", monkeypatch) as broker:
        address = parsed_address(broker.bootstrap)
        make_topics(address, TOPIC)
        disk.goes_on.clear()
        clients = [Client(address) for _ in range(6)]
        threads = [threading.Thread(target=send_twenty, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        wait_until(lambda: broker._server.received.is_full, "the limit is reached")
        disk.goes_on.set()
        for client in clients:
            for number in range(20):
                assert produced(client.read(Api.PRODUCE, 9, number))[0] == 0
        for thread in threads:
            thread.join()
        wait_until(lambda: broker._server.received.under_way == 0, "nothing is under way")
        assert broker._server.received.arriving == 0
        for client in clients:
            client.close()


def send_twenty(client: Client) -> None:
    for number in range(20):
        client.send(produce(TOPIC, BATCH, correlation_id=number))
