"""One partition's folder: its segments one after the other, and the small files beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from runnel.files import Files, read_file
from runnel.log.compaction.output import CLEANED
from runnel.log.compaction.swap import SWAP
from runnel.log.damage import SUFFIX as DAMAGE_SUFFIX
from runnel.log.dump import Malformed, snapshot_rows
from runnel.log.epochs import FILE_NAME as EPOCHS_FILE
from runnel.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from runnel.log.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from runnel.log.txn_index import SUFFIX as TXN_INDEX_SUFFIX
from runnel.log.verify.epochs import EpochsCheck
from runnel.log.verify.report import Meter, Report
from runnel.log.verify.segment import SegmentCheck, SegmentPlace
from runnel.log.verify.transactions import TransactionsCheck

SEGMENT_FILES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, DAMAGE_SUFFIX)
NUMBERED = re.compile(r"([0-9]{20})(\..+)")


@dataclass(frozen=True, slots=True)
class Known:
    """What the data directory knows of a partition; None where it knows nothing."""

    clean: bool = True  # nothing was written after the last stop
    start_offset: int | None = None
    recovery_point: int | None = None
    synced_offset: int = 0  # all before it was synced
    epoch: int | None = None  # no batch can have a larger leader epoch


class PartitionCheck:
    def __init__(self, files: Files, directory: str, known: Known, report: Report, meter: Meter) -> None:
        self._files = files
        self._directory = directory
        self._known = known
        self._report = report
        self._meter = meter
        self._transactions = TransactionsCheck(files, directory, report)
        self._start_offset = known.start_offset or 0
        self._end = 0

    def run(self) -> None:
        self._report.totals.partitions += 1
        names = sorted(self._files.list(self._directory))
        bases = self._note_strangers(names)
        epochs = EpochsCheck(self._files, self._directory, self._start_offset, self._report)
        self._check_start(bases)
        if bases:
            self._transactions.begin(bases[0])
        for number, base in enumerate(bases):
            limit = bases[number + 1] if number + 1 < len(bases) else None
            self._check_segment(base, limit, epochs)
        epochs.finish(self._files, self._end)
        self._check_epoch_of_directory(epochs)
        self._check_snapshots(names)

    def _check_segment(self, base: int, limit: int | None, epochs: EpochsCheck) -> None:
        known, last = self._known, limit is None
        unclean = last and not known.clean
        place = SegmentPlace(
            stem=f"{self._directory}/{base:020d}",
            base_offset=base,
            limit=limit,
            torn_from=self._synced if unclean else None,
            kept_before=known.recovery_point or 0 if unclean else None,
        )
        segment = SegmentCheck(self._files, place, epochs, self._transactions, self._report, self._meter)
        try:
            segment.run()
            if last:
                self._check_end(segment)
        except OSError as error:
            self._report.problem(segment.path, f"it cannot be read: {error.strerror}", offset=segment.next_offset)
        self._end = segment.next_offset

    # --- the borders

    @property
    def _synced(self) -> int:
        return max(self._known.synced_offset, self._known.recovery_point or 0)

    def _check_start(self, bases: list[int]) -> None:
        if not bases:
            self._end = self._start_offset
            expected = max(self._synced, self._start_offset)
            if expected:
                self._report.problem(self._directory, f"no segment is left of offsets up to {expected}", offset=0)
        elif self._known.start_offset is not None and bases[0] > self._start_offset:
            what = (
                f"the first segment begins at offset {bases[0]}, the partition at {self._start_offset}: "
                f"what stood between is missing"
            )
            self._report.problem(self._directory, what, offset=self._start_offset)

    def _check_end(self, segment: SegmentCheck) -> None:
        """The last segment must reach all that is known of the partition."""
        if segment.lost_its_end:
            return
        end, size = segment.next_offset, segment.size
        if end < self._synced:
            what = f"the file ends before offset {self._synced}, which was synced"
            self._report.problem(segment.path, what, position=size, offset=end)
        elif self._known.clean and self._known.recovery_point is not None and end > self._known.recovery_point:
            what = f"the log ended at offset {self._known.recovery_point} when it was stopped; more was added since"
            self._report.problem(segment.path, what, offset=self._known.recovery_point)
        if end < self._start_offset:
            what = f"the file ends before offset {self._start_offset}, where the partition begins"
            self._report.problem(segment.path, what, position=size, offset=end)

    # --- the small files

    def _check_epoch_of_directory(self, epochs: EpochsCheck) -> None:
        if self._known.epoch is not None and epochs.latest > self._known.epoch:
            what = f"leader epoch {epochs.latest} is in use, but the data directory is at epoch {self._known.epoch}"
            self._report.problem(epochs.path, what)

    def _check_snapshots(self, names: list[str]) -> None:
        for name in names:
            match = NUMBERED.fullmatch(name)
            if match and match[2] == SNAPSHOT_SUFFIX:
                self._check_snapshot(f"{self._directory}/{name}", int(match[1]))

    def _check_snapshot(self, path: str, offset: int) -> None:
        try:
            rows = list(snapshot_rows(read_file(self._files, path)))
        except Malformed as error:
            self._report.problem(path, error.reason, position=error.position, offset=offset)
            return
        except OSError as error:
            self._report.problem(path, f"it cannot be read: {error.strerror}", offset=offset)
            return
        if offset > self._end:
            what = f"a snapshot of the state before offset {offset}, after the end of the log at {self._end}"
            self._report.problem(path, what, offset=offset)
        for row in rows:
            last = row.batches[-1].last_offset if row.batches else -1
            if last >= offset:
                what = f"producer {row.producer_id} wrote offset {last}, which is not before {offset}"
                self._report.problem(path, what, position=row.position, offset=offset)

    # --- the folder

    def _note_strangers(self, names: list[str]) -> list[int]:
        """The base offsets of the segments, without those of an interrupted deletion."""
        bases = [int(name[:20]) for name in names if re.fullmatch(rf"[0-9]{{20}}\{LOG_SUFFIX}", name)]
        kept = [base for base, after in pairwise(bases) if after > self._start_offset] + bases[-1:]
        stems = {f"{base:020d}" for base in kept}
        for name in names:
            what = _what_is_strange(name, stems)
            if what:
                self._report.note(f"{self._directory}/{name}", what)
        return kept


def _what_is_strange(name: str, stems: set[str]) -> str:
    match = NUMBERED.fullmatch(name)
    if name.endswith(".tmp"):
        return "left over from an interrupted write; it will be removed"
    if match and match[2] in SEGMENT_FILES:
        return "" if match[1] in stems else "left over from an interrupted deletion; it will be removed"
    if match and match[2].startswith((CLEANED, SWAP)):
        return "left over from an interrupted compaction; the next start finishes it or throws it away"
    if (match and match[2] == SNAPSHOT_SUFFIX) or name == EPOCHS_FILE:
        return ""
    return "not a file of a log; it is left alone"
