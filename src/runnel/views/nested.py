"""Nested values as JSON that every database reads, and back without loss.

| type | in JSON |
|---|---|
| struct | an object by field name |
| list | an array |
| map of text | an object, its names sorted: a map has no order |
| other map | an array of `{"key": ..., "value": ...}`, sorted |
| decimal | text, because readers of JSON make doubles of its numbers |
| double | a number; `"NaN"`, `"Infinity"`, `"-Infinity"`, `"-0.0"` are text: JSON or PostgreSQL has no such number |
| time, date | ISO 8601, times with a zone in UTC |
| duration | microseconds |
| binary | base64 |
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import types

Change = Callable[[Any], Any]

MICROSECOND = datetime.timedelta(microseconds=1)


def to_text(kind: pa.DataType) -> Callable[[Any], str]:
    """What makes JSON of a value, as `to_pylist` gives it, of a type."""
    encode = _encoder(kind)
    return lambda value: json.dumps(encode(value), ensure_ascii=False, separators=(",", ":"))


def from_text(kind: pa.DataType) -> Callable[[str], Any]:
    """What makes a value of the JSON."""
    decode = _decoder(kind)
    return lambda text: decode(json.loads(text))


def _optional(change: Change) -> Change:
    return lambda value: None if value is None else change(value)


def _encoder(kind: Any) -> Change:
    if types.is_struct(kind):
        fields = {field.name: _encoder(field.type) for field in kind}
        return _optional(lambda value: {name: encode(value[name]) for name, encode in fields.items()})
    if types.is_list(kind):
        item = _encoder(kind.value_type)
        return _optional(lambda value: [item(each) for each in value])
    if types.is_map(kind):
        return _optional(_map_encoder(kind))
    for fits, encode, _ in _SIMPLE:
        if fits(kind):
            return _optional(encode)
    return lambda value: value


def _map_encoder(kind: Any) -> Change:
    key, item = _encoder(kind.key_type), _encoder(kind.item_type)

    def entries(value: Any) -> list[tuple[Any, Any]]:
        # Of a key that stands twice the last one counts; keys of one map are of one type, so they can be compared.
        return sorted({key(name): item(each) for name, each in value}.items())

    if types.is_string(kind.key_type):
        return lambda value: dict(entries(value))
    return lambda value: [{"key": name, "value": each} for name, each in entries(value)]


def _decoder(kind: Any) -> Change:
    if types.is_struct(kind):
        fields = {field.name: _decoder(field.type) for field in kind}
        return _optional(lambda value: {name: decode(value.get(name)) for name, decode in fields.items()})
    if types.is_list(kind):
        item = _decoder(kind.value_type)
        return _optional(lambda value: [item(each) for each in value])
    if types.is_map(kind):
        return _optional(_map_decoder(kind))
    for fits, _, decode in _SIMPLE:
        if fits(kind):
            return _optional(decode)
    return lambda value: value


def _map_decoder(kind: Any) -> Change:
    key, item = _decoder(kind.key_type), _decoder(kind.item_type)
    if types.is_string(kind.key_type):
        return lambda value: [(name, item(each)) for name, each in sorted(value.items())]
    return lambda value: [(key(each["key"]), item(each["value"])) for each in value]


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "-0.0" if value == 0 and math.copysign(1, value) < 0 else value


def _time(value: datetime.datetime) -> str:
    return value.isoformat(timespec="microseconds").replace("+00:00", "Z")


_SIMPLE: tuple[tuple[Callable[[Any], bool], Change, Change], ...] = (
    (types.is_integer, int, int),
    (types.is_floating, _number, float),
    (types.is_decimal, lambda value: format(value, "f"), decimal.Decimal),
    (types.is_timestamp, _time, datetime.datetime.fromisoformat),
    (types.is_date, lambda value: value.isoformat(), datetime.date.fromisoformat),
    (types.is_duration, lambda value: value // MICROSECOND, lambda value: int(value) * MICROSECOND),
    (types.is_binary, lambda value: base64.b64encode(value).decode(), base64.b64decode),
)
