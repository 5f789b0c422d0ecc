import asyncio
import logging
import socket
import struct
from types import SimpleNamespace

import pytest

import runnel
from runnel.broker.request import LongPoll
from runnel.broker.server import SECONDS_TO_ANSWER, Server, start_server
from runnel.broker.transactions.coordinator import Transactions
from runnel.errors import AddressInUse, DirectoryOwned
from runnel.files import DiskFiles
from runnel.log import open_log
from tests.abuse.wire import Client, parsed_address
from tests.ports import HOST, free_port
from tests.threaded_syncs import ThreadedSyncs
from tests.unit.broker.socketless import Room, ask, fetch, room
from tests.unit.log.stage import batch


@pytest.fixture
def stage(monkeypatch):
    with room(monkeypatch) as made:
        made.server.node = SimpleNamespace(**vars(made.server.node))
        made.server.node.stopping = False
        made.server.node.transactions = SimpleNamespace(are_ending=False)
        made.closed = False

        def stop() -> None:
            made.server.node.stopping = True

        def close() -> None:
            made.closed = True

        made.server.node.stop, made.server.node.close = stop, close
        yield made


class Stopping:
    """A stop that is under way."""

    def __init__(self, stage: Room) -> None:
        self._stage = stage
        self._task = stage.loop.create_task(stage.server.stop())
        stage.loop.turn(3)

    def passes(self, seconds: float) -> bool:
        """Whether it has ended after so many seconds."""
        for _ in range(20):
            self._stage.loop.advance(seconds / 20)
        if self._task.done() or not self._stage.server.connections:
            self._stage.loop.run_until_complete(self._task)
        return self._task.done()


def test_a_stop_waits_for_answers_and_closes_the_log_after_them(stage: Room):
    stage.handlers.at_once = False
    connection, transport = stage.connect()
    connection.data_received(ask(1))
    stopping = Stopping(stage)
    assert not stopping.passes(SECONDS_TO_ANSWER / 2)
    assert not stage.closed
    stage.handlers.later[1].set_result(stage.handlers.body())
    stage.loop.turn(3)
    assert (transport.answers, transport.closed) == ([1], True)
    connection.connection_lost(None)
    assert stopping.passes(1)
    assert stage.closed


def test_a_stop_does_not_wait_for_ever_for_an_answer(stage: Room):
    stage.handlers.at_once = False
    connection, transport = stage.connect()
    connection.data_received(ask(1))
    stopping = Stopping(stage)
    stopping.passes(SECONDS_TO_ANSWER + 1)
    assert transport.aborted
    connection.connection_lost(None)
    assert stopping.passes(1)
    assert stage.closed


def test_a_stop_waits_for_the_markers_of_transactions_that_are_being_ended(stage: Room):
    stage.server.node.transactions.are_ending = True
    stopping = stage.loop.create_task(stage.server.stop())
    for _ in range(20):
        stage.loop.advance(SECONDS_TO_ANSWER / 40)
    assert not stage.closed
    stage.server.node.transactions.are_ending = False
    stage.loop.advance(1)
    stage.loop.run_until_complete(stopping)
    assert stage.closed


def test_a_stop_does_not_wait_for_ever_for_markers(stage: Room):
    stage.server.node.transactions.are_ending = True
    stopping = stage.loop.create_task(stage.server.stop())
    for _ in range(20):
        stage.loop.advance(SECONDS_TO_ANSWER / 10)
    stage.loop.run_until_complete(stopping)
    assert stage.closed


def test_a_connection_that_is_made_while_the_broker_stops_does_not_hold_it_up(stage: Room):
    stage.handlers.at_once = False
    connection, _ = stage.connect()
    connection.data_received(ask(1))
    Stopping(stage)
    _, late = stage.connect()
    assert late.aborted or late.closed
    connection.connection_lost(None)
    stage.loop.advance(1)
    stage.loop.turn(5)


def test_a_stop_tells_those_who_wait(stage: Room):
    polls: list[LongPoll] = []

    def wait(_: object) -> LongPoll:
        polls.append(LongPoll(loop=stage.loop))
        return polls[-1]

    def stop() -> None:
        for poll in polls:
            poll.set_result({"throttle_time": 0, "error_code": 0, "session_id": 0, "responses": []})

    stage.handlers.answer = wait
    stage.server.node.stop = stop
    connection, transport = stage.connect()
    connection.data_received(fetch(3))
    Stopping(stage)
    assert (transport.answers, transport.closed) == ([3], True)
    connection.connection_lost(None)
    stage.loop.advance(1)
    stage.loop.turn(5)


def test_requests_and_their_bytes_are_counted(stage: Room):
    connection, transport = stage.connect()
    connection.data_received(ask(1) + ask(2))
    counters = stage.server.counters
    assert counters.requests == {18: 2}
    assert counters.request_bytes == {18: 2 * (len(ask(1)) - 4)}
    assert counters.answer_bytes == {18: len(transport.written) - 2 * 8}


# --- with sockets


def test_a_port_in_use_leaves_the_data_directory_alone(tmp_path):
    with runnel.Broker() as broker:
        configs = {"listeners": f"PLAINTEXT://{broker.bootstrap}"}
        with pytest.raises(AddressInUse):
            asyncio.run(start_server(str(tmp_path / "data"), configs))
    assert not (tmp_path / "data").exists()


def test_a_directory_in_use_leaves_the_port_free(tmp_path):
    address = HOST, free_port()
    configs = {"listeners": f"PLAINTEXT://{HOST}:{address[1]}"}
    with open_log(tmp_path / "data"), pytest.raises(DirectoryOwned):
        asyncio.run(start_server(str(tmp_path / "data"), configs))
    with runnel.Broker(listen=f"{HOST}:{address[1]}") as broker:
        assert parsed_address(broker.bootstrap) == address


def test_the_event_loop_commits_where_files_can_be_synced_without_waiting(tmp_path):
    class CountedSyncs(ThreadedSyncs):
        begun = 0

        def begin(self, files):
            self.begun += 1
            return super().begin(files)

    class CountedFiles(DiskFiles):
        def syncs(self):
            self.given = CountedSyncs()
            return self.given

    async def run(files: CountedFiles) -> list[int]:
        configs = {"listeners": "PLAINTEXT://127.0.0.1:0"}
        server = await start_server(str(tmp_path / "data"), configs, files=files)
        partition = server.node.log.partition("orders")
        counts = []
        for value in (b"tea", b"milk"):  # the first one begins the epoch, which is the thread's work
            await server.node.appended(partition.submit(batch(value)))
            counts.append(files.given.begun)
        await server.stop()
        return counts

    assert asyncio.run(run(CountedFiles())) == [0, 1]


def test_the_ends_that_a_crash_has_left_are_known_before_anybody_can_ask(tmp_path, monkeypatch):
    order = []
    start, listen = Transactions.start, Server.listen
    monkeypatch.setattr(Transactions, "start", lambda each: order.append("ends") or start(each))
    monkeypatch.setattr(Server, "listen", lambda *each: order.append("sockets") or listen(*each))

    async def run() -> None:
        server = await start_server(str(tmp_path / "data"), {"listeners": "PLAINTEXT://127.0.0.1:0"})
        await server.stop()

    asyncio.run(run())
    assert order == ["ends", "sockets"]


def test_several_listeners_are_served_and_each_tells_its_own_address(tmp_path):
    async def run() -> dict[str, tuple[str, int]]:
        configs = {
            "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
            "advertised.listeners": "OUTSIDE://broker.example:1234",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        }
        server = await start_server(str(tmp_path / "data"), configs)
        found = await asyncio.to_thread(told_by, [one.port for one in server.bound])
        await server.stop()
        return found

    inside, outside = asyncio.run(run()).values()
    assert inside[0] == "127.0.0.1"
    assert outside == ("broker.example", 1234)


def told_by(ports: list[int]) -> dict[str, tuple[str, int]]:
    told = {}
    for port in ports:
        with Client(("127.0.0.1", port)) as client:
            (broker,) = client.ask(3, 1, {"topics": []})["brokers"]
            told[str(port)] = (broker["host"], broker["port"])
    return told


def test_as_many_connections_as_the_setting_says_may_wait_to_be_accepted(tmp_path):
    async def backlogs() -> list[int]:
        configs = {"listeners": "PLAINTEXT://127.0.0.1:0", "socket.listen.backlog.size": "17"}
        server = await start_server(str(tmp_path / "data"), configs)
        try:
            return [backlog_of(one) for each in server._servers for one in each.sockets]
        finally:
            await server.stop()

    assert asyncio.run(backlogs()) == [17]


def backlog_of(listening: socket.socket) -> int:
    """As the kernel tells it: of a socket that listens it stands in `tcpi_sacked`."""
    facts = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
    return int(struct.unpack_from("I", facts, 28)[0])


def test_limits_on_connections_hold_on_real_sockets(caplog):
    caplog.set_level(logging.WARNING)
    with runnel.Broker(settings={"max.connections": 2}) as broker:
        address = parsed_address(broker.bootstrap)
        with Client(address) as first, Client(address) as second:
            assert first.is_answered()
            assert second.is_answered()
            with Client(address) as third:
                assert not third.is_answered()
    assert "a connection from 127.0.0.1 was refused: max.connections = 2 are open" in caplog.messages


def test_a_request_larger_than_the_limit_is_refused_with_a_line_in_the_log(caplog):
    with runnel.Broker(settings={"socket.request.max.bytes": 1000}) as broker:
        address = parsed_address(broker.bootstrap)
        with Client(address) as client:
            client.send((1001).to_bytes(4, "big"))
            assert client.is_closed()
        with Client(address) as client:
            assert client.is_answered()
    assert any("it announced a request of 1,001 bytes" in line for line in caplog.messages)
