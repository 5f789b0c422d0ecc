"""What became of each batch of a session's queries, with the time of every step, by the monotonic clock.

Our own steps are those of the stopwatch that each batch has. Spark tells when a batch began and how long its own steps
took, and when its tasks were at work, by the clock on the wall.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from runnel.pipeline.batch import Batch
from runnel.pipeline.query import Query


@dataclass
class Told:
    """Of one batch: `began` and `ended` are those of our part of it; `ends` is the next offset of each partition.
    `start` is when Spark began with it, `spark` the milliseconds of Spark's steps, and `stages` when the tasks of each
    stage began and ended.
    """

    query: str
    number: int
    rows: int
    began: float
    ended: float
    steps: dict[str, float]
    ends: dict[str, int]
    start: float | None = None
    spark: dict[str, float] = field(default_factory=dict)
    stages: list[tuple[float, float]] = field(default_factory=list)


class Batches:
    """Of all queries that run in this process, from its making on."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._told: list[Told] = []
        self._stage = 0  # the first one that nobody asked for yet
        seen = Query.have_seen

        def have_seen(query: Query, batch: Batch) -> None:
            seen(query, batch)
            self._told.append(_told(query, batch))

        Query.have_seen = have_seen  # type: ignore[method-assign]

    def clear(self) -> None:
        self._told.clear()
        for _ in self._stages():
            pass

    def take(self) -> list[Told]:
        """What became since the last time; to be asked while the queries are still there: Spark forgets them."""
        since_the_epoch = time.time() - time.monotonic()
        stages = [(begin - since_the_epoch, end - since_the_epoch) for begin, end in self._stages()]
        told, self._told = self._told, []
        reports = {
            (query.name, each.batchId): each for query in self._spark.streams.active for each in query.recentProgress
        }
        for batch in told:
            batch.stages = [each for each in stages if batch.began <= each[1] and each[0] <= batch.ended]
            if report := reports.get((batch.query, batch.number)):
                batch.start = datetime.fromisoformat(report.timestamp).timestamp() - since_the_epoch
                batch.spark = dict(report.durationMs)
        return told

    def _stages(self) -> Iterator[tuple[float, float]]:
        """When each began and ended, since the last time. One that was passed over, or runs still, has no end."""
        context = self._spark.sparkContext._jsc
        assert context is not None
        store = context.sc().statusStore()
        with suppress(Py4JJavaError):  # there is none of this number yet
            while True:
                stage: Any = store.lastStageAttempt(self._stage)
                self._stage += 1
                begin, end = stage.submissionTime(), stage.completionTime()
                if begin.isDefined() and end.isDefined():
                    yield begin.get().getTime() / 1e3, end.get().getTime() / 1e3


def _told(query: Query, batch: Batch) -> Told:
    watch = batch.watch
    counts = batch.counts
    rows = counts.in_time + counts.late + counts.rejected
    ends = {str(place[1]): at for each in batch.ends.values() for place, at in each.next.items()}
    name = query.place.id_of(query.name)
    return Told(name, batch.number, rows, watch.began, watch.began + watch.total, dict(watch.seconds), ends)
