"""Values in Avro's binary form, by the writer's schema that stands in the declaration.

    record, array, map      struct, array, map
    enum, uuid              string
    ["null", T]             T, which may be null
    null                    string, which is always null
    bytes, fixed            binary; with the logical type decimal, decimal
    date, timestamp-*       date, timestamp; local-timestamp-* is timestamp_ntz

A value holds one record and nothing after it. With `framing="confluent"` a zero and four bytes with the number of a
schema in a registry stand before it. The number is not looked up: what was written by another schema is rejected only
if it does not happen to be readable by this one.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from runnel.counted import counted
from runnel.graph.avro import LOGICAL
from runnel.graph.formats import Avro
from runnel.pipeline.source.values.parsed import (
    Parsed,
    Rejected,
    Unfit,
    completed,
    with_unread,
    without_tombstones,
)
from runnel.pipeline.source.values.schema import check_types, name_of

FRAME = 5
SHOWN = 40  # characters of a value in a reason
UNREADABLE = (EOFError, IndexError, KeyError, ValueError, TypeError, ArithmeticError)
DECIMAL = "decimal"
INSIDE = ("type", "items", "values")  # what has a schema in it
NAMED = "__named_schemas"  # where fastavro keeps those with a name


class AvroParser:
    """Records, of which each column is a field."""

    def __init__(self, format: Avro, schema: pa.Schema, asked: Sequence[str]) -> None:
        check_types(schema)
        self.schema = with_unread(schema, asked)
        self._fields = [schema.field(name) for name in asked]
        self._framed = format.framing == "confluent"
        self._writer = _counted_from_zero(fastavro.parse_schema(_with_known_types(json.loads(format.schema))))

    def parse(self, values: pa.Array) -> Parsed:
        values, there, tombstones = without_tombstones(values)
        rows: dict[int, dict[str, Any]] = {}
        reasons: dict[int, str] = {}
        for index, value in enumerate(values.to_pylist()):
            try:
                rows[index] = self._row(value)
            except Unfit as unfit:
                reasons[index] = str(unfit)
        columns = [self._column(field, rows, reasons) for field in self._fields]
        if len(rows) + len(reasons) > len(values):  # a column has refused rows that others have taken
            rows = {index: row for index, row in rows.items() if index not in reasons}
            columns = [self._column(field, rows, reasons) for field in self._fields]
        good = np.fromiter(rows, np.int64, len(rows))
        places = np.arange(len(values)) if there is None else there
        rejected = [Rejected(int(places[index]), reason) for index, reason in sorted(reasons.items())]
        names = [field.name for field in self._fields]
        kept = places[good] if reasons or there is not None else None
        return Parsed(completed(self.schema, names, columns, len(rows)), kept, rejected, tombstones)

    def _row(self, value: bytes) -> dict[str, Any]:
        stream = io.BytesIO(value)
        if self._framed:
            if len(value) < FRAME or value[0]:
                raise Unfit("not framed: it does not start with a zero and the number of a schema")
            stream.seek(FRAME)
        try:
            row: Any = fastavro.schemaless_reader(stream, self._writer, None)
        except UNREADABLE as error:
            raise Unfit(f"not Avro of the declared schema: {_reason(error)}") from error
        if left := len(value) - stream.tell():
            raise Unfit(
                f"not Avro of the declared schema: {counted(left, 'byte is', 'bytes are')} left after the record"
            )
        return dict(row)

    def _column(self, field: pa.Field, rows: Mapping[int, dict[str, Any]], reasons: dict[int, str]) -> pa.Array:
        """The column; what does not fit its type, such as a decimal with too many digits, goes to `reasons`."""
        try:
            return pa.array([row[field.name] for row in rows.values()], field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            for index, row in rows.items():
                if index not in reasons and not _fits(row[field.name], field.type):
                    reasons[index] = f"field {field.name}: {_shown(row[field.name])} is not a {name_of(field.type)}"
            return pa.nulls(len(rows), field.type)


def _with_known_types(schema: Any) -> Any:
    """The schema without the logical types that have no column type: their values stay what they are written as."""
    if isinstance(schema, list):
        return [_with_known_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    unknown = schema.get("logicalType") not in (DECIMAL, *LOGICAL)
    return {name: _with_known_types(each) for name, each in schema.items() if name != "logicalType" or not unknown}


def _counted_from_zero(schema: Any) -> Any:
    """The types of unions and the symbols of enums by their numbers: in a list, fastavro finds those below zero from
    its end.
    """
    if isinstance(schema, list):
        return {"type": "union", **dict(enumerate(map(_counted_from_zero, schema)))}
    if not isinstance(schema, dict):
        return schema
    numbered = {name: _counted_from_zero(each) if name in INSIDE else each for name, each in schema.items()}
    if "fields" in schema:
        numbered["fields"] = [_counted_from_zero(each) for each in schema["fields"]]
    if NAMED in schema:
        numbered[NAMED] = {name: _counted_from_zero(each) for name, each in schema[NAMED].items()}
    if schema.get("type") == "enum":
        numbered["symbols"] = dict(enumerate(schema["symbols"]))
    return numbered


def _reason(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return "a string is not UTF-8"
        case OverflowError():
            return "a date or a time is out of range"
        case EOFError() | IndexError() | KeyError():
            return "it ends inside of a field, or chooses what the schema does not have"
    return str(error) or type(error).__name__


def _shown(value: Any) -> str:
    return (f"{value:f}" if isinstance(value, Decimal) else str(value))[:SHOWN]


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    return True
