"""Changes with word of tables that are gone.

The log says nothing when a table is dropped or renamed. So the catalog is asked now and then. A table that it does not
have any more cannot be in the log behind the place where the log ended then: when that place is passed, it is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from runnel.capture.events import Ended, Event, Gone, Passed, Redefined
from runnel.capture.source import Changes
from runnel.capture.tables import TableId

LOOK_SECONDS: Final = 10.0


class Catalog(NamedTuple):
    """The tables that are there, where the log ended when they were, and when that was, since 1970."""

    tables: frozenset[TableId]
    lsn: int
    micros: int


class WatchedChanges:
    """`look` asks the catalog; `tables` are those that are known to be there."""

    def __init__(self, changes: Changes, look: Callable[[], Catalog], tables: Iterable[TableId]) -> None:
        self._changes = changes
        self._look = look
        self._tables = set(tables)
        self._looked = time.monotonic()
        self._gone: list[tuple[int, Gone]] = []

    def read(self, seconds: float) -> Sequence[Event]:
        events = self._changes.read(seconds)
        self._tables.update(event.table.id for event in events if isinstance(event, Redefined))
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._notice(self._look())
            self._looked = time.monotonic()
        return self._with_gone(events) if self._gone else events

    def close(self) -> None:
        self._changes.close()

    def _notice(self, found: Catalog) -> None:
        for table in sorted(self._tables - found.tables):
            self._tables.discard(table)
            self._gone.append((found.lsn, Gone(table, found.micros)))

    def _with_gone(self, events: Sequence[Event]) -> list[Event]:
        told: list[Event] = []
        for event in events:
            told.append(event)
            if isinstance(event, (Ended, Passed)):
                while self._gone and self._gone[0][0] <= int(event.at["lsn"]):
                    told.append(self._gone.pop(0)[1])
        return told
