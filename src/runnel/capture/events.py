"""What a source tells, in the order in which its database committed it.

A transaction is `Began`, its changes, `Ended`. Nothing of a transaction is told before it is committed. `Passed` says
that the log went on with nothing in it for us: what is before it need not be read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from runnel.capture.tables import Operation, Row, Table, TableId


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a database's log, between two changes.

    `at` is the source's own word for the end of the last transaction that is behind us, as plain data for JSON; `index`
    counts the changes of rows, truncations and messages of the next one that are behind us, too. A source tells of that
    one from its beginning again; whoever reads leaves out what is behind.
    """

    at: Mapping[str, Any]
    index: int = 0


@dataclass(frozen=True, slots=True)
class Began:
    """`micros` is when it was committed, since 1970. `at` is the position to be kept while we are inside of it, where a
    source needs to know more than the end of the one before: the same transaction must be told of from there again.
    """

    id: str
    micros: int
    at: Mapping[str, Any] | None = None


class Change(NamedTuple):
    """One row. `source` holds the fields of Debezium's source block that only the source knows, as the inside of a JSON
    object; the envelope adds the others (version, connector, name, snapshot, db, schema, table).
    It is a tuple because there are so many of them.
    """

    table: Table
    op: Operation
    before: Row | None
    after: Row | None
    source: str
    micros: int


@dataclass(frozen=True, slots=True)
class Truncated:
    """A table was emptied. It has no columns where no more is known of it than its name."""

    table: Table
    source: str
    micros: int


@dataclass(frozen=True, slots=True)
class Message:
    """What an application wrote into the log itself, such as by pg_logical_emit_message."""

    prefix: str
    content: bytes
    transactional: bool
    source: str
    micros: int


@dataclass(frozen=True, slots=True)
class Redefined:
    """A table's columns are others from here on; between transactions, they may be as they were told last. `source` is
    as that of a change, where no change is behind it.
    """

    table: Table
    micros: int
    source: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """A table is not there any more. `source` is as `Change.source`: with it, the table's topic is told to be empty, so
    that another one of its name finds no rows there. It is empty where the source has told that before.
    """

    table: TableId
    micros: int
    source: str = ""


@dataclass(frozen=True, slots=True)
class Came:
    """A table has come under a name that is chosen, with rows of which the log does not tell: they are to be read. With
    `is_part` it is the one that was there, and some of its rows came or went with a part of it.
    """

    table: TableId
    micros: int
    source: str = ""
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """What becomes of `Came` with a part, where the table is being read by chunks: it is to be read once more then."""

    table: TableId


@dataclass(frozen=True, slots=True)
class Ended:
    """The transaction's last event. `at` is the position behind it."""

    id: str
    at: Mapping[str, Any]
    micros: int


@dataclass(frozen=True, slots=True)
class Passed:
    """`micros` is when the last of what was passed was committed, if there is more of it: then reading is behind."""

    at: Mapping[str, Any]
    micros: int | None = None


@dataclass(frozen=True, slots=True)
class Unchosen:
    """A change of a table that is not chosen any more: it counts for a position's index, and nothing is told of it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a chunk of a table belongs in the log: every transaction that the chunk has seen was told before. It stands
    between transactions, and its `tag` is what the chunk was asked for with. See `Source.chunk`.
    """

    tag: str


Event: TypeAlias = (
    Began | Change | Truncated | Message | Redefined | Gone | Came | Again | Ended | Passed | Unchosen | Mark
)
