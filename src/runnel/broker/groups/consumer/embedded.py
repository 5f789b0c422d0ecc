"""What classic consumers tell each other inside the classic protocol: their subscriptions, and their assignments.

To a classic group it is opaque, but for the topics (`subscription.py`). A consumer group with classic members must read
it all, and write assignments, each in the version that the member speaks. Newer versions add to the end only.

    subscription: version int16 | topics | user data | 1: owned partitions | 2: generation int32 | 3: rack
    assignment:   version int16 | partitions | user data
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from runnel.broker.groups.consumer.partitions import Partitions, partitions_of
from runnel.broker.groups.consumer.world import KnownTopics
from runnel.broker.groups.records import INT16, INT32, RecordReader
from runnel.broker.mistakes import Refusal
from runnel.protocol.encode import put_string
from runnel.protocol.error_codes import ErrorCode

PROTOCOL_TYPE = "consumer"
FIRST_WITH_OWNED = 1
FIRST_WITH_GENERATION = 2
FIRST_WITH_RACK = 3
NO_USER_DATA = INT32.pack(-1)


class EmbeddedSubscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    owned: tuple[tuple[str, int], ...]
    rack_id: str | None


def read_subscription(data: bytes) -> EmbeddedSubscription:
    """Refusal with INCONSISTENT_GROUP_PROTOCOL if it cannot be read."""
    try:
        reader = RecordReader(data)
        version = reader.int16()
        topics = tuple(reader.text() for _ in range(reader.count()))
        reader.block()
        owned = _places(reader) if version >= FIRST_WITH_OWNED else ()
        if version >= FIRST_WITH_GENERATION:
            reader.int32()
        rack_id = reader.nullable_text() if version >= FIRST_WITH_RACK else None
    except (struct.error, ValueError, IndexError) as error:
        raise _malformed("subscription", error) from error
    return EmbeddedSubscription(version, topics, owned, rack_id)


def read_assignment(data: bytes) -> tuple[tuple[str, int], ...]:
    if not data:
        return ()
    try:
        reader = RecordReader(data)
        reader.int16()
        return _places(reader)
    except (struct.error, ValueError, IndexError) as error:
        raise _malformed("assignment", error) from error


def write_assignment(version: int, partitions: Partitions, topics: KnownTopics) -> bytes:
    """Topics that are gone are left out."""
    data = bytearray(INT16.pack(version))
    named = {topic.name: numbers for id, numbers in partitions.items() if (topic := topics.find_id(id)) is not None}
    data += INT32.pack(len(named))
    for name, numbers in sorted(named.items()):
        put_string(data, name)
        data += INT32.pack(len(numbers)) + b"".join(INT32.pack(number) for number in sorted(numbers))
    return bytes(data + NO_USER_DATA)


def known_partitions(places: tuple[tuple[str, int], ...], topics: KnownTopics) -> Partitions:
    """By topic id; topics that are gone are left out."""
    return partitions_of((topic.id, number) for name, number in places if (topic := topics.find(name)) is not None)


def _places(reader: RecordReader) -> tuple[tuple[str, int], ...]:
    places = []
    for _ in range(reader.count()):
        topic = reader.text()
        places += [(topic, reader.int32()) for _ in range(reader.count())]
    return tuple(places)


def _malformed(what: str, error: Exception) -> Refusal:
    return Refusal(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the {what} of the embedded consumer protocol is malformed: {error}"
    )
