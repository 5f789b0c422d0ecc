"""Some rows of a table beside the open changes, as they are at an exact place of the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pymysql  # type: ignore[import-untyped]

from runnel.capture.errors import InvalidFilter, TableMissing
from runnel.capture.mariadb import catalog
from runnel.capture.mariadb.connections import AWAY, LOCKED, Address, Connection, Record, ask, number_of, reason_of
from runnel.capture.mariadb.definitions import Definitions, Described
from runnel.capture.mariadb.queries import converter, query_of
from runnel.capture.mariadb.snapshot import FEWEST, Taken, begin, next_count, source_of
from runnel.capture.source import Chunk
from runnel.capture.tables import Row, Table, TableId

CHUNK_BYTES: Final = 8 * 1024 * 1024
GONE: Final = frozenset({1146, 1814})  # or its rows are, until a file is put in their place
ALTERED: Final = 1412
TOO_LONG: Final = 1969
# A condition that fits few rows may look at all of them for a chunk, and no changes are told meanwhile.
FILTER_SECONDS: Final = 60.0
CLIENT: Final = 2000  # where the client's own errors begin


class Chunks:
    """It reads over one connection, which `close` closes until later."""

    def __init__(self, address: Address, definitions: Definitions) -> None:
        self._address = address
        self._definitions = definitions
        self._connection: Connection | None = None
        self._counts: dict[TableId, int] = {}  # how many rows a chunk of a table may have by their size

    def read(
        self, table: Table, after: Row | None, limit: int, where: str | None, mark: Callable[[Taken], bool]
    ) -> Chunk | None:
        count = min(limit, self._counts.get(table.id, FEWEST))
        with self._address.telling():
            connection = self._connected()
            taken = begin(connection, self._address.shown)
            try:
                found = self._described(connection, table)
                if after is not None and _key(found.table) != _key(table):
                    return Chunk(found.table, (), False, _sees_all)
                rows = self._rows(connection, found, after, count, where)
            finally:
                ask(connection, "ROLLBACK")
        if rows:
            self._counts[table.id] = next_count(rows, CHUNK_BYTES, max(limit, FEWEST))
        if rows is None or not mark(taken):
            return None
        convert = converter(found.kinds)
        return Chunk(found.table, [convert(row) for row in rows], len(rows) < count, _sees_all, source_of(taken))

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection._force_close()
        self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None or not self._connection.open:
            self._connection = self._address.connect()
        return self._connection

    def _described(self, connection: Connection, table: Table) -> Described:
        found = catalog.table(connection, table.id)
        if found is None:
            raise self._missing(connection, table)
        return self._definitions.of_catalog(found)

    def _rows(
        self, connection: Connection, found: Described, after: Row | None, limit: int, where: str | None
    ) -> list[Record] | None:
        """None where the table was altered since the transaction began, or where somebody keeps it locked."""
        try:
            return ask(connection, _limited(query_of(found.table, found.kinds, after, limit, where), where))
        except pymysql.MySQLError as error:
            number = number_of(error)
            if number in (ALTERED, LOCKED):
                return None
            if number in GONE:
                raise self._missing(connection, found.table) from error
            if where is not None and number == TOO_LONG:
                raise _too_long(found.table, where) from error
            if where is not None and 1000 < number < CLIENT and number not in AWAY:
                raise InvalidFilter(str(found.table.id), where, reason_of(error)) from error
            raise

    def _missing(self, connection: Connection, table: Table) -> TableMissing:
        known = [str(each.id) for each in catalog.tables(connection, table.id.schema)]
        return TableMissing(str(table.id), self._address.shown, known)


def _limited(query: str, where: str | None) -> str:
    """Nobody waits for a table that is locked, as by an ALTER TABLE that waits itself: no changes would be told."""
    limits = "lock_wait_timeout = 0"
    if where is not None:
        limits += f", max_statement_time = {FILTER_SECONDS:g}"
    return f"SET STATEMENT {limits} FOR {query}"


def _too_long(table: Table, where: str) -> InvalidFilter:
    return InvalidFilter(
        str(table.id),
        where,
        f"the rows of a chunk were not found within {FILTER_SECONDS:g} s, in which no changes are told",
        hint="the filter needs an index: make one for it, or choose by the key",
    )


def _sees_all(_: str) -> bool:
    return True


def _key(table: Table) -> list[str]:
    return [table.columns[place].name for place in table.key]
