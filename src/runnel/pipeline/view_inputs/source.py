"""The changes of a view as a stream of Spark's: a Python data source over the view's store.

One task reads them, so they come in their order. Tasks open the store by its address: SQLite's file must be where they
are; views that several machines read belong into PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from runnel.graph.inputs import CHANGE
from runnel.pipeline.errors import ChangesGone
from runnel.pipeline.python_daemon import hush
from runnel.pipeline.source.hold import hold_of
from runnel.pipeline.source.offsets import Offsets
from runnel.pipeline.source.own_files import OPTION
from runnel.pipeline.view_inputs.planner import BEFORE, ROWS, Planner
from runnel.pipeline.view_inputs.shape import returned
from runnel.pipeline.view_inputs.spec import ViewSpec
from runnel.views.changes import INSERT
from runnel.views.errors import PositionOutOfRange
from runnel.views.layout import parts
from runnel.views.store import ViewReader

FORMAT = "runnel-view"
BLOCK = 10_000  # rows that Spark is handed at a time

_readers: dict[tuple[str, str], ViewReader] = {}


def reader_of(spec: ViewSpec) -> ViewReader:
    """One for each process and view: a worker lives longer than a copy of the source."""
    known = spec.address, spec.view
    if known not in _readers:
        _readers[known] = spec.open()
    return _readers[known]


class Piece(InputPartition):
    """Offsets, as the planner gives them."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(None)
        self.start = start
        self.end = end


class ViewChanges(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, spec: ViewSpec) -> None:
        self._spec = spec
        self._planner: Planner | None = None

    # --- in the process that plans

    @property
    def _plan(self) -> Planner:
        if self._planner is None:
            spec = self._spec
            self._planner = Planner(spec, reader_of(spec), hold=hold_of(spec.held, spec.query, spec.checkpoint))
        return self._planner

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._plan.first().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The planner limits by itself: it ends where a batch of the view ended."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        return self._plan.next(Offsets.from_json(start)).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._plan.stop_at_latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = (Offsets.from_json(each).next[self._spec.place] for each in (start, end))
        return [Piece(first, last)] if last > first else []

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the change log is trimmed by the view."""

    # --- in a worker

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        for start, end in _pieces(partition.start, partition.end):
            yield from rows_between(self._spec, start, end).to_batches(max_chunksize=BLOCK)


class ViewSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    @property
    def spec(self) -> ViewSpec:
        return ViewSpec.from_text(self.options[OPTION])

    def schema(self) -> StructType:
        hush()
        return self.spec.schema

    def streamReader(self, schema: StructType) -> ViewChanges:  # noqa: ARG002, N802
        hush()
        return ViewChanges(self.spec)


def rows_between(spec: ViewSpec, start: int, end: int) -> pa.Table:
    """With `_change`, as the body gets them."""
    if start == BEFORE:
        with pa.memory_map(str(spec.snapshot_file)) as file:
            kept = _grown(pa.ipc.open_file(file).read_all(), spec)
        changes = pa.chunked_array([pa.repeat(INSERT, kept.num_rows)])
    else:
        try:
            kept = reader_of(spec).changes(start - 1, until=end - 1).rows
        except PositionOutOfRange as error:
            raise ChangesGone(spec.query, error) from error
        spec.check(kept)
        changes = kept[CHANGE]
    return returned(kept, spec.rows).append_column(CHANGE, changes)


def _pieces(start: int, end: int) -> Iterator[tuple[int, int]]:
    """A batch of the view may be large, and is not held in memory as a whole. What was found is one, in a file."""
    if start == BEFORE:
        yield start, end
    else:
        yield from ((first, min(first + ROWS, end)) for first in range(start, end, ROWS))


def _grown(kept: pa.Table, spec: ViewSpec) -> pa.Table:
    """With the columns that the view has got since, which are null in its rows of before."""
    known = set(kept.column_names)
    for part in (part for field in spec.rows for part in parts(field)):
        if part.name not in known:
            kept = kept.append_column(part.name, pa.nulls(len(kept), part.type))
    return kept
