"""Some rows of a table beside the changes, with the transactions that they have seen.

PostgreSQL writes a commit into its log before it shows it to others. Between the two, the changes tell of a transaction
that a query does not see yet: with a synchronous standby that is away, for as long as it is. So a chunk's rows come
with the snapshot that they were read in, which says of each transaction whether it was seen. A message in the log, in a
transaction of its own and written afterwards, is the mark: whatever the chunk has seen was committed before it.

The table is locked against other definitions, truncating and rewriting while its rows are read, as by any query; if
somebody has such a lock already, there is no chunk for now.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.types.string import StrDumper

from runnel.capture.errors import InvalidFilter, TableMissing
from runnel.capture.incremental import key_columns
from runnel.capture.postgres.connections import Address, Connection, identifier, texts
from runnel.capture.postgres.errors import CommitHidden, TableMoved
from runnel.capture.postgres.replication import lsn_number
from runnel.capture.postgres.snapshot import (
    FEWEST,
    Readable,
    by_name,
    is_same,
    next_count,
    query_of,
    query_of_row,
)
from runnel.capture.source import Chunk
from runnel.capture.tables import Row, Table, TableId

CHUNK_BYTES: Final = 8 * 1024 * 1024
HIDDEN_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.01
MARK_PREFIX: Final = "runnel.capture."
OWN_FAULT: Final = ("08", "53", "57", "58", "XX")  # classes of errors that are not a condition's fault
NOW: Final = """
SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text,
       (extract(epoch FROM clock_timestamp()) * 1000000)::int8::text
"""


class Seen(NamedTuple):
    """A snapshot of PostgreSQL's: it has seen what is before `first`, and what is before `next` and not `open`."""

    first: int
    next: int
    open: frozenset[int]

    @classmethod
    def of(cls, text: str) -> Seen:
        first, following, listed = text.split(":")
        return cls(int(first), int(following), frozenset(map(int, listed.split(","))) if listed else frozenset())

    def has(self, transaction: int) -> bool:
        """Of one whose number has its lower 32 bits only, as the log tells them. It is the nearest such number."""
        distance = (transaction - self.next) & 0xFFFFFFFF
        number = self.next + (distance - (1 << 32) if distance >= 1 << 31 else distance)
        return number < self.first or (number < self.next and number not in self.open)

    def sees(self, id: str) -> bool:
        return self.has(int(id.partition(":")[0]))


class Chunks:
    """`describe` gives a table as it is now, with what is published of it, `whole` with all that it has; they raise if
    the table is gone.
    """

    def __init__(
        self,
        address: Address,
        name: str,
        describe: Callable[[TableId], Readable],
        whole: Callable[[TableId], Readable],
    ) -> None:
        self._address = address
        self._prefix = mark_prefix(name)
        self._describe = describe
        self._whole = whole
        self._connection: Connection | None = None
        self._counts: dict[TableId, int] = {}
        self._newest: int | None = None  # all transactions up to it must be over
        self._is_settled = False

    def close(self) -> None:
        self.settle()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def settle(self) -> None:
        self._newest = None
        self._is_settled = False

    def read(self, table: Table, after: Row | None, limit: int, tag: str, where: str | None) -> Chunk | None:
        with self._address.telling():
            connection = self._connected()
            if not self._has_settled(connection):
                return None
            chunk = self._chunk(connection, table, after, limit, where)
            if chunk is not None and (chunk.rows or chunk.is_last):
                connection.execute("SELECT pg_logical_emit_message(true, %s::text, %s::text)", [self._prefix, tag])
            return chunk

    def row(self, table: Table, key: Row, transaction: str) -> Mapping[str, Any] | None:
        """The row of a key as it is now, by the names of the columns that are as in `table`; None if there is none. Now
        is when this transaction is seen, which was told.
        """
        with self._address.telling():
            connection = self._connected()
            self._see(connection, transaction)
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            try:
                return self._row(connection, table, key)
            except TableMissing:  # the changes will tell its end
                return None
            finally:
                if not connection.closed:
                    connection.execute("ROLLBACK")

    # --- inside

    def _see(self, connection: Connection, transaction: str) -> None:
        """Wait for it: others see it in a moment, but for a standby that is away."""
        deadline = time.monotonic() + HIDDEN_SECONDS
        while not Seen.of(_one(connection, "SELECT pg_current_snapshot()::text")).sees(transaction):
            if time.monotonic() >= deadline:
                raise CommitHidden(self._address.shown, HIDDEN_SECONDS)
            time.sleep(LOOK_SECONDS)

    def _row(self, connection: Connection, table: Table, key: Row) -> Mapping[str, Any] | None:
        readable = self._locked(connection, table.id, self._whole)
        if readable is None:
            raise TableMoved(self._address.shown, f"{table.id} is locked")
        if not is_same(readable.table, table):
            return None  # it is read from its beginning
        found = connection.execute(query_of_row(readable, key).encode()).fetchone()
        return None if found is None else by_name(readable.table, found, table)

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            adapters = texts()
            adapters.register_dumper(str, StrDumper)
            self._connection = self._address.connect(adapters=adapters)
            # A mark need not wait for a standby.
            self._connection.execute("SET synchronous_commit = local")
        return self._connection

    def _has_settled(self, connection: Connection) -> bool:
        """Whether all is over that ran when it was asked for first: what was committed then is seen by now."""
        if self._is_settled:
            return True
        if self._newest is None:
            self._newest = int(_one(connection, "SELECT pg_current_xact_id()::text"))
        self._is_settled = int(_one(connection, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text")) > self._newest
        return self._is_settled

    def _chunk(
        self, connection: Connection, table: Table, after: Row | None, limit: int, where: str | None
    ) -> Chunk | None:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            readable = self._locked(connection, table.id, self._describe)
            if readable is None or readable.table.number != table.number:  # the changes will say that it is another one
                return None
            if after is not None and key_columns(readable.table) != key_columns(table):
                return Chunk(readable.table, (), False, lambda _: True)
            return self._rows(connection, readable, after, limit, where)
        finally:
            if not connection.closed:
                connection.execute("ROLLBACK")

    def _locked(
        self, connection: Connection, table: TableId, describe: Callable[[TableId], Readable]
    ) -> Readable | None:
        """As it is, and as it stays until the transaction ends."""
        try:
            connection.execute(f"LOCK TABLE {identifier(*table)} IN ACCESS SHARE MODE NOWAIT".encode())
        except psycopg.errors.LockNotAvailable:
            return None
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            describe(table)  # raises
            return None
        try:
            return describe(table)
        except TableMoved:  # who alters it waits for our lock
            return None

    def _rows(
        self, connection: Connection, readable: Readable, after: Row | None, limit: int, where: str | None
    ) -> Chunk:
        found = connection.execute(NOW).fetchone()
        assert found is not None
        seen, lsn = Seen.of(found[0]), lsn_number(found[1])
        table = readable.table
        count = min(limit, self._counts.get(table.id, FEWEST))
        rows = self._asked(connection, readable, query_of(readable, after, where), count, where)
        if rows:
            self._counts[table.id] = next_count(rows, CHUNK_BYTES, max(limit, FEWEST))
        source = f'"sequence":"[null,\\"{lsn}\\"]","txId":null,"lsn":{lsn},"xmin":null'
        return Chunk(table, rows, len(rows) < count, seen.sees, source, int(found[2]), readable.rows or None)

    def _asked(
        self, connection: Connection, readable: Readable, query: str, count: int, where: str | None
    ) -> list[Row]:
        # With a value of its own the query is sent as one statement: a condition cannot bring others along.
        text = query.replace("%", "%%") + " LIMIT %s::int8"
        try:
            return connection.execute(text.encode(), [str(count)]).fetchall()
        except psycopg.Error as error:
            if where is None or (error.sqlstate or "08")[:2] in OWN_FAULT:
                raise
            raise InvalidFilter(str(readable.table.id), where, " ".join(str(error).split())) from None


def mark_prefix(name: str) -> str:
    """Of the messages that mark chunks; `name` is the capture's."""
    return f"{MARK_PREFIX}{name}"


def _one(connection: Connection, query: str) -> str:
    found = connection.execute(query.encode()).fetchone()
    assert found is not None
    return str(found[0])
