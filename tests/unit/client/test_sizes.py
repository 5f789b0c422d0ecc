"""The sizes of partitions, from brokers that answer, answer nonsense, or do not answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runnel.client.sizes import VERSION, sizes
from runnel.protocol.encode import response_encoder
from runnel.protocol.versions import Api


@contextmanager
def broker(answer: bytes) -> Iterator[tuple[str, int]]:
    """Answers one connection with these bytes, and closes it."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(10_000)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()
        thread.join()


def answer(*found: tuple[str, int, int, bool]) -> bytes:
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": number, "partition_size": size, "offset_lag": 0, "is_future_key": future}
            ],
        }
        for topic, number, size, future in found
    ]
    results = [{"error_code": 0, "log_dir": "/data", "topics": topics}]
    body = b"".join(response_encoder(Api.DESCRIBE_LOG_DIRS, VERSION)({"throttle_time": 0, "results": results}))
    return (len(body) + 4).to_bytes(4, "big") + (1).to_bytes(4, "big") + body


def test_sizes_come_by_topic_and_partition():
    with broker(answer(("a", 0, 10, False), ("b", 3, 20, False))) as address:
        assert sizes([address], {"a": [0], "b": [3]}, 5) == {("a", 0): 10, ("b", 3): 20}


def test_the_largest_replica_counts():
    with broker(answer(("a", 0, 10, False))) as one, broker(answer(("a", 0, 12, False), ("a", 1, 5, False))) as other:
        assert sizes([one, other], {"a": [0, 1]}, 5) == {("a", 0): 12, ("a", 1): 5}


def test_a_copy_on_its_way_to_another_disk_does_not_count():
    with broker(answer(("a", 0, 10, True))) as address:
        assert sizes([address], {"a": [0]}, 5) == {}


@pytest.mark.parametrize("nonsense", [b"", b"\x00\x00", b"HTTP/1.1 400", answer(("a", 0, 1, False))[:-3], b"\xff" * 9])
def test_a_broker_that_does_not_tell_is_no_error(nonsense):
    with broker(nonsense) as address:
        assert sizes([address], {"a": [0]}, 5) == {}


def test_a_broker_that_is_gone_is_no_error():
    assert sizes([("127.0.0.1", 1)], {"a": [0]}, 5) == {}
