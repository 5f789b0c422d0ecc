"""The columns of an Avro record, as Spark's Avro reader would name their types."""

from __future__ import annotations

import json
from typing import Any

from runnel.graph.types import Array, Decimal, Field, Map, Simple, Struct, Type

SIMPLE = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
LOGICAL = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
}


class NoAvro(ValueError):
    """The text is no Avro schema that columns can be made of."""


def read_avro_schema(text: str) -> tuple[Field, ...]:
    try:
        parsed = json.loads(text)
    except (TypeError, ValueError) as error:
        raise NoAvro(f"not JSON: {error}") from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise NoAvro("only a record has columns")
    return _Reader().record(parsed).fields


class _Reader:
    def __init__(self) -> None:
        self._named: dict[str, Type | None] = {}  # None while it is being read

    def record(self, schema: dict[str, Any]) -> Struct:
        name = _name_of(schema)
        self._named[name] = None
        fields = tuple(self._field(each) for each in schema.get("fields", ()))
        if not fields:
            raise NoAvro(f"the record {name} has no fields")
        self._named[name] = struct = Struct(fields)
        return struct

    def _field(self, schema: dict[str, Any]) -> Field:
        kind, nullable = self._type(schema["type"])
        return Field(schema["name"], kind, nullable)

    def _type(self, schema: Any) -> tuple[Type, bool]:
        if not isinstance(schema, list):
            return self._one(schema), False
        rest = [each for each in schema if each != "null"]
        if len(rest) != 1:
            raise NoAvro(f"a union of {len(rest)} types has no column type: {json.dumps(schema)}")
        return self._one(rest[0]), len(rest) < len(schema)

    def _one(self, schema: Any) -> Type:
        if isinstance(schema, str):
            return self._by_name(schema)
        match schema.get("type"):
            case "record":
                return self.record(schema)
            case "enum":
                self._named[_name_of(schema)] = Simple("string")
                return Simple("string")
            case "fixed":
                kind = _decimal(schema) if schema.get("logicalType") == "decimal" else Simple("binary")
                self._named[_name_of(schema)] = kind
                return kind
            case "array":
                return Array(self._type(schema["items"])[0])
            case "map":
                return Map(Simple("string"), self._type(schema["values"])[0])
            case "bytes" if schema.get("logicalType") == "decimal":
                return _decimal(schema)
            case kind:
                logical = LOGICAL.get(schema.get("logicalType", ""))
                return Simple(logical) if logical else self._one(kind)

    def _by_name(self, name: str) -> Type:
        if name in SIMPLE:
            return Simple(SIMPLE[name])
        short = name.rpartition(".")[2]
        if short not in self._named:
            raise NoAvro(f"the type {name} is not defined")
        kind = self._named[short]
        if kind is None:
            raise NoAvro(f"the record {name} contains itself, which columns cannot")
        return kind


def _name_of(schema: dict[str, Any]) -> str:
    return str(schema.get("name", "")).rpartition(".")[2]


def _decimal(schema: dict[str, Any]) -> Decimal:
    return Decimal(schema["precision"], schema.get("scale", 0))
