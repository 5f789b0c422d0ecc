"""A captured table: its columns, what tells its rows apart, and how its values stand in JSON.

A row is a tuple of values in the order of the columns, as the source has them: text of PostgreSQL's, Python's values of
SQLite. Only the column's form knows what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias


class Absent(Enum):
    """What stands in a row for a value that the database did not tell."""

    UNCHANGED = "unchanged"  # a large value that an update left as it was
    UNKNOWN = "unknown"  # of a row from before a change, of which only the key is known


UNCHANGED: Final = Absent.UNCHANGED
UNKNOWN: Final = Absent.UNKNOWN
NOT_THERE: Final = 0  # the number of a table that is gone; no table has it
FORGOTTEN: Final = -1  # that of one that was told of, and is in no state any more; nor does any table have this one

Row: TypeAlias = tuple[Any, ...]


class TableId(NamedTuple):
    """`schema` is PostgreSQL's schema, MariaDB's database, and main in SQLite."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


class Form(NamedTuple):
    """How the values of a column stand in JSON, as Debezium's converter writes them.

    `schema` is Kafka Connect's, without what belongs to the field: type, and name and version where it is a logical
    type. `write` makes a value's JSON text; it never gets None. `fallback` is the JSON text of what stands for a value
    that is not known in a column that cannot be null.
    """

    schema: Mapping[str, Any]
    write: Callable[[Any], str]
    fallback: str
    unavailable: str = '"__debezium_unavailable_value"'


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    form: Form
    optional: bool = True
    type: str = ""  # the database's own name of it


@dataclass(frozen=True, slots=True)
class Table:
    """`key` are the columns, by their place, that tell rows apart; empty where nothing does. `number` tells it from
    another table of the same name, where the database has such a number.
    """

    id: TableId
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    number: int | None = None

    def key_of(self, row: Row) -> Row:
        return tuple(row[place] for place in self.key)


Operation: TypeAlias = Literal["c", "u", "d", "r"]
