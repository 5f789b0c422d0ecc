"""The source: a Python data source of Spark's over any Kafka.

Spark keeps one reader in a process of its own beside the driver, which plans; and sends copies to the workers, which
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.python_daemon import hush
from runnel.pipeline.source import garbage
from runnel.pipeline.source.connections import cluster_of
from runnel.pipeline.source.hold import hold_of
from runnel.pipeline.source.moment import Moment, batch_of_the_task
from runnel.pipeline.source.offsets import Offsets, Range, ranges
from runnel.pipeline.source.own_files import OPTION
from runnel.pipeline.source.planner import Planner
from runnel.pipeline.source.rows import beat
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.tables.changes import rows_of_all

FORMAT = "runnel"
FEW = 2_000  # records: a task for each of their partitions would cost more than it saves


class Piece(InputPartition):
    """What a task reads: ranges of records, one after the other, or the idle time that has passed, in milliseconds."""

    def __init__(self, ranges: Sequence[Range], idle: int = 0) -> None:
        super().__init__(None)
        self.ranges = ranges
        self.idle = idle


class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._planner: Planner | None = None

    # --- in the process that plans

    @property
    def _plan(self) -> Planner:
        if self._planner is None:
            spec = self._spec
            self._planner = Planner(spec, cluster_of(spec), hold=hold_of(spec.held, spec.query, spec.checkpoint))
        return self._planner

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._plan.first().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The planner limits by itself, since it must choose between the partitions."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        return self._plan.next(Offsets.from_json(start)).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._plan.latest().to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._plan.stop_at_latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = Offsets.from_json(start), Offsets.from_json(end)
        self._plan.check_gone(first)
        pieces: list[InputPartition] = [Piece(together) for together in shared_out(ranges(first, last))]
        if last.idle > first.idle:
            pieces.append(Piece((), last.idle - first.idle))
        return pieces

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: records stay where they are."""

    # --- in a worker

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        moment = self._moment()
        yield from rows_of_all(self._spec, cluster_of(self._spec), partition.ranges, moment)
        if partition.idle and moment is not None and (row := beat(self._spec, moment, partition.idle)) is not None:
            yield row
        garbage.set_aside()

    def _moment(self) -> Moment | None:
        batch = batch_of_the_task()
        return None if batch is None else Checkpoint(self._spec.checkpoint).logged(batch).moment


def shared_out(found: Sequence[Range]) -> list[Sequence[Range]]:
    """To each task its ranges: one, or all where there are few records."""
    if sum(each.end - each.start for each in found) <= FEW:
        return [found] if found else []
    return [(each,) for each in found]


class Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    @property
    def spec(self) -> Spec:
        return Spec.from_text(self.options[OPTION])

    def schema(self) -> str:
        hush()
        return self.spec.ddl

    def streamReader(self, schema: StructType) -> Reader:  # noqa: ARG002, N802
        hush()
        return Reader(self.spec)
