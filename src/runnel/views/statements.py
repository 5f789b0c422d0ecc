"""The SQL that both stores speak, made from names that are always quoted.

A batch stands in a temporary table, `runnel_batch`, one row of each key. `runnel_touched` then gets one row for each
real change, with its kind and its place among them. Everything else follows from the two: the change log, the rows that
go and the rows that come. So the work is done by the database, set by set, whatever the batch's size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runnel.views.changes import CHANGE, DELETE, INSERT, POSITION, UPDATE, UPDATE_AFTER, UPDATE_BEFORE
from runnel.views.layout import Layout

VIEWS = "runnel_views"
COMMITS = "runnel_commits"
BATCH = "runnel_batch"
TOUCHED = "runnel_touched"
COPIES = "runnel_copy_"  # what their names begin with
SEQUENCE = "_runnel_sequence"
REMOVES = "_runnel_removes"
SHALLOW = 100  # conditions


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str], of: str = "") -> str:
    return ", ".join(of + quoted(name) for name in names)


def joined(conditions: Sequence[str], by: str) -> str:
    """By AND or by OR. Many are halved by parentheses: SQLite takes no expression that is 1,000 deep."""
    if len(conditions) <= SHALLOW:
        return f" {by} ".join(conditions)
    half = len(conditions) // 2
    return f"({joined(conditions[:half], by)}) {by} ({joined(conditions[half:], by)})"


def log_table(number: int) -> str:
    return f"runnel_changes_{number}"


@dataclass(frozen=True)
class Dialect:
    """Where the databases differ."""

    type_of: Callable[[str], str]
    """A column's type, by its name in the layout."""
    schema: str
    """Said before the name of a table, so that no other is meant."""
    temporary: str
    """The same for a temporary one."""
    differs: str
    clustered: str = ""
    """Said after a table whose rows shall stand in the order of its key."""
    emptied: str = ""
    """Said after a temporary table that shall be empty when a transaction ends."""


class Statements:
    """The statements of one view."""

    def __init__(self, layout: Layout, number: int, dialect: Dialect) -> None:
        self._layout = layout
        self._dialect = dialect
        self._view = dialect.schema + quoted(layout.name)
        self._log = dialect.schema + quoted(log_table(number))
        self._all = listed(layout.columns)
        self._batch = dialect.temporary + BATCH
        self._touched = dialect.temporary + TOUCHED
        self._same_key = joined([f"v.{quoted(name)} = b.{quoted(name)}" for name in layout.key], "AND")
        self._changed = f"{self._touched} t JOIN {self._batch} b ON b.{SEQUENCE} = t.{SEQUENCE}"

    def create(self) -> list[str]:
        columns = self._defined(self._layout.columns)
        key = listed(self._layout.key)
        return [
            f"CREATE TABLE {self._view} ({columns}, PRIMARY KEY ({key})){self._dialect.clustered}",
            f"CREATE TABLE {self._log} ({POSITION} bigint NOT NULL, {CHANGE} text NOT NULL, {columns}, "
            f"PRIMARY KEY ({POSITION}, {CHANGE})){self._dialect.clustered}",
        ]

    def add(self, name: str) -> list[str]:
        return [f"ALTER TABLE {table} ADD COLUMN {self._defined([name])}" for table in (self._view, self._log)]

    def create_batch(self) -> list[str]:
        return [
            f"CREATE TEMPORARY TABLE {BATCH} ({SEQUENCE} integer PRIMARY KEY, {REMOVES} integer NOT NULL, "
            f"{self._defined(self._layout.columns)}){self._dialect.emptied}",
            f"CREATE TEMPORARY TABLE {TOUCHED} "
            f"(place integer PRIMARY KEY, {SEQUENCE} integer NOT NULL, kind text NOT NULL){self._dialect.emptied}",
        ]

    def stage(self, copy: str) -> list[str]:
        """As the batch: all rows of a copy of the view, and the end of those that the copy does not have."""
        other = self._dialect.schema + quoted(copy)
        order = f"row_number() OVER (ORDER BY {listed(self._layout.key, 'v.')})"
        mine = listed(self._layout.columns, "v.")
        return [
            f"INSERT INTO {self.batch_columns()} SELECT {order} - 1, 0, {mine} FROM {other} v",
            f"INSERT INTO {self.batch_columns()} SELECT {order} - 1 + (SELECT count(*) FROM {other}), 1, {mine} "
            f"FROM {self._view} v WHERE NOT EXISTS (SELECT 1 FROM {other} b WHERE {self._same_key})",
        ]

    def refill(self, copy: str) -> list[str]:
        """Let the copy be what the view is."""
        other = self._dialect.schema + quoted(copy)
        return [f"DELETE FROM {other}", f"INSERT INTO {other} ({self._all}) SELECT {self._all} FROM {self._view}"]

    def clear(self) -> list[str]:
        return [f"DELETE FROM {self._touched}", f"DELETE FROM {self._batch}"]

    def batch_columns(self) -> str:
        return f"{self._batch} ({SEQUENCE}, {REMOVES}, {self._all})"

    def touch(self) -> str:
        """Find the real changes, and number them in the order of their rows."""
        new = f"v.{quoted(self._layout.key[0])} IS NULL"
        differs = [f"v.{quoted(name)} {self._dialect.differs} b.{quoted(name)}" for name in self._layout.others]
        return (
            f"INSERT INTO {self._touched} (place, {SEQUENCE}, kind) "
            f"SELECT row_number() OVER (ORDER BY b.{SEQUENCE}) - 1, b.{SEQUENCE}, "
            f"CASE WHEN {new} THEN '{INSERT}' WHEN b.{REMOVES} = 1 THEN '{DELETE}' ELSE '{UPDATE}' END "
            f"FROM {self._batch} b LEFT JOIN {self._view} v ON {self._same_key} "
            f"WHERE CASE WHEN {new} THEN b.{REMOVES} = 0 ELSE {joined([f'b.{REMOVES} = 1', *differs], 'OR')} END"
        )

    def count(self) -> str:
        return f"SELECT kind, count(*) FROM {self._touched} GROUP BY kind"

    def log_before(self, position: int) -> str:
        return (
            f"{self._into_log(position, 'v.', DELETE, UPDATE_BEFORE)} "
            f"JOIN {self._view} v ON {self._same_key} WHERE t.kind <> '{INSERT}' ORDER BY t.place"
        )

    def log_after(self, position: int) -> str:
        return f"{self._into_log(position, 'b.', INSERT, UPDATE_AFTER)} WHERE t.kind <> '{DELETE}' ORDER BY t.place"

    def remove(self) -> str:
        key = listed(self._layout.key, "b.")
        return (
            f"DELETE FROM {self._view} WHERE ({listed(self._layout.key)}) IN "
            f"(SELECT {key} FROM {self._changed} WHERE t.kind = '{DELETE}')"
        )

    def upsert(self) -> str:
        """In the order of the key, which is that of the table: its pages are written one after the other."""
        updates = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in self._layout.others)
        return (
            f"INSERT INTO {self._view} ({self._all}) SELECT {listed(self._layout.columns, 'b.')} FROM {self._changed} "
            f"WHERE t.kind <> '{DELETE}' ORDER BY {listed(self._layout.key, 'b.')} "
            f"ON CONFLICT ({listed(self._layout.key)}) DO {f'UPDATE SET {updates}' if updates else 'NOTHING'}"
        )

    def count_rows(self) -> str:
        return f"SELECT count(*) FROM {self._view}"

    def select(self) -> str:
        return f"SELECT {self._all} FROM {self._view}"

    def select_changes(self, first: int, end: int, condition: str = "") -> str:
        # Of the two rows of an update the one before sorts after the other by name.
        return (
            f"SELECT {POSITION}, {CHANGE}, {self._all} FROM {self._log} WHERE {POSITION} >= {first} "
            f"AND {POSITION} < {end}{f' AND {condition}' if condition else ''} ORDER BY {POSITION}, {CHANGE} DESC"
        )

    def count_before(self, position: int) -> str:
        return f"SELECT count(*) FROM {self._log} WHERE {POSITION} < {position}"

    def trim(self, first: int) -> str:
        return f"DELETE FROM {self._log} WHERE {POSITION} < {first}"

    def order(self) -> str:
        return f" ORDER BY {listed(self._layout.key)}"

    def _into_log(self, position: int, source: str, alone: str, of_update: str) -> str:
        return (
            f"INSERT INTO {self._log} ({POSITION}, {CHANGE}, {self._all}) "
            f"SELECT {position} + t.place, CASE t.kind WHEN '{UPDATE}' THEN '{of_update}' ELSE '{alone}' END, "
            f"{listed(self._layout.columns, source)} FROM {self._changed}"
        )

    def _defined(self, names: Sequence[str]) -> str:
        return ", ".join(
            f"{quoted(name)} {self._dialect.type_of(name)}{' NOT NULL' if name in self._layout.key else ''}"
            for name in names
        )
