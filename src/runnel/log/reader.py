"""The reading side of one partition: from an offset or a time to batches and records.

Readers take no lock that a writer holds for long, and touch no disk at the end of the log. A read that meets bytes that
cannot be right quarantines their segment and raises `DamagedLog`; it never steps over them in silence.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from runnel.errors import DamagedLog, OffsetOutOfRange
from runnel.files import Buffer
from runnel.log.damage import Damage
from runnel.log.place import Place
from runnel.log.segment import Replaced, Segment, Slice, checked_records
from runnel.log.segments import Segments
from runnel.log.tail import TailCache
from runnel.log.walk import Broken
from runnel.records import BatchHeader, Record, parse_header

REMEMBERED_PLACES = 8
Found = TypeVar("Found")


class Batches(NamedTuple):
    """Whole batches as they stand in the log; the first one may begin before the offset that was asked for."""

    data: Buffer
    next_offset: int
    segment: Segment | None = None  # None if they came from memory
    position: int = 0


class Reader:
    __slots__ = ("_lock", "_name", "_places", "_segments", "_tails")

    def __init__(self, name: str, segments: Segments, tails: TailCache) -> None:
        self._name = name
        self._segments = segments
        self._tails = tails
        self._places: dict[int, tuple[Segment, Place]] = {}  # where reads ended, for those who read on
        self._lock = threading.Lock()

    def read(self, offset: int, max_bytes: int) -> Batches:
        """Batches from the one that holds `offset`, which must be in the log."""
        cached = self.read_in_memory(offset, max_bytes)
        if cached is not None:
            return cached
        try:
            segment = self._segments.holding(offset)
            found = self._slice_of(segment, offset, max_bytes)
            self._segments.refuse_if_gone()
        except Replaced:
            return self._again(lambda: self.read(offset, max_bytes))
        except DamagedLog as error:
            if error.first_offset <= offset and (error.next_offset is None or offset < error.next_offset):
                raise
            return self.read(offset, max_bytes)  # before or behind the damage, which is known by now
        self._remember(segment, found.end)
        return Batches(found.data, found.end.offset, segment, found.end.position - len(found.data))

    def read_in_memory(self, offset: int, max_bytes: int) -> Batches | None:
        """The same if it is among the newest; None if it would have to touch the disk."""
        cached = self._tails.read(self._name, offset, max_bytes)
        self._segments.refuse_if_gone()
        return None if cached is None else Batches(*cached)

    def _slice_of(self, segment: Segment, offset: int, max_bytes: int) -> Slice:
        with self._noticing_damage(segment):
            start = self._place_of(offset, segment) or segment.locate(offset)
            found = segment.read(start, offset, max_bytes)
            if not found.data:
                raise Broken(found.end.position, offset, f"no batch with offset {offset} stands there")
        return found

    def records_in(self, batches: Batches) -> Iterator[Record]:
        """The records of the batches, everything checked; those of transactions' markers are left out."""
        for header, records in self.each_in(batches):
            if not header.is_control:
                yield from records

    def each_in(self, batches: Batches) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """The batches one by one, everything checked."""
        position = 0
        while position < len(batches.data):
            header = parse_header(batches.data, position)
            batch = bytes(memoryview(batches.data)[position : position + header.size])
            records = self._records_of(batch, batches, position)  # first: a flipped bit must not make it a marker
            yield header, records
            position += header.size

    def find_time(self, timestamp: int, least_offset: int) -> Record | None:
        """The first record from `least_offset` on that has at least this timestamp."""
        record = None
        try:
            for segment in self._segments.from_offset(least_offset):
                with self._noticing_damage(segment):
                    record = segment.find_time(timestamp, least_offset)
                if record is not None:
                    break
        except Replaced:
            return self._again(lambda: self.find_time(timestamp, least_offset))
        self._segments.refuse_if_gone()
        return record

    def find_largest_time(self, least_offset: int) -> Record | None:
        """The first of the records with the largest timestamp, from `least_offset` on."""
        largest = -1
        try:
            for segment in self._segments.from_offset(least_offset):
                with self._noticing_damage(segment):
                    largest = max(largest, segment.largest_time_from(least_offset))
        except Replaced:
            return self._again(lambda: self.find_largest_time(least_offset))
        self._segments.refuse_if_gone()
        return self.find_time(largest, least_offset) if largest >= 0 else None

    def _records_of(self, batch: bytes, batches: Batches, position: int) -> list[Record]:
        if batches.segment is None:
            return checked_records(batch, position)
        with self._noticing_damage(batches.segment):
            return checked_records(batch, batches.position + position)

    def _again(self, find: Callable[[], Found]) -> Found:
        """The files of a segment are moved just before another one has its place: that takes a moment."""
        self._segments.refuse_if_gone()
        time.sleep(0.001)
        return find()

    @contextmanager
    def _noticing_damage(self, segment: Segment) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, struct.error) as error:
            if segment.retired:
                raise Replaced(segment.path) from error
            raise
        except Broken as broken:
            if segment.retired:
                raise Replaced(segment.path) from broken
            if broken.position >= segment.size:  # not damaged but dropped, because a relaxed topic's sync failed
                raise OffsetOutOfRange(self._name, broken.offset, segment.base_offset, segment.next_offset) from broken
            damage = segment.damage_found(broken)
            with self._lock:
                segment.quarantine(damage)
            raise self._error(segment, damage) from broken
        except DamagedLog as error:
            if error.next_offset is None and segment.damage is not None:
                raise self._error(segment, segment.damage) from error
            raise

    def _error(self, segment: Segment, damage: Damage) -> DamagedLog:
        return damage.error(segment.path, self._segments.base_after(segment))

    def _place_of(self, offset: int, segment: Segment) -> Place | None:
        with self._lock:
            known, place = self._places.pop(offset, (None, None))
        return place if known is segment else None

    def _remember(self, segment: Segment, place: Place) -> None:
        with self._lock:
            self._places[place.offset] = (segment, place)
            if len(self._places) > REMEMBERED_PLACES:
                del self._places[next(iter(self._places))]
