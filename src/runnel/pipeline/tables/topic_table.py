"""A table over a Kafka topic, as the tasks of a batch read it: partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from runnel.client import positions
from runnel.client.cluster import Cluster
from runnel.client.errors import OffsetsGone
from runnel.files import DISK
from runnel.pipeline.source import aside
from runnel.pipeline.source.connections import cluster_of
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Range
from runnel.pipeline.source.rows import column_types
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.tables.feed import News, Now
from runnel.pipeline.tables.keyed_rows import KeyedRows, metadata_columns, value_columns
from runnel.pipeline.tables.latest import KEY
from runnel.pipeline.tables.partitions import Partitions
from runnel.pipeline.tables.static import version_of
from runnel.pipeline.tables.versions import BLOCK, Span, Versions


def directory_of(spec: Spec) -> Path:
    """What the query keeps of this input."""
    return spec.path / "tables" / str(spec.number)


@dataclass(frozen=True)
class TopicTable:
    """For `static_frame`. Task i of n serves the partitions i, i + n, ...: so a new one finds its task."""

    spec: Spec

    @property
    def ddl(self) -> str:
        return self.spec.ddl

    def rows(self, batch: int, task: int, tasks: int) -> Iterator[pa.RecordBatch]:
        directory = directory_of(self.spec)
        known = Partitions(directory).read()
        partitions = known.in_batch(batch)
        for partition in range(task, partitions, tasks):
            feed = TopicFeed(self.spec, cluster_of(self.spec), partition, known.topic_id, partitions)
            latest = version_of(feed, directory, batch)
            for rows in latest.rows().to_batches(max_chunksize=BLOCK):
                yield self._arranged(rows, partition)

    def _arranged(self, rows: pa.RecordBatch, partition: int) -> pa.RecordBatch:
        names = list(self.spec.all_columns)
        return pa.RecordBatch.from_arrays([self._column(name, rows, partition) for name in names], names=names)

    def _column(self, name: str, rows: pa.RecordBatch, partition: int) -> pa.Array:
        """What the body does not use is null."""
        count = rows.num_rows
        if not self.spec.is_wanted(name):
            return pa.nulls(count, column_types(self.spec)[name])
        if name in rows.schema.names:
            return rows.column(name)
        return about(name, rows.column(KEY), self.spec.topic, partition)


@dataclass(frozen=True)
class TopicFeed:
    """One partition, of so many."""

    spec: Spec
    cluster: Cluster
    partition: int
    topic_id: str
    partitions: int

    @property
    def name(self) -> str:
        return self._range(0, 0).name

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*value_columns(self.spec), *metadata_columns(self.spec)])

    @property
    def grows(self) -> bool:
        return False

    def news(self, since: Span | None, batch: int, now: Now) -> News:
        place = self.spec.topic, self.partition
        start = positions.earliest(self.cluster, [place])[place] if since is None else since.end
        end = positions.latest(self.cluster, [place])[place]
        if end < start:
            raise OffsetsGone(*place, start, positions.earliest(self.cluster, [place])[place], end)
        return News(start, end, self._read(self._range(start, end), batch, now) if end > start else ())

    def again(self, end: int, now: Now) -> Iterable[pa.Table]:
        place = self.spec.topic, self.partition
        start = positions.earliest(self.cluster, [place])[place]
        return tables(KeyedRows(self.spec, self.cluster, self._range(start, end), None, now)) if end > start else ()

    def _read(self, read: Range, batch: int, now: Now) -> Iterator[pa.Table]:
        """What is rejected must be as safe as the version that leaves it out: it is not read again."""
        yield from tables(KeyedRows(self.spec, self.cluster, read, Moment(batch, 0, 0), now))
        directory = aside.directory_of(self.spec.path, batch)
        DISK.open(str(aside.path_of(directory, self.spec.number, read))).sync()
        for each in (directory, directory.parent):
            DISK.sync_directory(str(each))

    def _range(self, start: int, end: int) -> Range:
        return Range(self.spec.topic, self.partition, start, end, self.topic_id, self.partitions)


def ranges_read(spec: Spec, batch: int) -> list[Range]:
    """What a batch has read of the table; a body need not read it in every batch."""
    directory = directory_of(spec)
    known = Partitions(directory).read()
    found: list[Range] = []
    partitions = known.in_batch(batch)
    for partition in range(partitions):
        read = Range(spec.topic, partition, 0, 0, known.topic_id, partitions)
        span = Versions(directory / read.name, pa.schema([])).of_batch(batch)
        if span is not None and span.end > span.start:
            found.append(replace(read, start=span.start, end=span.end))
    return found


def tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    return (pa.Table.from_batches([batch]) for batch in batches)


def about(name: str, keys: pa.Array, topic: str, partition: int) -> pa.Array:
    """The metadata that is not kept with each row."""
    match name:
        case "_topic":
            return pa.repeat(topic, len(keys))
        case "_partition":
            return pa.repeat(pa.scalar(partition, pa.int32()), len(keys))
        case _:
            return keys
