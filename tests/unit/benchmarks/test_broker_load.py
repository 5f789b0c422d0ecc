"""The client that loads a broker counts its answers, and notices a refusal."""

import socket
import threading

import pytest

from benchmarks import broker_wire as wire
from benchmarks.broker_load import Connection
from runnel.protocol.encode import response_encoder
from runnel.protocol.frames import answer_head
from runnel.protocol.versions import Api

TOPIC = "requests"


def answer(error):
    result = {"index": 0, "error_code": error, "base_offset": 5, "log_append_time": -1, "record_errors": ()}
    encoder = response_encoder(Api.PRODUCE, wire.PRODUCE_VERSION)
    body = {"responses": [{"name": TOPIC, "partition_responses": [result]}], "throttle_time": 0}
    message = b"".join(encoder(body))
    return answer_head(1, len(message), flexible=encoder.flexible_header) + message


def receive(connection, count):
    """What comes until there are so many; a socket may give it in pieces."""
    received = 0
    while received < count:
        received += connection.receive()
    return received


@pytest.fixture
def accepted():
    """A connection whose first request was answered, and the broker's end of it."""
    made = []

    def accept(listener):
        made.append(listener.accept()[0])
        made[0].sendall(answer(0))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = threading.Thread(target=accept, args=[listener])
        broker.start()
        connection = Connection(*listener.getsockname(), TOPIC, wire.produce_frame(TOPIC, {0: b"batch"}))
        broker.join()
    with connection.socket, made[0]:
        yield connection, made[0]


def test_whole_answers_are_counted_and_the_rest_is_kept(accepted):
    connection, broker = accepted
    data = answer(0) * 3
    broker.sendall(data[: len(answer(0)) + 7])
    assert connection.receive() == 1
    broker.sendall(data[len(answer(0)) + 7 :])
    received = receive(connection, 2)
    assert received == 2


def test_a_refusal_ends_the_load(accepted):
    connection, broker = accepted
    broker.sendall(answer(0) + answer(7))
    with pytest.raises(wire.BrokerRefused, match="0007"):
        receive(connection, 2)


def test_a_request_is_due_until_it_is_taken_off(accepted):
    connection, _ = accepted
    connection.send(2, 1.5)
    assert list(connection.due) == [1.5, 1.5]
