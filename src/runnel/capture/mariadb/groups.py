"""Transactions of the log: their events, gathered until it is sure that they were committed.

A transaction is written to the log when it commits, and still its end may say otherwise: a part that was rolled back to
a savepoint, or all of it, where something in it could not be undone. XA transactions are written when they are
prepared, and committed or rolled back later, by another entry. So events are held back up to the end. Only those of a
very large transaction go out before it; if something of ours among them turns out to have been rolled back, reading
ends with an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from runnel.capture.mariadb.binlog import COMPLETED, PREPARED, STANDALONE, Beginning
from runnel.capture.mariadb.gtids import Gtid, Place

HELD_BYTES: Final = 16 * 1024 * 1024


class Item(NamedTuple):
    """An event of a transaction, and where in the log it begins."""

    kind: int
    data: bytes
    file: str
    at: int


@dataclass
class Group:
    beginning: Beginning
    micros: int
    is_known: bool  # it was told in a former life; it is read again for what it prepared
    items: list[Item] = field(default_factory=list)
    size: int = 0
    savepoints: dict[str, int] = field(default_factory=dict)
    is_begun: bool = False  # that it began was told
    out: int = 0  # how many of its events went out before its end
    told: int = 0  # and up to which of them something of it was told

    @property
    def gtid(self) -> Gtid:
        return self.beginning.gtid

    @property
    def is_standalone(self) -> bool:
        return bool(self.beginning.flags & STANDALONE)

    @property
    def is_preparing(self) -> bool:
        return bool(self.beginning.flags & PREPARED)

    @property
    def is_completing(self) -> bool:
        return bool(self.beginning.flags & COMPLETED)

    def add(self, item: Item) -> None:
        self.items.append(item)
        self.size += len(item.data)

    @property
    def is_full(self) -> bool:
        return self.size > HELD_BYTES and not self.is_preparing

    def taken(self) -> list[Item]:
        """What is held, to be told."""
        items, self.items, self.size = self.items, [], 0
        self.out += len(items)
        return items

    def begin(self) -> bool:
        """Something of what went out is about to be told; whether it is the first."""
        is_first, self.is_begun, self.told = not self.is_begun, True, self.out
        return is_first

    def save(self, name: str) -> None:
        self.savepoints[name.lower()] = self.out + len(self.items)

    def undo(self, name: str | None = None) -> bool:
        """Back to a savepoint, or to the beginning; not if something behind it was told."""
        place = 0 if name is None else self.savepoints.get(name.lower(), 0)
        if place < self.told:
            return False
        del self.items[max(0, place - self.out) :]
        self.out = min(self.out, place)
        self.size = sum(len(item.data) for item in self.items)
        return True


class Prepared(NamedTuple):
    """An XA transaction that is neither committed nor rolled back, and the place in the log before it."""

    before: Place
    items: list[Item]
