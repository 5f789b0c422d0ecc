"""What a view store promises, whatever database stands behind it.

- One table per view, under the view's name, with typed columns that other tools read.
- `ViewWriter.apply` is one database transaction: rows, change log and marker are visible together or not at all.
- Claiming a view fences the writers that claimed it before, for good: nothing they do afterwards is visible.
- A batch whose marker is not newer than the stored one of the same checkpoint was applied before: it is skipped.
- Readers never block a writer, and see whole batches.

Two stores exist, `runnel.views.sqlite` and `runnel.views.postgres`, and one suite holds both to this:
tests/contract/views.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import pyarrow as pa

from runnel.views.changes import Changes

Rows: TypeAlias = pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]

DAY_MS = 24 * 60 * 60 * 1_000


@dataclass(frozen=True)
class Declared:
    """A view as its app declares it: what it is called, what tells its rows apart, and what they are.

    A column of Spark's windows, a struct of `start` and `end`, is kept as two columns, `NAME_start` and `NAME_end`.
    """

    name: str
    key: tuple[str, ...]
    schema: pa.Schema


@dataclass(frozen=True)
class Marker:
    """How far a view is: the batch that was applied last, of which checkpoint, and the sources' positions after it.

    The positions are whatever JSON can hold, and come back as they were given.
    """

    query: str
    batch: int
    checkpoint: str
    positions: Mapping[str, Any]

    def __post_init__(self) -> None:
        if json.loads(json.dumps(self.positions)) != self.positions:
            raise ValueError(f"positions must come back from JSON as they are, with text for names: {self.positions!r}")


@dataclass(frozen=True)
class Keep:
    """How much of its change log a view keeps: no more rows than `rows`, and none older than `age_ms`. A batch that
    has more rows by itself stays, whole, until more than `rows` have come behind it, for whoever keeps up. Without rows
    there is no log.
    """

    rows: int = 1_000_000
    age_ms: int = 7 * DAY_MS

    def __post_init__(self) -> None:
        if self.rows < 0 or self.age_ms < 0:
            raise ValueError(f"a change log keeps 0 or more rows and milliseconds, not {self.rows} and {self.age_ms}")


class Applied(NamedTuple):
    """What a batch changed: keys that came, changed and went, and where the change log goes on."""

    inserted: int
    updated: int
    deleted: int
    next_position: int
    skipped: bool = False


class Ahead(NamedTuple):
    """How far a watcher can go: to `next_position` with its next step, to `latest` in the end; and in which log."""

    next_position: int
    latest: int
    marker: Marker | None
    log: str


class Progress(NamedTuple):
    """How far a view is: its marker, where its change log goes on, when it last changed, if that is still known (in
    milliseconds since 1970), and which log that is.
    """

    marker: Marker | None
    next_position: int
    changed: int | None
    log: str


class Condition(NamedTuple):
    """Rows whose column compares so with a value; see `runnel.views.filters`."""

    column: str
    operator: str
    value: Any


Where: TypeAlias = Sequence[Condition]
"""All of them hold."""

Order: TypeAlias = Sequence[str]
"""Columns; one with `-` before its name counts down."""


class Snapshot(NamedTuple):
    """A view at one moment, its key, and the position, in which change log, from which its changes go on from there."""

    rows: pa.Table
    next_position: int
    marker: Marker | None
    log: str
    key: tuple[str, ...]


class ViewWriter(Protocol):
    """Keeps one view for one query. Used by one thread at a time."""

    def claim(self) -> None:
        """Make or migrate the view's table, and fence every writer that claimed the view before."""
        ...

    def marker(self) -> Marker | None:
        """The marker of the last batch that was applied; None before the first."""
        ...

    def apply(self, rows: Rows, marker: Marker) -> Applied:
        """Upsert and delete by key, in the order of the rows, and keep the marker, in one transaction.

        Rows may say by `_change` what they are: `insert` and `update_after` upsert, `delete` removes the key, and
        `update_before` takes its row back (`effects`). Without that column every row upserts.
        """
        ...

    def trim(self) -> int:
        """Drop what the change log need not keep; the number of rows that went. Cheap when there is nothing to do."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ViewReader(Protocol):
    """Reads one view; each call sees the view at one moment."""

    def schema(self) -> pa.Schema:
        """The columns of the view's table, a window's two among them."""
        ...

    def key(self) -> tuple[str, ...]: ...

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """The row of a key; None when there is none."""
        ...

    def rows(self, where: Where = (), *, order: Order = (), limit: int | None = None) -> pa.Table:
        """The rows, in the order of their keys or as told. The database finds them, and hands out no others.
        UnknownColumn or InvalidFilter if the view has no such rows.
        """
        ...

    def count(self, where: Where = ()) -> int:
        """How many rows there are."""
        ...

    def snapshot(self, where: Where = ()) -> Snapshot:
        """The rows, with the position of the change log and the marker that belong to them."""
        ...

    def changes(self, from_position: int, *, about: int = ..., until: int | None = None, where: Where = ()) -> Changes:
        """The changes from a position on, in whole batches: `about` rows, or more to end with a batch; or all of them
        up to before `until`. With a filter they are those of the rows that fit it: a row that comes to fit it is
        inserted, and one that ceases to is deleted.
        """
        ...

    def ahead(self, from_position: int, *, about: int = ...) -> Ahead:
        """How far `changes` would go, without the changes."""
        ...

    def marker(self) -> Marker | None: ...

    def progress(self) -> Progress:
        """The marker, and more, all of one moment."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Store(Protocol):
    def writer(self, declared: Declared, query: str) -> ViewWriter:
        """Raises InvalidDeclaration; reaches the store only when the view is claimed."""
        ...

    def check(self, declared: Declared, query: str) -> None:
        """Whether a writer of the query could claim the view so: raises what `claim` would, and makes nothing."""
        ...

    def copy_writer(self, declared: Declared, query: str) -> ViewWriter:
        """Of a copy of the view, beside it, which has no change log."""
        ...

    def copy_reader(self, name: str) -> ViewReader:
        """Of the copy of a view; UnknownView if there is none."""
        ...

    def copy_marker(self, name: str) -> Marker | None:
        """How far the copy of a view is; None if there is none."""
        ...

    def exchange(self, name: str) -> None:
        """Let a view and its copy change places, in one transaction (`exchange`)."""
        ...

    def drop_copy(self, name: str) -> bool:
        """Remove the copy of a view; False if there is none."""
        ...

    def reader(self, name: str) -> ViewReader: ...

    def names(self) -> list[str]:
        """The views that are there, sorted."""
        ...
