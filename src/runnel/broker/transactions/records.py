"""The records of `__transaction_state`, byte for byte Kafka's own: under a transactional id, where it stands.

    key     version i16 = 0 | transactional id
    value   version i16 = 1 | producer id i64 | epoch i16 | time-out i32 | status i8
            | partitions by topic, null if Empty | last change i64 | begin i64
            | tags: 0 previous producer id i64, 1 next producer id i64, 2 generation i16

Both versions that Kafka ever wrote are read; the newest is written. One tag is ours, and Kafka's readers step over it:
the epoch before the last one, so that a producer that asks for its next epoch again, over a restart, is recognised.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from runnel.broker.transactions.state import EMPTY, NOT_THERE, Status, TopicPartition, Transaction
from runnel.protocol.encode import put_compact_string, put_unsigned_varint
from runnel.protocol.frames import unsigned_varint

KEY_VERSION = 0
VALUE_VERSION = 1
FIRST_FLEXIBLE = 1
INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")
START = struct.Struct(">hqhib")  # version, producer id, epoch, time-out, status
TIMES = struct.Struct(">qq")  # last change, begin
TAGS: dict[int, tuple[str, struct.Struct]] = {
    0: ("previous_producer_id", INT64),
    1: ("next_producer_id", INT64),
    2: ("version", INT16),
    1000: ("last_epoch", INT16),
}
PREVIOUS_PRODUCER_ID = b"\x00\x08"  # tag and length
NEXT_PRODUCER_ID = b"\x01\x08"
VERSION = b"\x02\x02"
LAST_EPOCH = b"\xe8\x07\x02"
NO_TAGS: dict[str, int] = {}
REMEMBERED_KEYS = 256  # a producer's key is written at least twice in each transaction


@lru_cache(maxsize=REMEMBERED_KEYS)
def write_key(transactional_id: str) -> bytes:
    encoded = transactional_id.encode()
    return INT16.pack(KEY_VERSION) + INT16.pack(len(encoded)) + encoded


@lru_cache(maxsize=REMEMBERED_KEYS)
def read_key(data: bytes) -> str:
    (version,) = INT16.unpack_from(data)
    if version != KEY_VERSION:
        raise ValueError(f"a key of version {version}: it was written by a newer version")
    (size,) = INT16.unpack_from(data, 2)
    return data[4 : 4 + size].decode()


def write_value(transaction: Transaction) -> bytes:
    (producer_id, epoch, timeout, status, partitions, started, updated, previous_id, next_id, last_epoch, version) = (
        transaction[:]  # a plain tuple: quicker
    )
    data = bytearray(START.pack(VALUE_VERSION, producer_id, epoch, timeout, status))
    if status is EMPTY:
        data.append(0)
    elif not partitions:
        data.append(1)
    else:
        data += _written_partitions(partitions)
    data += TIMES.pack(updated, started)
    count_at = len(data)
    data.append(0)
    if previous_id != NOT_THERE:
        data[count_at] += 1
        data += PREVIOUS_PRODUCER_ID + INT64.pack(previous_id)
    if next_id != NOT_THERE:
        data[count_at] += 1
        data += NEXT_PRODUCER_ID + INT64.pack(next_id)
    if version != 0:
        data[count_at] += 1
        data += VERSION + INT16.pack(version)
    if last_epoch != NOT_THERE:
        data[count_at] += 1
        data += LAST_EPOCH + INT16.pack(last_epoch)
    return bytes(data)


def read_value(data: bytes) -> Transaction:
    version, producer_id, epoch, timeout, status = START.unpack_from(data)
    if not 0 <= version <= VALUE_VERSION:
        raise ValueError(f"a value of version {version}: it was written by a newer version")
    flexible = version >= FIRST_FLEXIBLE
    partitions, position = _partitions_at(data, START.size, flexible=flexible)
    updated, started = TIMES.unpack_from(data, position)
    position += TIMES.size
    tags = _tags_at(data, position) if flexible and data[position] else NO_TAGS
    return Transaction(producer_id, epoch, timeout, Status(status), partitions, started, updated, **tags)


def _tags_at(data: bytes, position: int) -> dict[str, int]:
    found: dict[str, int] = {}
    count, position = unsigned_varint(data, position)
    for _ in range(count):
        tag, position = unsigned_varint(data, position)
        size, position = unsigned_varint(data, position)
        if tag in TAGS:
            name, shape = TAGS[tag]
            (found[name],) = shape.unpack_from(data, position)
        position += size
    return found


@lru_cache(maxsize=64)  # transactions that write to the same partitions follow each other
def _written_partitions(partitions: frozenset[TopicPartition]) -> bytes:
    data = bytearray()
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    put_unsigned_varint(data, len(topics) + 1)
    for topic, numbers in topics.items():
        put_compact_string(data, topic)
        put_unsigned_varint(data, len(numbers) + 1)
        data += struct.pack(f">{len(numbers)}i", *numbers)
        data.append(0)
    return bytes(data)


def _partitions_at(data: bytes, position: int, *, flexible: bool) -> tuple[frozenset[TopicPartition], int]:
    partitions: list[TopicPartition] = []
    topics, position = _length_at(data, position, INT32, flexible=flexible)
    for _ in range(topics):
        size, position = _length_at(data, position, INT16, flexible=flexible)
        topic = data[position : position + size].decode()
        count, position = _length_at(data, position + size, INT32, flexible=flexible)
        numbers = struct.unpack_from(f">{count}i", data, position)
        partitions += [TopicPartition(topic, number) for number in numbers]
        position += count * INT32.size
        position += 1 if flexible else 0  # the tags of a topic: there are none
    return frozenset(partitions), position


def _length_at(data: bytes, position: int, shape: struct.Struct, *, flexible: bool) -> tuple[int, int]:
    """The length that stands there, 0 for null, and the position after it."""
    if flexible:
        length, position = unsigned_varint(data, position)
        return max(0, length - 1), position
    return max(0, shape.unpack_from(data, position)[0]), position + shape.size
