"""A source without Spark: its planner plans, and its tasks read, one after the other in the test's own process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from runnel import App, Reading
from runnel.client.cluster import Cluster
from runnel.client.security import PLAIN, Security
from runnel.pipeline.source.aside import Aside, directory_of, read_aside
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Offsets, ranges
from runnel.pipeline.source.planner import Planner
from runnel.pipeline.source.reader import shared_out
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.tables.changes import rows_of_all

LIMIT = 120.0
BATCH = Moment(3, 1_800_000_000_000, 0)


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


class Bench:
    """One source."""

    def __init__(
        self, bootstrap: str, directory: Path, topic: str, security: Security = PLAIN, **declared: Any
    ) -> None:
        stream = App("bench").stream(topic, **{"schema": "n int", "read": Reading(), **declared})
        self.spec = Spec(
            query="bench",
            number=0,
            bootstrap=bootstrap,
            topic=topic,
            columns=stream.columns,
            reading=stream.reading,
            directory=str(directory),
            time=stream.time,
            security=security,
        )
        self.cluster = Cluster(bootstrap, security=security, timeout=LIMIT)
        self.clock = Clock()
        self.planner = self.new_planner()

    def new_planner(self) -> Planner:
        return Planner(self.spec, self.cluster, clock=self.clock)

    def read(self, moment: Moment | None = BATCH, start: Offsets | None = None) -> tuple[list[dict[str, Any]], Offsets]:
        """The rows of the next batch, in the order of the partitions, and where it ends."""
        first = start or self.planner.first()
        end = self.planner.next(first)
        tasks = shared_out(ranges(first, end))
        batches = [batch for each in tasks for batch in rows_of_all(self.spec, self.cluster, each, moment)]
        return (pa.Table.from_batches(batches).to_pylist() if batches else []), end

    def aside(self, start: Offsets, end: Offsets, moment: Moment = BATCH) -> list[Aside]:
        found = [read_aside(directory_of(self.spec.path, moment.batch), 0, each) for each in ranges(start, end)]
        return [each for each in found if each is not None]

    def using(self, *columns: str) -> None:
        self.spec = self.spec.using(frozenset(columns))
        self.planner = self.new_planner()

    def with_metadata(self) -> None:
        self.spec = replace(self.spec, metadata=True)

    def skip_gone(self) -> None:
        self.spec = replace(self.spec, skip_gone=True)
        self.planner = self.new_planner()
