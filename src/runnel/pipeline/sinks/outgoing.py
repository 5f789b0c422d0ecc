"""Rows as records: Spark itself makes the key, the value and the headers of each, so that it can be done in parallel.

The value is a JSON object of the columns. The key is the text of its column, or a JSON object where several columns, or
one that is no plain value, tell rows apart. A row that says `_change = 'delete'` becomes a record without a value.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType, TimestampType

from runnel.graph.derived import Derived
from runnel.graph.inputs import CHANGE
from runnel.pipeline.errors import InvalidBody

JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
NO_HEADERS = "array<struct<key:string,value:binary>>"
NESTED = (StructType, ArrayType, MapType)


def outgoing(frame: DataFrame, stream: Derived) -> DataFrame:
    """Columns key, value, headers and timestamp (in milliseconds), null where there is none."""
    check_columns(frame, stream)
    writing = stream.writing
    return frame.select(
        _key(frame, stream.key).alias("key"),
        _value(frame, writing.columns, writing.headers).alias("value"),
        _headers(writing.headers).alias("headers"),
        (F.unix_millis(F.col(writing.timestamp)) if writing.timestamp else F.lit(None).cast("long")).alias("timestamp"),
    )


def check_columns(frame: DataFrame, stream: Derived) -> None:
    named = {
        "key": stream.key or (),
        "write.headers": stream.writing.headers,
        "write.columns": stream.writing.columns or (),
    }
    for argument, columns in named.items():
        for column in columns:
            if column not in frame.columns:
                hint = f"it returns {', '.join(frame.columns)}"
                raise InvalidBody(str(stream), f"{argument} names {column}, which the body does not return", hint=hint)
    timestamp = stream.writing.timestamp
    if timestamp is not None and not (
        timestamp in frame.columns and isinstance(frame.schema[timestamp].dataType, TimestampType)
    ):
        hint = "name a timestamp column that the body returns"
        raise InvalidBody(str(stream), f"write.timestamp is {timestamp}, which is none of its timestamps", hint=hint)


def _key(frame: DataFrame, key: tuple[str, ...] | None) -> Column:
    if key is None:
        return F.lit(None).cast("binary")
    if len(key) == 1:
        kind = frame.schema[key[0]].dataType
        if isinstance(kind, BinaryType):
            return F.col(key[0])
        if not isinstance(kind, NESTED):
            return F.col(key[0]).cast(StringType()).cast("binary")
    return F.to_json(F.struct(*key), JSON).cast("binary")


def _value(frame: DataFrame, columns: tuple[str, ...] | None, headers: tuple[str, ...]) -> Column:
    chosen = columns or tuple(name for name in frame.columns if name not in (*headers, CHANGE))
    value = F.to_json(F.struct(*chosen), JSON).cast("binary")
    if CHANGE not in frame.columns:
        return value
    return F.when(F.col(CHANGE) == "delete", F.lit(None).cast("binary")).otherwise(value)


def _headers(names: tuple[str, ...]) -> Column:
    if not names:
        return F.lit(None).cast(NO_HEADERS)
    each = [
        F.struct(F.lit(name).alias("key"), F.col(name).cast("string").cast("binary").alias("value")) for name in names
    ]
    return F.array(*each)
