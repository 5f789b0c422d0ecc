"""The tables as they were at one place of the log.

A temporary slot gives the place and a snapshot that others can take over. One transaction takes it, and the slot is let
go of: what is behind the place is kept by the capture's own slot. Rows come through a cursor, as text.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg

from runnel.capture.events import Position
from runnel.capture.incremental import key_columns
from runnel.capture.postgres.catalog import CatalogTable, Operators
from runnel.capture.postgres.connections import Address, Connection, identifier, literal, texts
from runnel.capture.postgres.errors import SlotWaits, SnapshotOutdated
from runnel.capture.postgres.readiness import PATIENCE_SECONDS
from runnel.capture.postgres.replication import lsn_number
from runnel.capture.tables import UNCHANGED, Row, Table, TableId

PIECE_BYTES: Final = 1024 * 1024
FEWEST, MOST = 16, 4096  # rows of a piece
SAMPLE: Final = 8
PLAIN: Final = Operators()
FILES: Final = """
SELECT FROM pg_class WHERE relkind = 'r' AND relfilenode IS DISTINCT FROM pg_relation_filenode(oid)
AND (oid = {oid} OR oid IN (SELECT relid FROM pg_partition_tree({oid}::regclass)))
UNION ALL SELECT WHERE to_regclass({name}) IS DISTINCT FROM {oid}::regclass
"""


class Readable(NamedTuple):
    """A table to read: what of it is published, and about how many rows it has."""

    table: Table
    found: CatalogTable
    row_filter: str | None
    rows: int


class PostgresSnapshot:
    def __init__(
        self, address: Address, connection: Connection, position: Position, micros: int, readable: Sequence[Readable]
    ) -> None:
        self._address = address
        self._connection = connection
        self._readable = {each.table.id: each for each in readable}
        self._cursors = itertools.count(1)
        self._looked_at: set[TableId] = set()  # tables whose rows were asked for one by one
        self.position = position
        self.micros = micros
        lsn = position.at["lsn"]
        self.source = f'"sequence":"[null,\\"{lsn}\\"]","txId":null,"lsn":{lsn},"xmin":null'

    def tables(self) -> Sequence[Table]:
        return [each.table for each in self._readable.values()]

    def estimate(self, table: Table) -> int:
        return self._readable[table.id].rows

    def rows(self, table: Table, after: Row | None = None) -> Iterator[Sequence[Row]]:
        readable, name = self._readable[table.id], f"rows_{next(self._cursors)}"  # one that was left open is in no way
        if (
            self._connection.info.transaction_status.name == "INERROR"
        ):  # rows of a reading that was given up were refused
            raise SnapshotOutdated(self._address.shown, str(table.id))
        with self._address.telling(), self._noticing(readable.found):
            self._connection.execute(f"DECLARE {name} NO SCROLL CURSOR FOR {query_of(readable, after)}".encode())
            self._check_files(readable.found)  # now that nobody can change them any more
        try:
            yield from self._pieces(name)
        finally:
            if not self._connection.closed and self._connection.info.transaction_status.name == "INTRANS":
                self._connection.execute(f"CLOSE {name}".encode())

    def row(self, table: Table, row: Row) -> Mapping[str, Any] | None:
        """The row with the key of this one; None if there is none. By the names of the columns that are as in `table`,
        which may be of another time.
        """
        readable = self._readable.get(table.id)
        key = table.key_of(row)
        if readable is None or not key or UNCHANGED in key or not is_same(readable.table, table):
            return None
        with self._address.telling(), self._noticing(readable.found):
            found = self._connection.execute(query_of_row(readable, key).encode()).fetchone()
            if found is None or table.id not in self._looked_at:
                self._check_files(readable.found)  # a table that was rewritten looks empty, another one has other rows
                self._looked_at.add(table.id)
            if found is None:
                return None
        return by_name(readable.table, found, table)

    @contextmanager
    def _noticing(self, found: CatalogTable) -> Iterator[None]:
        """A column or a table that went while it was to be read: the next snapshot is taken of what is there."""
        try:
            yield
        except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable):
            raise SnapshotOutdated(self._address.shown, str(found.id)) from None

    def _check_files(self, found: CatalogTable) -> None:
        """The catalog shows the files of the snapshot, the functions those of now, and whose the name is."""
        name = literal(identifier(*found.id))
        changed = self._connection.execute(FILES.format(oid=found.oid, name=name).encode()).fetchall()
        if changed:
            raise SnapshotOutdated(self._address.shown, str(found.id))

    def _pieces(self, cursor: str) -> Iterator[Sequence[Row]]:
        """The next one is fetched while somebody writes the last."""
        count = FEWEST
        with ThreadPoolExecutor(1, "runnel-capture-rows") as ahead:
            coming = ahead.submit(self._fetch, cursor, count)
            while True:
                piece = coming.result()
                is_end = len(piece) < count
                if not is_end:
                    count = next_count(piece, PIECE_BYTES, MOST)
                    coming = ahead.submit(self._fetch, cursor, count)
                if piece:
                    yield piece
                if is_end:
                    return

    def _fetch(self, cursor: str, count: int) -> Sequence[Row]:
        with self._address.telling():
            return self._connection.execute(f"FETCH FORWARD {count} FROM {cursor}".encode()).fetchall()


@contextmanager
def taken(
    address: Address,
    at: Callable[[int], Mapping[str, Any]],
    describe: Callable[[], Sequence[Readable]],
) -> Iterator[PostgresSnapshot]:
    """`describe` gives the tables; it is called when the place is known."""
    name = f"runnel_snapshot_{os.urandom(6).hex()}"
    reader = address.connect(adapters=texts())
    try:
        with address.telling(), address.connect(replication=True) as exporter, _patiently(exporter, address.shown):
            made = exporter.execute(
                f"CREATE_REPLICATION_SLOT {identifier(name)} TEMPORARY LOGICAL pgoutput (SNAPSHOT 'export')".encode()
            ).fetchone()
            assert made is not None
            _, place, exported, _ = made
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            reader.execute(f"SET TRANSACTION SNAPSHOT {literal(exported)}".encode())
            now = reader.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8").fetchone()
            assert now is not None
        yield PostgresSnapshot(address, reader, Position(at(lsn_number(place))), int(now[0]), describe())
    finally:
        reader.close()


@contextmanager
def _patiently(connection: Connection, shown: str) -> Iterator[None]:
    """A slot waits for the transactions that are open. No time-out of the server's holds for those who replicate."""
    timer = threading.Timer(PATIENCE_SECONDS, connection.cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    except psycopg.errors.QueryCanceled:
        raise SlotWaits(shown, PATIENCE_SECONDS) from None
    finally:
        timer.cancel()


def query_of(readable: Readable, after: Row | None, where: str | None = None) -> str:
    """In the order of the key; `where` is one more condition."""
    conditions = [f"({readable.row_filter})"] if readable.row_filter else []
    names = _key_names(readable)
    if after is not None:
        conditions.append(_behind(readable, after))
    if where is not None:
        conditions.append(f"({where}\n)")  # it may end with a comment
    chosen = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{_selected(readable)}{chosen}" + (f" ORDER BY {names}" if names else "")


def query_of_row(readable: Readable, key: Row) -> str:
    same = (f"{name} {own.same} {value}" for name, value, own in _compared(readable, key))
    return f"{_selected(readable)} WHERE {' AND '.join(same)}"


def is_same(table: Table, other: Table) -> bool:
    """Whether a key of one is that of a row of the other."""
    return table.number == other.number and key_columns(table) == key_columns(other)


def by_name(table: Table, row: Row, other: Table) -> Mapping[str, Any]:
    """The row by the names of the columns that are as in `other`, which may be of another time."""
    known = {column.name: (column.type, column.form.schema) for column in other.columns}
    return {
        column.name: value
        for column, value in zip(table.columns, row, strict=True)
        if known.get(column.name) == (column.type, column.form.schema)
    }


def _named_key(table: Table) -> list[str]:
    return [table.columns[place].name for place in table.key]


def _selected(readable: Readable) -> str:
    table = readable.table
    columns = ", ".join(identifier(column.name) for column in table.columns) or "NULL"
    only = "ONLY " if readable.found.kind == "r" else ""
    return f"SELECT {columns} FROM {only}{identifier(*table.id)}"


def _key_names(readable: Readable) -> str:
    return ", ".join(map(identifier, _named_key(readable.table)))


def _behind(readable: Readable, key: Row) -> str:
    """Rows with a greater key. A row comparison orders as ORDER BY does, by the columns' own types and collations;
    where types have operators of their own it is spelled out, and the first condition says where in the index to begin.
    """
    compared = _compared(readable, key)
    if not readable.found.operators:
        values = ", ".join(value for _, value, _ in compared)
        return f"({_key_names(readable)}) > ({values})"
    cases = []
    for place, (name, value, own) in enumerate(compared):
        same = [f"{each} {its.same} {known}" for each, known, its in compared[:place]]
        cases.append(f"({' AND '.join([*same, f'{name} {own.behind} {value}'])})")
    name, value, own = compared[0]
    return f"{name} {own.from_on} {value} AND ({' OR '.join(cases)})"


def _compared(readable: Readable, key: Row) -> list[tuple[str, str, Operators]]:
    """The columns of the key, each with its value, and what compares them."""
    types = {column.name: column.sql_type for column in readable.found.columns}
    own = readable.found.operators
    pairs = zip(_named_key(readable.table), key, strict=True)
    return [(identifier(name), f"{literal(value)}::{types[name]}", own.get(name, PLAIN)) for name, value in pairs]


def next_count(piece: Sequence[Row], most_bytes: int, most: int) -> int:
    """So many rows as fit into a piece if the next ones are like these."""
    step = max(1, len(piece) // SAMPLE)
    sampled = piece[::step]
    size = sum(len(value) for row in sampled for value in row if value is not None) // len(sampled)
    return max(FEWEST, min(most, most_bytes // (size + 1)))
