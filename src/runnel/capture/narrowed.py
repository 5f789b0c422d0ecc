"""The rest of a transaction, as it was begun: without the tables that are chosen since.

A position inside of a transaction is a number of events. The same ones must be counted again when reading goes on, and
transactions that had nothing for us before must not be taken for it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from runnel.capture.events import Began, Came, Change, Ended, Event, Gone, Mark, Passed, Redefined, Truncated
from runnel.capture.source import Changes


class Narrowed:
    """Of the changes that are read from inside of a transaction on, the events of `tables`, as `schema.table`, to its
    end.
    """

    def __init__(self, changes: Changes, tables: Container[str]) -> None:
        self._changes = changes
        self._tables = tables
        self._began: Began | None = None  # not told yet: there may be nothing in it
        self._is_counted = False  # whether something in it counts for a position
        self._is_over = False

    def read(self, seconds: float) -> Sequence[Event]:
        return list(self._narrowed(self._changes.read(seconds)))

    def close(self) -> None:
        self._changes.close()

    def _narrowed(self, events: Sequence[Event]) -> Iterator[Event]:
        for event in events:
            if self._is_over:
                return
            if isinstance(event, Began):
                self._began, self._is_counted = event, False
            elif isinstance(event, Ended):
                if self._began is None:
                    self._is_over = self._is_counted
                    yield event
            elif self._is_told(event):
                if self._began is not None:
                    yield self._began
                    self._began = None
                self._is_counted = self._is_counted or not isinstance(event, Redefined | Gone)
                yield event

    def _is_told(self, event: Event) -> bool:
        if isinstance(event, Change | Truncated | Redefined):
            return str(event.table.id) in self._tables
        if isinstance(event, Gone):
            return str(event.table) in self._tables
        return not isinstance(event, Passed | Mark | Came)  # the place would be behind one that was told
