"""The changes of a table as rows: what became of each record of a range, told by `_change`.

`insert` and `update_after` have the row as it is, `update_before` and `delete` as it was. A record that changes nothing
gives no row, and counts as read all the same. The rows as of the start of the range come from a file, those as of its
end go to one, for the next batch; a repeat finds the same start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from runnel.client import positions
from runnel.client.cluster import Cluster
from runnel.graph.inputs import CHANGE
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Range
from runnel.pipeline.source.rows import Rows, column_types
from runnel.pipeline.source.small_ranges import SmallRanges
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.tables.feed import Now
from runnel.pipeline.tables.keyed_rows import KeyedRows, metadata_columns, value_columns
from runnel.pipeline.tables.latest import GONE, KEY, RECORD, Latest
from runnel.pipeline.tables.topic_table import about, directory_of, tables
from runnel.pipeline.tables.versions import Versions


def rows_of(spec: Spec, cluster: Cluster, read: Range, moment: Moment | None) -> Iterable[pa.RecordBatch]:
    """The rows of a range, of whatever kind the input is."""
    if spec.is_static:
        return _records(spec, cluster, read, moment)
    return Changes(spec, cluster, read, moment) if spec.changes else Rows(spec, cluster, read, moment)


def rows_of_all(
    spec: Spec, cluster: Cluster, ranges: Sequence[Range], moment: Moment | None
) -> Iterator[pa.RecordBatch]:
    """The rows of all ranges that a task reads: of one, or of several small ones."""
    if spec.key is None and len(ranges) > 1:
        yield from SmallRanges(spec, cluster, ranges, moment)
        return
    for each in ranges:
        yield from rows_of(spec, cluster, each, moment)


def _records(spec: Spec, cluster: Cluster, read: Range, moment: Moment | None) -> Iterator[pa.RecordBatch]:
    """What a table is told, from the rows on that it had at the start."""
    schema = pa.schema([*value_columns(spec), *metadata_columns(spec)])
    versions = Versions(directory_of(spec) / read.name, schema)
    now = Now(versions.at(read.start) or Latest.empty(schema))
    for records in KeyedRows(spec, cluster, read, moment, now):
        yield records
        now.latest = now.latest.apply(pa.Table.from_batches([records]))


class Changes:
    """Those of one range, in one batch."""

    def __init__(self, spec: Spec, cluster: Cluster, read: Range, moment: Moment | None) -> None:
        self._spec = spec
        self._cluster = cluster
        self._range = read
        self._moment = moment
        self._values = value_columns(spec)
        self._about = metadata_columns(spec).names

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        versions = Versions(directory_of(self._spec) / self._range.name, self._values)
        now = Now(versions.at(self._range.start) or self._read_again())
        for records in tables(KeyedRows(self._spec, self._cluster, self._range, self._moment, now)):
            now.latest, changes = now.latest.change(records.select([KEY, GONE, *self._values.names]))
            if changes.num_rows:
                yield self._arranged(changes, records)
        if self._moment is not None:
            versions.keep(self._range.end, now.latest)
            versions.forget_before(versions.last_before(self._range.start))  # the batch before may be repeated, too

    def _read_again(self) -> Latest:
        """The rows as of the start: none at the beginning of the topic. Where the file was lost, as far as the topic
        still has them.
        """
        read, now = self._range, Now(Latest.empty(self._values))
        place = read.topic, read.partition
        first = positions.earliest(self._cluster, [place])[place]
        if first < read.start:
            before = replace(read, start=first, end=read.start)
            for records in tables(KeyedRows(self._spec, self._cluster, before, None, now)):
                now.latest = now.latest.apply(records.select([KEY, GONE, *self._values.names]))
        return now.latest

    def _arranged(self, changes: pa.Table, records: pa.Table) -> pa.RecordBatch:
        """In the order of the schema; metadata is that of the record that changed the row."""
        origin = records.select([KEY, *self._about]).take(changes[RECORD].combine_chunks())
        names = list(self._spec.all_columns)
        return pa.RecordBatch.from_arrays([self._column(name, changes, origin) for name in names], names=names)

    def _column(self, name: str, changes: pa.Table, origin: pa.Table) -> pa.Array:
        if name != CHANGE and not self._spec.is_wanted(name):
            return pa.nulls(changes.num_rows, column_types(self._spec)[name])
        if name in changes.column_names:
            return changes[name].combine_chunks()
        if name in self._about:
            return origin[name].combine_chunks()
        return about(name, origin[KEY].combine_chunks(), self._range.topic, self._range.partition)
