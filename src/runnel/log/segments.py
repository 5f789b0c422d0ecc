"""The segments of a partition, oldest first. The last one is active: it alone takes writes.

Readers look at one tuple that is replaced as a whole, so they need no lock and never see a list in between.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from runnel.errors import Closed
from runnel.log.segment import Segment

_loading = threading.Lock()


class Segments:
    __slots__ = ("_all", "_gone", "_lock")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._all = tuple(segments)
        self._gone: str | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Segment]:
        """All of them, each loaded when its turn comes."""
        segments = self._all
        for number in range(len(segments)):
            yield _loaded(segments, number)

    @property
    def active(self) -> Segment:
        return self._all[-1]

    @property
    def base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self._all]

    def from_offset(self, offset: int) -> Iterator[Segment]:
        """Those that hold the offset or come after it."""
        segments = self._all
        for number in range(_number_of(segments, offset), len(segments)):
            yield _loaded(segments, number)

    def with_limits_from(self, offset: int) -> Iterator[tuple[Segment, int | None]]:
        """The same, not loaded, each with the offset where the next one begins; None for the active one."""
        segments = self._all
        for number in range(_number_of(segments, offset), len(segments)):
            yield segments[number], segments[number + 1].base_offset if number + 1 < len(segments) else None

    def holding(self, offset: int) -> Segment:
        """The segment that holds the offset, loaded."""
        segments = self._all
        return _loaded(segments, _number_of(segments, offset))

    def base_after(self, segment: Segment) -> int | None:
        """The base offset of the one that follows."""
        return next((base for base in self.base_offsets if base > segment.base_offset), None)

    def add(self, segment: Segment) -> None:
        """A new active segment, in place of the old one if that has the same base offset."""
        with self._lock:
            kept = self._all if self._all[-1].base_offset != segment.base_offset else self._all[:-1]
            self._all = (*kept, segment)

    def replace(self, old: Sequence[Segment], new: Segment) -> bool:
        """Put one loaded segment in the place of those; False if they are not all here any more."""
        with self._lock:
            first = next((number for number, known in enumerate(self._all) if known is old[0]), None)
            if first is None or self._all[first : first + len(old)] != tuple(old):
                return False
            for segment in old:
                segment.retired = True
            self._all = (*self._all[:first], new, *self._all[first + len(old) :])
            return True

    def drop_before(self, offset: int) -> tuple[Segment, ...]:
        """Take out those that end at `offset` or before it, but never the active one."""
        with self._lock:
            keep_from = 0
            while keep_from + 1 < len(self._all) and self._all[keep_from + 1].base_offset <= offset:
                keep_from += 1
            dropped, self._all = self._all[:keep_from], self._all[keep_from:]
            return dropped

    def abandon(self, name: str) -> None:
        """Partition `name` is being deleted. What will stand under the names of its files may be another one's: nobody
        who still reads here may take that for ours, or write anything beside it."""
        with self._lock:
            self._gone = name
            for segment in self._all:
                segment.retired = True

    def refuse_if_gone(self) -> None:
        """Closed if the partition is deleted. To be asked after files were read, or memory by the partition's name."""
        if self._gone is not None:
            raise Closed(f"partition {self._gone}")


def _number_of(segments: tuple[Segment, ...], offset: int) -> int:
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)


def _loaded(segments: tuple[Segment, ...], number: int) -> Segment:
    segment = segments[number]
    if not segment.loaded:
        limit = segments[number + 1].base_offset if number + 1 < len(segments) else None
        with _loading:
            if not segment.loaded:
                segment.load(limit)
    return segment
