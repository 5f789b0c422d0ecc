"""A table as Spark joins it: its latest rows at the start of the micro-batch, the same ones whenever it is repeated.

A frame of a few numbers, one for each task, from which the tasks make the rows. A data source of Spark's would be
planned anew for each batch, in a Python process. What batch it is, a task is told by Spark's own local property: Spark
reads what it broadcasts before our code is called for the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from runnel.pipeline.errors import NotInABatch
from runnel.pipeline.source.moment import batch_of_the_task
from runnel.pipeline.tables.feed import Feed, Now
from runnel.pipeline.tables.latest import Latest
from runnel.pipeline.tables.versions import Span, Versions


class Static(Protocol):
    """What a task makes rows of. It is sent to the workers."""

    @property
    def ddl(self) -> str:
        """The columns of the rows."""

    def rows(self, batch: int, task: int, tasks: int) -> Iterator[pa.RecordBatch]:
        """The share of one of so many tasks."""


def static_frame(spark: SparkSession, source: Static, tasks: int) -> DataFrame:
    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batch = batch_of_the_task()
        if batch is None:
            raise NotInABatch
        for each in numbers:
            for task in each.column(0).to_pylist():
                yield from source.rows(batch, task, tasks)

    return spark.range(0, tasks, 1, tasks).mapInArrow(read, source.ddl)


def version_of(feed: Feed, directory: Path, batch: int) -> Latest:
    """The rows that count in this batch; whoever asks first decides how far that is."""
    versions = Versions(directory / feed.name, feed.schema, grows=feed.grows)
    span = versions.of_batch(batch)
    if span is None:
        span, latest = _made(feed, versions, batch)
        versions.forget_before_batch(batch)
        if latest is not None:
            return latest
    return versions.at(span.end) or _again(feed, span.end)


def _made(feed: Feed, versions: Versions, batch: int) -> tuple[Span, Latest | None]:
    """What the batch counts as of; and the rows, unless somebody else was quicker."""
    before = versions.newest_before(batch)
    now = Now(Latest.empty(feed.schema))
    news = feed.news(before, batch, now)
    is_kept = False
    if before is not None and not news.is_whole:
        known = versions.at(before.end)
        now.latest = known or _again(feed, before.end)
        is_kept = known is not None and before.end == news.end
    for records in news.records:
        now.latest = now.latest.apply(records)
    if not is_kept:
        versions.keep(news.end, now.latest)
    span = versions.claim(batch, Span(news.start, news.end, news.log))
    return span, now.latest if span.end == news.end else None


def _again(feed: Feed, end: int) -> Latest:
    now = Now(Latest.empty(feed.schema))
    for records in feed.again(end, now):
        now.latest = now.latest.apply(records)
    return now.latest
