"""A PostgreSQL as a source of changes. See `runnel.capture.source` for what it promises.

A position is a place in the log (LSN) with the server's identifier and its timeline. The slot is never ahead of the
position that is durable: it moves by `confirm` only. So a slot that begins behind the position was dropped and made
again, or somebody else read from it, and changes in between are lost; that is refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

from runnel.capture.errors import PositionLost, TableMissing
from runnel.capture.events import Position
from runnel.capture.forms import Binary, Decimals
from runnel.capture.postgres import catalog
from runnel.capture.postgres.catalog import ListedTable
from runnel.capture.postgres.changes import Messages, PostgresChanges
from runnel.capture.postgres.chunks import Chunks, Seen, mark_prefix
from runnel.capture.postgres.completed import CompletedChanges
from runnel.capture.postgres.connections import Address, Connection
from runnel.capture.postgres.definitions import Definitions
from runnel.capture.postgres.errors import NotReady, SlotInUse, TableMoved
from runnel.capture.postgres.forms import Modes, Times
from runnel.capture.postgres.identities import Identities, table_of
from runnel.capture.postgres.in_progress import InProgress
from runnel.capture.postgres.pgoutput import Relation
from runnel.capture.postgres.readiness import Published, Readiness, Slot
from runnel.capture.postgres.replication import Replication, lsn_number, lsn_text
from runnel.capture.postgres.snapshot import PostgresSnapshot, Readable, taken
from runnel.capture.postgres.vanished import Catalog, WatchedChanges
from runnel.capture.source import Changes, Chunk
from runnel.capture.tables import Row, Table, TableId

logger = logging.getLogger(__name__)

Chosen = Callable[[TableId], bool]
LONGEST_NAME: Final = 63
MEBIBYTE: Final = 2**20


class PostgresSource:
    """`slot` and `publication` are named if an administrator made them; else they are made, and removed by `remove`.
    `in_progress` takes large transactions in pieces before they are committed, and keeps them in a directory, if it
    names one, until they are.
    """

    connector = "postgresql"
    counts_unchosen = False
    has_schemas = True
    unit = "bytes"
    fields: Sequence[Mapping[str, Any]] = (
        {"type": "string", "optional": True, "field": "sequence"},
        {"type": "int64", "optional": True, "field": "txId"},
        {"type": "int64", "optional": True, "field": "lsn"},
        {"type": "int64", "optional": True, "field": "xmin"},
    )

    def __init__(
        self,
        url: str,
        name: str,
        chosen: Chosen | Iterable[TableId],
        *,
        modes: Modes = Modes(),  # noqa: B008  # it never changes
        slot: str | None = None,
        publication: str | None = None,
        in_progress: bool | str | Path = False,
    ) -> None:
        self._address = Address(url, name)
        self._listed = None if callable(chosen) else tuple(chosen)
        self._chosen: Chosen = chosen if callable(chosen) else frozenset(self._listed or ()).__contains__
        own = own_name(name)
        self._slot = slot or own
        self._publication = publication or own
        self._is_slot_given = slot is not None
        self._is_publication_given = publication is not None
        said: set[str] = set()
        self._definitions = Definitions(modes, self._address.connect, said)
        # Chunks are of now and the log is of then: what one knows of a table must not change what the other does.
        self._definitions_now = Definitions(modes, self._address.connect, said)
        self._listing: dict[TableId, ListedTable] = {}
        self._chunks = Chunks(self._address, name, self._readable, self._whole)
        self._marks = mark_prefix(name)
        self._is_in_progress = in_progress is not False
        self._directory = None if isinstance(in_progress, bool) else Path(in_progress)
        self._replication: Replication | None = None
        self._reading: Messages | None = None  # the replication, or what stands before it
        self._snapshot: PostgresSnapshot | None = None  # the one that is open
        self._remembered: Mapping[TableId, int | None] | None = None  # None: nobody said, it is what is there
        self._is_to_describe = False
        self._put_back: set[TableId] = set()  # into the publication, though they are not read anew
        self._said: set[tuple[int, str]] = set()  # tables of which it was said that they are not captured, and why
        self._seen: set[int] = set()  # whose partitions were looked at
        self._server: tuple[str, int] | None = None
        self.database = self._address.database

    def prepare(self) -> Position:
        with self._connected() as connection:
            readiness = self._readiness(connection)
            readiness.check_server()
            tables = self._tables(connection)
            if not tables and self._remembered is None:  # else they were removed, or the changes say that they are gone
                known = [str(table.id) for table in catalog.tables(connection)]
                raise TableMissing("any of those that are chosen", self._address.shown, known)
            is_first = self._remembered is None
            readiness.check_tables(tables, is_new=is_first)
            if not is_first:
                readiness.say_narrower([table for table in tables if table.oid not in self._seen])
            self._seen |= {table.oid for table in tables}
            if is_first:  # whoever reads from the slot is somebody else, whatever he is called
                readiness.check_reader()
            # One that is made after the first time has nothing for us, and would keep the log for nobody.
            found = None if is_first else self._slot_of(readiness)
            # Before the slot, which looks for it in the catalog of its own time. Who has read nothing yet takes nothing
            # away: the publication may be another capture's, whose name gives the same one.
            readiness.make_publication(tables, None if is_first else self._kept(connection), self._missed(tables))
            self._put_back.clear()
            slot = found or readiness.make_slot()
        self._identify()
        return Position(self._at(slot.confirmed))

    def tables(self) -> Sequence[TableId]:
        with self._connected() as connection:
            return [table.id for table in self._tables(connection)]

    def ready(self) -> Mapping[TableId, int]:
        """Those of `tables` that are published, with their numbers."""
        with self._connected() as connection:
            return {table.id: table.oid for table in self._ready(connection)}

    def unfit(self) -> Mapping[TableId, NotReady]:
        """Those that are chosen and left out of `tables`, each with what it lacks."""
        with self._connected() as connection:
            chosen = self._chosen_of(catalog.tables(connection))
            return {table.id: fault for table, fault in self._unfit(connection, chosen).items()}

    def known(self) -> Sequence[TableId]:
        with self._connected() as connection:
            return [table.id for table in catalog.tables(connection)]

    def table(self, table: TableId) -> Table:
        with self._address.telling():
            return self._readable(table).table

    def check_key(self, table: TableId, columns: Sequence[str]) -> None:
        with self._connected() as connection:
            self._readiness(connection).check_key(self._whole(table).found, columns)

    def numbers(self) -> Mapping[TableId, int]:
        with self._connected() as connection:
            return {table.id: table.oid for table in catalog.tables(connection)}

    def remember(self, tables: Mapping[TableId, int | None], *, describe: bool) -> None:
        self._remembered, self._is_to_describe = tables, describe

    def changes(self, after: Position, until: Position | None = None) -> Changes:
        """Those that were read before end here: a slot has one reader."""
        self.close()
        lsn = int(after.at["lsn"])
        self._identify()
        self._check_history(after)
        with self._connected() as connection:
            self._check_slot(connection, lsn)
            chosen = self._chosen_of(catalog.tables(connection))
            self._say_unpublished(connection, chosen)
            self._end_former_reader(connection)
        numbers = {table.id: table.oid for table in chosen}
        known = numbers if self._remembered is None else self._remembered
        changes = PostgresChanges(
            self._open(lsn),
            self._define,
            Identities(known, self._chosen, self._is_there, self._address.shown),
            self._at,
            after,
            None if until is None else until.at,
            self._definitions.close,
            self._marks,
        )
        if until is None:
            watched = WatchedChanges(
                changes, self._look, self._shown, known, after, self._address.shown, self._put_back.update
            )
            if self._is_to_describe:
                watched.describe(known)
            return watched
        snapshot = self._snapshot
        if snapshot is None or snapshot.position != until:
            return changes
        return CompletedChanges(changes, snapshot)

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSnapshot]:
        self._identify()
        ready = set(self.ready().values())  # before the place is known: of others the log does not tell from there on

        def describe() -> Sequence[Readable]:
            with self._connected() as connection:
                return self._described(connection, [each for each in self._tables(connection) if each.oid in ready])

        with taken(self._address, self._at, describe) as snapshot:
            self._snapshot = snapshot
            try:
                yield snapshot
            finally:
                self._snapshot = None

    def settle(self) -> None:
        self._chunks.settle()

    def chunk(self, table: Table, after: Row | None, limit: int, tag: str, where: str | None = None) -> Chunk | None:
        return self._chunks.read(table, after, limit, tag, where)

    def row_now(self, table: Table, key: Row, transaction: str) -> Mapping[str, Any] | None:
        if self._replication is not None:  # many rows may be asked for between two readings
            self._replication.report_if_due()
        return self._chunks.row(table, key, transaction)

    def confirm(self, position: Position) -> None:
        if self._replication is not None:
            self._replication.confirm(int(position.at["lsn"]))

    def behind(self, position: Position) -> int:
        return self._bytes_since(int(position.at["lsn"]))

    def retained(self) -> int:
        """How many bytes of its log the server keeps for us."""
        with self._connected() as connection:
            slot = self._readiness(connection).slot()
        return self._bytes_since(slot.restart) if slot is not None else 0

    def retained_limit(self) -> int | None:
        """How many bytes it keeps at most, by max_slot_wal_keep_size; beyond it the slot is lost. None: no limit."""
        with self._connected() as connection:
            found = connection.execute(
                "SELECT setting::int8 FROM pg_settings WHERE name = 'max_slot_wal_keep_size'"
            ).fetchone()
        return None if found is None or found[0] < 0 else int(found[0]) * MEBIBYTE

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = self._replication = None
        self._definitions.close()
        self._definitions_now.close()
        self._chunks.close()

    def remove(self) -> bool:
        with self._connected() as connection:
            self._end_former_reader(connection)
            try:
                return self._readiness(connection).remove()
            except psycopg.errors.ObjectInUse as error:
                raise SlotInUse(self._address.shown, self._slot, " ".join(str(error).split())) from error

    def _open(self, lsn: int) -> Messages:
        replication = Replication(self._address, self._slot, self._publication, lsn, in_progress=self._is_in_progress)
        self._replication = replication
        self._reading = InProgress(replication, self._directory) if self._is_in_progress else replication
        return self._reading

    def _look(self) -> Catalog:
        with self._address.telling():
            connection = self._definitions.connection
            # Before the tables are listed: one that goes in between is gone then, and not one that is not published.
            published = self._published(connection)
            listed = catalog.tables(connection)
            found = connection.execute(
                "SELECT pg_current_wal_insert_lsn()::text, (extract(epoch FROM clock_timestamp()) * 1000000)::int8"
            ).fetchone()
        assert found is not None
        captured = self._chosen_of(listed)
        parts = self._parts(listed, captured)
        tables = {table.id: table.oid for table in listed if table.id not in parts}
        unpublished = {table.id for table in captured if published is not None and table.id not in published}
        return Catalog(tables, lsn_number(found[0]), int(found[1]), unpublished)

    def _parts(self, listed: Sequence[ListedTable], captured: Sequence[ListedTable]) -> set[TableId]:
        """Chosen tables that are partitions of captured ones: their changes are told as those of the others."""
        numbers = {table.oid for table in captured}
        parts = [table for table in listed if table.oid not in numbers and self._chosen(table.id)]
        what = "it is a partition of another one that is captured, and `runnel capture snapshot` reads that anew"
        for table in parts:
            if table.id in (self._remembered or {}):
                self._say(table, what)
        return {table.id for table in parts}

    def _published(self, connection: Connection) -> Published | None:
        """None while somebody alters or drops one of them: it is looked for again, and said the next time."""
        try:
            return self._readiness(connection).published()
        except TableMoved:
            return None

    def _is_there(self, relation: Relation, transaction: int) -> bool | None:
        with self._address.telling():
            connection = self._definitions.connection
            snapshot = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
            listed = self._chosen_of(catalog.tables(connection))
            found = [table for table in listed if table.oid == relation.oid and table.id == table_of(relation)]
            unfit = self._unfit(connection, found)
        assert snapshot is not None
        if found and not unfit:
            return True
        if not Seen.of(snapshot[0]).has(transaction):
            return None
        self._say_unfit(unfit)
        return False

    def _shown(self, table: TableId) -> Table | None:
        try:
            return self.table(table)
        except TableMissing:
            return None

    def _end_former_reader(self, connection: Connection) -> None:
        """An older copy of this capture, which was fenced and may not know it yet. A slot has one reader; it is not
        taken away from others.
        """
        connection.execute(
            "SELECT pg_terminate_backend(slot.active_pid) FROM pg_replication_slots AS slot"
            " JOIN pg_stat_activity AS reader ON reader.pid = slot.active_pid"
            " WHERE slot.slot_name = %s AND reader.application_name = %s",
            (self._slot, self._address.application[:LONGEST_NAME]),
        )

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with self._address.telling(), self._address.connect() as connection:
            yield connection

    def _readiness(self, connection: Connection) -> Readiness:
        return Readiness(
            self._address,
            connection,
            publication=self._publication,
            slot=self._slot,
            given_publication=self._is_publication_given,
            given_slot=self._is_slot_given,
        )

    def _tables(self, connection: Connection) -> list[ListedTable]:
        """Those that are chosen. A partition is part of its table, unless only the partition is chosen. One that came
        when others were captured, and cannot be captured, is no reason to end: it is left out, and said.
        """
        listed = catalog.tables(connection)
        known = {table.id for table in listed}
        for identity in self._listed or ():
            if identity not in known:
                raise TableMissing(str(identity), self._address.shown, [str(each) for each in sorted(known)])
        return self._fit(connection, self._chosen_of(listed))

    def _fit(self, connection: Connection, tables: Sequence[ListedTable]) -> list[ListedTable]:
        unfit = self._unfit(connection, tables)
        self._say_unfit(unfit)
        return [table for table in tables if table not in unfit]

    def _unfit(self, connection: Connection, tables: Sequence[ListedTable]) -> Mapping[ListedTable, NotReady]:
        known = self._remembered
        later = [table for table in tables if table.id not in known] if known is not None else []
        return self._readiness(connection).unfit(later) if later else {}

    def _say_unfit(self, unfit: Mapping[ListedTable, NotReady]) -> None:
        for table, fault in unfit.items():
            self._say(table, f"{fault.missing} ({fault.hint})")

    def _ready(self, connection: Connection) -> list[ListedTable]:
        listed, published = self._tables(connection), self._readiness(connection).published()
        return [table for table in listed if table.id in published]

    def _say_unpublished(self, connection: Connection, chosen: Sequence[ListedTable]) -> None:
        """They came when the others were published."""
        published = self._published(connection)
        if published is None:
            return
        for table in self._fit(connection, chosen):
            if table.id not in published and table.id not in (self._remembered or {}):
                self._say(table, "it is not published yet: the next start of the capture reads it")

    def _say(self, table: ListedTable, what: str) -> None:
        """Once."""
        if (table.oid, what) not in self._said:
            self._said.add((table.oid, what))
            logger.warning('table "%s" of %s is not captured: %s', table.id, self._address.shown, what)

    def _missed(self, tables: Sequence[ListedTable]) -> set[TableId]:
        """Those that were told of: where one is not published, the changes have to say so before it is again."""
        known = self._remembered or {}
        return {table.id for table in tables if known.get(table.id) == table.oid} - self._put_back

    def _kept(self, connection: Connection) -> set[TableId]:
        """What the tables that were told of are called now: one that comes back to its name must not have been without
        a publication meanwhile, which nobody would notice.
        """
        numbers = set((self._remembered or {}).values())
        return {table.id for table in catalog.tables(connection) if table.oid in numbers}

    def _chosen_of(self, listed: Sequence[ListedTable]) -> list[ListedTable]:
        chosen = {table.oid: table for table in listed if self._chosen(table.id)}
        parents = {table.oid: table.parent for table in listed}
        return [table for table in chosen.values() if not _has_ancestor(table.oid, parents, chosen)]

    def _readable(self, table: TableId) -> Readable:
        """A table as it is now, with what is published of it."""
        return self._found(table, self._readiness(self._definitions_now.connection).published)

    def _whole(self, table: TableId) -> Readable:
        """With all that it has. To ask what is published may wait for whoever alters another one."""
        return self._found(table, dict)

    def _found(self, table: TableId, published: Callable[[], Published]) -> Readable:
        connection = self._definitions_now.connection
        listed = self._listing.get(table)
        found = None if listed is None else catalog.table(connection, listed.oid)
        if listed is None or found is None or found.id != table:
            self._listing = {each.id: each for each in catalog.tables(connection)}
            listed = self._listing.get(table)
            found = None if listed is None else catalog.table(connection, listed.oid)
        if listed is None or found is None:
            raise TableMissing(str(table), self._address.shown, [str(each) for each in self._listing])
        columns, row_filter = published().get(table, (None, None))
        return Readable(self._definitions_now.of_catalog(found, columns or None), found, row_filter, listed.rows)

    def _described(self, connection: Connection, tables: Sequence[ListedTable]) -> list[Readable]:
        published = self._readiness(connection).published()
        described = []
        for table in tables:
            found = catalog.table(connection, table.oid)
            if found is not None:
                columns, row_filter = published.get(table.id, (None, None))
                described.append(
                    Readable(self._definitions.of_catalog(found, columns or None), found, row_filter, table.rows)
                )
        self._definitions.close()
        return described

    def _define(self, relation: Relation) -> tuple[Table, bool]:
        with self._address.telling():
            return self._definitions.of_relation(relation)

    def _identify(self) -> None:
        with self._address.telling(), self._address.connect(replication=True) as connection:
            found = connection.execute("IDENTIFY_SYSTEM").fetchone()
            assert found is not None
            self._server = (found[0], int(found[1]))

    def _at(self, lsn: int) -> Mapping[str, Any]:
        assert self._server is not None
        return {"lsn": lsn, "timeline": self._server[1], "system": self._server[0]}

    def _check_history(self, after: Position) -> None:
        """A standby that took over has our history up to where it did; a backup that was brought back may not."""
        assert self._server is not None
        system, timeline = self._server
        if after.at["system"] != system:
            raise PositionLost(
                self._address.shown, f"it is another server: its identifier is {system}, not {after.at['system']}"
            )
        if after.at["timeline"] == timeline:
            return
        with self._address.telling(), self._address.connect(replication=True) as connection:
            found = connection.execute(f"TIMELINE_HISTORY {timeline}".encode()).fetchone()
        content = found[1] if found is not None else b""
        text = content.decode() if isinstance(content, bytes) else str(content)
        ended = {
            int(number): lsn_number(lsn) for number, lsn in re.findall(r"^(\d+)\s+([0-9A-F]+/[0-9A-F]+)", text, re.M)
        }
        last = ended.get(after.at["timeline"])
        if last is None or last < after.at["lsn"]:
            raise PositionLost(
                self._address.shown,
                f"its history left ours before {lsn_text(after.at['lsn'])}: "
                f"it is on timeline {timeline}, and was on {after.at['timeline']}",
            )

    def _check_slot(self, connection: Connection, lsn: int) -> None:
        slot = self._slot_of(self._readiness(connection))
        if slot.confirmed > lsn:
            raise PositionLost(
                self._address.shown,
                f'slot "{self._slot}" begins at {lsn_text(slot.confirmed)}, behind our position {lsn_text(lsn)}: '
                "it was dropped and made again, or somebody else read from it",
            )
        end = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert end is not None
        if lsn_number(end[0]) < lsn:
            raise PositionLost(
                self._address.shown,
                f"its log ends at {end[0]}, before our position {lsn_text(lsn)}: an older state of it was brought back",
            )

    def _slot_of(self, readiness: Readiness) -> Slot:
        slot = readiness.slot()
        if slot is None:
            raise PositionLost(self._address.shown, f'slot "{self._slot}" is gone')
        return slot

    def _bytes_since(self, lsn: int) -> int:
        with self._connected() as connection:
            found = connection.execute(
                "SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), %s::pg_lsn)::int8", [lsn_text(lsn)]
            ).fetchone()
        assert found is not None
        return max(0, int(found[0]))


def open_source(  # noqa: PLR0913  # what people choose, by its name
    url: str,
    name: str,
    chosen: Chosen | Iterable[TableId],
    *,
    decimals: Decimals = Decimals.PRECISE,
    binary: Binary = Binary.BYTES,
    times: Times = Times.ADAPTIVE,
    slot: str | None = None,
    publication: str | None = None,
    in_progress: bool | str | Path = False,
) -> PostgresSource:
    modes = Modes(decimals, binary, times)
    return PostgresSource(url, name, chosen, modes=modes, slot=slot, publication=publication, in_progress=in_progress)


def own_name(name: str) -> str:
    """Of the slot and the publication that are made. A slot's name may have small letters, digits and underscores."""
    return f"runnel_{re.sub(r'[^a-z0-9_]', '_', name.lower())}"[:LONGEST_NAME]


def _has_ancestor(oid: int, parents: Mapping[int, int | None], chosen: Mapping[int, object]) -> bool:
    parent = parents.get(oid)
    while parent is not None:
        if parent in chosen:
            return True
        parent = parents.get(parent)
    return False
