"""How large the partitions are on disk, by the API DescribeLogDirs, which confluent-kafka does not offer.

One request per broker over a bare socket. Where that is not possible, because the cluster asks for TLS or SASL or does
not serve the API, the sizes are unknown, which is no error: nothing depends on them but what people are shown, and
the alert by bytes.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping

from runnel.client.frames import receive
from runnel.client.wire import read_answer, request
from runnel.errors import RunnelError
from runnel.protocol.versions import Api

VERSION = 1  # the oldest that Kafka 4 serves, and served since Kafka 1.0
CORRELATION = 1

Place = tuple[str, int]  # topic and partition


def sizes(brokers: Iterable[tuple[str, int]], wanted: Mapping[str, Iterable[int]], timeout: float) -> dict[Place, int]:
    """The bytes of each wanted partition that some broker tells, of the largest of its replicas."""
    known: dict[Place, int] = {}
    for address in brokers:
        for place, size in _of_one(address, wanted, timeout).items():
            known[place] = max(size, known.get(place, 0))
    return known


def _of_one(address: tuple[str, int], wanted: Mapping[str, Iterable[int]], timeout: float) -> dict[Place, int]:
    topics = [{"topic": topic, "partitions": list(partitions)} for topic, partitions in wanted.items()]
    deadline = time.monotonic() + timeout
    try:
        with socket.create_connection(address, timeout=timeout) as connection:
            connection.sendall(request(Api.DESCRIBE_LOG_DIRS, VERSION, CORRELATION, {"topics": topics}))
            answer = receive(connection, deadline)
        told = read_answer(Api.DESCRIBE_LOG_DIRS, VERSION, CORRELATION, answer)
    except (OSError, RunnelError):
        return {}
    return {
        (topic["name"], partition["partition_index"]): partition["partition_size"]
        for directory in told["results"]
        for topic in directory["topics"]
        for partition in topic["partitions"]
        if not partition["is_future_key"]
    }
