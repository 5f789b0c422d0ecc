"""SIGTERM: no new work, an answer to all that is under way, the mark of a clean stop, and exit code 0."""

import os
import signal
import socket
import threading

import pytest

from runnel.log import open_log
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.abuse.broker_process import BrokerProcess, wait_until
from tests.abuse.wire import Client, batch_of, fetch, fetched, make_topics, produce, produced, request, who_are_you

TOPIC = "stopped"
CLEAN_MARK = ".clean"


@pytest.fixture
def broker(tmp_path):
    with BrokerProcess(tmp_path) as broker:
        make_topics(broker.address, TOPIC)
        yield broker


def join_request(member: str) -> bytes:
    body = {"group_id": "g", "session_timeout": 30_000, "rebalance_timeout": 300_000, "member_id": member}
    body |= {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
    return request(Api.JOIN_GROUP, 1, body)


class Writer:
    """Sends one record after the other, five at a time under way, until the broker says no more."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.acknowledged: dict[int, int] = {}
        self._client = Client(address)
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        sent = 0
        try:
            while True:
                while sent - len(self.acknowledged) < 5:
                    self._client.send(produce(TOPIC, batch_of(b"%d" % sent), correlation_id=sent))
                    sent += 1
                number = len(self.acknowledged)
                code, offset = produced(self._client.read(Api.PRODUCE, 9, number))
                if code != 0:
                    return
                self.acknowledged[number] = offset
        except (OSError, EOFError):
            pass
        finally:
            self._client.close()

    def join(self) -> None:
        self._thread.join()


def test_a_stop_under_load_is_clean_and_loses_nothing_that_was_answered(broker):
    writers = [Writer(broker.address) for _ in range(4)]
    wait_until(lambda: all(len(writer.acknowledged) > 50 for writer in writers), "all write")
    assert broker.terminate() == 0
    for writer in writers:
        writer.join()
    assert (broker.data / CLEAN_MARK).exists()
    with open_log(broker.data) as log:
        assert log.was_clean
        there = {record.offset: record.value for record in log.partition(TOPIC).records(0)}
    for writer in writers:
        for number, offset in writer.acknowledged.items():
            assert there[offset] == b"%d" % number


def test_one_signal_is_enough_though_many_are_connected_and_say_nothing(broker):
    clients = [Client(broker.address) for _ in range(200)]
    clients[0].send(who_are_you()[:7])  # half a request
    assert broker.terminate() == 0
    assert all(client.is_closed() for client in clients)
    for client in clients:
        client.close()


def test_more_signals_change_nothing(broker):
    process = broker.process
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        os.kill(process.pid, number)
    assert process.wait(60) == 0
    assert (broker.data / CLEAN_MARK).exists()


def test_those_who_wait_for_records_are_answered_at_once(broker):
    with Client(broker.address) as client:
        client.send(fetch(TOPIC, max_wait=600_000, min_bytes=1, correlation_id=5))
        client.send(who_are_you()[:9])  # behind it, and not whole
        wait_until_it_waits(broker)
        assert broker.terminate() == 0
        assert fetched(client.read(Api.FETCH, 11, 5)) == (0, b"")
        assert client.is_closed()


def test_those_who_wait_for_a_rebalance_are_told_to_look_again(broker):
    with Client(broker.address) as first, Client(broker.address) as second:
        first.send(join_request(""))
        assert first.read(Api.JOIN_GROUP, 1)["error_code"] == 0
        second.send(join_request(""))  # waits until the first one joins again, which it does not
        wait_until_it_waits(broker)
        assert broker.terminate() == 0
        answer = second.read(Api.JOIN_GROUP, 1)
        assert answer["error_code"] in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def wait_until_it_waits(broker: BrokerProcess) -> None:
    """Requests of a connection are taken in order, and those of another are taken after those before it arrived."""
    for _ in range(20):
        with Client(broker.address) as client:
            assert client.is_answered()


@pytest.mark.servers  # it takes as long as the broker is patient
def test_a_client_that_does_not_read_cannot_hold_up_a_stop_for_ever(broker):
    with Client(broker.address) as client:
        for number in range(20):
            client.send(produce(TOPIC, batch_of(bytes(900_000)), correlation_id=number))
            assert produced(client.read(Api.PRODUCE, 9, number))[0] == 0
    with Client(broker.address, receive_buffer=4096) as client:
        client.send(fetch(TOPIC) * 5)
        wait_until_it_waits(broker)
        assert broker.terminate() == 0
    assert (broker.data / CLEAN_MARK).exists()


def test_new_connections_are_refused_while_it_stops(broker):
    """It stops for as long as somebody does not take what was promised."""
    with Client(broker.address) as client:
        for number in range(20):
            client.send(produce(TOPIC, batch_of(bytes(900_000)), correlation_id=number))
            client.read(Api.PRODUCE, 9, number)
    with Client(broker.address, receive_buffer=4096) as slow:
        slow.send(fetch(TOPIC, correlation_id=1))
        wait_until_it_waits(broker)
        os.kill(broker.process.pid, signal.SIGTERM)
        wait_until(lambda: not accepts(broker.address), "it takes no connection")
        assert broker.process.poll() is None
        assert len(fetched(slow.read(Api.FETCH, 11, 1))[1]) > 900_000  # and what was under way is sent to the end
    assert broker.process.wait(60) == 0


def accepts(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, 10).close()
    except OSError:
        return False
    return True


def test_a_broker_starts_again_after_a_clean_stop_and_goes_on(broker):
    with Client(broker.address) as client:
        client.send(produce(TOPIC, batch_of(b"before")))
        assert produced(client.read(Api.PRODUCE, 9)) == (0, 0)
    assert broker.terminate() == 0
    broker.start()
    assert not (broker.data / CLEAN_MARK).exists()
    with Client(broker.address) as client:
        client.send(produce(TOPIC, batch_of(b"after")))
        assert produced(client.read(Api.PRODUCE, 9)) == (0, 1)


def test_an_interrupt_stops_it_as_cleanly(broker):
    os.kill(broker.process.pid, signal.SIGINT)
    assert broker.process.wait(60) == 0
    assert (broker.data / CLEAN_MARK).exists()
