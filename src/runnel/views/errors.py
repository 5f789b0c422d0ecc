"""What can go wrong between a view and its store, told in our words.

Transient
├── StoreUnreachable      nothing answers at the store's address, or it went away
│   └── StoreCutOff       it broke off what it was asked for, as when that took longer than its settings allow
├── StoreLocked           another process writes to the store, and did not end in time
├── StoreFull             the disk, or a limit of the store, is full; nothing of the batch was applied
├── StoreFailed           the disk under the store did not do as it was told
└── NotSeen               the view has not come to what was written, in the time that was given
Permanent
├── InvalidStore          an address that is no store's
├── StoreRefused          the store is there, and does not let us in or do what we ask
├── InvalidDeclaration    a name, a key or a type that a view cannot have
├── ViewChanged           the view is there, with another key, other types or columns that are no longer declared
├── NameTaken             a table of the view's name, or an index or type, is there, and it is not ours
├── ViewTaken             the view belongs to another query
├── UnknownView           there is no view of that name
├── UnknownKey            what was asked for is no key of the view
├── UnknownColumn         a filter or an order names a column that the view does not have
├── InvalidFilter         a condition that is none, or a value that is not of its column's type
├── InvalidArgument       what a reader of views is given is of a kind that it can do nothing with
├── InvalidPosition       what a watcher shall go on from is no position
├── ViewReplaced          the view was made anew, and a watcher's position is of the one before
├── InvalidRows           rows that do not fit the declaration
│   └── InvalidValue      a value that the store cannot hold
│       └── NullKey       no value in a column of the key
├── Fenced                a later writer of the view has taken over
├── NotClaimed            a writer writes before it has claimed its view
└── PositionOutOfRange    the change log begins after the position asked for, or has not come to it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runnel.errors import Permanent, Transient
from runnel.views.addresses import shown

MOST_SHOWN = 200


class StoreUnreachable(Transient):
    def __init__(self, store: str, reason: str) -> None:
        super().__init__(
            f"the view store {store} cannot be reached: {reason}",
            hint="see whether it is up and whether the address is right; what was applied is safe, "
            "and a batch that was under way is applied whole or not at all",
        )
        self.store = store
        self.reason = reason


class StoreCutOff(StoreUnreachable):
    def __init__(self, store: str, reason: str, setting: str | None) -> None:
        Transient.__init__(
            self,
            f"the view store {store} broke off what it was asked for: {reason}",
            hint="somebody has told it to: try again"
            if setting is None
            else f"ask for less at once, or give this user more time: ALTER ROLE ... SET {setting} = '10min', or "
            f"?options=-c{setting}%3D10min behind the address",
        )
        self.store = store
        self.reason = reason
        self.setting = setting


class StoreLocked(Transient):
    def __init__(self, store: str, seconds: float, holder: str = "") -> None:
        by = holder or "another process"
        super().__init__(
            f"the view store {store} was being written to by {by} for {seconds:g} s",
            hint="wait for it, or stop it if it hangs; nothing of this batch was applied",
        )
        self.store = store
        self.seconds = seconds
        self.holder = holder


class StoreFull(Transient):
    def __init__(self, store: str, reason: str) -> None:
        super().__init__(
            f"the view store {store} is full: {reason}",
            hint="make room on its disk and start again; nothing of this batch was applied",
        )
        self.store = store
        self.reason = reason


class StoreFailed(Transient):
    def __init__(self, store: str, reason: str) -> None:
        super().__init__(
            f"the view store {store} failed: {reason}",
            hint="see to its disk and start again; nothing of this batch was applied",
        )
        self.store = store
        self.reason = reason


class InvalidStore(Permanent):
    def __init__(self, url: str, reason: str) -> None:
        super().__init__(
            f"{shown(url)!r} is no address of a view store: {reason}",
            hint="give a data directory, sqlite:PATH or postgresql://USER@HOST:PORT/DATABASE",
        )
        self.url = shown(url)
        self.reason = reason


class StoreRefused(Permanent):
    def __init__(self, store: str, reason: str, *, hint: str) -> None:
        super().__init__(f"the view store {store} refused: {reason}", hint=hint)
        self.store = store
        self.reason = reason


class InvalidDeclaration(Permanent):
    def __init__(self, view: str, reason: str, *, hint: str) -> None:
        super().__init__(f"view {view!r}: {reason}", hint=hint)
        self.view = view
        self.reason = reason


class ViewChanged(Permanent):
    def __init__(self, view: str, reason: str) -> None:
        super().__init__(
            f"view {view!r} is kept with another declaration: {reason}",
            hint="declare it as it was, or make it anew by `runnel rebuild`",
        )
        self.view = view
        self.reason = reason


class NameTaken(Permanent):
    def __init__(self, store: str, view: str, table: str) -> None:
        super().__init__(
            f"the store {store} has a table, index or type {table!r} that is not ours, so the view {view!r} cannot be "
            "made",
            hint="give the view another name, or rename what has it",
        )
        self.store = store
        self.view = view
        self.table = table


class ViewTaken(Permanent):
    def __init__(self, view: str, query: str, owner: str) -> None:
        super().__init__(
            f"view {view!r} is kept by the query {owner!r}, and {query!r} cannot write to it",
            hint="give the view another name, or use another store for this app",
        )
        self.view = view
        self.query = query
        self.owner = owner


class UnknownView(Permanent, KeyError):
    def __init__(self, store: str, view: str, known: Sequence[str]) -> None:
        there = ", ".join(known) if known else "none yet"
        wrong = "the name" if known else "the address, which is the app's data directory or its database"
        super().__init__(
            f"the store {store} has no view {view!r}; it has: {there}",
            hint=f"see to {wrong}, or start the app that keeps the view",
        )
        self.store = store
        self.view = view
        self.known = tuple(known)


class UnknownKey(Permanent):
    def __init__(self, view: str, key: Sequence[str], reason: str) -> None:
        super().__init__(
            f"view {view!r} has no such key: {reason}",
            hint=f"give a value for each of {', '.join(key)}",
        )
        self.view = view
        self.key = tuple(key)


class UnknownColumn(Permanent):
    def __init__(self, view: str, column: str, columns: Sequence[str]) -> None:
        super().__init__(f"view {view!r} has no column {column!r}", hint=f"its columns are {', '.join(columns)}")
        self.view = view
        self.column = column
        self.columns = tuple(columns)


class InvalidFilter(Permanent):
    def __init__(self, view: str, reason: str, *, hint: str) -> None:
        super().__init__(f"view {view!r} cannot be filtered so: {reason}", hint=hint)
        self.view = view
        self.reason = reason


class InvalidArgument(Permanent):
    def __init__(self, reader: str, reason: str, *, hint: str) -> None:
        super().__init__(f"{reader}: {reason}", hint=hint)
        self.reader = reader
        self.reason = reason


class InvalidPosition(Permanent):
    def __init__(self, view: str, position: object) -> None:
        super().__init__(
            f"{position!r} is no position of view {view!r}",
            hint="give the position of a step that a watcher of this view was told before",
        )
        self.view = view
        self.position = position


class ViewReplaced(Permanent):
    def __init__(self, view: str, position: str) -> None:
        super().__init__(
            f"view {view!r} was made anew, and the position {position} is of the one before",
            hint="read it as it is and watch from there",
        )
        self.view = view
        self.position = position


class NotSeen(Transient):
    def __init__(self, view: str, seconds: float, lacks: Sequence[str], *, hint: str) -> None:
        super().__init__(f"after {seconds:g} s view {view!r} has not seen it all: {'; '.join(lacks)}", hint=hint)
        self.view = view
        self.seconds = seconds
        self.lacks = tuple(lacks)


class InvalidRows(Permanent):
    """Rows that do not fit the declaration. Nothing of their batch was applied."""

    def __init__(self, view: str, reason: str, *, hint: str) -> None:
        super().__init__(f"view {view!r}: {reason}; nothing of the batch was applied", hint=hint)
        self.view = view
        self.reason = reason


class InvalidValue(InvalidRows):
    def __init__(self, view: str, column: str, row: int, reason: str, *, hint: str) -> None:
        super().__init__(view, f"column {column!r} of row {row}: {reason}", hint=hint)
        self.column = column
        self.row = row


class NullKey(InvalidValue):
    def __init__(self, view: str, column: str, row: int, values: Mapping[str, object]) -> None:
        shown = repr(dict(values))
        shown = shown if len(shown) <= MOST_SHOWN else shown[:MOST_SHOWN] + "..."
        super().__init__(
            view,
            column,
            row,
            f"null in the key: {shown}",
            hint="filter such rows out in the view's function, or give them a key with coalesce",
        )
        self.values = dict(values)


class Fenced(Permanent):
    def __init__(self, view: str, query: str) -> None:
        super().__init__(
            f"another copy of {query!r} has taken the view {view!r} over; nothing of this batch was applied",
            hint="stop this copy; the other one goes on where it was",
        )
        self.view = view
        self.query = query


class NotClaimed(Permanent):
    def __init__(self, view: str) -> None:
        super().__init__(f"the writer of view {view!r} has not claimed it", hint="call claim() first")
        self.view = view


class PositionOutOfRange(Permanent):
    def __init__(self, view: str, position: int, first: int, following: int) -> None:
        gone = position < first
        super().__init__(
            f"the change log of view {view!r} goes from position {first} to {following}, and {position} was asked for",
            hint="older changes were trimmed: read the view as it is and watch from there"
            if gone
            else "the view was made anew: read it as it is and watch from there",
        )
        self.view = view
        self.position = position
        self.first = first
        self.following = following
