"""A source without Spark: what its planner plans and its tasks read, on our broker and on Apache Kafka."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runnel import App, Reading
from runnel.client import Admin
from runnel.client.cluster import Cluster
from runnel.pipeline.source.aside import Aside, directory_of, read_aside
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Offsets, ranges
from runnel.pipeline.source.planner import Planner
from runnel.pipeline.source.rows import Rows
from runnel.pipeline.source.spec import Spec

BATCH = Moment(3, 1_800_000_000_000, 0)


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


class Bench:
    """One source."""

    def __init__(self, bootstrap: str, directory: Path, topic: str, **declared: Any) -> None:
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
        )
        self.cluster = Cluster(bootstrap)
        self.clock = Clock()
        self.planner = self.new_planner()

    def new_planner(self) -> Planner:
        return Planner(self.spec, self.cluster, clock=self.clock)

    def read(self, moment: Moment | None = BATCH, start: Offsets | None = None) -> tuple[list[dict[str, Any]], Offsets]:
        """The rows of the next batch, in the order of the partitions, and where it ends."""
        first = start or self.planner.first()
        end = self.planner.next(first)
        batches = [batch for each in ranges(first, end) for batch in Rows(self.spec, self.cluster, each, moment)]
        return (pa.Table.from_batches(batches).to_pylist() if batches else []), end

    def aside(self, start: Offsets, end: Offsets, moment: Moment = BATCH) -> list[Aside]:
        found = [read_aside(directory_of(self.spec.path, moment.batch), 0, each) for each in ranges(start, end)]
        return [each for each in found if each is not None]

    def using(self, *columns: str) -> None:
        self.spec = self.spec.using(frozenset(columns))
        self.planner = self.new_planner()

    def with_metadata(self) -> None:
        self.spec = replace(self.spec, metadata=True)


@pytest.fixture
def make_topic(admin: Admin, name: str) -> Callable[[int], str]:
    """Makes topics with so many partitions, which keep records however old they are."""
    numbers = itertools.count()

    def make(partitions: int) -> str:
        made = f"{name}-source-{next(numbers)}"
        admin.create(made, partitions=partitions, configs={"retention.ms": "-1"})
        return made

    return make


@pytest.fixture
def bench(bootstrap: str, tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(topic: str, **declared: Any) -> Bench:
        made.append(Bench(bootstrap, tmp_path / f"source-{len(made)}", topic, **declared))
        return made[-1]

    yield make
    for each in made:
        each.cluster.close()
