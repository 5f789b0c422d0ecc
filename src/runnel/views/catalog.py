"""The tables in which a store keeps its own account: which views it has, who writes them, and how far they are.

`runnel_views` has a row per view: its declaration, the claim in force, the marker, the ends of the change log and the
checkpoint by which that began. New columns come at the end: a store that an older Runnel made is read as it is, and
gets them when a view of it is claimed or exchanged.
`runnel_commits` has a row per batch that changed something: which positions are its own, and when it was committed.
"""

from __future__ import annotations

import json
from typing import Any

from runnel.durable import durable
from runnel.views.database import Database
from runnel.views.declaration import Kept, key_text, schema_bytes
from runnel.views.layout import Layout
from runnel.views.statements import COMMITS, COPIES, VIEWS
from runnel.views.store import Marker

COLUMNS = len(Kept._fields)


def make_catalog(database: Database) -> None:
    """Make the tables, or add what those of an older Runnel lack, in a transaction of its own."""
    catalog = Catalog(database)
    if catalog.is_there() and catalog.has_all_columns():
        return
    with database.making():
        catalog.make()
        with durable("view.store"):
            database.commit()


class Catalog:
    def __init__(self, database: Database) -> None:
        self._database = database
        schema = database.schema.replace("{", "{{").replace("}", "}}")  # statements are templates, see `_run`
        self._views = schema + VIEWS
        self._commits = schema + COMMITS

    def is_there(self) -> bool:
        return self._database.table_like(COMMITS) is not None

    def has_all_columns(self) -> bool:
        """Both databases are asked alike: the join has a row also where there are no views."""
        query = f"SELECT v.* FROM (SELECT 1 AS one) o LEFT JOIN {self._views} v ON v.number = o.one LIMIT 1"
        return len(self._run(query)[0]) >= COLUMNS

    def make(self) -> None:
        self._run(
            f"CREATE TABLE IF NOT EXISTS {self._views} (name text NOT NULL PRIMARY KEY, number bigint NOT NULL UNIQUE, "
            f"query text NOT NULL, key text NOT NULL, schema {self._database.bytes_type} NOT NULL, "
            "epoch bigint NOT NULL, claimed_by text NOT NULL, "
            "batch bigint, checkpoint text, positions text, "
            "first_position bigint NOT NULL, next_position bigint NOT NULL, log text)"
        )
        if not self.has_all_columns():
            self._run(f"ALTER TABLE {self._views} ADD COLUMN log text")
        self._run(
            f"CREATE TABLE IF NOT EXISTS {self._commits} (view bigint NOT NULL, next_position bigint NOT NULL, "
            "first_position bigint NOT NULL, log_rows bigint NOT NULL, log_rows_before bigint NOT NULL, "
            "batch bigint NOT NULL, committed_ms bigint NOT NULL, PRIMARY KEY (view, next_position))"
        )

    def names(self) -> list[str]:
        if not self.is_there():
            return []
        names = (name for (name,) in self._run(f"SELECT name FROM {self._views}"))
        return sorted(name for name in names if not name.startswith(COPIES))

    def find(self, name: str, *, hold: bool = False) -> Kept | None:
        query = f"SELECT * FROM {self._views} WHERE name = {{1}}"
        rows = self._run(self._database.held(query) if hold else query, name)
        return Kept(*rows[0][:COLUMNS]) if rows else None

    def next_number(self) -> int:
        ((number,),) = self._run(f"SELECT coalesce(max(number), 0) + 1 FROM {self._views}")
        return int(number)

    def add(self, layout: Layout, number: int, query: str) -> None:
        self._run(
            f"INSERT INTO {self._views} (name, number, query, key, schema, epoch, claimed_by, first_position, "
            "next_position) VALUES ({1}, {2}, {3}, {4}, {5}, 0, '', 0, 0)",
            layout.name,
            number,
            query,
            key_text(layout),
            schema_bytes(layout.schema),
        )

    def redeclare(self, layout: Layout) -> None:
        schema = schema_bytes(layout.schema)
        self._run(f"UPDATE {self._views} SET schema = {{1}} WHERE name = {{2}}", schema, layout.name)

    def claim(self, name: str) -> int:
        """The number of the claim that is in force from now on."""
        self._run(
            f"UPDATE {self._views} SET epoch = epoch + 1, claimed_by = {{1}} WHERE name = {{2}}",
            self._database.identity,
            name,
        )
        kept = self.find(name)
        assert kept is not None
        return int(kept.epoch)

    def mark(self, name: str, marker: Marker, next_position: int) -> None:
        self._run(
            f"UPDATE {self._views} SET batch = {{1}}, checkpoint = {{2}}, positions = {{3}}, next_position = {{4}}, "
            "log = coalesce(log, checkpoint, {2}) WHERE name = {5}",
            marker.batch,
            marker.checkpoint,
            json.dumps(marker.positions),
            next_position,
            name,
        )

    def take_marker(self, name: str, other: Kept, *, next_position: int, log: str | None) -> None:
        """That of another, with the rows; who wrote here before is fenced. `log` is whose positions count."""
        self._run(
            f"UPDATE {self._views} SET batch = {{1}}, checkpoint = {{2}}, positions = {{3}}, next_position = {{4}}, "
            "log = {5}, epoch = epoch + 1 WHERE name = {6}",
            other.batch,
            other.checkpoint,
            other.positions,
            next_position,
            log,
            name,
        )

    def exchange(self, shown: Kept, copy: Kept, *, position: int) -> None:
        """Each gets all that the other has; the change log of what is shown begins anew, at `position`."""
        self._run(f"DELETE FROM {self._commits} WHERE view = {{1}}", copy.number)
        self._run(f"UPDATE {self._views} SET number = -number WHERE name = {{1}}", copy.name)
        statement = (
            f"UPDATE {self._views} SET number = {{1}}, key = {{2}}, schema = {{3}}, first_position = {{4}} "
            "WHERE name = {5}"
        )
        self._run(statement, copy.number, copy.key, copy.schema, position, shown.name)
        self._run(statement, shown.number, shown.key, shown.schema, shown.first_position, copy.name)
        self.take_marker(shown.name, copy, next_position=position, log=copy.checkpoint)
        self.take_marker(copy.name, shown, next_position=shown.next_position, log=shown.checkpoint)

    def remove(self, kept: Kept) -> None:
        self._run(f"DELETE FROM {self._commits} WHERE view = {{1}}", kept.number)
        self._run(f"DELETE FROM {self._views} WHERE name = {{1}}", kept.name)

    def add_commit(self, kept: Kept, next_position: int, log_rows: int, batch: int, now: int) -> None:
        self._run(
            f"INSERT INTO {self._commits} "
            "(view, first_position, next_position, log_rows, log_rows_before, batch, committed_ms) "
            "VALUES ({1}, {2}, {3}, {4}, {5}, {6}, {7})",
            kept.number,
            kept.next_position,
            next_position,
            log_rows,
            self._logged(kept),
            batch,
            now,
        )

    def first_to_keep(self, kept: Kept, rows: int, since_ms: int) -> int:
        """Where the change log may begin: at the oldest batch that is young enough and has not too much after it,
        itself counted unless it is more than the log keeps. Without rows it keeps nothing.
        """
        if not rows:
            return kept.next_position
        found = self._run(
            f"SELECT first_position FROM {self._commits} "
            "WHERE view = {1} AND log_rows_before + CASE WHEN log_rows > {2} THEN log_rows ELSE 0 END >= {3} "
            "AND committed_ms >= {4} ORDER BY next_position LIMIT 1",
            kept.number,
            rows,
            self._logged(kept) - rows,
            since_ms,
        )
        return int(found[0][0]) if found else kept.next_position

    def _logged(self, kept: Kept) -> int:
        """How many rows the change log has got, those that were trimmed included."""
        newest = self._run(
            f"SELECT log_rows_before + log_rows FROM {self._commits} WHERE view = {{1}} "
            "ORDER BY next_position DESC LIMIT 1",
            kept.number,
        )
        return int(newest[0][0]) if newest else 0

    def trim(self, kept: Kept, first: int) -> None:
        self._run(f"DELETE FROM {self._commits} WHERE view = {{1}} AND next_position <= {{2}}", kept.number, first)
        self._run(f"UPDATE {self._views} SET first_position = {{1}} WHERE name = {{2}}", first, kept.name)

    def last_change(self, kept: Kept) -> int | None:
        """When the newest batch that changed something was committed, in milliseconds since 1970, if that is kept."""
        found = self._run(
            f"SELECT committed_ms FROM {self._commits} WHERE view = {{1}} ORDER BY next_position DESC LIMIT 1",
            kept.number,
        )
        return int(found[0][0]) if found else None

    def ends(self, kept: Kept, position: int, most: int) -> list[tuple[int, int]]:
        """Where the batches after a position end, and how many rows of the log each has."""
        return [
            (int(end), int(rows))
            for end, rows in self._run(
                f"SELECT next_position, log_rows FROM {self._commits} WHERE view = {{1}} AND next_position > {{2}} "
                "ORDER BY next_position LIMIT {3}",
                kept.number,
                position,
                most,
            )
        ]

    def _run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """`{1}` in a statement stands for the first of the values."""
        places = [self._database.place(number) for number in range(len(values) + 1)]
        return self._database.run(statement.format(*places), *values)
