"""Requests that are like one that came before: a producer's differ in the correlation id and the batch alone.

What stands around those two is compared, and not read again: in half of the time, this gives exactly what `frames` and
`decode` give, or None. Then they are asked.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from runnel.protocol.decode import Message
from runnel.protocol.frames import RequestHeader, unsigned_varint
from runnel.protocol.hot import INDEX, read_single_produce

CORRELATION_AT, REST_AT = 4, 8  # in a request; before that are its key and version
NO_TAGS = b"\0\0\0"  # of the partition, of the topic, of the request
MOST_KNOWN = 64  # by one connection
MOST_SIZES = 4  # of them: each is tried
LONGEST_KNOWN = 512  # bytes

Facts = tuple[int, int, int, str | None, Message]  # key, version, correlation id, client id, body


class _Known(NamedTuple):
    api_key: int
    version: int
    client_id: str | None
    transactional_id: str | None
    acks: int
    timeout: int
    topic: str
    topic_id: UUID | None
    partition: int


class KnownProduces:
    """Those of one batch that came by one connection."""

    __slots__ = ("_known", "_left", "_sizes")

    def __init__(self) -> None:
        # By all that comes before the length of the batch, without the correlation id.
        self._known: dict[bytes, _Known] = {}
        self._sizes: tuple[int, ...] = ()  # of that, with it
        self._left = MOST_KNOWN  # to look at: it means to read them twice

    def read(self, data: bytes, start: int, end: int) -> Facts | None:
        """The request from `start` to `end`, if one like it is known."""
        for size in self._sizes:
            position = start + size
            known = self._known.get(data[start : start + CORRELATION_AT] + data[start + REST_AT : position])
            if known is not None:
                break
        else:
            return None
        try:
            length, high = data[position], data[position + 1]
            if length < 0x80:
                position += 1
            elif high < 0x80:  # nearly all: without a call, which costs as much as all of this
                length += (high - 1) << 7
                position += 2
            else:
                length, position = unsigned_varint(data, position)
        except IndexError:
            return None
        stop = position + length - 1
        if length == 0 or data[stop:end] != NO_TAGS:
            return None
        key, version, client_id, transactional_id, acks, timeout, name, topic_id, index = known
        partition = {"index": index, "records": memoryview(data)[position:stop]}
        topic = {"name": name, "topic_id": topic_id, "partition_data": [partition]}
        body = {"transactional_id": transactional_id, "acks": acks, "timeout": timeout, "topic_data": [topic]}
        return key, version, INDEX.unpack_from(data, start + CORRELATION_AT)[0], client_id, body

    def note(self, data: bytes, start: int, end: int, header: RequestHeader) -> None:
        """This Produce was read."""
        key, version, _, client_id, body_at = header
        if not self._left or data[body_at]:  # with tags in its header
            return
        body = read_single_produce(data, body_at + 1, end, version)
        if body is None:
            return
        self._left -= 1
        (topic,) = body["topic_data"]
        (partition,) = topic["partition_data"]
        length = len(partition["records"]) + 1
        records_at = end - len(NO_TAGS) - len(partition["records"])
        position = records_at - (length.bit_length() + 6) // 7  # where the length begins, unless it is written longer
        if unsigned_varint(data, position) != (length, records_at):
            return
        size = position - start
        if size > LONGEST_KNOWN or (size not in self._sizes and len(self._sizes) == MOST_SIZES):
            return
        around = data[start : start + CORRELATION_AT] + data[start + REST_AT : position]
        facts = (body["transactional_id"], body["acks"], body["timeout"], topic["name"], topic["topic_id"])
        self._known[around] = _Known(key, version, client_id, *facts, partition["index"])
        self._sizes = tuple({*self._sizes, size})
