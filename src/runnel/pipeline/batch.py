"""One micro-batch on its way through the steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from runnel.counted import counted
from runnel.pipeline.source.aside import SCHEMA
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Offsets, ranges
from runnel.pipeline.stopwatch import Stopwatch


@dataclass(frozen=True)
class Counts:
    """Of the records that a batch read: each is counted in one of the three. `gone` are offsets that could not be read,
    and were passed over because somebody said so.
    """

    in_time: int = 0
    late: int = 0
    rejected: int = 0
    gone: int = 0


@dataclass(frozen=True)
class Batch:
    """`starts` and `ends` are offsets by the number of the input; `rows` is what the body made of it, once known.
    `wait_for_disk` returns when all that a repeat needs is on the disk: to be called before anything takes effect.
    `watch` counts how long its steps take.
    """

    query: str
    checkpoint: str
    moment: Moment
    starts: dict[int, Offsets]
    ends: dict[int, Offsets]
    frame: DataFrame
    wait_for_disk: Callable[[], object]
    rows: pa.Table | None = None
    aside: pa.Table = field(default_factory=SCHEMA.empty_table)
    counts: Counts = field(default_factory=Counts)
    watch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def number(self) -> int:
        return self.moment.batch

    @property
    def records(self) -> int:
        """How many offsets lie between; gaps among them count."""
        found = [ranges(self.starts[number], end) for number, end in self.ends.items()]
        return sum(read.end - read.start for each in found for read in each)

    @property
    def positions(self) -> dict[str, Any]:
        """The next offset of every partition that was read, by topic; the smallest, where two inputs read the same one:
        what lies before it was seen by both.
        """
        found: dict[str, dict[str, int]] = {}
        for end in self.ends.values():
            for (topic, partition), at in sorted(end.next.items()):
                known = found.setdefault(topic, {})
                known[str(partition)] = min(at, known.get(str(partition), at))
        return found


@dataclass
class Totals:
    """What a query has done since it was started."""

    batches: int = 0
    in_time: int = 0
    late: int = 0
    rejected: int = 0
    gone: int = 0
    watermark: int = 0
    seconds: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)

    def add(self, batch: Batch) -> None:
        self.batches += 1
        self.in_time += batch.counts.in_time
        self.late += batch.counts.late
        self.rejected += batch.counts.rejected
        self.gone += batch.counts.gone
        self.watermark = batch.moment.watermark
        self.seconds += batch.watch.total
        for name, seconds in batch.watch.seconds.items():
            self.steps[name] = self.steps.get(name, 0.0) + seconds

    def __str__(self) -> str:
        gone = f", {self.gone:,} gone" if self.gone else ""
        rows = f"{counted(self.batches, 'batch', 'batches')}, {counted(self.in_time, 'row')}"
        return f"{rows}, {self.late:,} late, {self.rejected:,} rejected{gone}"


Step: TypeAlias = Callable[[Batch], Batch | None]
"""What is done to a batch. None: it is finished, and no step follows."""


def run(steps: tuple[Step, ...], batch: Batch) -> Batch | None:
    """The batch as the last step left it."""
    current: Batch | None = batch
    for step in steps:
        if current is None:
            return None
        current = step(current)
    return current
