"""What a database must be able to do to be captured. Its contract suite is tests/contract/capture.

1. `prepare` makes what the database needs to remember changes for us (a publication and a slot, triggers), if it is not
   there, and gives the position from which on changes can be read. It raises what is missing with the SQL that mends
   it.
2. `changes(after)` reads from a position on: every committed change of the chosen tables behind it, once, in the order
   of their commits; whole transactions. The same position gives the same events again, for as long as `confirm` was not
   called with a later one. A log that no longer has the position is an error, never a gap.
3. `snapshot()` is the tables as they were at one known position: a change is in it if and only if it is not behind that
   position. Rows come in the order of their key, and can be asked for from a key on.
4. `chunk` reads some rows of a table beside the open changes, which tell a `Mark` behind all that the rows have seen.
   The chunk says of each transaction that was told before the mark whether its rows have seen it.
5. `confirm(position)` lets the database forget what is before it. It is called when that is durable in the topics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from runnel.capture.events import Event, Position
from runnel.capture.tables import Row, Table, TableId
from runnel.errors import Permanent


class Changes(Protocol):
    def read(self, seconds: float) -> Sequence[Event]:
        """The next events, as many as are there; none if nothing comes for so long. Not more than some thousands."""

    def close(self) -> None: ...


class Snapshot(Protocol):
    @property
    def position(self) -> Position: ...

    @property
    def source(self) -> str:
        """As `Change.source`, for all rows of it."""

    @property
    def micros(self) -> int:
        """When it was taken, since 1970."""

    def tables(self) -> Sequence[Table]: ...

    def estimate(self, table: Table) -> int:
        """About how many rows it has; for people."""

    def rows(self, table: Table, after: Row | None = None) -> Iterator[Sequence[Row]]:
        """Its rows in the order of the key, in pieces; from behind a key on, as `Table.key_of` gives it. Rows of the
        same key are in the same piece. What is in a key is plain data for JSON, or bytes.
        """


class Chunk(NamedTuple):
    """Rows of a table as they are now, in the order of the key. Rows of the same key are in the same chunk."""

    table: Table  # as the rows were read
    rows: Sequence[Row]
    is_last: bool  # no rows are behind these
    sees: Callable[[str], bool]  # whether the rows have seen the transaction of this id (`Began.id`)
    source: str = ""  # as `Change.source`, for all rows of it
    micros: int | None = None  # when it was read, since 1970; None: now
    estimate: int | None = None  # about how many rows the table has, where that is known at no cost


class Source(Protocol):
    connector: str  # Debezium's name of its kind: postgresql, mariadb, sqlite
    database: str
    has_schemas: bool  # in its database, as PostgreSQL; else a schema is a database
    unit: str  # of `behind`: bytes, entries
    counts_unchosen: bool  # whether changes of tables that are not chosen any more are told as `Unchosen`
    fields: Sequence[Mapping[str, Any]]  # Kafka Connect's, of what `Change.source` holds

    def prepare(self) -> Position: ...

    def tables(self) -> Sequence[TableId]:
        """Those that are chosen and there."""

    def known(self) -> Sequence[TableId]:
        """All that are there, chosen or not; for people."""

    def table(self, table: TableId) -> Table: ...

    def changes(self, after: Position, until: Position | None = None) -> Changes:
        """With `until`, a snapshot's position, they end exactly there: what the snapshot has is told of, nothing else,
        and the last event is `Passed(until.at)`.
        """

    def snapshot(self) -> AbstractContextManager[Snapshot]: ...

    def settle(self) -> None:
        """The chunks from now on must have seen all that the open changes have told until now: `chunk` gives None until
        they can. So it is when changes are opened, too.
        """

    def chunk(self, table: Table, after: Row | None, limit: int, tag: str, where: str | None = None) -> Chunk | None:
        """At most about `limit` rows behind a key, in the order of the key, as they are now. The open changes tell
        `Mark(tag)` behind all that these rows have seen. None: not now, ask again later; no mark comes.

        `where` is a condition in the database's own SQL; `InvalidFilter` if it is none. `TableMissing` if the table is
        gone. Without rows and not the last: the table has another key than `table`, begin anew; no mark comes.
        """

    def confirm(self, position: Position) -> None: ...

    def behind(self, position: Position) -> int:
        """How many bytes or entries of the log lie behind a position."""

    def close(self) -> None: ...

    def remove(self) -> bool:
        """Take back what `prepare` made: nothing of ours is left in the database. False if there was nothing."""
        ...


def recognize(source: Source, position: Position, tables: Collection[str] = ()) -> None:
    """OtherDatabase, if a source says that a position is not of its database. One that can say so before it makes
    anything there has a method `recognize`; the others notice it in `prepare` or `changes`. `tables` are those that
    were told of, as `schema.table`: they may be away, which the changes say.
    """
    asked = getattr(source, "recognize", None)
    if asked is not None:
        asked(position, tables)


def ready(source: Source) -> Mapping[TableId, int | None]:
    """The tables whose changes are told since `prepare`, with their numbers where they have any. A source whose log
    leaves out a table that came after `prepare` has a method `ready`; of the others they are all of `tables`.
    """
    asked = getattr(source, "ready", None)
    return dict.fromkeys(source.tables()) if asked is None else asked()


def check_key(source: Source, table: Table, columns: Sequence[str]) -> None:
    """That these can be the key of the table's records. A source whose log does not tell of every column what it was
    before a change has a method `check_key`, which raises what mends that: nobody could say which record is deleted.
    """
    own = {table.columns[place].name for place in table.key}
    asked = getattr(source, "check_key", None)
    if asked is not None and not own.issuperset(columns):
        asked(table.id, columns)


def unfit(source: Source) -> Mapping[TableId, Permanent]:
    """The tables that are chosen and there, and left out of `tables` as they cannot be captured, each with why. A
    source that leaves out any has a method `unfit`.
    """
    asked = getattr(source, "unfit", None)
    return {} if asked is None else asked()
