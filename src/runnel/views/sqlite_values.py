"""Arrow's values as SQLite keeps them, and back.

| type | in SQLite |
|---|---|
| whole numbers, booleans (0 and 1), durations (microseconds) | INTEGER |
| float, double | REAL; NaN as the text `NaN`, because SQLite would make it null; -0.0 becomes 0.0 |
| string | TEXT |
| decimal, unsigned 64-bit numbers | TEXT, exact to the last digit: order by `amount + 0` |
| timestamp | TEXT, `2026-11-15T20:40:33.000000Z`, always as long, so it sorts; without `Z` if it has no zone |
| date | TEXT, `2026-11-15` |
| binary | BLOB |
| struct, list, map | TEXT, the JSON of `runnel.views.nested` |
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from runnel.views import nested
from runnel.views.layout import LOCAL_TIMESTAMP, is_nested

NAN = "NaN"


def type_of(kind: pa.DataType) -> str:
    if types.is_uint64(kind):
        return "TEXT"
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_duration(kind):
        return "INTEGER"
    if types.is_floating(kind):
        return "REAL"
    return "BLOB" if types.is_binary(kind) else "TEXT"


def to_sqlite(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if types.is_boolean(kind):
        return _listed(column.cast(pa.int8()))
    if types.is_duration(kind):
        return _listed(column.cast(pa.int64()))
    if types.is_floating(kind):
        return _floats(column)
    if types.is_timestamp(kind):
        return _times(column)
    if types.is_date(kind) or types.is_uint64(kind):
        return _listed(column.cast(pa.string()))
    if types.is_decimal(kind):
        return _decimals(column)
    if is_nested(kind):
        text = nested.to_text(kind)
        return [None if value is None else text(value) for value in column.to_pylist()]
    return _listed(column)


def from_sqlite(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if types.is_duration(kind):
        return pa.array(values, pa.int64()).cast(kind)
    change = _reader(kind)
    if change is not None:
        values = [None if value is None else change(value) for value in values]
    return pa.array(values, kind)


def is_number_in_text(kind: pa.DataType) -> bool:
    """Whether the text of its values would not sort as they do."""
    return bool(types.is_decimal(kind) or types.is_uint64(kind))


def by_number(one: str, other: str) -> int:
    """How two such texts compare."""
    left, right = decimal.Decimal(one), decimal.Decimal(other)
    return (left > right) - (left < right)


def _reader(kind: pa.DataType) -> Callable[[Any], Any] | None:
    if types.is_boolean(kind):
        return bool
    if types.is_floating(kind):
        return float  # which reads the text NaN, too
    if types.is_uint64(kind):
        return int
    if types.is_decimal(kind):
        return decimal.Decimal
    if types.is_timestamp(kind):
        return datetime.datetime.fromisoformat
    if types.is_date(kind):
        return datetime.date.fromisoformat
    return nested.from_text(kind) if is_nested(kind) else None


def _floats(column: pa.ChunkedArray) -> list[Any]:
    values = _listed(column)
    if not pc.any(pc.is_nan(column)).as_py():
        return values
    return [NAN if value is not None and math.isnan(value) else value for value in values]


def _times(column: pa.ChunkedArray) -> list[Any]:
    # Arrow looks the zone up for every value, so it is given times without one: they are in UTC.
    text = column.cast(pa.int64()).cast(LOCAL_TIMESTAMP).cast(pa.string())
    zone = "Z" if column.type.tz else ""
    date, time = pc.utf8_slice_codeunits(text, 0, 10), pc.utf8_slice_codeunits(text, 11)
    return _listed(pc.binary_join_element_wise(date, "T", time, zone, ""))


def _decimals(column: pa.ChunkedArray) -> list[Any]:
    text = column.cast(pa.string())
    if not pc.any(pc.match_substring(text, "E")).as_py():
        return _listed(text)
    return [None if value is None else format(value, "f") for value in column.to_pylist()]


def _listed(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values
