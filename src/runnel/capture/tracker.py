"""Which keys the transactions touched that were told lately, of the tables that are being read by chunks.

A chunk's row may be older than what was told of its key: the transaction was told, and the chunk has not seen it. So
every transaction is noted with the keys that it touched, until all chunks have seen it. What is not noted is what was
told before: `Source.settle` sees to it that chunks have seen that.

Some keys cannot simply be left out of a chunk, because what was told of them is not the whole row (a large value that
an update left as it was), or because a key that holds a null does not tell rows apart. A chunk with such a row is read
again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Final

from runnel.capture.events import Began, Change, Ended, Event, Truncated
from runnel.capture.tables import UNCHANGED, UNKNOWN, Absent, Row, TableId

KEYS_AT_MOST: Final = 100_000  # of a transaction in a table; more are taken for all
ALL_AT_MOST: Final = 500_000  # of all transactions


class Touched:
    """The keys of a table that were touched: `keys` of which the newest row was told, `unsure` where it was not."""

    __slots__ = ("is_all", "keys", "unsure")

    def __init__(self) -> None:
        self.keys: set[Row] = set()
        self.unsure: set[Row] = set()
        self.is_all = False

    def add(self, key: Row, *, is_sure: bool) -> None:
        if self.is_all:
            return
        if any(isinstance(value, Absent) for value in key) or len(self.keys) >= KEYS_AT_MOST:
            self.take_all()
        else:
            self.keys.add(key)
            if not is_sure or None in key:
                self.unsure.add(key)

    def take_all(self) -> None:
        self.is_all = True
        self.keys, self.unsure = set(), set()

    def join(self, other: Touched) -> None:
        self.is_all = self.is_all or other.is_all
        self.keys |= other.keys
        self.unsure |= other.unsure


class Tracker:
    def __init__(self) -> None:
        self._transactions: dict[str, dict[TableId, Touched]] = {}
        self._id: str | None = None  # of the one that is being told; one that was begun before is not noted
        self._noted = 0  # keys, those of transactions that were forgotten since not counted off

    @property
    def is_full(self) -> bool:
        return self._noted > ALL_AT_MOST

    def clear(self) -> None:
        """Forget all; also the one that is being told, of which `settle` sees to the whole."""
        self._transactions.clear()
        self._noted = 0
        self._id = None

    def note(self, event: Event, tables: Container[TableId]) -> None:
        """An event that is told, or was told in a former life; `tables` are those that are being read."""
        if isinstance(event, Change):
            if self._id is not None and event.table.id in tables:
                self._note_change(self._of(self._id, event.table.id), event)
        elif isinstance(event, Began):
            self._id = event.id
        elif isinstance(event, Ended):
            self._id = None
        elif isinstance(event, Truncated) and self._id is not None and event.table.id in tables:
            self._of(self._id, event.table.id).take_all()

    def forget(self, chunks: Iterable[Callable[[str], bool]]) -> None:
        """The transactions that these have all seen, as every later chunk has."""
        all_see = list(chunks)
        seen = [name for name in self._transactions if all(sees(name) for sees in all_see)]
        for name in seen:
            del self._transactions[name]
        self._noted = sum(len(each.keys) for told in self._transactions.values() for each in told.values())

    def touched(self, table: TableId, sees: Callable[[str], bool]) -> Touched:
        """What transactions did to a table that a chunk has not seen."""
        found = Touched()
        for name, told in self._transactions.items():
            if table in told and not sees(name):
                found.join(told[table])
        return found

    # --- inside

    def _of(self, transaction: str, table: TableId) -> Touched:
        told = self._transactions.setdefault(transaction, {})
        touched = told.get(table)
        if touched is None:
            touched = told[table] = Touched()
            self._noted += 1  # so that many small transactions fill it, too
        return touched

    def _note_change(self, touched: Touched, change: Change) -> None:
        before, after = change.before, change.after
        is_sure = after is None or UNCHANGED not in after
        count = len(touched.keys)
        if after is not None:
            touched.add(change.table.key_of(after), is_sure=is_sure)
        if before is not None and (after is None or UNKNOWN not in change.table.key_of(before)):
            touched.add(change.table.key_of(before), is_sure=is_sure)
        self._noted += max(0, len(touched.keys) - count)
