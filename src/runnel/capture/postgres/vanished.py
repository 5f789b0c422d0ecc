"""Changes with word of tables that are gone, of those whose name another one has, of those that are altered, and of
those that somebody took out of the publication.

The log says nothing when a table is dropped. Another name and other columns are told with the next row (`identities`).
So the catalog is asked when the changes are opened, and now and then. What it says holds from the place where the log
ended then: when that place is passed, it is told. A table is told from another one of the same name by its number.
Where another one has its name, the changes end. When they are opened again, the other one is published and read. So it
is with one that is not published any more: what became of its rows is not in what the server sends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from runnel.capture.events import Began, Came, Change, Ended, Event, Gone, Passed, Position, Redefined
from runnel.capture.postgres.errors import TableReplaced, TablesUnpublished
from runnel.capture.source import Changes
from runnel.capture.tables import NOT_THERE, Table, TableId

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0


class Catalog(NamedTuple):
    """The tables that are there by their numbers, where the log ended when they were, and when that was, since 1970.
    `unpublished` are those that should be told of, and are not.
    """

    tables: Mapping[TableId, int]
    lsn: int
    micros: int
    unpublished: Collection[TableId] = ()


class Found(Enum):
    """What the catalog shows of a table that is known. Of one that is there, what it is like is to be told."""

    GONE = "gone"
    REPLACED = "replaced"
    UNPUBLISHED = "unpublished"
    THERE = "there"


class Noticed(NamedTuple):
    table: TableId
    found: Found
    lsn: int
    micros: int
    described: Table | None = None  # what one is like that is there


class WatchedChanges:
    """`look` asks the catalog, `describe` gives a table as it is now, or None if it is gone. `known` are the tables
    that were told of, by their numbers; None: whatever has the name. `database` is for people. `put_back` hears of
    tables that are not published, and that nobody reads anew when they are told to have come.
    """

    def __init__(
        self,
        changes: Changes,
        look: Callable[[], Catalog],
        describe: Callable[[TableId], Table | None],
        known: Mapping[TableId, int | None],
        after: Position,
        database: str,
        put_back: Callable[[Collection[TableId]], None] = lambda _: None,
    ) -> None:
        self._changes = changes
        self._look = look
        self._describe = describe
        self._known = dict(known)
        self._database = database
        self._put_back = put_back
        self._is_rest = after.index > 0  # of a transaction: that is told to its end, and the changes are opened again
        self._place = None if after.index else int(after.at["lsn"])  # None: inside of a transaction
        self._noticed: list[Noticed] = []
        self._redefined: set[TableId] = set()  # by the transaction that is told
        self._replaced: TableId | None = None
        self._unpublished: set[TableId] = set()  # that were noticed, or are gone or others, which is told instead
        self._missed: list[TableId] = []  # of these, those that were told
        shown = self._see()
        self._opened = shown.lsn, shown.micros

    def read(self, seconds: float) -> Sequence[Event]:
        if self._replaced is not None:
            raise TableReplaced(self._database, str(self._replaced))
        if self._missed:
            self._put_back(self._missed)
            raise TablesUnpublished(self._database, [str(table) for table in self._missed])
        events, place = self._changes.read(seconds), self._place
        self._follow(events)
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._see()
        return self._told(events, place) if self._noticed else events

    def describe(self, tables: Iterable[TableId]) -> None:
        """Say what these are like when the log is past where it ended when it was opened."""
        changed = {noticed.table for noticed in self._noticed}
        for table in sorted(set(tables) - changed):
            shown = self._describe(table)
            if shown is not None and shown.number == self._known[table]:
                self._noticed.append(Noticed(table, Found.THERE, *self._opened, shown))

    def close(self) -> None:
        self._changes.close()

    # --- inside

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Change):
                continue
            if isinstance(event, Redefined):
                self._known.setdefault(event.table.id, event.table.number)
            elif isinstance(event, Gone):
                self._lose(event.table)
            elif isinstance(event, Began):
                self._place = None
            elif isinstance(event, (Ended, Passed)):
                self._place = int(event.at["lsn"])

    def _lose(self, table: TableId) -> None:
        """The log says that it is gone. Where the catalog has it by now, it is another one, or has come back: it is to
        be read before it is told what it is like.
        """
        self._known[table] = NOT_THERE
        self._noticed = [each for each in self._noticed if each.table != table or each.found is not Found.THERE]

    def _see(self) -> Catalog:
        shown = self._look()
        self._looked = time.monotonic()
        for table, number in sorted(self._known.items(), key=lambda each: each[0]):
            found = shown.tables.get(table, NOT_THERE)
            self._known[table] = found
            if number != found and (number is not None or found == NOT_THERE):
                kind = Found.GONE if found == NOT_THERE else Found.REPLACED
                self._noticed.append(Noticed(table, kind, shown.lsn, shown.micros))
                self._unpublished.add(table)
            elif table in shown.unpublished and table not in self._unpublished and not self._is_rest:
                self._unpublished.add(table)
                self._noticed.append(Noticed(table, Found.UNPUBLISHED, shown.lsn, shown.micros))
        return shown

    def _told(self, events: Sequence[Event], place: int | None) -> list[Event]:
        told = self._due(place)
        for event in events:
            if self._replaced is not None or self._missed:
                break  # what is left is told when the changes are opened again
            told.append(event)
            if isinstance(event, Redefined):
                self._redefined.add(event.table.id)
            elif isinstance(event, Ended):
                self._outdate(int(event.at["lsn"]))
            if isinstance(event, (Ended, Passed)):
                told.extend(self._due(int(event.at["lsn"])))
        return told

    def _outdate(self, place: int) -> None:
        """What tables were like before a transaction that has redefined them is not to be told behind it."""
        self._noticed = [
            each
            for each in self._noticed
            if each.found is not Found.THERE or each.lsn >= place or each.table not in self._redefined
        ]
        self._redefined.clear()

    def _due(self, place: int | None) -> list[Event]:
        """What was noticed and is to be told at a place between transactions."""
        told: list[Event] = []
        while place is not None and self._noticed and self._noticed[0].lsn <= place:
            told.extend(self._events_of(self._noticed.pop(0)))
        return told

    def _events_of(self, noticed: Noticed) -> list[Event]:
        source = source_at(noticed.lsn)
        if noticed.described is not None:
            return [Redefined(noticed.described, noticed.micros, source)]
        if noticed.found is Found.UNPUBLISHED:
            logger.warning(
                'table "%s" of %s is not published any more as what it is: of its changes since then nothing is told; '
                "it is to be published again, and read anew",
                noticed.table,
                self._database,
            )
            self._missed.append(noticed.table)
            return [Came(noticed.table, noticed.micros, source, is_part=True)]
        if noticed.found is Found.REPLACED:
            self._replaced = noticed.table
        return [Gone(noticed.table, noticed.micros, source)]


def source_at(lsn: int) -> str:
    """What the source block says of something that is in no transaction."""
    return f'"sequence":"[null,\\"{lsn}\\"]","txId":null,"lsn":{lsn},"xmin":null'
