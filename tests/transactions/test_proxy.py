"""The proxy does to requests what it says, and to their answers nothing else."""

import random
import socket
import struct
import threading
from dataclasses import replace

import pytest

from tests.abuse.broker_process import wait_until
from tests.transactions.proxy import END_TXN, NO_FAULTS, PRODUCE, TXN_OFFSET_COMMIT, Proxy, Request

METADATA = 3


def frame_of(key, version=9, number=0):
    body = struct.pack(">hhi", key, version, number)
    return struct.pack(">i", len(body)) + body


class EchoBroker:
    """Answers each request with itself, and keeps a list of them."""

    def __init__(self):
        self.seen = []  # (connection, correlation id)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self._connections = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._echo, args=(connection, len(self._connections)), daemon=True).start()

    def _echo(self, connection, number):
        try:
            with connection:
                while frame := connection.recv(12, socket.MSG_WAITALL):
                    self.seen.append((number, struct.unpack(">i", frame[8:])[0]))
                    connection.sendall(frame)
        except OSError:
            pass  # the test is over

    def close(self):
        self._listener.close()
        for connection in self._connections:
            connection.close()


@pytest.fixture
def broker():
    broker = EchoBroker()
    yield broker
    broker.close()


@pytest.fixture
def proxy(broker):
    with Proxy(random.Random(1), replace(NO_FAULTS, longest_lateness=0.2)) as proxy:
        proxy.target = broker.address
        yield proxy


@pytest.fixture
def client(proxy):
    with socket.create_connection(("127.0.0.1", proxy.port), 30) as client:
        yield client


def receive(client):
    """The next answer, or nothing when the connection has ended."""
    return client.recv(12, socket.MSG_WAITALL)


def test_without_faults_answers_come_in_the_order_of_the_requests(client):
    frames = [frame_of(PRODUCE, number=number) for number in range(20)]
    client.sendall(b"".join(frames))
    assert [receive(client) for _ in frames] == frames


def test_a_dropped_request_never_arrives_and_ends_the_connection(broker, proxy, client):
    proxy.faults = replace(NO_FAULTS, drop=1)
    client.sendall(frame_of(PRODUCE))
    assert receive(client) == b""
    assert broker.seen == []


def test_a_lost_answer_ends_the_connection_after_the_broker_saw_the_request(broker, proxy, client):
    proxy.faults = replace(NO_FAULTS, lose=1)
    client.sendall(frame_of(PRODUCE, number=5))
    assert receive(client) == b""
    assert broker.seen == [(1, 5)]


def test_a_stranded_request_arrives_on_a_connection_of_its_own(broker, proxy, client):
    proxy.faults = replace(NO_FAULTS, strand=1, longest_lateness=0.2)
    client.sendall(frame_of(PRODUCE, number=5))
    assert receive(client) == b""
    wait_until(lambda: broker.seen == [(2, 5)], "the request arrived late")


def test_a_duplicate_arrives_later_and_its_answer_is_swallowed(broker, proxy, client):
    proxy.faults = replace(NO_FAULTS, duplicate=1, longest_lateness=0.2)
    client.sendall(frame_of(PRODUCE, number=5))
    assert receive(client) == frame_of(PRODUCE, number=5)
    wait_until(lambda: sorted(broker.seen) == [(1, 5), (2, 5)], "the copy arrived")
    wait_until(lambda: not proxy.is_busy, "the copy was answered")
    proxy.faults = NO_FAULTS
    client.sendall(frame_of(PRODUCE, number=6))
    assert receive(client) == frame_of(PRODUCE, number=6)


def test_a_reordered_request_goes_by_another_connection_and_is_still_answered_before_the_next(broker, proxy, client):
    proxy.faults = replace(NO_FAULTS, reorder=1, longest_delay=1)
    client.sendall(frame_of(PRODUCE, number=5))
    wait_until(lambda: proxy.counts["reorder"] == 1, "the first was put aside")
    proxy.faults = NO_FAULTS
    client.sendall(frame_of(PRODUCE, number=6))
    assert [receive(client), receive(client)] == [frame_of(PRODUCE, number=5), frame_of(PRODUCE, number=6)]
    assert sorted(broker.seen) == [(1, 6), (2, 5)]


@pytest.mark.parametrize("key", [END_TXN, TXN_OFFSET_COMMIT])
def test_what_the_first_generation_cannot_tell_from_later_requests_does_not_arrive_late(proxy, key):
    faults = replace(NO_FAULTS, strand=0.5, duplicate=0.5)
    draws = {version: faults.draw(Request.parse(frame_of(key, version)), random.Random(1)) for version in (4, 5)}
    assert draws[4] == "pass"
    assert draws[5] in ("strand", "duplicate")


def test_requests_that_are_of_no_transaction_are_only_delayed():
    faults = replace(NO_FAULTS, delay=1, drop=1)
    assert {*faults.likelihoods(Request.parse(frame_of(METADATA)))} == {"delay"}


def test_without_a_broker_connections_end(proxy):
    proxy.target = None
    with socket.create_connection(("127.0.0.1", proxy.port), 30) as client:
        assert receive(client) == b""
