"""The rest of a transaction, as it was begun: without the tables that are chosen since.

A position inside of a transaction is a number of events. The same ones must be counted again when reading goes on, and
transactions that had nothing for us before must not be taken for it.

A table that is not known may be new instead, with its first rows behind the place where reading goes on: they have
always been to be told. One that has an event before that place was not chosen then: it would have been told, and known.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence

from runnel.capture.events import (
    Began,
    Came,
    Change,
    Ended,
    Event,
    Gone,
    Mark,
    Passed,
    Redefined,
    Truncated,
)
from runnel.capture.source import Changes
from runnel.capture.tables import TableId


class Narrowed:
    """Of the changes that are read from inside of a transaction on, `index` events behind its beginning, the events of
    `tables`, as `schema.table`, to its end; and of those that may be new, if they are not to be read behind it.
    """

    def __init__(
        self, changes: Changes, index: int, tables: Container[str], is_read: Callable[[TableId], bool]
    ) -> None:
        self._changes = changes
        self._index = index
        self._tables = tables
        self._is_read = is_read
        self._new: dict[TableId, bool] = {}  # those that are not known, and whether they are told
        self._began: Began | None = None  # not told yet: there may be nothing in it
        self._counted = 0  # events of it that count for a position
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
                self._began, self._counted = event, 0
            elif isinstance(event, Ended):
                if self._began is None:
                    self._is_over = self._counted > 0
                    yield event
            elif self._is_told(event):
                if self._began is not None:
                    yield self._began
                    self._began = None
                self._counted += not isinstance(event, Redefined | Gone)
                yield event

    def _is_told(self, event: Event) -> bool:
        if isinstance(event, Change | Truncated | Redefined):
            return self._has(event.table.id)
        if isinstance(event, Gone):
            return self._has(event.table)
        return not isinstance(event, Passed | Mark | Came)  # the place would be behind one that was told

    def _has(self, table: TableId) -> bool:
        if str(table) in self._tables:
            return True
        if table not in self._new:
            self._new[table] = self._counted >= self._index and not self._is_read(table)
        return self._new[table]
