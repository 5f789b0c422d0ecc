"""Whether the batches carry the leader epochs that `leader-epoch-checkpoint` says they do."""

from __future__ import annotations

from bisect import bisect_right

from runnel.files import Files, read_file
from runnel.log.dump import EpochRow, Malformed, epoch_rows
from runnel.log.epochs import FILE_NAME, NO_EPOCH
from runnel.log.verify.report import Report
from runnel.records import BatchHeader


class EpochsCheck:
    """`see` is called with each batch in turn, and `segment_ends` after the last one of each segment.

    Without a file that can be read, the epochs of the batches must still rise.
    """

    def __init__(self, files: Files, directory: str, start_offset: int, report: Report) -> None:
        self.path = f"{directory}/{FILE_NAME}"
        self._start_offset = start_offset
        self._report = report
        self._rows = self._read(files)
        self._latest = NO_EPOCH
        self._wrong: list[tuple[int, BatchHeader, str]] = []
        self._seen = 0

    def _read(self, files: Files) -> list[EpochRow] | None:
        if not files.exists(self.path):
            return None
        try:
            return list(epoch_rows(read_file(files, self.path)))
        except Malformed as error:
            self._report.problem(self.path, error.reason, position=error.position)
        except OSError as error:
            self._report.problem(self.path, f"it cannot be read: {error.strerror}")
        return None

    @property
    def latest(self) -> int:
        """The largest epoch of the file and of the batches that were seen."""
        return max(self._latest, self._rows[-1].epoch if self._rows else NO_EPOCH)

    def see(self, position: int, header: BatchHeader) -> None:
        if header.last_offset < self._start_offset:
            return
        self._seen += 1
        expected = self._epoch_of(max(header.base_offset, self._start_offset))
        if expected is not None and header.leader_epoch != expected:
            self._wrong.append((position, header, f"{FILE_NAME} says {expected}"))
        elif header.leader_epoch < self._latest:
            self._wrong.append((position, header, f"an earlier batch has {self._latest}"))
        else:
            self._latest = header.leader_epoch

    def segment_ends(self, path: str) -> None:
        wrong, self._wrong = self._wrong, []
        if not wrong:
            return
        position, header, why = wrong[0]
        count = f" (the first of {len(wrong):,} such batches)" if len(wrong) > 1 else ""
        what = f"batch with leader epoch {header.leader_epoch}, but {why}{count}"
        self._report.problem(path, what, position=position, offset=header.base_offset)

    def finish(self, files: Files, end: int) -> None:
        """After the last segment, which ends before offset `end`."""
        if self._seen and not files.exists(self.path):
            self._report.note(self.path, "it is missing, and is made anew from the batches")
        late = [row for row in self._rows or [] if row.offset > end]
        if late:
            # What it wrote was lost with an unclean stop; the next start leaves it out.
            what = f"epoch {late[0].epoch} begins at offset {late[0].offset}, after the end of the log at {end}"
            self._report.note(self.path, what, position=late[0].position, offset=late[0].offset)

    def _epoch_of(self, offset: int) -> int | None:
        """None if the file says nothing; NO_EPOCH if it says that there was none."""
        if self._rows is None:
            return None
        number = bisect_right(self._rows, offset, key=lambda row: row.offset)
        return self._rows[number - 1].epoch if number else NO_EPOCH
