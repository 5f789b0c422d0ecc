"""Rows that get another key while their table is read by chunks, with the large values that the log leaves out.

An update that left a large value as it was does not tell it. Whoever has the row knows the value, and whoever has it
not reads the row later. But a row that was not read yet may come, by another key, to where reading is past: nobody
would ever tell its large values. So they are asked for: of the row as it is now, when the database shows the update to
all. If a value is newer than the update, the one that it comes from is told later. A row that is not there any more
needs none: what became of it is told later, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from runnel.capture.events import Began, Change, Ended, Event
from runnel.capture.source import Source
from runnel.capture.state import State
from runnel.capture.tables import UNCHANGED, Row, Table

# The row of a key by the names of its columns, which has seen a transaction (`Began.id`); None if there is none.
RowNow: TypeAlias = Callable[[Table, Row, str], Mapping[str, Any] | None]


class Moved:
    """A source whose log leaves values out has a method `row_now`; the others tell all."""

    def __init__(self, source: Source) -> None:
        self._row_now: RowNow | None = getattr(source, "row_now", None)
        self._read: set[str] = set()  # also when they are through: a row may have moved on before it was asked for
        self._id: str | None = None  # of the transaction that is being told, if its beginning was seen here

    def completed(self, events: Sequence[Event], state: State) -> Sequence[Event]:
        """Of a transaction that was begun before a table was to be read, its chunks see the whole."""
        if self._row_now is None:
            return events
        self._read |= {name for name, told in state.tables.items() if told.by_chunks and told.is_left}
        if not self._read:
            self._id = None
            return events
        return [self._completed(event, self._row_now) for event in events]

    def _completed(self, event: Event, row_now: RowNow) -> Event:
        if isinstance(event, Began):
            self._id = event.id
        elif isinstance(event, Ended):
            self._id = None
        elif isinstance(event, Change) and self._id is not None and _has_moved(event) and self._is_read(event):
            assert event.after is not None
            return _filled(event, event.after, row_now(event.table, event.table.key_of(event.after), self._id) or {})
        return event

    def _is_read(self, change: Change) -> bool:
        return str(change.table.id) in self._read


def _has_moved(change: Change) -> bool:
    if change.before is None or change.after is None or UNCHANGED not in change.after:
        return False
    key = change.table.key_of(change.after)
    return UNCHANGED not in key and key != change.table.key_of(change.before)


def _filled(change: Change, after: Row, found: Mapping[str, Any]) -> Change:
    names = (column.name for column in change.table.columns)
    return change._replace(
        after=tuple(
            found.get(name, UNCHANGED) if value is UNCHANGED else value
            for name, value in zip(names, after, strict=True)
        )
    )
