"""The record batches of a Fetch's answer that a reader of committed records may see, found by their headers alone.

Nothing is unpacked or copied: batches that follow each other are one view of the answer. What is taken out are markers
and other control batches, and the batches of transactions that were aborted, which the answer names.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runnel.counted import counted
from runnel.errors import CorruptBatch, InvalidBatch
from runnel.records import CONTROL, HEADER_SIZE, MAGIC, TRANSACTIONAL, parse_marker

# Of a batch's header: base offset, length, magic, attributes, last offset delta, producer id.
HEADER = struct.Struct(">qi4xb4xhi16xq")
# Base offset, last offset delta, number of records.
EXTENT = struct.Struct(">q15xi30xi")
LENGTH_PREFIX = 12
LOOKED_AT = CONTROL | TRANSACTIONAL


class Aborted(NamedTuple):
    """A transaction that was aborted: whose, and where it begins in the partition."""

    producer_id: int
    first_offset: int


class Seen(NamedTuple):
    """`parts` are views of whole batches, in order. `next_offset` is where to go on: -1 if there is no whole batch."""

    parts: tuple[memoryview, ...]
    next_offset: int


def visible(records: memoryview, aborted: Iterable[Aborted], start: int, end: int) -> Seen:
    """The batches with offsets from `start` to before `end`: those that reach beyond are given whole.

    A batch that is cut off at the end of the answer is left for the next one.
    """
    parts: list[memoryview] = []
    next_offset = -1
    hidden = _Hidden(aborted)
    run = -1  # where the batches that follow each other begin
    position, size = 0, len(records)
    while position + HEADER_SIZE <= size:
        base, length, magic, attributes, delta, producer = HEADER.unpack_from(records, position)
        stop = position + length + LENGTH_PREFIX
        if magic != MAGIC or length < HEADER_SIZE - LENGTH_PREFIX or delta < 0:
            raise CorruptBatch(f"a batch of format {magic} at offset {base}, with {counted(length, 'byte')}")
        if stop > size:
            break
        if base >= end:
            next_offset = max(next_offset, end)
            break
        last = base + delta
        next_offset = last + 1
        is_seen = last >= start and not (
            attributes & LOOKED_AT and hidden(records, position, attributes, last, producer)
        )
        if is_seen and run < 0:
            run = position
        elif not is_seen and run >= 0:
            parts.append(records[run:position])
            run = -1
        position = stop
    if run >= 0:
        parts.append(records[run:position])
    return Seen(tuple(parts), next_offset)


class Extent(NamedTuple):
    """The first and the last offset of a batch, and how many records it says to have."""

    first: int
    last: int
    records: int


def extent(batch: memoryview) -> Extent:
    first, delta, records = EXTENT.unpack_from(batch)
    return Extent(first, first + delta, records)


def each_batch(part: memoryview) -> Iterator[memoryview]:
    """A view of each batch in a run of whole ones."""
    place = 0
    while place < len(part):
        length = HEADER.unpack_from(part, place)[1] + LENGTH_PREFIX
        yield part[place : place + length]
        place += length


class _Hidden:
    """Tells of each batch in turn whether it is taken out."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._coming: Iterator[Aborted] = iter(sorted(aborted, key=lambda each: each.first_offset))
        self._next = next(self._coming, None)
        self._open: set[int] = set()  # the producers whose batches are of a transaction that was aborted

    def __call__(self, records: memoryview, position: int, attributes: int, last: int, producer: int) -> bool:
        while self._next is not None and self._next.first_offset <= last:
            self._open.add(self._next.producer_id)
            self._next = next(self._coming, None)
        if attributes & CONTROL:
            if producer in self._open and _is_abort(records, position):
                self._open.remove(producer)
            return True
        return producer in self._open


def _is_abort(records: memoryview, position: int) -> bool:
    try:
        return not parse_marker(records, position).committed
    except InvalidBatch:  # compaction has taken the marker out of its batch, or it is a control batch of another kind
        return False
