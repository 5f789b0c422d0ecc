"""Arrow's values as PostgreSQL keeps them: as the text of COPY on their way in, column by column, and back.

| type | in PostgreSQL |
|---|---|
| 8 and 16-bit numbers, 32-bit, 64-bit | smallint, integer, bigint; unsigned ones the next larger, 64 bits numeric(20) |
| float, double | real, double precision |
| boolean, string, binary | boolean, text, bytea |
| decimal(p, s) | numeric(p, s) |
| timestamp | timestamptz; timestamp if it has no zone |
| date, duration | date, interval |
| struct, list, map | jsonb, the JSON of `runnel.views.nested` |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from runnel.views import nested
from runnel.views.batch import Batch, first_true
from runnel.views.errors import InvalidValue
from runnel.views.layout import LOCAL_TIMESTAMP, is_nested

ROWS_AT_ONCE = 50_000
TEXT = pa.large_string()  # wide enough for any batch
TAB, NEWLINE, EMPTY, NULL = (pa.scalar(text, TEXT) for text in ("\t", "\n", "", "\\N"))
ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))

_NAMES = {
    pa.bool_(): "boolean", pa.string(): "text", pa.binary(): "bytea", pa.date32(): "date",
    pa.int8(): "smallint", pa.int16(): "smallint", pa.int32(): "integer", pa.int64(): "bigint",
    pa.uint8(): "smallint", pa.uint16(): "integer", pa.uint32(): "bigint", pa.uint64(): "numeric(20,0)",
    pa.float32(): "real", pa.float64(): "double precision",
    pa.timestamp("us", "UTC"): "timestamptz", pa.timestamp("us"): "timestamp", pa.duration("us"): "interval",
}  # fmt: skip


def type_of(kind: Any) -> str:
    if types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    return "jsonb" if is_nested(kind) else _NAMES[kind]


def copied(view: str, batch: Batch) -> Iterator[memoryview]:
    """The batch as COPY reads it: number, whether it removes, columns. InvalidValue for what cannot be kept."""
    for start in range(0, batch.table.num_rows, ROWS_AT_ONCE):
        table = batch.table.slice(start, ROWS_AT_ONCE)
        numbers = batch.numbers.slice(start, ROWS_AT_ONCE)
        sequence = pa.array(range(start, start + table.num_rows), pa.int64()).cast(TEXT)
        removes = batch.removes.slice(start, ROWS_AT_ONCE).cast(pa.int8()).cast(pa.string())
        columns = [_text(view, name, numbers, table[name]) for name in table.column_names]
        yield _lines([sequence, _joined(removes), *columns])


def from_postgres(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if is_nested(kind):
        value_of = nested.from_text(kind)
        values = [None if value is None else value_of(value) for value in values]
    return pa.array(values, kind)


def _lines(columns: Sequence[pa.Array]) -> memoryview:
    fields = pc.binary_join_element_wise(*columns, TAB)
    lines = pc.binary_join_element_wise(fields, EMPTY, NEWLINE)
    _, offsets, content = lines.buffers()
    if content is None:
        return memoryview(b"")
    ends = memoryview(offsets).cast("q")
    first, last = ends[lines.offset], ends[lines.offset + len(lines)]
    return memoryview(content)[first:last]


def _text(view: str, name: str, numbers: pa.ChunkedArray, column: pa.ChunkedArray) -> pa.Array:
    kind = column.type
    if types.is_string(kind):
        _check_text(view, name, numbers, column)
        text = _escaped(column)
    elif is_nested(kind):
        text = _escaped(_json(view, name, numbers, column))
    elif types.is_binary(kind):
        values = (None if value is None else "\\\\x" + value.hex() for value in column.to_pylist())
        text = pa.array(values, TEXT)
    elif types.is_duration(kind):
        text = pc.binary_join_element_wise(column.cast(pa.int64()).cast(pa.string()), "microseconds", " ")
    elif types.is_timestamp(kind):
        # Without a zone, which Arrow would look up for every value: the session's is UTC.
        text = column.cast(pa.int64()).cast(LOCAL_TIMESTAMP).cast(pa.string())
    else:
        text = column.cast(pa.string())
    return pc.fill_null(_joined(text), NULL)


def _joined(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.cast(TEXT)


def _escaped(column: pa.ChunkedArray) -> pa.Array:
    text = _joined(column)
    for character, escape in ESCAPES:
        if pc.any(pc.match_substring(text, character)).as_py():
            text = pc.replace_substring(text, character, escape)
    return text


def _json(view: str, name: str, numbers: pa.ChunkedArray, column: pa.ChunkedArray) -> pa.ChunkedArray:
    text_of = nested.to_text(column.type)
    texts = [None if value is None else text_of(value) for value in column.to_pylist()]
    for row, text in enumerate(texts):
        if text is not None and "\\u0000" in text and _has_nul(text):
            raise _nul(view, name, numbers[row].as_py())
    return pa.chunked_array([pa.array(texts, TEXT)])


def _has_nul(text: str) -> bool:
    # A backslash in a value is written as two, and what follows those two is no escape.
    return "\\u0000" in text.replace("\\\\", "")


def _check_text(view: str, name: str, numbers: pa.ChunkedArray, column: pa.ChunkedArray) -> None:
    row = first_true(pc.match_substring(column, "\0"))
    if row is not None:
        raise _nul(view, name, numbers[row].as_py())


def _nul(view: str, name: str, row: int) -> InvalidValue:
    return InvalidValue(
        view,
        name,
        row,
        "a NUL character, which PostgreSQL's text cannot hold",
        hint=r"take it out in the view's function: F.translate(column, '\0', '')",
    )
