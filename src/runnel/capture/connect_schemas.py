"""Kafka Connect's schemas as its JSON converter writes them: `{"schema": ..., "payload": ...}`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from runnel.capture.tables import Column

Schema: TypeAlias = dict[str, Any]

KIND: Final = ("type", "fields", "items", "keys", "values")  # what Kafka Connect writes before `optional`


def wrapped(schema: Schema) -> tuple[str, str]:
    """What stands before a payload and behind it."""
    return f'{{"schema":{json.dumps(schema, separators=(",", ":"), ensure_ascii=False)},"payload":', "}"


def field(name: str, kind: str, *, optional: bool = False) -> Schema:
    return {"type": kind, "optional": optional, "field": name}


def fields(columns: Iterable[tuple[int, Column]]) -> list[Schema]:
    return [_of_column(column) for _, column in columns]


def struct(own: list[Schema], name: str, *, version: int | None = None) -> Schema:
    schema: Schema = {"type": "struct", "fields": own, "optional": False, "name": name}
    return schema if version is None else {**schema, "version": version}


def array(items: Schema, name: str, *, optional: bool = True) -> Schema:
    return {"type": "array", "items": items, "optional": optional, "field": name}


def _of_column(column: Column) -> Schema:
    kind = {name: part for name, part in column.form.schema.items() if name in KIND}
    rest = {name: part for name, part in column.form.schema.items() if name not in kind}
    return {**kind, "optional": column.optional, **rest, "field": column.name}
