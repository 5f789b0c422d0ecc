"""A cleaned segment as it is written: no offset is missing, though records are.

    <base offset>.cleaned.log, .cleaned.index, .cleaned.timeindex, .cleaned.txnindex

Offsets whose records are gone belong to the batch before them, whose last offset is moved on; consumers know that from
Kafka's own compacted batches. Where that must not be, an empty batch stands for them: at the start of a segment, behind
a marker, behind a batch of a transaction, behind one that tells the last sequence of a producer, and where the leader
epoch is another one.
"""

from __future__ import annotations

from collections.abc import Iterable

from runnel.log.compaction.rewriting import filler, stretched
from runnel.log.open_files import OpenFiles
from runnel.log.segment import Segment
from runnel.log.txn_index import Entry
from runnel.records import BatchHeader
from runnel.records.batch import CONTROL, TRANSACTIONAL
from runnel.settings import INT32_MAX, KIB

CLEANED = ".cleaned"
PIECE = 128 * KIB  # that is written, and synced


class Output:
    def __init__(self, files: OpenFiles, folder: str, base_offset: int, index_interval: int) -> None:
        self._files = files
        self._segment = Segment(files, folder, base_offset, index_interval, CLEANED)
        self._segment.create()
        self._next_offset = base_offset  # of what `_last` covers
        self._last: tuple[BatchHeader, bytes] | None = None  # may still be stretched
        self._may_stretch = False
        self._missing_epoch = -1  # the leader epoch of the offsets that are not covered yet
        self._waiting: list[bytes] = []
        self._waiting_size = 0

    @property
    def size(self) -> int:
        return self._segment.size

    def leave_out(self, header: BatchHeader) -> None:
        """The batch that follows is gone; its offsets are not, nor their leader epoch."""
        if header.leader_epoch != self._missing_epoch:
            self._cover_up_to(header.base_offset)
            self._missing_epoch = header.leader_epoch

    def add(self, header: BatchHeader, batch: bytes, *, holds_sequence: bool) -> None:
        self._cover_up_to(header.base_offset)
        self._put_last()
        self._last = (header, batch)
        self._may_stretch = not (holds_sequence or header.attributes & (TRANSACTIONAL | CONTROL))
        self._next_offset = header.last_offset + 1

    def finish(self, next_offset: int, aborted: Iterable[Entry]) -> None:
        """Nothing follows before `next_offset`. All is synced when this returns."""
        self._cover_up_to(next_offset)
        self._put_last()
        self._write()
        segment = self._segment
        for entry in aborted:
            segment.aborted.add(entry)
        segment.seal()
        self._files.files.sync_directory(segment.directory)

    def _cover_up_to(self, offset: int) -> None:
        if self._next_offset == offset:
            return
        if self._last is not None and self._fits(self._last[0], offset - 1):
            self._last = stretched(*self._last, offset - 1)
        else:
            self._put_last()
            self._last = filler(self._next_offset, offset - 1, self._missing_epoch)
        self._next_offset = offset

    def _fits(self, last: BatchHeader, last_offset: int) -> bool:
        """Whether this batch, which is the last one, may be stretched so far."""
        same_epoch = last.leader_epoch == self._missing_epoch
        return self._may_stretch and same_epoch and last_offset - last.base_offset <= INT32_MAX

    def _put_last(self) -> None:
        if self._last is None:
            return
        header, batch = self._last
        self._last = None
        position = self._segment.size
        self._segment.note(header, position, index=position <= INT32_MAX)
        self._waiting.append(batch)
        self._waiting_size += len(batch)
        if self._waiting_size >= PIECE:
            self._write()

    def _write(self) -> None:
        """Synced in small pieces: one large sync at the end would keep the disk from those who wait for theirs."""
        if self._waiting:
            file = self._segment.file()
            file.write(self._waiting, self._segment.size - self._waiting_size)
            file.sync()
            self._waiting, self._waiting_size = [], 0
