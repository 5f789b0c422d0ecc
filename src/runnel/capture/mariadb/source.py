"""A MariaDB as a source of changes. See `runnel.capture.source` for what it promises.

It reads the log as a replica does, and makes nothing in the database. The server keeps its log as long as its own
settings say (`binlog_expire_logs_seconds`): where it has removed what was to be read next, that is refused. So is a log
that was begun anew (`RESET MASTER`), and another server, unless it is a replica that has the same transactions.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from runnel.capture.errors import PositionLost, TableMissing
from runnel.capture.events import Position
from runnel.capture.forms import Binary, Decimals
from runnel.capture.mariadb import catalog
from runnel.capture.mariadb.cascades import Cascades
from runnel.capture.mariadb.catalog import ListedTable
from runnel.capture.mariadb.changes import Catalog, MariadbChanges
from runnel.capture.mariadb.chunks import Chunks
from runnel.capture.mariadb.connections import Address, Connection, ask, ask_one, literal
from runnel.capture.mariadb.definitions import Definitions, Shown
from runnel.capture.mariadb.dump import Dump
from runnel.capture.mariadb.errors import HistoryKept
from runnel.capture.mariadb.forms import Modes, Times
from runnel.capture.mariadb.gtids import place_of
from runnel.capture.mariadb.prepared import Looking
from runnel.capture.mariadb.readiness import Readiness
from runnel.capture.mariadb.snapshot import MariadbSnapshot, Readable, Taken, begin, end_of_log, let_go_early
from runnel.capture.mariadb.spelling import Letters
from runnel.capture.mariadb.table_maps import TableMap
from runnel.capture.mariadb.values import Text
from runnel.capture.source import Chunk
from runnel.capture.tables import Row, Table, TableId

Chosen = Callable[[TableId], bool]
LAST_ASKED: Final = 2**32 - 1  # place of which the server says what is before it
FIRST_SERVER, SERVERS = 1_000_000_000, 3_000_000_000  # among which a reader's own number is


class MariadbSource:
    connector = "mariadb"
    counts_unchosen = False
    has_schemas = False
    unit = "bytes"
    fields: Sequence[Mapping[str, Any]] = (
        {"type": "string", "optional": True, "field": "sequence"},
        {"type": "int64", "optional": False, "field": "server_id"},
        {"type": "string", "optional": True, "field": "gtid"},
        {"type": "string", "optional": False, "field": "file"},
        {"type": "int64", "optional": False, "field": "pos"},
        {"type": "int32", "optional": False, "field": "row"},
        {"type": "int64", "optional": True, "field": "thread"},
        {"type": "string", "optional": True, "field": "query"},
    )

    def __init__(
        self,
        url: str,
        name: str,
        chosen: Chosen | Iterable[TableId],
        *,
        modes: Modes = Modes(),  # noqa: B008  # it never changes
    ) -> None:
        self._address = Address(url, name)
        listed = None if callable(chosen) else frozenset(chosen)
        self._chosen: Chosen = chosen if callable(chosen) else (listed or frozenset()).__contains__
        self._server_id = server_id_of(name)
        self._definitions = Definitions(modes, partial(self._address.connect, anywhere=True))
        self._changes: MariadbChanges | None = None
        self._letters = Letters.AS_WRITTEN
        self._is_spelled = False  # as the server has it
        self._told: Sequence[TableId] | None = None  # of these was told until now; None: of nothing
        self._chunks = Chunks(self._address, self._definitions)
        self._cascades = Cascades()
        self._looking = Looking(self._address, server_id_of(f"{name} looking"))
        self.database = self._address.database

    def recognize(self, _position: Position, tables: Collection[str] = ()) -> None:
        """`changes` looks at the position."""
        self._told = [TableId(*each.split(".", 1)) for each in tables]

    def prepare(self) -> Position:
        with self._connected() as connection:
            readiness = Readiness(self._address, connection)
            readiness.check_server()
            tables = self._tables(connection)
            if not tables and not self._are_away():
                known = [str(table.id) for table in catalog.tables(connection, self.database)]
                raise TableMissing("any of those that are chosen", self._address.shown, known)
            readiness.check_tables(tables)
            for table in tables:
                self._cascades.say(connection, table.id)
            return Position(end_of_log(connection, self._address.shown).at())

    def tables(self) -> Sequence[TableId]:
        with self._connected() as connection:
            return [table.id for table in self._tables(connection)]

    def known(self) -> Sequence[TableId]:
        with self._connected() as connection:
            return [table.id for table in catalog.tables(connection, self.database)]

    def table(self, table: TableId) -> Table:
        with self._connected() as connection:
            found = catalog.table(connection, table)
        if found is None:
            raise TableMissing(str(table), self._address.shown, [str(each) for each in self.known()])
        return self._definitions.of_catalog(found).table

    def changes(self, after: Position, until: Position | None = None) -> MariadbChanges:
        """Those that were read before end here: the server sends to one reader of a number."""
        if self._changes is not None:
            self._changes.close()
        with self._connected() as connection:
            end = end_of_log(connection, self._address.shown)
            self._check_history(connection, after, end)
            names = [table.id for table in self._tables(connection)]
        dump = Dump(self._address, self._server_id, str(after.at.get("from", after.at["gtid"])))
        known = Catalog(
            self._address.shown, self._is_ours, self._define, self._now, names, self._letters, self._text_of
        )
        self._changes = MariadbChanges(
            dump,
            known,
            end.server,
            after,
            None if until is None else until.at,
            self._definitions.close,
            self._looking.find,
        )
        return self._changes

    @contextmanager
    def snapshot(self) -> Iterator[MariadbSnapshot]:
        connection = self._address.connect()
        try:
            with self._address.telling():
                let_go_early(connection)
                taken = begin(connection, self._address.shown)
                found = MariadbSnapshot(self._address, connection, taken, self._readable())
            yield found
        finally:
            connection._force_close()

    def settle(self) -> None:
        """A chunk is at an exact place of the log, and none is given that changes have gone past."""

    def chunk(self, table: Table, after: Row | None, limit: int, tag: str, where: str | None = None) -> Chunk | None:
        changes = self._changes
        if changes is None:
            return None
        return self._chunks.read(table, after, limit, where, lambda taken: changes.mark(tag, taken.place))

    def confirm(self, position: Position) -> None:
        """The server keeps nothing for us."""

    def behind(self, position: Position) -> int:
        with self._connected() as connection:
            end = end_of_log(connection, self._address.shown)
            if end.place == place_of(position.at["gtid"]):
                return 0
            sizes = {str(name): int(size) for name, size, *_ in ask(connection, "SHOW BINARY LOGS")}
        return max(1, bytes_between(sizes, (str(position.at["file"]), int(position.at["pos"])), (end.file, end.pos)))

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None
        self._chunks.close()
        self._definitions.close()

    def remove(self) -> bool:
        """Nothing of ours is in the database."""
        return False

    # --- inside

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        connection = self._address.connect()
        try:
            with self._address.telling():
                self._learn_letters(connection)
                yield connection
        finally:
            connection._force_close()

    def _learn_letters(self, connection: Connection) -> None:
        """The database, too, is called as the catalog has it, and not as the address."""
        if self._is_spelled:
            return
        self._letters = catalog.letters(connection)
        if self._letters is not Letters.AS_WRITTEN:
            self.database = catalog.spelled(connection, self.database)
        self._is_spelled = True

    def _are_away(self) -> bool:
        """The tables that were told of, and are chosen here still: the changes say so. Else something else was chosen,
        or another database.
        """
        return self._told is not None and (not self._told or any(map(self._is_ours, self._told)))

    def _is_ours(self, table: TableId) -> bool:
        return table.schema == self.database and self._chosen(table)

    def _tables(self, connection: Connection) -> list[ListedTable]:
        return [table for table in catalog.tables(connection, self.database) if self._chosen(table.id)]

    def _readable(self) -> list[Readable]:
        described = []
        with self._connected() as connection:
            for listed in self._tables(connection):
                found = catalog.table(connection, listed.id)
                if found is not None:
                    described.append(Readable(*self._definitions.of_catalog(found), listed.rows))
        return described

    def _now(self, table: TableId) -> Table | None:
        with self._address.telling():
            found = catalog.table(self._definitions.connection, table)
        return None if found is None else self._definitions.of_catalog(found).table

    def _define(self, told: TableMap) -> Shown:
        table = TableId(told.schema, told.name)
        with self._address.telling():
            if catalog.is_versioned(self._definitions.connection, table):
                raise HistoryKept(str(table))
            self._cascades.say(self._definitions.connection, table)
            return self._definitions.of_log(told)

    def _text_of(self, collation: int | None) -> Text | None:
        with self._address.telling():
            return self._definitions.text_of(collation)

    def _check_history(self, connection: Connection, after: Position, end: Taken) -> None:
        """That our place in our file still is behind our transactions. Another server has other files: it is asked for
        the transactions alone, by the one who reads.
        """
        file, pos, gtid = str(after.at["file"]), int(after.at["pos"]), str(after.at["gtid"])
        if end.server != after.at["server"]:
            return
        if file > end.file:
            raise PositionLost(self._address.shown, f"its log does not have the file {file}: it was begun anew")
        sizes = {str(name): int(size) for name, size, *_ in ask(connection, "SHOW BINARY LOGS")}
        if file not in sizes:
            return  # whoever reads is told whether something is missing
        if LAST_ASKED < pos <= sizes[file]:
            return  # behind a very large transaction; that the file is so long is all that the server says of it
        (found,) = ask_one(connection, f"SELECT BINLOG_GTID_POS({literal(file)}, {pos})")
        if found is None or place_of(str(found)) != place_of(gtid):
            raise PositionLost(
                self._address.shown,
                f"at {file}:{pos} its log is not behind {gtid or 'its beginning'}, as it was, but behind "
                f"{found or 'nothing'}: it was begun anew, or this is another server",
            )


def bytes_between(sizes: Mapping[str, int], here: tuple[str, int], end: tuple[str, int]) -> int:
    """From one place of the log to another, by the sizes of its files."""
    (file, pos), (last, length) = here, end
    if file == last:
        return length - pos
    between = sum(size for name, size in sizes.items() if file < name < last)
    return max(0, sizes.get(file, pos) - pos) + between + length


def server_id_of(name: str) -> int:
    """The number by which the server knows this reader, which must be nobody else's."""
    return FIRST_SERVER + zlib.crc32(name.encode()) % SERVERS


def open_source(
    url: str,
    name: str,
    chosen: Chosen | Iterable[TableId],
    *,
    decimals: Decimals = Decimals.PRECISE,
    binary: Binary = Binary.BYTES,
    times: Times = Times.ADAPTIVE_TIME_MICROSECONDS,
) -> MariadbSource:
    return MariadbSource(url, name, chosen, modes=Modes(decimals, binary, times))
