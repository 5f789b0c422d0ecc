"""Whether the two indexes of a segment say what is so.

Both are checked beside the batches: `see` is called with each of them in turn. An index that says too little is slow;
one that says something wrong can hide records from those who look for a time.

After an unclean stop the next start keeps the entries of the active segment that were saved before the recovery point,
and makes the others anew. What is wrong among those is worth a note only.
"""

from __future__ import annotations

from typing import NamedTuple

from runnel.files import Files
from runnel.log.dump import IndexRow, Malformed, TimeIndexRow, index_rows, time_index_rows
from runnel.log.dump.segments import TIME_INDEX_ENTRY
from runnel.log.index import Timed
from runnel.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from runnel.log.verify.report import Report
from runnel.records import NO_TIMESTAMP, BatchHeader


class Wrong(NamedTuple):
    """At `position` of the index stands something wrong of the batch that ends with `offset`."""

    position: int
    offset: int
    what: str


class IndexCheck:
    """What both checks have in common. `kept_before` is the recovery point of an unclean active segment."""

    def __init__(self, path: str, kept_before: int | None) -> None:
        self.path = path
        self._kept_before = kept_before
        self._kept_end = -1  # up to this position the next start will keep what it finds
        self._wrong: dict[int, Wrong] = {}
        self._odd_end: Malformed | None = None

    def _is_right(self, position: int, offset: int) -> None:
        if self._kept_before is not None and offset < self._kept_before:
            self._kept_end = max(self._kept_end, position)

    def _is_wrong(self, position: int, offset: int, what: str) -> None:
        self._wrong.setdefault(position, Wrong(position, offset, what))

    def report_to(self, report: Report, judged_before: int | None) -> None:
        """Of a segment that is broken, what concerns the offsets from `judged_before` on cannot be judged."""
        wrong = [w for _, w in sorted(self._wrong.items()) if judged_before is None or w.offset < judged_before]
        kept = [w for w in wrong if self._kept_before is None or w.position <= self._kept_end]
        others = wrong[len(kept) :]
        if kept:
            report.problem(self.path, _first_of(kept), position=kept[0].position, offset=kept[0].offset)
        if others:
            what = f"{_first_of(others)}; made anew at the next start"
            report.note(self.path, what, position=others[0].position, offset=others[0].offset)
        if self._odd_end is not None:
            tell = report.problem if self._kept_before is None else report.note
            tell(self.path, self._odd_end.reason, position=self._odd_end.position)


def _first_of(wrong: list[Wrong]) -> str:
    return wrong[0].what + (f" (the first of {len(wrong):,} wrong entries)" if len(wrong) > 1 else "")


class OffsetIndexCheck(IndexCheck):
    """Entries rise, and each names the position and the last offset of a batch."""

    def __init__(self, files: Files, stem: str, base_offset: int, kept_before: int | None) -> None:
        super().__init__(stem + INDEX_SUFFIX, kept_before)
        self._entries: dict[int, IndexRow] = {}  # by the batch's position
        try:
            self._read(files, base_offset)
        except Malformed as end:
            self._odd_end = end

    def _read(self, files: Files, base_offset: int) -> None:
        if not files.exists(self.path):
            return
        last = IndexRow(-1, base_offset - 1, -1)
        for row in index_rows(files.open(self.path), base_offset):
            if row.offset <= last.offset or row.batch_position <= last.batch_position:
                self._entry_is_wrong(row, f"follows offset {last.offset} at position {last.batch_position}")
            self._entries.setdefault(row.batch_position, row)
            last = row

    def see(self, position: int, header: BatchHeader) -> bool:
        """Whether the batch is indexed."""
        row = self._entries.pop(position, None)
        if row is None:
            return False
        if row.offset == header.last_offset:
            self._is_right(row.position, row.offset)
        else:
            self._entry_is_wrong(row, f"points to a batch that ends with offset {header.last_offset}")
        return True

    def finish(self) -> None:
        for row in self._entries.values():
            self._entry_is_wrong(row, "points to no batch")

    def _entry_is_wrong(self, row: IndexRow, what: str) -> None:
        entry = f"entry for offset {row.offset} at position {row.batch_position}"
        self._is_wrong(row.position, row.offset, f"{entry} {what}")


class TimeIndexCheck(IndexCheck):
    """Entries rise strictly, and each names the largest timestamp so far and the last offset of its batch.

    Where a batch is in the other index, the largest timestamp up to it must be in this one: a search for a time steps
    over all that comes before.
    """

    def __init__(self, files: Files, stem: str, base_offset: int, kept_before: int | None) -> None:
        super().__init__(stem + TIME_INDEX_SUFFIX, kept_before)
        self._entries: dict[int, TimeIndexRow] = {}  # by the last offset of the batch
        self._largest = Timed(NO_TIMESTAMP, base_offset - 1)
        self._missing: Wrong | None = None
        try:
            self._read(files, base_offset)
        except Malformed as end:
            self._odd_end = end
        self._unseen = set(self._entries)

    def _read(self, files: Files, base_offset: int) -> None:
        if not files.exists(self.path):
            return
        last = TimeIndexRow(-1, NO_TIMESTAMP, base_offset - 1)
        for row in time_index_rows(files.open(self.path), base_offset):
            if row.timestamp <= last.timestamp or row.offset <= last.offset:
                self._entry_is_wrong(row, f"follows timestamp {last.timestamp} at offset {last.offset}")
            self._entries.setdefault(row.offset, row)
            last = row

    def see(self, header: BatchHeader, *, indexed: bool) -> None:
        is_largest = header.max_timestamp > self._largest.timestamp
        if is_largest:
            self._largest = Timed(header.max_timestamp, header.last_offset)
        row = self._entries.get(header.last_offset)
        if row is not None:
            self._unseen.discard(row.offset)
            self._compare(row, is_largest=is_largest)
        if indexed:
            self.expect_largest(header.last_offset)

    def _compare(self, row: TimeIndexRow, *, is_largest: bool) -> None:
        timestamp, offset = self._largest
        if is_largest and row.timestamp == timestamp:
            self._is_right(row.position, row.offset)
        else:
            self._entry_is_wrong(row, f"is not the largest so far, {timestamp} at offset {offset}")

    def expect_largest(self, at: int) -> None:
        """The largest timestamp so far must have its entry, since `at` is the end of a batch that is indexed."""
        timestamp, offset = self._largest
        row = self._entries.get(offset)
        if self._missing is None and timestamp != NO_TIMESTAMP and (row is None or row.timestamp != timestamp):
            before = [entry.position for entry in self._entries.values() if entry.offset < offset]
            place = max(before) + TIME_INDEX_ENTRY.size if before else 0
            self._missing = Wrong(place, offset, f"no entry for timestamp {timestamp} at offset {offset}")
            if self._entries:  # that it is empty is noticed; without one entry it would be kept and believed
                self._is_right(place, at)

    def finish(self) -> None:
        for offset in self._unseen:
            self._entry_is_wrong(self._entries[offset], "points to no batch")
        if self._missing is not None:
            self._is_wrong(*self._missing)

    def _entry_is_wrong(self, row: TimeIndexRow, what: str) -> None:
        entry = f"entry for timestamp {row.timestamp} at offset {row.offset}"
        self._is_wrong(row.position, row.offset, f"{entry} {what}")
