"""How the value of a record is written: the schema of a declaration.

schema="page string, at timestamp"      the same as Json("page string, at timestamp")
schema=Avro(open("click.avsc").read())  Avro's binary form; its columns are those of the Avro schema
schema=Debezium("id long, name string") changes of a captured table; its columns are those of the row
schema=Text()                           one column `value`, a string
schema=Raw()                            one column `value`, the bytes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from runnel.graph.avro import NoAvro, read_avro_schema
from runnel.graph.ddl import NoSchema, read_schema
from runnel.graph.envelope import ENVELOPE, envelope_fields
from runnel.graph.errors import InvalidDeclaration
from runnel.graph.types import Array, Field, Map, Simple, Struct, Type, quoted

TIME_UNITS = ("ms", "us", "ns")
DECIMALS = ("precise", "string", "double")  # Debezium's decimal.handling.mode
BINARIES = ("bytes", "base64", "base64-url-safe", "hex")  # its binary.handling.mode


@dataclass(frozen=True)
class Json:
    """JSON objects, a column for each field."""

    schema: str


@dataclass(frozen=True)
class Avro:
    """`schema` is the writer's, as JSON. `framing="confluent"` skips five bytes that name a schema in a registry."""

    schema: str
    framing: Literal["confluent"] | None = None


@dataclass(frozen=True)
class Debezium:
    """Debezium's envelope around rows, in JSON, with Kafka Connect's schemas beside the values or without. `schema` are
    the columns of a row. The others say what records without schemas do not: of which unit a time is that is a number
    (one for all, or by the name of the column), and Debezium's modes of decimals and of bytes.
    """

    schema: str
    time_unit: str | Mapping[str, str] = "us"
    decimals: str = "precise"
    binary: str = "bytes"

    def unit_of(self, column: str) -> str:
        return self.time_unit if isinstance(self.time_unit, str) else self.time_unit.get(column, "us")


@dataclass(frozen=True)
class Text:
    """UTF-8."""


@dataclass(frozen=True)
class Raw:
    """Bytes as they are."""


Format: TypeAlias = Json | Avro | Debezium | Text | Raw


@dataclass(frozen=True)
class Columns:
    """A format that was checked, and the columns that it gives."""

    format: Format
    fields: tuple[Field, ...]

    def find(self, name: str) -> Field | None:
        return next((column for column in self.fields if column.name == name), None)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.fields]

    @property
    def ddl(self) -> str:
        return ", ".join(column.ddl for column in self.fields)

    @property
    def envelope(self) -> tuple[Field, ...]:
        """What stands around the row, for a stream that asks for metadata."""
        return envelope_fields(self.fields) if isinstance(self.format, Debezium) else ()


VALUE = "value"
TAKEN = "_runnel_"


def columns_of(schema: object, where: str) -> Columns:
    """What people give as a schema, checked."""
    columns = _columns_of(schema, where)
    for name in columns.names:
        if name.lower().startswith(TAKEN):
            hint = f"leave it out: names that begin with {TAKEN} are taken"
            raise InvalidDeclaration(where, "schema", f"has a column {name}", hint=hint)
    return columns


def _columns_of(schema: object, where: str) -> Columns:
    """A StructType of PySpark is told by what it can do, not imported."""
    match schema:
        case str():
            return _json(Json(schema), where)
        case Json():
            return _json(schema, where)
        case Avro():
            return _avro(schema, where)
        case Debezium():
            return _debezium(schema, where)
        case Text():
            return Columns(schema, (Field(VALUE, Simple("string"), nullable=False),))
        case Raw():
            return Columns(schema, (Field(VALUE, Simple("binary"), nullable=False),))
    if callable(getattr(schema, "jsonValue", None)):
        struct: Any = schema
        return _json(Json(_listed(struct.jsonValue())), where)
    raise InvalidDeclaration(
        where,
        "schema",
        f"is a {type(schema).__name__}",
        hint='give columns such as "page string, at timestamp", or Json, Avro, Debezium, Text or Raw of runnel',
    )


def _listed(struct: Any, between: str = " ") -> str:
    """The columns of PySpark's type, from the JSON of it: its own `toDDL` asks a JVM, which is not there yet."""
    if not isinstance(struct, dict) or struct.get("type") != "struct":
        return str(struct)
    fields = [
        f"{quoted(each['name'])}{between}{_ddl(each['type'])}{'' if each['nullable'] else ' NOT NULL'}"
        for each in struct["fields"]
    ]
    return ", ".join(fields)


def _ddl(kind: Any) -> str:
    match kind:
        case {"type": "array", "elementType": element}:
            return f"array<{_ddl(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{_ddl(key)},{_ddl(value)}>"
        case {"type": "struct"}:
            return f"struct<{_listed(kind, ':')}>"
        case {"type": str(name)}:
            return name
    return str(kind)


def _json(schema: Json, where: str) -> Columns:
    return Columns(schema, _read(schema.schema, where))


def _read(text: str, where: str) -> tuple[Field, ...]:
    try:
        fields = read_schema(text)
        for field in fields:
            _check_keys(field.name, field.type)
        return fields
    except NoSchema as error:
        raise InvalidDeclaration(
            where,
            "schema",
            f"{text!r}: {error}",
            hint='write a name and a type for each column, such as "page string, amount decimal(10,2), at timestamp"',
        ) from None


def _check_keys(path: str, kind: Type) -> None:
    """JSON has no keys but strings."""
    match kind:
        case Map() if kind.key != Simple("string"):
            raise NoSchema(f"the map {path} has keys of type {kind.key}, and JSON has strings", 0)
        case Map():
            _check_keys(path, kind.value)
        case Array():
            _check_keys(path, kind.element)
        case Struct():
            for field in kind.fields:
                _check_keys(f"{path}.{field.name}", field.type)


def _avro(schema: Avro, where: str) -> Columns:
    try:
        return Columns(schema, read_avro_schema(schema.schema))
    except NoAvro as error:
        raise InvalidDeclaration(
            where, "schema", f"is no Avro schema to read by: {error}", hint="give the text of the .avsc file, a record"
        ) from None


def _debezium(schema: Debezium, where: str) -> Columns:
    columns = Columns(schema, _read(schema.schema, where))
    for name in ENVELOPE:
        if columns.find(name) is not None:
            hint = "leave it out: it is what a stream has with metadata, beside the row"
            raise InvalidDeclaration(where, "schema", f"has a column {name}", hint=hint)
    units = {"": schema.time_unit} if isinstance(schema.time_unit, str) else schema.time_unit
    for name, unit in units.items():
        if name and columns.find(name) is None:
            hint = f"the columns are {', '.join(columns.names)}"
            raise InvalidDeclaration(where, "schema.time_unit", f"names {name}, which is no column", hint=hint)
        _check_word(where, "time_unit", unit, TIME_UNITS)
    _check_word(where, "decimals", schema.decimals, DECIMALS)
    _check_word(where, "binary", schema.binary, BINARIES)
    return columns


def _check_word(where: str, argument: str, given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InvalidDeclaration(where, f"schema.{argument}", f"is {given!r}", hint=f"expected {', '.join(known)}")
