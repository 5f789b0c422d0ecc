"""Rows as records: Spark itself makes the key, the value and the headers of each, so that it can be done in parallel.

The value is a JSON object of the columns. The key is the text of its column, or a JSON object where several columns, or
one that is no plain value, tell rows apart. What a row says by `_change` stands beside them until the whole batch is
known: `settled` makes of it what is written.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType, TimestampType

from runnel.graph.derived import Derived
from runnel.graph.inputs import CHANGE
from runnel.graph.types import quoted
from runnel.pipeline.errors import InvalidBody, InvalidChange
from runnel.pipeline.sinks.written import written_columns, written_names
from runnel.views.changes import KINDS
from runnel.views.effects import effective, removing

# All digits that Spark has, and one zone: what is read again must be what was written.
JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
NO_HEADERS = "array<struct<key:string,value:binary>>"
NESTED = (StructType, ArrayType, MapType)


def outgoing(frame: DataFrame, stream: Derived) -> DataFrame:
    """Columns key, value, headers and timestamp (in milliseconds), null where there is none; and `_change`, if any."""
    check_columns(frame, stream)
    time = stream.writing.timestamp
    return frame.select(
        _key(frame, stream.key).alias("key"),
        F.to_json(F.struct(*map(_column, written_names(frame.schema, stream))), JSON).cast("binary").alias("value"),
        _headers(stream.writing.headers).alias("headers"),
        (F.unix_millis(_column(time)) if time else F.lit(None).cast("long")).alias("timestamp"),
        *([F.col(CHANGE).cast("string").alias(CHANGE)] if CHANGE in frame.columns else []),
    )


def settled(records: pa.Table, stream: str) -> pa.Table:
    """The records of whole keys as they are written: a row that removes its key becomes one without a value."""
    if CHANGE not in records.column_names:
        return records
    _check_changes(records, stream)
    counting = records.take(effective(records, ["key"]))
    nothing = pa.scalar(None, counting["value"].type)
    values = pc.if_else(removing(counting), nothing, counting["value"])
    return counting.set_column(counting.column_names.index("value"), "value", values).drop_columns(CHANGE)


def check_columns(frame: DataFrame, stream: Derived) -> None:
    writing = stream.writing
    named = {
        "key": stream.key or (),
        "write.headers": writing.headers,
        "write.columns": writing.columns or (),
    }
    for argument, columns in named.items():
        for column in columns:
            if column not in frame.columns:
                hint = f"it returns {', '.join(frame.columns)}"
                raise InvalidBody(str(stream), f"{argument} names {column}, which the body does not return", hint=hint)
            if column == CHANGE:
                hint = "leave it out: a delete becomes a record without a value, all others have one"
                raise InvalidBody(str(stream), f"{argument} names {CHANGE}, which is not written", hint=hint)
    if writing.timestamp is not None and not (
        writing.timestamp in frame.columns and isinstance(frame.schema[writing.timestamp].dataType, TimestampType)
    ):
        hint = "name a timestamp column that the body returns"
        what = f"write.timestamp is {writing.timestamp}, which is none of its timestamps"
        raise InvalidBody(str(stream), what, hint=hint)
    if CHANGE in frame.columns and stream.key is None:
        hint = f'name the columns that tell its rows apart, such as @app.stream(..., key="id"), or drop {CHANGE}'
        raise InvalidBody(str(stream), f"the body returns {CHANGE}, and the stream has no key", hint=hint)
    written_columns(frame.schema, stream)


def _check_changes(records: pa.Table, stream: str) -> None:
    kinds = records[CHANGE]
    known = pc.fill_null(pc.is_in(kinds, pa.array(sorted(KINDS))), False)
    row = pc.index(known, False).as_py()
    if row >= 0:
        hint = f"one of {', '.join(sorted(KINDS))}"
        raise InvalidChange(stream, f"{CHANGE} is {kinds[row].as_py()!r}, which is no change", hint=hint)
    if records["key"].null_count:
        value = records["value"].filter(pc.is_null(records["key"]))[0].as_py()
        what = f"a row with {CHANGE} has null for its key: {value.decode()}"
        raise InvalidChange(stream, what, hint="filter such rows out in the body, or give them a key with coalesce")


def _column(name: str) -> Column:
    """By its whole name: one with a dot in it is no field of a struct."""
    return F.col(quoted(name))


def _key(frame: DataFrame, key: tuple[str, ...] | None) -> Column:
    if key is None:
        return F.lit(None).cast("binary")
    if len(key) == 1:
        kind = frame.schema[key[0]].dataType
        if isinstance(kind, BinaryType):
            return _column(key[0])
        if not isinstance(kind, NESTED):
            return _column(key[0]).cast(StringType()).cast("binary")
    return F.to_json(F.struct(*map(_column, key)), JSON).cast("binary")


def _headers(names: tuple[str, ...]) -> Column:
    if not names:
        return F.lit(None).cast(NO_HEADERS)
    each = [
        F.struct(F.lit(name).alias("key"), _column(name).cast("string").cast("binary").alias("value")) for name in names
    ]
    return F.array(*each)
