"""Where the rows of a table come from: what a `Latest` is made of, part by part.

A feed stands for one part, such as a partition, and counts its records by offsets (or positions) that only grow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from runnel.pipeline.tables.latest import Latest
from runnel.pipeline.tables.versions import Span


@dataclass
class Now:
    """The rows as they are by now, while records are gone through: one may leave values as they were."""

    latest: Latest


@dataclass(frozen=True)
class News:
    """What came from `start` to before `end`: `records` have the columns of `latest.records_schema`, in their order.

    `is_whole`: they are all that there is, and nothing that was known before counts any more. `log` is as in a `Span`.
    """

    start: int
    end: int
    records: Iterable[pa.Table]
    is_whole: bool = False
    log: str = ""


class Feed(Protocol):
    @property
    def name(self) -> str:
        """Of the part: its files are in a directory of this name."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows. Files with another one are not read: they are of an older declaration."""

    @property
    def grows(self) -> bool:
        """Whether rows may get columns, which are null in those of before: files that lack them are read."""

    def news(self, since: Span | None, batch: int, now: Now) -> News:
        """All that is there by now; `since` is what was read last, None: nothing was read before. Records are
        gone through once, to their end, before the batch's version is kept: what the batch must know of them, such as
        rejected ones, is on the disk by then. Whoever goes through them keeps `now` up to date.
        """

    def again(self, end: int, now: Now) -> Iterable[pa.Table]:
        """What was there before `end`, once more, where the files were lost: only the rows count this time."""
