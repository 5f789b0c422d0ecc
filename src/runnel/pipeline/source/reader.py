"""The source: a Python data source of Spark's over any Kafka.

Spark keeps one reader in a process of its own beside the driver, which plans; and sends copies to the workers, which
read. What a worker needs again (connections) is kept in the module, because a worker lives longer than a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from runnel.client.cluster import Cluster
from runnel.client.security import Security
from runnel.pipeline.source.moment import moment_of_the_task
from runnel.pipeline.source.offsets import Offsets, Range, ranges
from runnel.pipeline.source.planner import Planner
from runnel.pipeline.source.rows import Rows, beat
from runnel.pipeline.source.spec import Spec

FORMAT = "runnel"
OPTION = "spec"

_clusters: dict[tuple[str, Security], Cluster] = {}


def cluster_of(spec: Spec) -> Cluster:
    """One for each process."""
    known = spec.bootstrap, spec.security
    if known not in _clusters:
        _clusters[known] = Cluster(spec.bootstrap, security=spec.security)
    return _clusters[known]


class Piece(InputPartition):
    """What one task reads: a range of records, or the idle time that has passed, in milliseconds."""

    def __init__(self, read: Range | None, idle: int = 0) -> None:
        super().__init__(None)
        self.read = read
        self.idle = idle


class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._planner: Planner | None = None

    # --- in the process that plans

    @property
    def _plan(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._spec, cluster_of(self._spec))
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
        pieces: list[InputPartition] = [Piece(found) for found in ranges(first, last)]
        if last.idle > first.idle:
            pieces.append(Piece(None, last.idle - first.idle))
        return pieces

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: records stay where they are."""

    # --- in a worker

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        moment = moment_of_the_task()
        if partition.read is not None:
            yield from Rows(self._spec, cluster_of(self._spec), partition.read, moment)
        elif moment is not None and (row := beat(self._spec, moment, partition.idle)) is not None:
            yield row


class Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    @property
    def spec(self) -> Spec:
        return Spec.from_text(self.options[OPTION])

    def schema(self) -> str:
        return self.spec.ddl

    def streamReader(self, schema: StructType) -> Reader:  # noqa: ARG002, N802
        return Reader(self.spec)
