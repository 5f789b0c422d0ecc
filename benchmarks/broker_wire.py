"""The few requests that the benchmark of the broker sends by itself, as bytes, and what it reads of the answers.

A client library would be measured along with the broker. These frames are made once and sent again and again.
"""

import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from runnel.protocol.decode import read_response
from runnel.protocol.encode import request_encoder
from runnel.protocol.schemas import schema
from runnel.protocol.versions import Api

LENGTH = CORRELATION = struct.Struct(">i")
HEADER = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id
BATCH_START = struct.Struct(">qi")  # first offset, size of the rest
LAST_DELTA = struct.Struct(">i")
LAST_DELTA_AT = 23
NO_TAGS = b"\x00"
NO_CLIENT_ID = -1
ALL_REPLICAS = -1
LATEST = -1
TIME_LIMIT = 30_000  # milliseconds, of a Produce request
ANSWER_LIMIT = 120.0  # seconds

# The latest versions in which topics go by their names.
PRODUCE_VERSION = 12
FETCH_VERSION = 12
METADATA_VERSION = 12
LIST_OFFSETS_VERSION = 7

# What librdkafka asks for unless told otherwise.
FETCH_BYTES = 50 * 1024 * 1024
PARTITION_BYTES = 1024 * 1024
MAX_WAIT = 500


class BrokerRefused(Exception):
    """The broker answered with an error, so there is nothing to measure."""


# --- requests


def frame(api: Api, version: int, body: Mapping[str, Any]) -> bytes:
    """A whole request, its size in front."""
    tags = NO_TAGS if schema(api, version).flexible else b""
    message = b"".join([HEADER.pack(api, version, 1, NO_CLIENT_ID), tags, *request_encoder(api, version)(body)])
    return LENGTH.pack(len(message)) + message


def produce_frame(topic: str, batches: Mapping[int, bytes]) -> bytes:
    partitions = [{"index": number, "records": batch} for number, batch in batches.items()]
    topics = [{"name": topic, "partition_data": partitions}]
    body = {"transactional_id": None, "acks": ALL_REPLICAS, "timeout": TIME_LIMIT, "topic_data": topics}
    return frame(Api.PRODUCE, PRODUCE_VERSION, body)


def fetch_frame(topic: str, offsets: Mapping[int, int]) -> bytes:
    partitions = [
        {"partition": number, "fetch_offset": offset, "partition_max_bytes": PARTITION_BYTES}
        for number, offset in offsets.items()
    ]
    topics = [{"topic": topic, "partitions": partitions}]
    body = {"max_wait": MAX_WAIT, "min_bytes": 1, "max_bytes": FETCH_BYTES, "topics": topics}
    return frame(Api.FETCH, FETCH_VERSION, {**body, "forgotten_topics_data": ()})


# --- answers


def produce_error_at(topic: str) -> int:
    """Where the error code stands in the answer to a Produce request of one partition, its size included."""
    size_correlation_tags_topics = 4 + 4 + 1 + 1
    name_partitions_index = 1 + len(topic) + 1 + 4
    return size_correlation_tags_topics + name_partitions_index


def whole_batches(records: memoryview) -> tuple[int, int | None]:
    """The bytes of the batches that are there to their ends, and the offset after them; None if there is no such batch.

    A broker may cut the last one off, to keep to the size that was asked for.
    """
    position, offset = 0, None
    while position + LAST_DELTA_AT + LAST_DELTA.size <= len(records):
        first, size = BATCH_START.unpack_from(records, position)
        end = position + BATCH_START.size + size
        if end > len(records):
            break
        offset = first + LAST_DELTA.unpack_from(records, position + LAST_DELTA_AT)[0] + 1
        position = end
    return position, offset


# --- conversations


def connect(host: str, port: int) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=ANSWER_LIMIT)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(connection: socket.socket, api: Api, version: int, body: Mapping[str, Any]) -> dict[str, Any]:
    """Send a request and decode its answer."""
    connection.sendall(frame(api, version, body))
    return answer_of(connection, api, version)


def answer_of(connection: socket.socket, api: Api, version: int) -> dict[str, Any]:
    """The next answer, decoded."""
    buffer = bytearray()
    receive(connection, buffer)
    return decoded(api, version, bytes(buffer))


def decoded(api: Api, version: int, answer: bytes) -> dict[str, Any]:
    header = CORRELATION.size + (1 if schema(api, version).flexible_answer_header else 0)
    return read_response(api, version, answer, header)


def receive(connection: socket.socket, buffer: bytearray) -> int:
    """Put the next answer at the start of a buffer, which grows as it must; its size."""
    length = bytearray(LENGTH.size)
    _fill(connection, length, LENGTH.size)
    (size,) = LENGTH.unpack(length)
    if len(buffer) < size:
        buffer.extend(bytes(size - len(buffer)))
    _fill(connection, buffer, size)
    return int(size)


def _fill(connection: socket.socket, buffer: bytearray, size: int) -> None:
    with memoryview(buffer) as view:
        have = 0
        while have < size:
            count = connection.recv_into(view[have:size])
            if count == 0:
                raise ConnectionResetError("the broker closed the connection")
            have += count


def metadata(connection: socket.socket, topics: Sequence[str]) -> dict[str, Any]:
    asked = [{"topic_id": None, "name": name} for name in topics]
    body = {"topics": asked, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    return ask(connection, Api.METADATA, METADATA_VERSION, body)


def is_led(answer: Mapping[str, Any], partitions: int) -> bool:
    """Whether a Metadata answer names a broker and, of each topic, so many partitions with a leader."""
    if not answer["brokers"]:
        return False
    for topic in answer["topics"]:
        led = [partition for partition in topic["partitions"] if not partition["error_code"]]
        if topic["error_code"] or len(led) < partitions:
            return False
    return True


def end_offsets(
    connection: socket.socket, topic: str, partitions: int, *, committed: bool = False
) -> dict[int, int] | None:
    """By partition; None while the broker cannot tell all of them. `committed` leaves out open transactions."""
    asked = [{"partition_index": number, "timestamp": LATEST} for number in range(partitions)]
    body = {"replica_id": -1, "isolation_level": int(committed), "topics": [{"name": topic, "partitions": asked}]}
    answer = ask(connection, Api.LIST_OFFSETS, LIST_OFFSETS_VERSION, body)
    told = [partition for topic in answer["topics"] for partition in topic["partitions"]]
    if any(partition["error_code"] for partition in told):
        return None
    return {partition["partition_index"]: partition["offset"] for partition in told}
