"""The work of one round of compaction: from sealed segments to cleaned ones beside them. It changes none of them.

1. The newest record of each key in the dirty part is found.
2. All segments are read from the first on, small ones together, and written anew without
   - records of which the dirty part has a newer one with the same key, and records without a key;
   - tombstones whose horizon has come, and data of aborted transactions;
   - markers whose transaction has no data any more and whose horizon has come.
   A batch that tells the last sequence of a producer stays, with no records if need be.

If the keys of the dirty part are too many for the memory that was granted, a part of it is cleaned and the rest copied.
A batch that nobody can read is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from runnel.errors import InvalidBatch
from runnel.files import Files, read_file
from runnel.log.compaction.job import Answer, Cleaned, Damaged, Done, Job, Source
from runnel.log.compaction.newest import DEAD, TOMBSTONE, UNREADABLE, Dirty, Newest, TooManyKeys, plain_body
from runnel.log.compaction.output import CLEANED, Output
from runnel.log.compaction.rewriting import emptied, horizon_of, rewritten, with_horizon
from runnel.log.compaction.scanning import keys_of
from runnel.log.compaction.transactions import Transactions
from runnel.log.compaction.windows import batches_in, windows_of
from runnel.log.open_files import OpenFiles
from runnel.log.segment import LOG_SUFFIX
from runnel.log.txn_index import SUFFIX as TRANSACTION_INDEX_SUFFIX
from runnel.log.txn_index import Entry, decode_entries
from runnel.log.walk import Broken
from runnel.records import NO_PRODUCER_ID, BatchHeader
from runnel.settings import INT32_MAX

OPEN_FILES = 16


def clean(job: Job, files: Files, pace: Callable[[], None] = lambda: None) -> Iterator[Answer]:
    """Do the job. `pace` is called after every piece of work that takes some time."""
    return Cleaning(job, files, pace).run()


def grouped(sources: tuple[Source, ...], segment_bytes: int) -> list[list[Source]]:
    """Which segments become one: as many as fit, by their size and by what an index can tell of offsets."""
    groups: list[list[Source]] = []
    size = 0
    for source in sources:
        fits = groups and size + source.size <= segment_bytes
        if fits and source.next_offset - 1 - groups[-1][0].base_offset <= INT32_MAX:
            groups[-1].append(source)
            size += source.size
        else:
            groups.append([source])
            size = source.size
    return groups


class Cleaning:
    def __init__(self, job: Job, files: Files, pace: Callable[[], None]) -> None:
        self._job = job
        self._files = OpenFiles(files, OPEN_FILES)
        self._pace = pace
        self._newest = Newest(job.buffer_bytes)
        self._transactions = Transactions(job.aborted)
        self._reading = job.sources[0] if job.sources else Source(0, 0, 0)
        self._end = job.first_dirty
        self._first_record = 0  # in the dirty part, of the batch that comes next
        self._unreadable = 0

    def run(self) -> Iterator[Answer]:
        try:
            self._find_newest()
            for group in grouped(self._sources_to_clean(), self._job.segment_bytes):
                yield self._cleaned(group)
        except Broken as broken:
            yield Damaged(self._reading.base_offset, broken.position, broken.offset, broken.reason)
            return
        yield Done(self._end, self._unreadable)

    def _sources_to_clean(self) -> tuple[Source, ...]:
        return tuple(source for source in self._job.sources if source.base_offset < self._end)

    # --- the first half

    def _find_newest(self) -> None:
        dirty = self._dirty_pieces(self._newest.most_records)
        transactions = Transactions(self._job.aborted)
        try:
            self._newest.find(dirty, transactions, self._pace)
        except TooManyKeys:
            dirty = self._dirty_pieces(self._newest.capacity)
            self._newest.capacity = max(self._newest.capacity, sum(piece.window.records for piece in dirty))
            self._newest.find(dirty, transactions, self._pace)

    def _dirty_pieces(self, most_records: int) -> list[Dirty]:
        """The dirty part, or so much of it that it has not more records; at least one piece, or no round would end."""
        pieces: list[Dirty] = []
        first = 0
        for source in self._job.sources:
            if source.next_offset <= self._job.first_dirty:
                continue
            self._reading = source
            file = self._files.get(self._path(source))
            for window in windows_of(file, source.base_offset, source.size):
                if pieces and first + window.records > most_records:
                    self._end = window.offset
                    return pieces
                if window.next_offset > self._job.first_dirty:
                    pieces.append(Dirty(file, window, first))
                    first += window.records
            self._pace()
        self._end = self._job.sources[-1].next_offset if self._job.sources else self._job.first_dirty
        return pieces

    # --- the second half

    def _cleaned(self, group: list[Source]) -> Cleaned:
        job, base_offset, next_offset = self._job, group[0].base_offset, group[-1].next_offset
        output = Output(self._files, job.folder, base_offset, job.index_interval_bytes)
        tally = Tally(job.now)
        for source in group:
            self._clean(source, output, tally)
        unchanged = len(group) == 1 and not tally.changed
        output.finish(next_offset, self._aborted_in(group))
        if unchanged:
            self._remove_cleaned(base_offset)
        return Cleaned(
            base_offset, next_offset, output.size, sum(source.size for source in group),
            tally.records_before, tally.records_after, tally.horizon, unchanged,
        )  # fmt: skip

    def _clean(self, source: Source, output: Output, tally: Tally) -> None:
        self._reading = source
        path = self._path(source)
        file = self._files.get(path)
        for window in windows_of(file, source.base_offset, source.size):
            dirty = self._job.first_dirty < window.next_offset and window.offset < self._end
            for _, header, batch in batches_in(file, window):
                self._pass_on(header, batch, dirty, output, tally)
            self._pace()
        self._files.forget(path)  # whoever removes it frees it gently only if nobody else has it open

    def _pass_on(self, header: BatchHeader, batch: bytes, dirty: bool, output: Output, tally: Tally) -> None:
        tally.meet(header)
        kept = self._what_is_left(header, batch, dirty)
        holds_sequence = self._holds_sequence(header)
        if kept is None and holds_sequence:
            kept = (header, batch) if header.is_control or header.count == 0 else emptied(header)
        tally.pass_on(header, batch, kept)
        if kept is None:
            output.leave_out(header)
        else:
            output.add(*kept, holds_sequence=holds_sequence)

    def _what_is_left(self, header: BatchHeader, batch: bytes, dirty: bool) -> tuple[BatchHeader, bytes] | None:
        if header.is_control:
            empty = self._transactions.meet_marker(header, batch)
            if header.base_offset >= self._end or not empty:
                return header, batch
            return self._marker_left(header, batch)
        aborted = self._transactions.meet(header)
        if header.base_offset >= self._end:
            return header, batch
        fates = self._dirty_fates(header) if dirty else self._clean_fates(header, batch, aborted)
        if TOMBSTONE in fates and (horizon_of(header) or self._job.now + 1) <= self._job.now:
            fates = fates.replace(bytes([TOMBSTONE]), bytes([DEAD]))
        if not fates.strip(bytes([DEAD])):
            return None
        if UNREADABLE in fates:
            self._unreadable += 1
            return header, batch
        return rewritten(header, batch, fates, self._job.now + self._job.delete_retention_ms)

    def _marker_left(self, header: BatchHeader, batch: bytes) -> tuple[BatchHeader, bytes] | None:
        """What is left of a marker whose transaction has no data any more."""
        horizon = horizon_of(header)
        if header.count == 0 or (horizon is not None and horizon <= self._job.now):
            return None
        if horizon is not None or header.count != 1:
            return header, batch
        return with_horizon(header, batch, self._job.now + self._job.delete_retention_ms)

    def _dirty_fates(self, header: BatchHeader) -> bytes:
        first, self._first_record = self._first_record, self._first_record + header.count
        return bytes(self._newest.fates[first : self._first_record])

    def _clean_fates(self, header: BatchHeader, batch: bytes, aborted: bool) -> bytes:
        """In the clean part no key has two records, so what is dirty decides."""
        if aborted:
            return bytes(header.count)
        keys: list[int | None] = []
        tombstones: list[int] = []
        try:
            keys_of(plain_body(header, batch), header.count, keys, tombstones)
        except InvalidBatch:
            return bytes([UNREADABLE]) * header.count
        newer = self._newest.keys.known(keys)
        fates = bytearray(key is not None and key not in newer for key in keys)
        for number in tombstones:
            if fates[number]:
                fates[number] = TOMBSTONE
        return bytes(fates)

    def _holds_sequence(self, header: BatchHeader) -> bool:
        """Whether the partition would not know the producer any more without this batch."""
        if header.producer_id == NO_PRODUCER_ID:
            return False
        last = self._job.producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _aborted_in(self, group: list[Source]) -> list[Entry]:
        """The aborted transactions that end in these segments and have had data in this round, or are not cleaned."""
        return [
            entry
            for source in group
            for entry in self._entries(source)
            if entry.last_offset >= self._end or self._transactions.keeps(entry.producer_id, entry.last_offset)
        ]

    def _entries(self, source: Source) -> list[Entry]:
        path = self._path(source, TRANSACTION_INDEX_SUFFIX)
        return decode_entries(read_file(self._files.files, path)) if self._files.files.exists(path) else []

    def _path(self, source: Source, suffix: str = LOG_SUFFIX) -> str:
        return f"{self._job.folder}/{source.base_offset:020d}{suffix}"

    def _remove_cleaned(self, base_offset: int) -> None:
        start = f"{base_offset:020d}{CLEANED}."
        for name in self._files.files.list(self._job.folder):
            if name.startswith(start):
                self._files.files.remove(f"{self._job.folder}/{name}")


class Tally:
    """What went into a cleaned segment, and what came out."""

    def __init__(self, now: int) -> None:
        self._now = now
        self.records_before = 0
        self.records_after = 0
        self.horizon: int | None = None
        self.changed = False

    def meet(self, header: BatchHeader) -> None:
        self.records_before += 0 if header.is_control else header.count

    def pass_on(self, header: BatchHeader, batch: bytes, kept: tuple[BatchHeader, bytes] | None) -> None:
        if kept is None:
            is_filler = header.count == 0 and header.producer_id == NO_PRODUCER_ID
            self.changed = self.changed or not is_filler
            return
        self.changed = self.changed or kept[1] is not batch
        self.records_after += 0 if header.is_control else kept[0].count
        horizon = horizon_of(kept[0])
        if horizon is not None and horizon > self._now:  # what must stay all the same is not waited for
            self.horizon = min(horizon, self.horizon or horizon)
