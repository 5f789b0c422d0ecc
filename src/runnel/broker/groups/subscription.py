"""What the members of a consumer group subscribe to, out of the metadata that is opaque to the coordinator otherwise.

Only the beginning of the metadata is read, which is the same in every version: version int16 | topics, an array of
strings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

CONSUMER = "consumer"  # the protocol type whose metadata we can read
INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")


def subscribed_topics(protocol_type: str | None, metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members; None if they cannot be known."""
    if protocol_type != CONSUMER:
        return None
    try:
        return frozenset(topic for each in metadata for topic in _topics(each))
    except (struct.error, ValueError):
        return None


def _topics(metadata: bytes) -> list[str]:
    (count,) = INT32.unpack_from(metadata, INT16.size)
    position = INT16.size + INT32.size
    topics = []
    for _ in range(count):
        (size,) = INT16.unpack_from(metadata, position)
        position += INT16.size
        if size < 0 or position + size > len(metadata):
            raise ValueError("a topic ends beyond the metadata")
        topics.append(metadata[position : position + size].decode())
        position += size
    return topics
