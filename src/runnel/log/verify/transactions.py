"""Whether the `.txnindex` of each segment names the transactions that were aborted there.

One check follows all segments of a partition, because a transaction can begin in one and end in another. What it cannot
know, because the batches are damaged or were deleted, it does not judge.

An entry must belong to a marker that aborts. It may begin before the first batch that is there, since compaction takes
batches away, but not so early that it would hide the producer's transaction before. And no transaction with batches may
be missing: its records would pass for committed ones.
"""

from __future__ import annotations

from runnel.errors import InvalidBatch
from runnel.files import Files, read_file
from runnel.log.dump import Malformed, TxnIndexRow, snapshot_rows, txn_index_rows
from runnel.log.snapshots import snapshot_path
from runnel.log.txn_index import SUFFIX
from runnel.log.verify.report import Report
from runnel.records import BatchHeader, parse_marker

NO_OFFSET = -1


class TransactionsCheck:
    def __init__(self, files: Files, directory: str, report: Report) -> None:
        self._files = files
        self._directory = directory
        self._report = report
        self._starts: dict[int, int] = {}  # of the open transactions
        self._ends: dict[int, int] = {}  # the last marker of each producer
        self._expected: dict[int, tuple[int, int]] = {}  # by marker: the producer, and where its transaction begins
        self._before: dict[int, int] = {}  # by marker: the one before it
        self._judges = True

    def begin(self, first_base: int) -> None:
        """What was open where the partition begins."""
        path = snapshot_path(self._directory, first_base)
        if not self._files.exists(path):
            return
        try:
            rows = list(snapshot_rows(read_file(self._files, path)))
        except (Malformed, OSError):
            return  # said elsewhere
        self._starts = {row.producer_id: row.transaction_start for row in rows if row.transaction_start >= 0}

    def see(self, header: BatchHeader, batch: bytes) -> None:
        producer_id = header.producer_id
        if header.is_control:
            self._see_marker(header, batch)
        elif header.is_transactional and header.count:
            self._starts.setdefault(producer_id, header.base_offset)

    def _see_marker(self, header: BatchHeader, batch: bytes) -> None:
        producer_id, offset = header.producer_id, header.last_offset
        start = self._starts.pop(producer_id, NO_OFFSET)
        before, self._ends[producer_id] = self._ends.get(producer_id, NO_OFFSET), offset
        try:
            committed = parse_marker(batch).committed
        except InvalidBatch:
            return
        if not committed:
            self._expected[offset] = (producer_id, start)
            self._before[offset] = before

    def give_up(self) -> None:
        """Batches are missing: from here on nothing is certain."""
        self._judges = False

    def segment_ends(self, stem: str, *, unclean: bool) -> None:
        """Compare what was seen in the segment with its index. After an unclean stop the active one's is made anew."""
        path = stem + SUFFIX
        rows: list[TxnIndexRow] = []
        exists = self._files.exists(path)
        if exists:
            try:
                rows.extend(txn_index_rows(self._files.open(path)))
            except Malformed as error:
                tell = self._report.note if unclean else self._report.problem
                tell(path, error.reason, position=error.position)
        if self._judges and not unclean:
            self._compare(path, rows, exists=exists)
        self._expected.clear()
        self._before.clear()

    def _compare(self, path: str, rows: list[TxnIndexRow], *, exists: bool) -> None:
        last = NO_OFFSET
        for row in rows:
            what = self._what_is_wrong(row, last)
            if what:
                entry = f"entry for producer {row.producer_id} from offset {row.first_offset} to {row.last_offset}"
                self._report.problem(path, f"{entry} {what}", position=row.position, offset=row.last_offset)
            self._expected.pop(row.last_offset, None)
            last = max(last, row.last_offset)
        missing = {offset: known for offset, known in self._expected.items() if known[1] != NO_OFFSET}
        if missing and not exists:
            self._report.note(path, "it is missing, and is made anew when the segment is read")
        elif missing:
            offset, (producer_id, start) = min(missing.items())
            what = f"no entry for the aborted transaction of producer {producer_id} from offset {start} to {offset}"
            self._report.problem(path, what, offset=offset)

    def _what_is_wrong(self, row: TxnIndexRow, last: int) -> str:
        if row.last_offset <= last:
            return f"follows the one to offset {last}"
        producer_id, start = self._expected.get(row.last_offset, (NO_OFFSET, NO_OFFSET))
        if producer_id != row.producer_id:
            return "belongs to no marker that aborts"
        if row.first_offset <= self._before[row.last_offset]:
            return f"begins before offset {self._before[row.last_offset]}, where the transaction before it ended"
        if start != NO_OFFSET and row.first_offset > start:
            return f"begins after offset {start}, where the transaction does"
        return ""
