"""The latest rows of a view, as Spark joins them: those at the start of the micro-batch, the same in a repeat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from runnel.graph.inputs import CHANGE
from runnel.pipeline.errors import OtherCheckpoint
from runnel.pipeline.tables.feed import News, Now
from runnel.pipeline.tables.latest import GONE, KEY
from runnel.pipeline.tables.static import version_of
from runnel.pipeline.tables.versions import Span
from runnel.pipeline.view_inputs.shape import returned
from runnel.pipeline.view_inputs.source import BLOCK, reader_of
from runnel.pipeline.view_inputs.spec import ViewSpec
from runnel.views.changes import DELETE, UPDATE_BEFORE
from runnel.views.errors import PositionOutOfRange
from runnel.views.store import ViewReader

SEPARATOR = pa.scalar(b":", pa.binary())


class ViewRows:
    """For `static_frame`; one task reads them all."""

    def __init__(self, spec: ViewSpec) -> None:
        self._spec = spec
        self.ddl = spec.ddl_for_the_body

    def rows(self, batch: int, task: int, tasks: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002  # there is one
        feed = ViewFeed(self._spec, reader_of(self._spec))
        latest = version_of(feed, self._spec.path / "tables" / str(self._spec.number), batch)
        yield from latest.rows().select(feed.schema.names).to_batches(max_chunksize=BLOCK)


class ViewFeed:
    """The store's change log, or all rows where that does not reach back far enough."""

    def __init__(self, spec: ViewSpec, reader: ViewReader) -> None:
        self._spec = spec
        self._reader = reader

    @property
    def name(self) -> str:
        return self._spec.view

    @property
    def schema(self) -> pa.Schema:
        return self._spec.rows

    @property
    def grows(self) -> bool:
        return True

    def news(self, since: Span | None, batch: int, now: Now) -> News:  # noqa: ARG002  # a view tells all of its rows
        if since is None:
            return self._all()
        try:
            end = self._reader.ahead(since.end).latest
            found = self._reader.changes(since.end, until=end)
        except PositionOutOfRange:
            return self._all()
        if since.log not in ("", found.log):  # the view was made anew, and its positions are other ones
            return self._all()
        changes = found.rows.filter(pc.not_equal(found.rows[CHANGE], UPDATE_BEFORE))
        records = self._records(changes, found.key, pc.equal(changes[CHANGE], DELETE))
        return News(since.end, end, [records], log=found.log)

    def again(self, end: int, now: Now) -> Iterable[pa.Table]:  # noqa: ARG002
        what = f"the rows of the view {self._spec.view} as of position {end}, which its last batch has read, are lost"
        raise OtherCheckpoint(self._spec.query, what)

    def _all(self) -> News:
        found = self._reader.snapshot()
        there = pa.chunked_array([pa.repeat(False, found.rows.num_rows)])
        records = self._records(found.rows, found.key, there)
        return News(0, found.next_position, [records], is_whole=True, log=found.log)

    def _records(self, kept: pa.Table, key: Sequence[str], gone: pa.ChunkedArray) -> pa.Table:
        """`key` is that of the moment in which the rows were read: the view may have been rebuilt since."""
        self._spec.check(kept)
        rows = returned(kept, self.schema)
        keys = key_bytes([kept[name] for name in key])
        return pa.table([keys, gone, *rows.columns], names=[KEY, GONE, *rows.column_names])


def key_bytes(columns: list[pa.ChunkedArray]) -> pa.Array:
    """Of each row the values of its key, such that other values are other bytes: each with its length before it."""
    parts: list[pa.Array] = []
    for column in columns:
        content = _bytes(column)
        parts += [pc.binary_length(content).cast(pa.string()).cast(pa.binary()), content]
    return pc.binary_join_element_wise(*parts, SEPARATOR)


def _bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if types.is_binary(kind):
        return column
    if types.is_timestamp(kind) or types.is_duration(kind):
        column = column.cast(pa.int64())
    return column.cast(pa.string()).cast(pa.binary())
