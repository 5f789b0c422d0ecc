"""How the value of a record is written: the schema of a declaration.

schema="page string, at timestamp"      the same as Json("page string, at timestamp")
schema=Avro(open("click.avsc").read())  Avro's binary form; its columns are those of the Avro schema
schema=Text()                           one column `value`, a string
schema=Raw()                            one column `value`, the bytes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from runnel.graph.avro import NoAvro, read_avro_schema
from runnel.graph.ddl import NoSchema, read_schema
from runnel.graph.errors import InvalidDeclaration
from runnel.graph.types import Field, Simple


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
class Text:
    """UTF-8."""


@dataclass(frozen=True)
class Raw:
    """Bytes as they are."""


Format: TypeAlias = Json | Avro | Text | Raw


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


VALUE = "value"


def columns_of(schema: object, where: str) -> Columns:
    """What people give as a schema, checked. A StructType of PySpark is told by what it can do, not imported."""
    match schema:
        case str():
            return _json(Json(schema), where)
        case Json():
            return _json(schema, where)
        case Avro():
            return _avro(schema, where)
        case Text():
            return Columns(schema, (Field(VALUE, Simple("string"), nullable=False),))
        case Raw():
            return Columns(schema, (Field(VALUE, Simple("binary"), nullable=False),))
    if callable(getattr(schema, "toDDL", None)):
        ddl: Any = schema
        return _json(Json(ddl.toDDL()), where)
    raise InvalidDeclaration(
        where,
        "schema",
        f"is a {type(schema).__name__}",
        hint='give columns such as "page string, at timestamp", or Json, Avro, Text or Raw of runnel',
    )


def _json(schema: Json, where: str) -> Columns:
    try:
        return Columns(schema, read_schema(schema.schema))
    except NoSchema as error:
        raise InvalidDeclaration(
            where,
            "schema",
            f"{schema.schema!r}: {error}",
            hint='write a name and a type for each column, such as "page string, amount decimal(10,2), at timestamp"',
        ) from None


def _avro(schema: Avro, where: str) -> Columns:
    try:
        return Columns(schema, read_avro_schema(schema.schema))
    except (NoAvro, KeyError, AttributeError) as error:
        raise InvalidDeclaration(
            where, "schema", f"is no Avro schema to read by: {error}", hint="give the text of the .avsc file, a record"
        ) from None
