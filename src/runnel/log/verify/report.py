"""What a check has found and how much it has looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

Progress = Callable[[int, int], None]  # called with the bytes that are checked, and all there are
PROGRESS_STEP = 1024 * 1024


class Severity(StrEnum):
    PROBLEM = "problem"  # something is not as it was written, or is missing
    NOTE = "note"  # worth knowing; the log expects it and sees to it by itself


@dataclass(frozen=True, slots=True)
class Problem:
    """`position` is one in the file, `offset` that of the record which is concerned; None where there is none."""

    severity: Severity
    path: str
    position: int | None
    offset: int | None
    what: str


@dataclass(slots=True)
class Totals:
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0  # of the segments


@dataclass(slots=True)
class Report:
    """The problems stand in the order of the files."""

    path: str
    problems: list[Problem] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)

    @property
    def is_well(self) -> bool:
        """Whether there is nothing but notes."""
        return all(problem.severity is Severity.NOTE for problem in self.problems)

    def problem(self, path: str, what: str, *, position: int | None = None, offset: int | None = None) -> None:
        self.problems.append(Problem(Severity.PROBLEM, path, position, offset, what))

    def note(self, path: str, what: str, *, position: int | None = None, offset: int | None = None) -> None:
        self.problems.append(Problem(Severity.NOTE, path, position, offset, what))


class Meter:
    """Tells the progress, not more often than every megabyte."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0
        self._told = 0

    def advance(self, size: int) -> None:
        self._done += size
        if self._progress is not None and (self._done - self._told >= PROGRESS_STEP or self._done >= self._total):
            self._told = self._done
            self._progress(min(self._done, self._total), self._total)
