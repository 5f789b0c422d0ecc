"""Kafka Connect's schema beside a value: where it ends, and what it says of the columns.

    {"schema":{"type":"struct","fields":[...]},"payload":{"before":...,"after":...,"op":"c",...}}

The schema of a topic's records is the same text over and over, many times as long as the row. It is read once: whoever
begins with the same bytes has the same schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from runnel.pipeline.source.values.debezium_forms import ColumnForm

START = b'{"schema":'
MIDDLE = b',"payload":'
MEMBERS = {"schema", "payload"}
UNITS = {
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Timestamp": "ms",
}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
DEEPEST = 8  # arrays in arrays

_DECODER = json.JSONDecoder()


def head_of(value: bytes) -> bytes | None:
    """What stands before the payload, if it is written as Kafka Connect does; None: it must be looked at as a whole."""
    try:
        text = value.decode()
        _, end = _DECODER.raw_decode(text, len(START))
    except (UnicodeDecodeError, ValueError, RecursionError):
        return None
    head = text[:end].encode() + MIDDLE
    return head if value.startswith(head) else None


def schema_in(head: bytes) -> Any:
    return json.loads(head.removeprefix(START).removesuffix(MIDDLE))


def forms_by(schema: Any, declared: Mapping[str, ColumnForm]) -> dict[str, ColumnForm]:
    """Of each column that is declared; as declared where the schema does not tell."""
    told = {each.get("field"): each for each in _row_of(schema)}
    return {name: _form(told[name], form) if name in told else form for name, form in declared.items()}


def _row_of(schema: Any) -> Iterator[Mapping[str, Any]]:
    """The fields of the row after."""
    for envelope in _fields(schema):
        if envelope.get("field") == "after":
            yield from _fields(envelope)


def _fields(schema: Any) -> list[Mapping[str, Any]]:
    found = schema.get("fields") if isinstance(schema, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _form(told: Mapping[str, Any], form: ColumnForm) -> ColumnForm:
    for _ in range(DEEPEST):
        if isinstance(told.get("items"), dict):
            told = told["items"]
    name = told.get("name")
    parameters = told.get("parameters")
    scale = parameters.get("scale") if isinstance(parameters, dict) else None
    return replace(
        form,
        unit=UNITS.get(str(name), form.unit),
        is_precise=name in (DECIMAL, VARIABLE_DECIMAL),
        scale=int(scale) if name == DECIMAL and isinstance(scale, str) and _is_whole(scale) else None,
        binary="bytes" if told.get("type") == "bytes" else form.binary,
    )


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 5
