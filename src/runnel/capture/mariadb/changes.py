"""Changes of the chosen tables, from the log's events, in the order of commits.

A position is the last transaction of each domain (`gtid`); the file and the place in it are for counting bytes, and to
notice a log that was begun anew. While XA transactions are prepared, reading begins `from` before the first of them.
One that was prepared before reading began at all is looked for when it is committed (see `prepared`):

    {"gtid": "0-1-270", "file": "mariadb-bin.000004", "pos": 1811, "server": 1}

Where a chunk of a table belongs is a place in the log as well: `mark` has it told when reading comes there.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias

from runnel.capture.events import Began, Came, Change, Ended, Event, Gone, Mark, Passed, Position, Redefined, Truncated
from runnel.capture.mariadb import binlog, statements
from runnel.capture.mariadb.binlog import Event as Logged
from runnel.capture.mariadb.definitions import Shown
from runnel.capture.mariadb.errors import HistoryKept, LogUnreadable, PreparedLost, StatementLogged
from runnel.capture.mariadb.groups import Group, Item, Prepared
from runnel.capture.mariadb.gtids import Place, is_at, is_behind, place_of, text_of
from runnel.capture.mariadb.rows import pairs_of
from runnel.capture.mariadb.spelling import Letters, Spelling
from runnel.capture.mariadb.statements import Doing
from runnel.capture.mariadb.table_maps import TableMap, table_map_of
from runnel.capture.mariadb.values import TextOf, UnknownType
from runnel.capture.tables import Operation, Table, TableId

LOGGER: Final = logging.getLogger(__name__)
AT_ONCE: Final = 4096  # events
PASSED_SECONDS: Final = 1.0
FOUR_GIB: Final = 1 << 32  # where the places of events begin again
BODY: Final = binlog.HEADER + 8  # of a table map, behind the table's number
SERVERS_OWN: Final = re.compile(r"CREATE (?:OR REPLACE )?TABLE .*? \(\n  ")  # as SHOW CREATE TABLE writes it
NEVER_LAST: Final = (Began, Redefined, Gone, Came, Truncated)

# What an XA transaction of this name did that was prepared before a place in a file of the log; None: nobody knows.
Find: TypeAlias = Callable[[bytes, str, Place], Sequence[Item] | None]


class Log(Protocol):
    """Where raw events come from: a `Dump`."""

    def read(self, seconds: float) -> Sequence[bytes]: ...

    def close(self) -> None: ...


class Catalog(NamedTuple):
    """What is known of tables: those that are chosen, what one of the log looks like, what one looks like now."""

    shown: str  # the database's address
    chosen: Callable[[TableId], bool]
    define: Callable[[TableMap], Shown]
    table: Callable[[TableId], Table | None]
    names: Collection[TableId]  # that were there when reading began
    letters: Letters = Letters.AS_WRITTEN
    text_of: TextOf = lambda _: None


class MariadbChanges:
    def __init__(
        self,
        log: Log,
        catalog: Catalog,
        server: int,
        after: Position,
        until: Mapping[str, Any] | None = None,
        closing: Callable[[], None] = lambda: None,
        find: Find | None = None,
    ) -> None:
        self._log = log
        self._catalog = catalog
        self._spelling = Spelling(catalog.letters, catalog.names)
        self._server = server
        self._until = until
        self._end = None if until is None else place_of(until["gtid"])
        self._closing = closing
        self._find = find
        self._here = place_of(after.at["gtid"])  # behind the last transaction that was told of
        self._known = dict(self._here) if "from" in after.at else {}  # told of in a former life, and read again
        self._from = place_of(after.at.get("from", after.at["gtid"]))
        self._is_inside = after.index > 0  # until the transaction is over in which reading goes on
        self._file, self._pos = str(after.at["file"]), int(after.at["pos"])
        self._place = self._file, self._pos  # behind the last transaction, or where the server waits at the end
        self._packets: deque[bytes] = deque()
        self._group: Group | None = None
        self._telling: Iterator[Event] | None = None
        self._prepared: dict[bytes, Prepared] = {}
        self._maps: dict[int, tuple[bytes, Shown | None]] = {}
        self._tables: dict[TableId, Table] = {}
        self._marks: list[tuple[Place, str]] = []
        self._last: Mapping[str, Any] = dict(after.at)
        self._passed_at = -PASSED_SECONDS
        self._micros = 0  # when the last transaction was committed that was begun to be read
        self._has_said_statement = False
        self.is_done = False  # it was read up to where it was to be
        self.is_at_end = False  # the server had nothing more when it sent last

    def read(self, seconds: float) -> Sequence[Event]:
        deadline = time.monotonic() + seconds
        events: list[Event] = []
        if self._telling is None:
            events.extend(self._reached())
        self._draw(events)
        while not events and not self.is_done:
            found = self._log.read(max(0.0, deadline - time.monotonic()))
            self._packets.extend(found)
            self._draw(events)
            is_late = time.monotonic() >= deadline
            if not events:
                self._pass(events, is_more=bool(found) and not self.is_at_end, is_late=is_late)
            if is_late:
                break
        return events

    def close(self) -> None:
        self._log.close()
        self._closing()

    def mark(self, tag: str, place: Place) -> bool:
        """Have a mark told at a place of the log; not if reading is behind it, or in the middle of what follows it."""
        is_within = self._telling is not None or (self._group is not None and self._group.is_begun)
        if is_behind(self._here, place) or (is_within and is_at(self._here, place)):
            return False
        self._marks.append((place, tag))
        return True

    def prepared(self, name: bytes) -> Sequence[Item] | None:
        """What an XA transaction did that is prepared here; None if there is none of this name."""
        found = self._prepared.get(name)
        return None if found is None else found.items

    # --- events of the log

    def _draw(self, events: list[Event]) -> None:
        while len(events) < AT_ONCE and not self.is_done:
            if self._telling is not None:
                wanted = AT_ONCE - len(events)
                found = list(islice(self._telling, wanted))
                # a beginning that is told counts only with what it begins, and what became of tables with its end:
                # a statement that empties one of which no row was told would not count again
                while found and isinstance(found[-1], NEVER_LAST) and (more := next(self._telling, None)):
                    found.append(more)
                events.extend(found)
                if len(found) < wanted:
                    self._telling = None
            elif self._packets:
                self._take(self._packets.popleft())
            else:
                return

    def _take(self, data: bytes) -> None:
        header = binlog.header_of(data)
        kind = header.kind
        self.is_at_end = kind == Logged.HEARTBEAT
        if kind == Logged.ROTATE:
            self._file, self._pos = binlog.rotated_to(data)
            return
        start, self._pos = self._pos, self._behind(header)
        if kind == Logged.INCIDENT:
            self._unreadable(
                f"the server says that changes are missing in it: {binlog.incident_of(data)}",
                hint="see to what the server's own log says of it; then `runnel capture remove`, and begin anew",
            )
        if kind == Logged.GTID:
            self._begin(binlog.beginning_of(data, header.server), header.seconds)
        elif self._group is None:
            self._check_passed(header)
            if kind == Logged.HEARTBEAT and binlog.beat_of(data) == self._file:
                self._place = self._file, self._pos
        elif kind in binlog.STATEMENTS:
            self._query(self._group, Item(kind, data, self._file, start))
        elif kind == Logged.XID:
            self._finish(self._group)
        elif kind == Logged.XA_PREPARE:
            self._prepare(self._group, binlog.prepare_of(data))
        elif kind == Logged.TABLE_MAP or kind in binlog.ROWS:
            self._hold(self._group, Item(kind, data, self._file, start))
        else:
            self._check_passed(header)

    def _behind(self, header: binlog.Header) -> int:
        """The place behind an event. Headers tell it without what is above 4 GiB, and not of what is in no file."""
        if not header.end or header.flags & binlog.ARTIFICIAL:
            return self._pos
        found = self._pos - self._pos % FOUR_GIB + header.end
        return found if found >= self._pos or header.kind == Logged.HEARTBEAT else found + FOUR_GIB

    def _check_passed(self, header: binlog.Header) -> None:
        known = header.kind in binlog.PASSED or header.kind == Logged.HEARTBEAT
        if not known and not header.flags & binlog.IGNORABLE:
            self._unreadable(
                f"it has an event of kind {header.kind}, which is not known",
                hint="this is a newer server than those that were tried: please report it",
            )

    def _begin(self, beginning: binlog.Beginning, seconds: int) -> None:
        if self._group is not None:  # its end is missing, as where the server was cut off: it was not committed
            self._undo(self._group, None)
        gtid = beginning.gtid
        told = self._known.get(gtid.domain)
        is_known = told is not None and gtid.number <= told.number
        self._micros = seconds * 1_000_000
        self._group = Group(beginning, self._micros, is_known)

    def _query(self, group: Group, item: Item) -> None:
        query = binlog.query_of(item.data, item.kind)
        words = query.text.split()
        first, second = (words[0].upper() if words else ""), (words[1].upper() if len(words) > 1 else "")
        if group.is_completing and first == "XA":
            self._complete(group, is_commit=second == "COMMIT")
        elif group.is_standalone:
            if group.beginning.takes_effect:
                group.add(item)
            self._finish(group)
        elif first == "COMMIT":
            self._finish(group)
        elif first == "ROLLBACK" and second == "TO":
            self._undo(group, _savepoint(query.text))
        elif first == "ROLLBACK":
            self._undo(group, None)
            self._finish(group)
        elif first == "SAVEPOINT":
            group.save(_savepoint(query.text))
        elif first not in ("BEGIN", "XA"):
            self._hold(group, item)

    def _hold(self, group: Group, item: Item) -> None:
        if group.is_known and not group.is_preparing:
            return
        group.add(item)
        if group.is_full and item.kind in binlog.ROWS:
            self._telling = self._told(group, group.taken(), is_end=False)

    def _finish(self, group: Group) -> None:
        self._group = None
        if not group.is_known:
            self._place = self._file, self._pos
            self._telling = self._told(group, group.taken(), is_end=True)

    # --- XA

    def _prepare(self, group: Group, prepare: binlog.Prepare) -> None:
        if not prepare.is_commit:
            before = self._from if group.is_known else self._here
            self._prepared[prepare.transaction] = Prepared(before, group.taken())
        self._finish(group)

    def _complete(self, group: Group, *, is_commit: bool) -> None:
        name = group.beginning.transaction or b""
        prepared = self._prepared.pop(name, None)
        if is_commit and prepared is not None:
            group.items = prepared.items
        elif is_commit and not group.is_known:
            found = None if self._find is None else self._find(name, self._file, self._here)
            if found is None:
                raise PreparedLost(self._catalog.shown, str(group.gtid), binlog.shown_name(name))
            group.items = list(found)
        self._finish(group)

    # --- what is told

    def _told(self, group: Group, items: Sequence[Item], *, is_end: bool) -> Iterator[Event]:
        for item in items:
            if item.kind == Logged.TABLE_MAP:
                self._map(item)
            elif item.kind in binlog.ROWS:
                yield from self._rows(group, item)
            else:
                yield from self._statement(group, item)
        if is_end:
            self._here = {**self._here, group.gtid.domain: group.gtid}
            if group.is_begun:
                self._is_inside = False
                self._last = self._at()
                yield Ended(str(group.gtid), self._last, group.micros)
            yield from self._reached()

    def _reached(self) -> Iterator[Event]:
        """What is to be told between transactions, at this place."""
        if self._end is not None and self._until is not None and not self.is_done:
            if is_at(self._here, self._end):
                self.is_done = True
                yield Passed(self._until)
            return
        for marked in [each for each in self._marks if is_at(self._here, each[0])]:
            self._marks.remove(marked)
            yield Mark(marked[1])

    def _beginning(self, group: Group) -> Iterator[Event]:
        if group.begin():
            yield Began(str(group.gtid), group.micros)

    def _map(self, item: Item) -> None:
        number, body = binlog.table_number(item.data), item.data[BODY:]
        known = self._maps.get(number)
        if known is None or known[0] != body:
            self._maps[number] = body, self._shown(item.data)

    def _shown(self, data: bytes) -> Shown | None:
        told = table_map_of(data)
        table = self._spelling.of(TableId(told.schema, told.name))
        if not self._catalog.chosen(table):
            return None
        told = told._replace(schema=table.schema, name=table.name)
        if not all(column.name for column in told.columns):
            self._unreadable(
                f"table {told.schema}.{told.name} was written without the names of its columns",
                hint="run SET GLOBAL binlog_row_metadata = 'FULL'; then `runnel capture remove`, and begin anew",
            )
        if told.is_sequence:
            return None
        try:
            return self._catalog.define(told)
        except UnknownType as error:
            self._unreadable(
                f"table {told.schema}.{told.name}: {error}", hint="leave the table out, or change the column's type"
            )

    def _rows(self, group: Group, item: Item) -> Iterator[Event]:
        number = binlog.table_number(item.data)
        shown = None if number == binlog.NO_TABLE else self._maps[number][1]
        if shown is None:
            return
        yield from self._beginning(group)
        kind, table, micros = item.kind, shown.table, group.micros
        if self._tables.get(table.id) is not table:
            self._tables[table.id] = table
            yield Redefined(table, micros)
        op: Operation = "c" if kind in binlog.WRITES else "u" if kind in binlog.UPDATES else "d"
        head, tail = self._source(group, item)
        for row, (old, new) in enumerate(pairs_of(binlog.rows_of(item.data, kind), shown.decoders, shown.hidden)):
            yield Change(table, op, old, new, f"{head}{row}{tail}", micros)

    def _source(self, group: Group, item: Item) -> tuple[str, str]:
        place = f'"file":"{item.file}","pos":{item.at}'
        head = f'"sequence":null,"server_id":{group.gtid.server},"gtid":"{group.gtid}",{place},"row":'
        return head, ',"thread":null,"query":null'

    def _statement(self, group: Group, item: Item) -> Iterator[Event]:
        query = binlog.query_of(item.data, item.kind)
        text = self._text(query)
        if statements.calls_function(text):
            self._say_statement(group, text)
        elif statements.changes_rows(text):
            self._refuse_statement(group, text, query.schema)
        filled = statements.filled_by(text, query.schema)
        if filled is not None and self._catalog.chosen(self._spelling.of(filled)):
            raise StatementLogged(self._catalog.shown, str(group.gtid), text[:200])
        begins_history = statements.begins_history(text)
        for doing, written in statements.effects_of(text, query.schema):
            table = self._spelling.of(written)
            for each in [table] if table.name else self._tables_of(table.schema):
                if self._catalog.chosen(each):
                    if begins_history and doing is not Doing.GONE:
                        raise HistoryKept(str(each))
                    yield from self._effect(group, item, doing, each)
            if doing is Doing.GONE:
                self._spelling.forget(table)

    def _text(self, query: binlog.Query) -> str:
        """What the server has written itself is in its own letters, whoever sent the statement: it is a part of CREATE
        TABLE ... SELECT, or it says what CREATE TABLE ... LIKE has made of a temporary table.
        """
        is_own = SERVERS_OWN.match(query.text) is not None and "\ufffd" not in query.text
        text_of = None if is_own or query.data.isascii() else self._catalog.text_of(query.collation)
        return query.text if text_of is None else text_of(query.data)

    def _effect(self, group: Group, item: Item, doing: Doing, table: TableId) -> Iterator[Event]:
        if doing is Doing.ALTERED:
            self._maps.clear()
            return
        if doing is Doing.UNSEEN:
            LOGGER.warning("rows of table %s came or went at once, as with a partition: the log has none", table)
        yield from self._beginning(group)
        head, tail = self._source(group, item)
        source = f"{head}0{tail}"
        if doing is Doing.EMPTIED:
            # of one that is gone since only the name is known; it is told all the same, and counts
            found = self._tables.get(table) or self._catalog.table(table) or Table(table, (), ())
            yield Truncated(found, source, group.micros)
        else:
            self._maps.clear()
            self._tables.pop(table, None)
            if doing is Doing.GONE:
                yield Gone(table, group.micros, source)
            else:
                yield Came(table, group.micros, source, is_part=doing is Doing.UNSEEN)

    def _tables_of(self, schema: str) -> list[TableId]:
        return sorted(each for each in {*self._tables, *self._catalog.names} if each.schema == schema)

    def _refuse_statement(self, group: Group, text: str, schema: str) -> None:
        names = {*self._tables, *self._catalog.names}
        written = statements.written_by(text, schema)
        if written is None:
            is_ours = any(statements.mentions(text, each.name) for each in names)
        else:
            table = self._spelling.of(written)
            # a temporary one is in no catalog of ours, and was never captured
            is_there = self._catalog.chosen(table) and self._catalog.table(table) is not None
            is_ours = table in names or is_there
        if is_ours:
            raise StatementLogged(self._catalog.shown, str(group.gtid), text[:200])
        self._say_statement(group, text)

    def _say_statement(self, group: Group, text: str) -> None:
        """Nobody knows what was a view, or had a trigger, when it was written, and what a function did: it may be
        nothing to us.
        """
        if not self._has_said_statement:
            LOGGER.warning(
                "transaction %s has a statement in the log instead of its rows: %s; what such a statement does to a "
                "captured table by a view, a trigger or a function is not told: let binlog_format be ROW for all "
                "sessions, and read such tables again by `runnel capture snapshot`",
                group.gtid,
                text[:200],
            )
        self._has_said_statement = True

    def _pass(self, events: list[Event], *, is_more: bool, is_late: bool) -> None:
        """The log went on with nothing for us. That is told only when there is nothing else to tell; and in any case
        where there is more of it, so that nobody takes us for current.
        """
        is_begun = self._group is not None and self._group.is_begun
        if self._is_inside or self._telling is not None or is_begun or self._end is not None:
            return
        now = time.monotonic()
        at = self._at()
        is_due = at != self._last and now - self._passed_at >= PASSED_SECONDS
        if is_due or (is_more and is_late):
            self._last, self._passed_at = at, now
            events.append(Passed(at, self._micros if is_more else None))

    def _at(self) -> Mapping[str, Any]:
        file, pos = self._place
        at: dict[str, Any] = {"gtid": text_of(self._here), "file": file, "pos": pos, "server": self._server}
        for prepared in self._prepared.values():
            return {**at, "from": text_of(prepared.before)}
        return at

    def _unreadable(self, reason: str, *, hint: str) -> NoReturn:
        raise LogUnreadable(self._catalog.shown, f"{self._file}:{self._pos}", reason, hint=hint)

    def _undo(self, group: Group, savepoint: str | None) -> None:
        if not group.undo(savepoint):
            self._unreadable(
                f"the large transaction {group.gtid} was rolled back in part, and its first changes are told",
                hint="`runnel capture remove`, and begin anew with a new snapshot",
            )


def _savepoint(sql: str) -> str:
    """The name is the last word, and may have anything in it."""
    return statements.words_of(sql)[-1].text
