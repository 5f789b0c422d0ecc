"""Messages as the package kio knows them, turned into our mappings and back: it is the oracle of our codec.

kio gives fields a meaning that we leave to the handlers: times are timedelta and datetime objects, error codes are an
enumeration. A mapping here has our plain form of them.
"""

import io
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin
from uuid import UUID

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from runnel.protocol.versions import SERVED, Api

MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Kind(NamedTuple):
    """One kind of message: the request or the response of an API in a version."""

    api_key: int
    version: int
    side: str

    def __str__(self) -> str:
        return f"{Api(self.api_key).name}-v{self.version}-{self.side}"

    @property
    def schema(self) -> Any:
        load = load_request_schema if self.side == "request" else load_response_schema
        return load(self.api_key, self.version)


REQUESTS = [Kind(key, v, "request") for key, (least, most) in SERVED.items() for v in range(least, most + 1)]
RESPONSES = [kind._replace(side="response") for kind in REQUESTS]
KINDS = REQUESTS + RESPONSES


def encoded(kind: Kind, message: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    entity_writer(kind.schema)(buffer, _entity(kind.schema, message))
    return buffer.getvalue()


def decoded(kind: Kind, data: bytes) -> dict[str, Any]:
    """All of the bytes must belong to the message."""
    entity, size = entity_reader(kind.schema)(data, 0)
    assert size == len(data), f"kio read {size} of {len(data)} bytes"
    return _message(entity)


# --- a field's type


class Type(NamedTuple):
    """What kio says of a field: the class of its structure, or the name of its primitive."""

    structure: Any
    primitive: str
    is_array: bool
    nullable: bool


@cache
def _type(entity: Any, name: str) -> Type:
    field = next(each for each in fields(entity) if each.name == name)
    return _type_of(field)


def _type_of(field: Field[Any]) -> Type:
    kind, nullable = _without_none(field.type)
    is_array = get_origin(kind) is tuple
    if is_array:
        kind, item_nullable = _without_none(get_args(kind)[0])
        nullable = nullable or item_nullable
    structure = kind if is_dataclass(kind) else None
    return Type(structure, field.metadata.get("kafka_type", ""), is_array, nullable)


def _without_none(kind: Any) -> tuple[Any, bool]:
    parts = get_args(kind)
    if NoneType in parts and get_origin(kind) is not tuple:
        return next(part for part in parts if part is not NoneType), True
    return kind, False


# --- from one to the other


def _entity(structure: Any, message: Mapping[str, Any]) -> Any:
    values = {}
    for field in fields(structure):
        kind, value = _type(structure, field.name), message[field.name]
        if kind.is_array:
            values[field.name] = None if value is None else tuple(_to_kio(kind, item) for item in value)
        else:
            values[field.name] = _to_kio(kind, value)
    return structure(**values)


def _to_kio(kind: Type, value: Any) -> Any:
    if kind.structure is not None:
        return None if value is None else _entity(kind.structure, value)
    match kind.primitive:
        case "timedelta_i32" | "timedelta_i64":
            return value * MILLISECOND
        case "datetime_i64":
            return None if value == -1 else EPOCH + value * MILLISECOND
        case "error_code":
            return ErrorCode(value)
    return value


def _message(entity: Any) -> dict[str, Any]:
    message: dict[str, Any] = {}
    for field in fields(entity):
        kind, value = _type(type(entity), field.name), getattr(entity, field.name)
        if kind.is_array:
            message[field.name] = None if value is None else [_from_kio(kind, item) for item in value]
        else:
            message[field.name] = _from_kio(kind, value)
    return message


def _from_kio(kind: Type, value: Any) -> Any:
    match value:
        case timedelta():
            return value // MILLISECOND
        case datetime():
            return (value - EPOCH) // MILLISECOND
        case ErrorCode():
            return value.value
        case None if kind.primitive == "datetime_i64":
            return -1
        case UUID() if value.int == 0:
            return None
    return _message(value) if is_dataclass(value) else value


# --- messages at random

NUMBERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32}
TEXT = st.text(max_size=12) | st.sampled_from(["", "ü€😀", "a" * 200])
BYTES = st.binary(max_size=12) | st.just(b"\x00" * 200)


def _numbers(bits: int) -> st.SearchStrategy[int]:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.sampled_from([-1, 0, 1, least, most]) | st.integers(least, most)


PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    **{name: _numbers(bits) for name, bits in NUMBERS.items()},
    "uint16": st.integers(0, 2**16 - 1),
    # A timedelta of kio's goes through a float.
    "timedelta_i64": st.integers(-(2**45), 2**45),
    "datetime_i64": st.just(-1) | st.integers(0, 2**42),
    "error_code": st.sampled_from([code.value for code in ErrorCode]),
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "string": TEXT,
    "bytes": BYTES,
    "records": BYTES,
}


@cache
def messages(structure: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: _values(_type(structure, field.name)) for field in fields(structure)})


def _values(kind: Type) -> st.SearchStrategy[Any]:
    values = messages(kind.structure) if kind.structure is not None else _primitive(kind)
    if kind.is_array:
        values = st.lists(values, max_size=3)
        if kind.structure is None:
            values |= st.builds(lambda items: items * 70, values)
    if kind.nullable and kind.primitive not in ("uuid", "datetime_i64"):
        values |= st.none()
    return values


def _primitive(kind: Type) -> st.SearchStrategy[Any]:
    if kind.primitive == "uuid":
        return st.none() | st.uuids(allow_nil=False)
    if kind.primitive == "datetime_i64" and not kind.nullable:
        return st.integers(0, 2**42)
    return PRIMITIVES[kind.primitive]


@cache
def sample(kind: Kind) -> dict[str, Any]:
    """One message in which everything is there: every array has two items, nothing is null or its default."""
    return _sample(kind.schema)


def _sample(structure: Any) -> dict[str, Any]:
    return {field.name: _sample_value(_type(structure, field.name)) for field in fields(structure)}


SAMPLES: dict[str, Any] = {
    "string": "näme",
    "bytes": b"bytes",
    "records": b"records",
    "bool": True,
    "uuid": UUID(int=2**127 + 5),
    "float64": 1.5,
    "error_code": 3,
}


def _sample_value(kind: Type) -> Any:
    value = _sample(kind.structure) if kind.structure is not None else SAMPLES.get(kind.primitive, 7)
    return [value, value] if kind.is_array else value
