"""Changes up to a snapshot, with the large values that the log leaves out.

An update that left a large value as it was does not tell it. Whoever has the row knows the value. But while a snapshot
is read in several lives, a row that was not read yet may come, by another key, to where reading is past: nobody would
ever tell its large values. So they are taken from the snapshot at whose place these changes end. A row that is not in
it any more needs none: what becomes of it is among the changes, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.capture.events import Change, Event
from runnel.capture.postgres.snapshot import PostgresSnapshot
from runnel.capture.source import Changes
from runnel.capture.tables import UNCHANGED


class CompletedChanges:
    def __init__(self, changes: Changes, snapshot: PostgresSnapshot) -> None:
        self._changes = changes
        self._snapshot = snapshot

    def read(self, seconds: float) -> Sequence[Event]:
        return [self._completed(event) for event in self._changes.read(seconds)]

    def close(self) -> None:
        self._changes.close()

    def _completed(self, event: Event) -> Event:
        if not isinstance(event, Change) or event.after is None or UNCHANGED not in event.after:
            return event
        found = self._snapshot.row(event.table, event.after)
        if found is None:
            return event
        names = (column.name for column in event.table.columns)
        after = tuple(
            found.get(name, UNCHANGED) if value is UNCHANGED else value
            for name, value in zip(names, event.after, strict=True)
        )
        return event._replace(after=after)
