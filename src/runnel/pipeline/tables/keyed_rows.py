"""The records of a table's topic, in a range: what they say of which key.

A record without a value deletes the row of its key. A record is rejected when its value does not fit the schema, when
it has no key, or when a column of the declared key is null. All columns are read, whatever the body uses: a row that is
kept today may be asked for more tomorrow.

A captured topic's record may not tell all values of its row: those stay as they were. Where there was no row, it is
rejected. One that empties the table is told as a delete of every row that there is by then. It is in one partition, and
nothing tells where it belongs among the records of others: in a topic that has several, it is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runnel.client.cluster import Cluster
from runnel.client.columns import HEADERS
from runnel.pipeline.source import aside
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Range
from runnel.pipeline.source.rows import METADATA_ARROW, Reasons, Rows
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.source.values import Parsed, arrow_schema
from runnel.pipeline.tables.feed import Now
from runnel.pipeline.tables.latest import GONE, KEY, records_schema
from runnel.pipeline.tables.versions import BLOCK

STORED_METADATA = {"_offset": pa.int64(), "_timestamp": METADATA_ARROW["_timestamp"], "_headers": HEADERS}
NO_KEY = aside.REJECTED, "no key"

Mask: TypeAlias = npt.NDArray[np.bool_]
Holes: TypeAlias = Mapping[int, frozenset[str]]  # by the place of the record, the columns that it does not tell


def value_columns(spec: Spec) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in arrow_schema(spec.columns.fields)])


def metadata_columns(spec: Spec) -> pa.Schema:
    """Those that differ from record to record; the key is known anyway."""
    return pa.schema([(name, STORED_METADATA[name]) for name in spec.metadata_wanted if name in STORED_METADATA])


def not_followed(partitions: int) -> str:
    told = f"the table was emptied, and its topic has {partitions} partitions: "
    return told + "what came before in the others, no record says; use a topic with one partition, or delete the rows"


class KeyedRows(Rows):
    """Instead of rows: KEY, GONE, the value's columns, and those of the metadata. `now` has the rows behind all that
    was given out before.
    """

    def __init__(self, spec: Spec, cluster: Cluster, read: Range, moment: Moment | None, now: Now) -> None:
        super().__init__(spec, cluster, read, moment)
        self._now = now

    def _columns_to_decode(self) -> list[str]:
        return [*dict.fromkeys(("value", "key", *super()._columns_to_decode()))]

    def _pieces(self, block: pa.RecordBatch, parsed: Parsed) -> Iterator[tuple[pa.RecordBatch, Reasons]]:
        """Where the table is emptied, a block is cut: what is said before it is in `now` when the rows are asked for,
        and what comes behind it finds none.
        """
        if not len(parsed.emptying) or self._range.partitions > 1:
            yield from super()._pieces(block, parsed)
            return
        start = 0
        for place in parsed.emptying.tolist():
            yield from self._part(block, start, place)
            self._in_time += 1
            for deletes in self._deletes(block.slice(place, 1)):
                yield deletes, {}
            start = place + 1
        yield from self._part(block, start, block.num_rows)

    def _part(self, block: pa.RecordBatch, start: int, end: int) -> Iterator[tuple[pa.RecordBatch, Reasons]]:
        if start == end:
            return
        part = block.slice(start, end - start)
        for rows, refused in super()._pieces(part, self._parser.parse(part.column("value"))):
            yield rows, {start + place: why for place, why in refused.items()}

    def _deletes(self, record: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Of all rows that there are, by one record; not all at once, for there may be many."""
        schema, about = self._schema, self._metadata_columns(record, None)
        keys = self._now.latest.keys()
        for start in range(0, len(keys), BLOCK):
            part = keys.slice(start, BLOCK).combine_chunks()
            count = len(part)
            given = {name: pa.repeat(column[0], count) for name, column in about.items()}
            given |= {KEY: part, GONE: pa.repeat(True, count)}
            columns = [given.get(field.name, pa.nulls(count, field.type)) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _judged(self, block: pa.RecordBatch, parsed: Parsed) -> tuple[pa.RecordBatch, Reasons]:
        refused = {rejected.index: (aside.REJECTED, rejected.reason) for rejected in parsed.rejected}
        refused |= {int(row): (aside.REJECTED, not_followed(self._range.partitions)) for row in parsed.emptying}
        passed = {int(row) for row in parsed.passed}
        self._in_time += len(passed)
        missing = self._missing_keys(parsed) | {
            int(row): NO_KEY for row in np.flatnonzero(np.asarray(block["key"].is_null()))
        }
        refused |= {row: why for row, why in missing.items() if row not in refused and row not in passed}
        records = self._records(block, parsed)
        about = dict(zip(records.schema.names, records.columns, strict=True))
        timeless = self._without_time(block, about, None)
        refused |= {row: why for row, why in timeless.items() if row not in refused and row not in passed}
        if parsed.holes:
            records, unknown = self._filled(records, parsed.holes, refused.keys() | passed)
            refused |= unknown
        if not refused and not passed:
            return records, {}
        going_on: Mask = np.ones(block.num_rows, np.bool_)
        going_on[[*refused, *passed]] = False
        return records.filter(pa.array(going_on)), refused

    @property
    def _schema(self) -> pa.Schema:
        return records_schema(pa.schema([*value_columns(self._spec), *metadata_columns(self._spec)]))

    def _missing_keys(self, parsed: Parsed) -> Reasons:
        found: Reasons = {}
        for name in self._spec.key or ():
            column = parsed.rows.column(name)
            if column.null_count:
                rows = parsed.indices()[np.asarray(column.is_null())]
                found |= {int(row): (aside.REJECTED, f"field {name}: the key is missing") for row in rows}
        return found

    def _records(self, block: pa.RecordBatch, parsed: Parsed) -> pa.RecordBatch:
        """As many as there are in the block, with nulls where there is no row."""
        rows, count = parsed.rows, block.num_rows
        if parsed.kept is not None:
            places = np.full(count, -1, np.int64)
            places[parsed.kept] = np.arange(rows.num_rows)
            rows = rows.take(pa.array(places, pa.int64(), mask=places < 0))
        gone: Mask = np.zeros(count, np.bool_)
        gone[parsed.tombstones] = True
        about, schema = self._metadata_columns(block, None), self._schema
        given = dict(zip(rows.schema.names, rows.columns, strict=True)) | about
        given |= {KEY: block.column("key"), GONE: pa.array(gone)}
        return pa.RecordBatch.from_arrays([given[name] for name in schema.names], schema=schema)

    def _filled(self, records: pa.RecordBatch, holes: Holes, without: set[int]) -> tuple[pa.RecordBatch, Reasons]:
        """The records with what they do not tell as it was before; and why some cannot be."""
        before = self._rows_before(records, holes)
        count, keys = records.num_rows, records.column(KEY).to_pylist()
        gone = records.column(GONE).to_pylist()
        sources = {name: np.arange(count) for name in frozenset().union(*holes.values())}
        last: dict[bytes, int | None] = {}  # where the row of a key is, in this block; None: deleted
        unknown: Reasons = {}
        for place, key in enumerate(keys):
            if place in without:
                continue
            if place in holes:
                known = last[key] if key in last else before.place(key, count)
                if known is None:
                    names = ", ".join(sorted(holes[place]))
                    unknown[place] = aside.REJECTED, f"field {names}: not told by the database, and no row was known"
                    continue
                for name in holes[place]:
                    sources[name][place] = sources[name][known] if known < count else known
            last[key] = None if gone[place] else place
        return before.filled(records, sources), unknown

    def _rows_before(self, records: pa.RecordBatch, holes: Holes) -> _Before:
        keys = records.column(KEY).take(pa.array(sorted(holes), pa.int64())).drop_null().unique()
        rows, there = self._now.latest.find(keys)
        return _Before(dict(zip(keys.to_pylist(), there.tolist(), strict=True)), rows)


class _Before:
    """Rows that were known before a block, of some keys: in the order of `there`, which says whether there is one."""

    def __init__(self, there: Mapping[bytes, bool], rows: pa.Table) -> None:
        self._places = {key: number for number, (key, is_there) in enumerate(there.items()) if is_there}
        self._rows = rows

    def place(self, key: bytes, count: int) -> int | None:
        """Where it stands behind the `count` records of the block."""
        return count + self._places[key] if key in self._places else None

    def filled(self, records: pa.RecordBatch, sources: Mapping[str, npt.NDArray[np.int64]]) -> pa.RecordBatch:
        columns = dict(zip(records.schema.names, records.columns, strict=True))
        for name, source in sources.items():
            pool = pa.chunked_array([columns[name], *self._rows[name].chunks])
            columns[name] = pool.take(pa.array(source)).combine_chunks()
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=records.schema)
