"""Requests that are like one that came before: a producer's differ in the correlation id and the batch alone.

What stands around those two is compared, and not read again: in half of the time, this gives exactly what `frames` and
`decode` give, or None. Then they are asked.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from runnel.protocol.decode import Message
from runnel.protocol.frames import RequestHeader, unsigned_varint
from runnel.protocol.hot import INDEX, read_single_produce
from runnel.protocol.versions import Api

CORRELATION_AT, REST_AT = 4, 8  # in a request; before that are its key and version
NO_TAGS = b"\0\0\0"  # of the partition, of the topic, of the request
MOST_KNOWN = 64  # by one connection
MOST_SIZES = 4  # of them: each is tried
LONGEST_KNOWN = 512  # bytes

Facts = tuple[int, int, int, str | None, Message]  # key, version, correlation id, client id, body


class Known:
    """What such requests have in common. `way` is for whoever answers them: what he looked up once."""

    __slots__ = (
        *("acks", "client_id", "head", "partition", "rest", "size", "timeout", "topic", "topic_id"),
        *("transactional_id", "version", "way"),
    )

    def __init__(self, version: int, client_id: str | None, body: Message, around: bytes = b"") -> None:
        """`around` is what comes before the length of the batch, without the correlation id."""
        (topic,) = body["topic_data"]
        (partition,) = topic["partition_data"]
        self.version = version
        self.client_id = client_id
        self.transactional_id: str | None = body["transactional_id"]
        self.acks: int = body["acks"]
        self.timeout: int = body["timeout"]
        self.topic: str = topic["name"]
        self.topic_id: UUID | None = topic["topic_id"]
        self.partition: int = partition["index"]
        self.way: Any = None
        self.head, self.rest = around[:CORRELATION_AT], around[CORRELATION_AT:]
        self.size = len(around) + REST_AT - CORRELATION_AT  # with the correlation id


class Found(NamedTuple):
    """A request, but for its correlation id."""

    known: Known
    batch: memoryview

    def facts(self, correlation_id: int) -> Facts:
        known = self.known
        partition = {"index": known.partition, "records": self.batch}
        topic = {"name": known.topic, "topic_id": known.topic_id, "partition_data": [partition]}
        asked = {"acks": known.acks, "timeout": known.timeout, "topic_data": [topic]}
        body = {"transactional_id": known.transactional_id, **asked}
        return Api.PRODUCE, known.version, correlation_id, known.client_id, body


def correlation_id_at(data: bytes, start: int) -> int:
    """Of the request that begins there."""
    return int(INDEX.unpack_from(data, start + CORRELATION_AT)[0])


class KnownProduces:
    """Those of one batch that came by one connection."""

    __slots__ = ("_known", "_last", "_left", "_sizes")

    def __init__(self) -> None:
        self._known: dict[bytes, Known] = {}  # by what stands around
        self._last: Known | None = None  # that was found
        self._sizes: tuple[int, ...] = ()  # of that, with it
        self._left = MOST_KNOWN  # to look at: it means to read them twice

    def find(self, data: bytes, start: int, end: int) -> Found | None:
        """The request from `start` to `end`, if one like it is known."""
        known = self._last
        if known is None or not (data.startswith(known.rest, start + REST_AT) and data.startswith(known.head, start)):
            known = self._last = self._search(data, start)
            if known is None:
                return None
        position = start + known.size
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
        return tuple.__new__(Found, (known, memoryview(data)[position:stop]))  # without a call in Python

    def _search(self, data: bytes, start: int) -> Known | None:
        for size in self._sizes:
            known = self._known.get(data[start : start + CORRELATION_AT] + data[start + REST_AT : start + size])
            if known is not None:
                return known
        return None

    def note(self, data: bytes, start: int, end: int, header: RequestHeader) -> None:
        """This Produce was read."""
        _, version, _, client_id, body_at = header
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
        self._known[around] = Known(version, client_id, body, around)
        self._sizes = tuple({*self._sizes, size})
