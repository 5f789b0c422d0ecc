"""The rows of a part of a batch, for a trial: read and judged as the batch reads them, with nothing written down.

The part is told to a task by a local property, so that one plan of Spark's serves all trials.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from runnel.pipeline.batch import Batch
from runnel.pipeline.failing.halving import Part, Span
from runnel.pipeline.source.connections import cluster_of
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Range, ranges
from runnel.pipeline.source.rows import Rows
from runnel.pipeline.source.spec import BEAT, Spec
from runnel.pipeline.tables.changes import rows_of
from runnel.pipeline.tables.partitions import Partitions
from runnel.pipeline.tables.static import static_frame
from runnel.pipeline.tables.topic_table import TopicTable, directory_of
from runnel.pipeline.view_inputs.rows import ViewRows
from runnel.pipeline.view_inputs.source import BLOCK, rows_between
from runnel.pipeline.view_inputs.spec import ViewSpec

PART = "runnel.part"
READING = "runnel_trial"  # the name of the function in Spark's plans
OFFSET = "_offset"
ROW = "_runnel_row"
FEW = 4  # spans that are fetched one by one; of more, all that lies between is read


@dataclass(frozen=True)
class Read:
    """A range that the batch reads, of the input of this number."""

    input: int
    range: Range


def reads_of(batch: Batch, inputs: Sequence[Spec | ViewSpec]) -> list[Read]:
    """Those whose rows can be told apart: a view's changes are no records."""
    return [
        Read(number, each)
        for number, end in sorted(batch.ends.items())
        if isinstance(inputs[number], Spec)
        for each in ranges(batch.starts[number], end)
    ]


def frame_for_trials(spark: SparkSession, spec: Spec | ViewSpec, batch: Batch, reads: Sequence[Read]) -> DataFrame:
    """What the body is given: of one partition, so that Spark can do all of it in one task."""
    if isinstance(spec, ViewSpec):
        return _of_a_view(spark, spec, batch)
    if spec.is_static:
        tasks = Partitions(directory_of(spec)).read().in_batch(batch.number)
        return static_frame(spark, TopicTable(spec), tasks)
    own = {number: read.range for number, read in enumerate(reads) if read.input == spec.number}
    return _made(spark, _reading(spec, own, batch.moment), spec.ddl_for_the_body)


def offsets_of(spec: Spec, read: Range, moment: Moment) -> list[int]:
    """Of the rows that the body is given, in their order."""
    rows = TrialRows(_with_offsets(spec), cluster_of(spec), read, moment)
    return [offset for each in rows for offset in each.column(OFFSET).to_pylist()]


def told(part: Part) -> str:
    return json.dumps(part)


def _of_a_view(spark: SparkSession, spec: ViewSpec, batch: Batch) -> DataFrame:
    if not spec.changes:
        return static_frame(spark, ViewRows(spec), tasks=1)
    first, last = (
        each[spec.number].next[spec.place] if spec.number in each else None for each in (batch.starts, batch.ends)
    )

    def read() -> Iterator[pa.RecordBatch]:
        if first is not None and last is not None and last > first:
            yield from rows_between(spec, first, last).to_batches(max_chunksize=BLOCK)

    return _made(spark, read, spec.ddl_for_the_body)


def _made(spark: SparkSession, rows: Callable[[], Iterator[pa.RecordBatch]], ddl: str) -> DataFrame:
    """All rows are there before the first one goes on: whoever fails in the middle of what another Python process gives
    ends that process, and to start one takes longer than all else. So they are sorted, by their own order. The filter
    lets all pass, and keeps Spark from finding that out.
    """

    def runnel_trial(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = 0
        for each in (each for _ in numbers for each in rows()):
            yield each.append_column(ROW, pa.array(range(count, count + each.num_rows), pa.int64()))
            count += each.num_rows

    frame = spark.range(0, 1, 1, 1).mapInArrow(runnel_trial, f"{ddl}, {ROW} bigint").sortWithinPartitions(ROW)
    return frame.where(F.when(F.spark_partition_id() >= 0, F.col(ROW) >= 0)).drop(ROW)


def _reading(spec: Spec, own: dict[int, Range], moment: Moment) -> Callable[[], Iterator[pa.RecordBatch]]:
    def read() -> Iterator[pa.RecordBatch]:
        part = _part_of_the_task()
        for number, whole in own.items():
            spans = [span for span in part if span.range == number]
            if spans:
                yield from _rows(spec, whole, spans, moment)

    return read


def _part_of_the_task() -> list[Span]:
    context = TaskContext.get()
    part = context.getLocalProperty(PART) if context else None
    return [Span(*each) for each in json.loads(part or "[]")]


def _rows(spec: Spec, whole: Range, spans: list[Span], moment: Moment) -> Iterator[pa.RecordBatch]:
    """Those of the spans, which are in order."""
    names = [name for name in spec.all_columns if name != BEAT]
    if not spec.changes and (len(spans) <= FEW or spec.has_own(OFFSET)):
        for span in spans:
            for rows in TrialRows(spec, cluster_of(spec), replace(whole, start=span.start, end=span.end), moment):
                yield rows.select(names)
        return
    for rows in _all_with_offsets(spec, whole, spans, moment):
        yield rows.filter(inside(rows.column(OFFSET), spans)).select(names)


def _all_with_offsets(spec: Spec, whole: Range, spans: list[Span], moment: Moment) -> Iterable[pa.RecordBatch]:
    if spec.changes:  # what a record changes depends on those before it
        return rows_of(_with_offsets(spec), cluster_of(spec), whole, None)
    around = replace(whole, start=spans[0].start, end=spans[-1].end)
    return TrialRows(_with_offsets(spec), cluster_of(spec), around, moment)


def _with_offsets(spec: Spec) -> Spec:
    return replace(spec, metadata=True, wanted=None if spec.wanted is None else spec.wanted | {OFFSET})


def inside(offsets: pa.Array, spans: list[Span]) -> pa.Array:
    """Whether each of them is in one of the spans."""
    known = np.asarray(offsets)
    place = np.searchsorted([span.start for span in spans], known, side="right") - 1
    ends = np.asarray([span.end for span in spans])
    return pa.array((place >= 0) & (known < ends[place]))


class TrialRows(Rows):
    """Nothing of it is put aside."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for fetched in self._fetched():
            yield from self._rows(fetched)
