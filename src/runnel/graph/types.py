"""The types of columns, by the names that Spark's SQL gives them.

They are plain values: a declaration is checked without Spark, and the source reads by them without asking it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Simple:
    """`name` is Spark's own: `boolean`, `tinyint`, `smallint`, `int`, `bigint`, `float`, `double`, `string`, ..."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Decimal:
    precision: int = 10
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True)
class Array:
    element: Type

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True)
class Map:
    key: Type
    value: Type

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True)
class Struct:
    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(field.inner_ddl for field in self.fields)}>"


Type: TypeAlias = Simple | Decimal | Array | Map | Struct


@dataclass(frozen=True)
class Field:
    name: str
    type: Type
    nullable: bool = True

    @property
    def ddl(self) -> str:
        return f"{quoted(self.name)} {self.type}{self._rest}"

    @property
    def inner_ddl(self) -> str:
        """As it stands inside of `struct<...>`."""
        return f"{quoted(self.name)}:{self.type}{self._rest}"

    @property
    def _rest(self) -> str:
        return "" if self.nullable else " NOT NULL"


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


SIMPLE = {
    "boolean": "boolean",
    "byte": "tinyint",
    "tinyint": "tinyint",
    "short": "smallint",
    "smallint": "smallint",
    "int": "int",
    "integer": "int",
    "long": "bigint",
    "bigint": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}

TIMESTAMP = Simple("timestamp")
