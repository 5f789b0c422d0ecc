"""The tables as they were at one place of the log.

`START TRANSACTION WITH CONSISTENT SNAPSHOT` takes it without a lock, and the server says at which place of its log that
is. The tables must be InnoDB's for that: others have no past to look at. A table that was read cannot be altered before
all are, unless the user may set `sql_log_bin` (BINLOG ADMIN): then it is let go of at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pymysql  # type: ignore[import-untyped]
from pymysql.cursors import SSCursor  # type: ignore[import-untyped]

from runnel.capture.errors import PositionLost
from runnel.capture.events import Position
from runnel.capture.mariadb.connections import Address, Connection, ask, ask_one, literal, number_of
from runnel.capture.mariadb.gtids import Place, place_of, text_of
from runnel.capture.mariadb.kinds import Kind
from runnel.capture.mariadb.queries import converter, query_of
from runnel.capture.tables import Row, Table

PIECE_BYTES: Final = 1024 * 1024
FEWEST, MOST = 16, 4096  # rows of a piece
SAMPLE: Final = 8
DENIED: Final = 1227


class Readable(NamedTuple):
    table: Table
    kinds: tuple[Kind, ...]
    rows: int  # about


class Taken(NamedTuple):
    """Where in the log a transaction looks at the tables."""

    file: str
    pos: int
    gtid: str
    server: int

    @property
    def place(self) -> Place:
        return place_of(self.gtid)

    def at(self) -> Mapping[str, Any]:
        return {"gtid": self.gtid, "file": self.file, "pos": self.pos, "server": self.server}


def let_go_early(connection: Connection) -> None:
    """The server keeps tables for a savepoint's sake only where a transaction might be logged."""
    try:
        ask(connection, "SET SESSION sql_log_bin = 0")
    except pymysql.MySQLError as error:
        if number_of(error) != DENIED:
            raise


def begin(connection: Connection, shown: str) -> Taken:
    ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    found: dict[str, str] = dict(ask(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'"))
    return taken_at(connection, found["Binlog_snapshot_file"], int(found["Binlog_snapshot_position"]), shown)


def taken_at(connection: Connection, file: str, pos: int, shown: str) -> Taken:
    gtid, server = ask_one(connection, f"SELECT BINLOG_GTID_POS({literal(file)}, {pos}), @@GLOBAL.server_id")
    if gtid is None:
        raise PositionLost(shown, f"its log has no place {file}:{pos}")
    return Taken(file, pos, text_of(place_of(str(gtid))), int(server))  # the server's order of domains is any


def end_of_log(connection: Connection, shown: str) -> Taken:
    found = ask(connection, "SHOW MASTER STATUS")
    if not found:
        raise PositionLost(shown, "it keeps no binary log any more")
    file, pos, *_ = found[0]
    return taken_at(connection, str(file), int(pos), shown)


class MariadbSnapshot:
    def __init__(self, address: Address, connection: Connection, taken: Taken, readable: Sequence[Readable]) -> None:
        self._address = address
        self._connection = connection
        self._readable = {each.table.id: each for each in readable}
        self.position = Position(taken.at())
        (now,) = ask_one(connection, "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS INTEGER)")
        self.micros = int(now)
        self.source = source_of(taken)

    def tables(self) -> Sequence[Table]:
        return [each.table for each in self._readable.values()]

    def estimate(self, table: Table) -> int:
        return self._readable[table.id].rows

    def rows(self, table: Table, after: Row | None = None) -> Iterator[Sequence[Row]]:
        with self._address.telling():
            ask(self._connection, "SAVEPOINT runnel_table")
        yield from self._keyed(table, after) if table.key else self._keyless(table)
        with self._address.telling():
            ask(self._connection, "ROLLBACK TO SAVEPOINT runnel_table")  # lets go of the table

    def _keyed(self, table: Table, after: Row | None) -> Iterator[Sequence[Row]]:
        kinds = self._readable[table.id].kinds
        convert, count = converter(kinds), FEWEST
        while True:
            with self._address.telling():
                piece = [convert(row) for row in ask(self._connection, query_of(table, kinds, after, count))]
            if piece:
                yield piece
            if len(piece) < count:
                return
            after, count = table.key_of(piece[-1]), next_count(piece, PIECE_BYTES, MOST)

    def _keyless(self, table: Table) -> Iterator[Sequence[Row]]:
        """Nobody could go on in the middle of it: it comes as a whole, as it is sent."""
        kinds = self._readable[table.id].kinds
        convert, count = converter(kinds), FEWEST
        with self._address.telling(), self._connection.cursor(SSCursor) as cursor:
            cursor.execute(query_of(table, kinds, None))
            while found := cursor.fetchmany(count):
                piece = [convert(row) for row in found]
                yield piece
                count = next_count(piece, PIECE_BYTES, MOST)


def source_of(taken: Taken) -> str:
    place = f'"file":"{taken.file}","pos":{taken.pos}'
    return f'"sequence":null,"server_id":{taken.server},"gtid":null,{place},"row":0,"thread":null,"query":null'


def next_count(piece: Sequence[Row], most_bytes: int, most: int) -> int:
    """So many rows as fit into a piece if the next ones are like these."""
    step = max(1, len(piece) // SAMPLE)
    sampled = piece[::step]
    size = sum(len(value) if isinstance(value, str | bytes) else 8 for row in sampled for value in row) // len(sampled)
    return max(FEWEST, min(most, most_bytes // (size + 1)))
