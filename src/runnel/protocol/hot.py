"""The one message that comes thousands of times a second, read and written by hand: a Produce of a single batch.

What is here gives exactly what `decode` and `encode` give, in a quarter of the time, or None: then they are asked.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from runnel.protocol.frames import unsigned_varint

FLEXIBLE_SINCE = 9
IDS_SINCE = 13

ACKS_AND_TIMEOUT = struct.Struct(">hi")
INDEX = struct.Struct(">i")
RESULT = struct.Struct(">ihqqq")  # index, error code, base offset, append time, start offset
THROTTLE = struct.Struct(">i")
ONE = 2  # as a compact array's length is written
OFFSETS_AND_TIME = ("base_offset", "log_append_time", "log_start_offset")
LONGEST_NAME = 0x7F  # whose length is one byte
NO_TAGS = (0, 0, 0)  # of the partition, of the topic, of the request
NO_ERRORS = b"\x01\x00\x00\x00"  # no record errors, no message; no tags of the partition, none of the topic


def read_single_produce(data: bytes, start: int, end: int, version: int) -> dict[str, Any] | None:
    """The body from `start` to `end` of a Produce without a transaction, of one batch for one partition."""
    try:
        if version < FLEXIBLE_SINCE or data[start] != 0 or data[start + 7] != ONE:
            return None
        acks, timeout = ACKS_AND_TIMEOUT.unpack_from(data, start + 1)
        position = start + 8
        name, topic_id = "", None
        if version >= IDS_SINCE:
            topic_id = UUID(bytes=data[position : position + 16])
            position += 16
            if topic_id.int == 0:
                return None
        else:
            size = data[position]
            if not 2 <= size < 0x80:
                return None
            name = data[position + 1 : position + size].decode()
            position += size
        if data[position] != ONE:
            return None
        (index,) = INDEX.unpack_from(data, position + 1)
        size, position = unsigned_varint(data, position + 5)
        stop = position + size - 1
        if size == 0 or stop + 3 != end or (data[stop], data[stop + 1], data[stop + 2]) != NO_TAGS:
            return None
    except (IndexError, ValueError, struct.error):
        return None
    partition = {"index": index, "records": memoryview(data)[position:stop]}
    topic = {"name": name, "topic_id": topic_id, "partition_data": [partition]}
    return {"transactional_id": None, "acks": acks, "timeout": timeout, "topic_data": [topic]}


def single_produce_answer(version: int, body: Mapping[str, Any]) -> bytes | None:
    """The answer to a Produce of one batch that was appended."""
    if version < FLEXIBLE_SINCE or len(body["responses"]) != 1:
        return None
    (topic,) = body["responses"]
    if len(topic["partition_responses"]) != 1:
        return None
    (result,) = topic["partition_responses"]
    try:
        numbers = (result["index"], result["error_code"], *(result[name] for name in OFFSETS_AND_TIME))
        named = _named(topic, version)
        throttle = body["throttle_time"]
    except KeyError:  # it has a default
        return None
    if result["error_code"] or named is None:
        return None
    return b"\x02%b\x02%b%b%b\x00" % (named, RESULT.pack(*numbers), NO_ERRORS, THROTTLE.pack(throttle))


def _named(topic: Mapping[str, Any], version: int) -> bytes | None:
    if version >= IDS_SINCE:
        return None if topic["topic_id"] is None else topic["topic_id"].bytes
    name: bytes = topic["name"].encode()
    return bytes((len(name) + 1,)) + name if len(name) < LONGEST_NAME else None
