"""The columns of an Avro record, as Spark's Avro reader would name their types."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, TypeGuard

from runnel.graph.ddl import MOST_DIGITS
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
NULL = ("null", {"type": "null"})
LOGICAL = {  # and the type that each is written as; where it is another one, Avro says that the logical type is none
    "date": ("int", "date"),
    "timestamp-millis": ("long", "timestamp"),
    "timestamp-micros": ("long", "timestamp"),
    "local-timestamp-millis": ("long", "timestamp_ntz"),
    "local-timestamp-micros": ("long", "timestamp_ntz"),
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
    """Types go by their full names: two namespaces may each have an `Item`."""

    def __init__(self) -> None:
        self._named: dict[str, Type | None] = {}  # None while it is being read
        self._namespace = ""  # of what is being read

    def record(self, schema: dict[str, Any]) -> Struct:
        name = self._name_of(schema)
        self._named[name] = None
        around, self._namespace = self._namespace, name.rpartition(".")[0]
        given = schema.get("fields")
        fields = tuple(self._field(each) for each in given) if isinstance(given, list) else ()
        self._namespace = around
        if not fields:
            raise NoAvro(f"the record {name} has no fields")
        for field, count in Counter(field.name.lower() for field in fields).items():
            if count > 1:
                raise NoAvro(f"the record {name} has {count} fields called {field}")
        self._named[name] = struct = Struct(fields)
        return struct

    def _field(self, schema: Any) -> Field:
        if not isinstance(schema, dict) or not isinstance(schema.get("name"), str) or "type" not in schema:
            raise NoAvro(f"a field needs a name and a type: {json.dumps(schema)}")
        kind, nullable = self._type(schema["type"])
        return Field(schema["name"], kind, nullable)

    def _type(self, schema: Any) -> tuple[Type, bool]:
        kinds = schema if isinstance(schema, list) else [schema]
        rest = [each for each in kinds if each not in NULL]
        if kinds and not rest:  # a null of any type
            return Simple("string"), True
        if len(rest) != 1:
            raise NoAvro(f"a union of {len(rest)} types has no column type: {json.dumps(schema)}")
        return self._one(rest[0]), len(rest) < len(kinds)

    def _one(self, schema: Any) -> Type:
        if isinstance(schema, str):
            return self._by_name(schema)
        if not isinstance(schema, dict):
            raise NoAvro(f"{json.dumps(schema)} is no type")
        match schema.get("type"):
            case "record":
                return self.record(schema)
            case "enum":
                return self._enum(schema)
            case "fixed":
                return self._fixed(schema)
            case "array":
                return Array(self._type(_part(schema, "items"))[0])
            case "map":
                return Map(Simple("string"), self._type(_part(schema, "values"))[0])
            case "bytes" if schema.get("logicalType") == "decimal":
                return _decimal(schema)
            case kind:
                written, logical = LOGICAL.get(str(schema.get("logicalType")), (None, ""))
                return Simple(logical) if kind == written else self._one(kind)

    def _enum(self, schema: dict[str, Any]) -> Type:
        name = self._name_of(schema)
        if not isinstance(schema.get("symbols"), list):
            raise NoAvro(f"the enum {name} has no symbols")
        self._named[name] = Simple("string")
        return Simple("string")

    def _fixed(self, schema: dict[str, Any]) -> Type:
        name = self._name_of(schema)
        if not _is_whole(schema.get("size")):
            raise NoAvro(f"the fixed {name} has no size")
        kind = _decimal(schema) if schema.get("logicalType") == "decimal" else Simple("binary")
        self._named[name] = kind
        return kind

    def _by_name(self, name: str) -> Type:
        if name in SIMPLE:
            return Simple(SIMPLE[name])
        full = self._full(name, self._namespace)
        if full not in self._named:
            raise NoAvro(f"the type {name} is not defined")
        kind = self._named[full]
        if kind is None:
            raise NoAvro(f"the record {name} contains itself, which columns cannot")
        return kind

    def _name_of(self, schema: dict[str, Any]) -> str:
        name, namespace = schema.get("name"), schema.get("namespace", self._namespace) or ""
        if not isinstance(name, str) or not name or not isinstance(namespace, str):
            raise NoAvro(f"a type {schema['type']} needs a name")
        return self._full(name, namespace)

    @staticmethod
    def _full(name: str, namespace: str) -> str:
        return name if "." in name or not namespace else f"{namespace}.{name}"


def _part(schema: dict[str, Any], name: str) -> Any:
    if name not in schema:
        raise NoAvro(f"a type {schema['type']} needs {name}")
    return schema[name]


def _decimal(schema: dict[str, Any]) -> Decimal:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (_is_whole(precision) and _is_whole(scale) and 1 <= precision <= MOST_DIGITS and scale <= precision):
        raise NoAvro(f"decimal({precision},{scale}) is none: 1 to {MOST_DIGITS} digits, the scale among them")
    return Decimal(precision, scale)


def _is_whole(number: Any) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0
