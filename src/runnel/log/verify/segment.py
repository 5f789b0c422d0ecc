"""One segment: its batches, their records, and what its indexes and its `.damage` file say of them."""

from __future__ import annotations

from dataclasses import dataclass

from runnel.counted import counted
from runnel.errors import InvalidBatch
from runnel.files import File, Files
from runnel.log.damage import SUFFIX as DAMAGE_SUFFIX
from runnel.log.damage import Damage, read_damage
from runnel.log.dump import Malformed
from runnel.log.dump.segments import batches
from runnel.log.place import Place
from runnel.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, damage_at
from runnel.log.verify.epochs import EpochsCheck
from runnel.log.verify.indexes import OffsetIndexCheck, TimeIndexCheck
from runnel.log.verify.report import Meter, Report
from runnel.log.verify.transactions import TransactionsCheck
from runnel.log.walk import Broken
from runnel.records import BatchHeader, records_of


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """Where the segment stands in its partition, and what the next start will do with it."""

    stem: str
    base_offset: int
    limit: int | None  # the base offset of the next segment; None if this is the last one
    torn_from: int | None = None  # a broken batch from this offset on is cut; None if there can be none
    kept_before: int | None = None  # index entries from this offset on are made anew; None if all are kept


class SegmentCheck:
    """After `run`, `next_offset` is the one after its last batch, or after all that is lost at its end."""

    def __init__(
        self,
        files: Files,
        place: SegmentPlace,
        epochs: EpochsCheck,
        transactions: TransactionsCheck,
        report: Report,
        meter: Meter,
    ) -> None:
        self._files = files
        self._place = place
        self._epochs = epochs
        self._transactions = transactions
        self._report = report
        self._meter = meter
        self._broken_from: int | None = None  # the first offset that cannot be read
        self._offsets: OffsetIndexCheck | None = None
        self._times: TimeIndexCheck | None = None
        self.path = place.stem + LOG_SUFFIX
        self.size = 0
        self.next_offset = place.base_offset
        self.lost_its_end = False

    def run(self) -> None:
        file = self._files.open(self.path)
        end = self.size = file.size()
        self._report.totals.segments += 1
        self._report.totals.bytes += end
        quarantined = self._files.exists(self._place.stem + DAMAGE_SUFFIX)
        if not quarantined:  # the indexes of a quarantined segment are not used
            self._open_indexes()
        start: Place | None = Place(0, self._place.base_offset)
        while start is not None:
            start = self._check_from(file, start, end)
        self._check_end(end)
        self._epochs.segment_ends(self.path)
        self._transactions.segment_ends(self._place.stem, unclean=self._place.kept_before is not None)
        self._report_indexes()
        if quarantined:
            self._report_quarantine()

    # --- batches

    def _check_from(self, file: File, start: Place, end: int) -> Place | None:
        """Check the batches from `start` on; the answer is where to go on behind one that is broken."""
        position, self.next_offset = start
        try:
            for position, header, batch in batches(file, start.position, end):
                if self._is_past_limit():
                    break
                if header.base_offset != self.next_offset:
                    raise Malformed(position, f"batch with offsets {header.base_offset} to {header.last_offset}")
                self._check_batch(position, header, batch)
                self.next_offset = header.last_offset + 1
                self._meter.advance(header.size)
            else:
                return None
        except Malformed as malformed:
            if not self._is_past_limit():
                return self._after(file, Broken(malformed.position, self.next_offset, malformed.reason), end)
            position = malformed.position
        self._note_left_over(position, end)
        return None

    def _is_past_limit(self) -> bool:
        return self._place.limit is not None and self.next_offset >= self._place.limit

    def _note_left_over(self, position: int, end: int) -> None:
        size = counted(end - position, "byte")
        what = f"{size} of a failed write, which nobody reads: the next segment begins before them"
        self._report.note(self.path, what, position=position, offset=self._place.limit)
        self._meter.advance(end - position)

    def _check_batch(self, position: int, header: BatchHeader, batch: bytes) -> None:
        self._report.totals.batches += 1
        for mistake in self._mistakes(header, batch):
            self._report.problem(self.path, mistake, position=position, offset=header.base_offset)
        self._epochs.see(position, header)
        self._transactions.see(header, batch)
        indexed = self._offsets is not None and self._offsets.see(position, header)
        if self._times is not None:
            self._times.see(header, indexed=indexed)

    def _mistakes(self, header: BatchHeader, batch: bytes) -> list[str]:
        limit = self._place.limit
        mistakes: list[str] = []
        if limit is not None and header.last_offset >= limit:
            mistakes.append(f"batch up to offset {header.last_offset}, but the next segment begins at {limit}")
        try:
            self._report.totals.records += len(records_of(batch))
        except InvalidBatch as error:
            mistakes.append(error.what)
        return mistakes

    # --- what is broken

    def _after(self, file: File, broken: Broken, end: int) -> Place | None:
        torn_from = self._place.torn_from
        if torn_from is not None and broken.offset >= torn_from:
            size = counted(end - broken.position, "byte")
            what = f"{size} of a torn write, will be cut at the next start: {broken.reason}"
            self._report.note(self.path, what, position=broken.position, offset=broken.offset)
            self._meter.advance(end - broken.position)
            return None
        damage = damage_at(file, broken, end)
        self._transactions.give_up()
        if self._broken_from is None:
            self._broken_from = broken.offset
        self.lost_its_end = damage.resume is None
        self._report.problem(
            self.path, f"{broken.reason}; {self._loss(damage)}", position=broken.position, offset=broken.offset
        )
        self._meter.advance((damage.resume.position if damage.resume else end) - broken.position)
        return damage.resume

    def _loss(self, damage: Damage) -> str:
        first = damage.start.offset
        after = damage.resume.offset if damage.resume else self._place.limit
        if after is None:
            return f"records from offset {first} on cannot be read"
        if after <= first:
            return "no record is missing, but readers stop here"
        return f"records from offset {first} to {after - 1} cannot be read"

    def _check_end(self, end: int) -> None:
        limit = self._place.limit
        if limit is not None and self.next_offset < limit and not self.lost_its_end:
            what = f"the segment ends with offset {self.next_offset - 1}, but the next one begins at {limit}"
            self._report.problem(self.path, what, position=end, offset=self.next_offset)

    def _report_quarantine(self) -> None:
        path = self._place.stem + DAMAGE_SUFFIX
        try:
            damage = read_damage(self._files, self._place.stem)
        except (OSError, OverflowError, RecursionError) as error:
            self._report.problem(path, f"quarantined, but this file cannot be read: {error}")
            return
        if damage is not None:
            healed = "" if self._broken_from is not None else "; all batches that are there are whole"
            what = f"quarantined from position {damage.start.position:,}: {damage.reason}{healed}"
            self._report.problem(path, what, offset=damage.start.offset)

    # --- indexes

    def _open_indexes(self) -> None:
        place = self._place
        if self._index_is_expected(INDEX_SUFFIX):
            self._offsets = OffsetIndexCheck(self._files, place.stem, place.base_offset, place.kept_before)
        if self._index_is_expected(TIME_INDEX_SUFFIX):
            self._times = TimeIndexCheck(self._files, place.stem, place.base_offset, place.kept_before)

    def _index_is_expected(self, suffix: str) -> bool:
        """The last segment has its indexes from the first checkpoint on: until then they count as empty."""
        missing = self._place.limit is not None and not self._files.exists(self._place.stem + suffix)
        if missing:
            self._report.note(self._place.stem + suffix, "it is missing, and is made anew when the segment is read")
        return not missing

    def _report_indexes(self) -> None:
        if self._offsets is not None:
            self._offsets.finish()
            self._offsets.report_to(self._report, self._broken_from)
        if self._times is not None:
            if self._place.limit is not None:
                self._times.expect_largest(self.next_offset - 1)
            self._times.finish()
            self._times.report_to(self._report, self._broken_from)
