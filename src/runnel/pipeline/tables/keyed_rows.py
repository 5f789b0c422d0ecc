"""The records of a table's topic, in a range: what they say of which key.

A record without a value deletes the row of its key. A record is rejected when its value does not fit the schema, when
it has no key, or when a column of the declared key is null. All columns are read, whatever the body uses: a row that is
kept today may be asked for more tomorrow.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runnel.client.columns import HEADERS
from runnel.pipeline.source import aside
from runnel.pipeline.source.rows import METADATA_ARROW, Rows
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.source.values import Parsed, arrow_schema
from runnel.pipeline.tables.latest import GONE, KEY, records_schema

STORED_METADATA = {"_offset": pa.int64(), "_timestamp": METADATA_ARROW["_timestamp"], "_headers": HEADERS}

Mask: TypeAlias = npt.NDArray[np.bool_]


def value_columns(spec: Spec) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in arrow_schema(spec.columns.fields)])


def metadata_columns(spec: Spec) -> pa.Schema:
    """Those that differ from record to record; the key is known anyway."""
    return pa.schema([(name, STORED_METADATA[name]) for name in spec.metadata_wanted if name in STORED_METADATA])


class KeyedRows(Rows):
    """Instead of rows: KEY, GONE, the value's columns, and those of the metadata."""

    def _columns_to_decode(self) -> list[str]:
        return [*dict.fromkeys(("value", "key", *super()._columns_to_decode()))]

    def _parsed(self, block: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, tuple[str, str]]]:
        parsed = self._parser.parse(block.column("value"))
        refused = {rejected.index: (aside.REJECTED, rejected.reason) for rejected in parsed.rejected}
        missing = self._missing_keys(parsed)
        refused |= {int(row): (aside.REJECTED, "no key") for row in np.flatnonzero(np.asarray(block["key"].is_null()))}
        refused |= {row: why for row, why in missing.items() if row not in refused}
        records = self._records(block, parsed)
        if not refused:
            return records, {}
        going_on: Mask = np.ones(block.num_rows, np.bool_)
        going_on[list(refused)] = False
        return records.filter(pa.array(going_on)), refused

    def _missing_keys(self, parsed: Parsed) -> dict[int, tuple[str, str]]:
        found: dict[int, tuple[str, str]] = {}
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
        about = self._metadata_columns(block, None)
        schema = records_schema(pa.schema([*value_columns(self._spec), *metadata_columns(self._spec)]))
        given = dict(zip(rows.schema.names, rows.columns, strict=True)) | about
        given |= {KEY: block.column("key"), GONE: pa.array(gone)}
        return pa.RecordBatch.from_arrays([given[name] for name in schema.names], schema=schema)
