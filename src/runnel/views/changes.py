"""The change log of a view: what watchers read.

A change log has a row for each image of a change, with the view's own columns and two more: `_position`, which grows by
one with every change and never runs backwards, and `_change`, which says what the row is. An update has two rows of one
position, as it was and as it is. Only real changes are in it: an upsert of equal values is none, and of a key that
changes several times in a batch it tells the difference that the batch made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

POSITION = "_position"
CHANGE = "_change"

INSERT = "insert"
UPDATE = "update"
UPDATE_BEFORE = "update_before"
UPDATE_AFTER = "update_after"
DELETE = "delete"
KINDS = frozenset({INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE})
ALONE = {UPDATE_BEFORE: DELETE, UPDATE_AFTER: INSERT}


class Change(NamedTuple):
    """One key's change: `insert` has no `before`, `delete` has no `after`, `update` has both."""

    position: int
    kind: str
    key: dict[str, Any]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def of_a_part(rows: pa.Table) -> pa.Table:
    """What rows of a change log that fit a filter tell of the part of the view that fits it: an update of which one row
    alone fits has let its key in or out.
    """
    positions, kinds = rows[POSITION].to_pylist(), rows[CHANGE].to_pylist()
    images = Counter(positions)
    told = [ALONE.get(kind, kind) if images[at] == 1 else kind for at, kind in zip(positions, kinds, strict=True)]
    place = rows.schema.get_field_index(CHANGE)
    return rows.set_column(place, rows.schema.field(CHANGE), pa.array(told, pa.string()))


@dataclass(frozen=True)
class Changes:
    """Changes of whole batches, in the order in which they were committed; the next ones are at `next_position`."""

    rows: pa.Table
    key: tuple[str, ...]
    next_position: int
    log: str = ""
    """Whose positions these are: a view that is made anew has another one."""

    def __iter__(self) -> Iterator[Change]:
        before: dict[str, Any] | None = None
        for row in self.rows.to_pylist():
            position, kind = row.pop(POSITION), row.pop(CHANGE)
            if kind == UPDATE_BEFORE:
                before = row
                continue
            key = {name: row[name] for name in self.key}
            if kind == UPDATE_AFTER:
                yield Change(position, UPDATE, key, before, row)
            elif kind == INSERT:
                yield Change(position, INSERT, key, None, row)
            else:
                yield Change(position, DELETE, key, row, None)
