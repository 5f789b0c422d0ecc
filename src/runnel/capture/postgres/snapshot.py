"""The tables as they were at one place of the log.

A temporary slot gives the place and a snapshot that others can take over. One transaction takes it, and the slot is let
go of: what is behind the place is kept by the capture's own slot. Rows come through a cursor, as text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from runnel.capture.events import Position
from runnel.capture.postgres.catalog import CatalogTable
from runnel.capture.postgres.connections import Address, Connection, identifier, literal, texts
from runnel.capture.postgres.errors import SnapshotOutdated
from runnel.capture.postgres.replication import lsn_number
from runnel.capture.tables import Row, Table

PIECE_BYTES: Final = 1024 * 1024
FEWEST, MOST = 16, 4096  # rows of a piece
SAMPLE: Final = 8
FILES: Final = """
SELECT FROM pg_class WHERE relkind = 'r' AND relfilenode IS DISTINCT FROM pg_relation_filenode(oid)
AND (oid = {oid} OR oid IN (SELECT relid FROM pg_partition_tree({oid}::regclass)))
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
        self.position = position
        self.micros = micros
        lsn = position.at["lsn"]
        self.source = f'"sequence":"[null,\\"{lsn}\\"]","txId":null,"lsn":{lsn},"xmin":null'

    def tables(self) -> Sequence[Table]:
        return [each.table for each in self._readable.values()]

    def estimate(self, table: Table) -> int:
        return self._readable[table.id].rows

    def rows(self, table: Table, after: Row | None = None) -> Iterator[Sequence[Row]]:
        query = query_of(self._readable[table.id], after)
        with self._address.telling():
            self._connection.execute(f"DECLARE rows NO SCROLL CURSOR FOR {query}".encode())
            self._check_files(self._readable[table.id].found)  # now that nobody can change them any more
        try:
            yield from self._pieces()
        finally:
            if not self._connection.closed and self._connection.info.transaction_status.name == "INTRANS":
                self._connection.execute("CLOSE rows")

    def _check_files(self, found: CatalogTable) -> None:
        """The catalog shows the files of the snapshot, the function those of now."""
        changed = self._connection.execute(FILES.format(oid=found.oid).encode()).fetchall()
        if changed:
            raise SnapshotOutdated(self._address.shown, str(found.id))

    def _pieces(self) -> Iterator[Sequence[Row]]:
        count = FEWEST
        while True:
            with self._address.telling():
                piece = self._connection.execute(f"FETCH FORWARD {count} FROM rows".encode()).fetchall()
            if piece:
                yield piece
            if len(piece) < count:
                return
            count = next_count(piece)


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
        with address.telling(), address.connect(replication=True) as exporter:
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


def query_of(readable: Readable, after: Row | None, where: str | None = None) -> str:
    """In the order of the key; `where` is one more condition. A row comparison orders as ORDER BY does, by the columns'
    own types and collations.
    """
    table, found = readable.table, readable.found
    columns = ", ".join(identifier(column.name) for column in table.columns) or "NULL"
    only = "ONLY " if found.kind == "r" else ""
    query = f"SELECT {columns} FROM {only}{identifier(*table.id)}"
    conditions = [f"({readable.row_filter})"] if readable.row_filter else []
    key = [table.columns[place].name for place in table.key]
    names = ", ".join(identifier(name) for name in key)
    if after is not None:
        types = {column.name: column.sql_type for column in found.columns}
        values = ", ".join(f"{literal(value)}::{types[name]}" for name, value in zip(key, after, strict=True))
        conditions.append(f"({names}) > ({values})")
    if where is not None:
        conditions.append(f"({where}\n)")  # it may end with a comment
    if conditions:
        query += f" WHERE {' AND '.join(conditions)}"
    return f"{query} ORDER BY {names}" if key else query


def next_count(piece: Sequence[Row], most_bytes: int = PIECE_BYTES, most: int = MOST) -> int:
    """So many rows as fit into a piece if the next ones are like these."""
    step = max(1, len(piece) // SAMPLE)
    sampled = piece[::step]
    size = sum(len(value) for row in sampled for value in row if value is not None) // len(sampled)
    return max(FEWEST, min(most, most_bytes // (size + 1)))
