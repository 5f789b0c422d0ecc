"""The Arrow types of declared columns, as Spark wants to be handed them, and their names in messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from runnel.errors import Permanent
from runnel.graph.types import Array, Decimal, Field, Map, Struct, Type

TIMESTAMP = pa.timestamp("us", tz="UTC")
MICROSECONDS = 1_000  # in a millisecond
MOST_MILLISECONDS = (2**63 - 1) // MICROSECONDS  # of a timestamp
TIMESTAMP_NTZ = pa.timestamp("us")
SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
}
NAMES = {kind: name for name, kind in SIMPLE.items()}


class UnsupportedType(Permanent):
    """A column of a type that a value cannot be read into."""

    def __init__(self, path: str, kind: pa.DataType) -> None:
        super().__init__(
            f"column {path}: values cannot be read into the type {kind}",
            hint=f"use {', '.join(SIMPLE)}, decimal(p,s), array, struct, or map with string keys",
        )
        self.path = path
        self.kind = kind


def arrow_schema(fields: Iterable[Field]) -> pa.Schema:
    return pa.schema([_field(field) for field in fields])


def _field(field: Field) -> pa.Field:
    return pa.field(field.name, _type(field.type), field.nullable)


def _type(kind: Type) -> pa.DataType:
    match kind:
        case Decimal():
            return pa.decimal128(kind.precision, kind.scale)
        case Array():
            return pa.list_(pa.field("element", _type(kind.element)))
        case Map():
            return pa.map_(_type(kind.key), _type(kind.value))
        case Struct():
            return pa.struct([_field(field) for field in kind.fields])
    return SIMPLE[kind.name]


def name_of(kind: pa.DataType) -> str:
    """What people call the type."""
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return NAMES.get(kind, str(kind))


def check_types(fields: Iterable[pa.Field], path: Sequence[str] = ()) -> None:
    """UnsupportedType unless values can be read into all of them."""
    for field in fields:
        _check_type(field.type, (*path, field.name))


def _check_type(kind: pa.DataType, path: tuple[str, ...]) -> None:
    if kind in NAMES or pa.types.is_decimal128(kind):
        return
    if pa.types.is_struct(kind):
        check_types(kind, path)
    elif pa.types.is_list(kind):
        _check_type(kind.value_type, path)
    elif pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        _check_type(kind.item_type, path)
    else:
        raise UnsupportedType(".".join(path), kind)
