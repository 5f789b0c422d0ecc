"""The tables in which a store keeps its own account: which views it has, who writes them, and how far they are.

`runnel_views` has a row per view: its declaration, the claim in force, the marker and the ends of the change log.
`runnel_commits` has a row per batch that changed something: which positions are its own, and when it was committed.
"""

from __future__ import annotations

import json
from typing import Any

from runnel.views.database import Database
from runnel.views.declaration import Kept, key_text, schema_bytes
from runnel.views.layout import Layout
from runnel.views.statements import COMMITS, VIEWS
from runnel.views.store import Marker

COLUMNS = ", ".join(Kept._fields)


class Catalog:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._views = database.schema + VIEWS
        self._commits = database.schema + COMMITS

    def is_there(self) -> bool:
        return self._database.table_like(COMMITS) is not None

    def make(self) -> None:
        self._database.run(
            f"CREATE TABLE IF NOT EXISTS {self._views} (name text NOT NULL PRIMARY KEY, number bigint NOT NULL UNIQUE, "
            f"query text NOT NULL, key text NOT NULL, schema {self._database.bytes_type} NOT NULL, "
            "epoch bigint NOT NULL, claimed_by text NOT NULL, "
            "batch bigint, checkpoint text, positions text, "
            "first_position bigint NOT NULL, next_position bigint NOT NULL)"
        )
        self._database.run(
            f"CREATE TABLE IF NOT EXISTS {self._commits} (view bigint NOT NULL, next_position bigint NOT NULL, "
            "first_position bigint NOT NULL, log_rows bigint NOT NULL, log_rows_before bigint NOT NULL, "
            "batch bigint NOT NULL, committed_ms bigint NOT NULL, PRIMARY KEY (view, next_position))"
        )

    def names(self) -> list[str]:
        if not self.is_there():
            return []
        return sorted(name for (name,) in self._database.run(f"SELECT name FROM {self._views}"))

    def find(self, name: str, *, hold: bool = False) -> Kept | None:
        query = f"SELECT {COLUMNS} FROM {self._views} WHERE name = {self._database.place(1)}"
        rows = self._database.run(self._database.held(query) if hold else query, name)
        return Kept(*rows[0]) if rows else None

    def next_number(self) -> int:
        ((number,),) = self._database.run(f"SELECT coalesce(max(number), 0) + 1 FROM {self._views}")
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
            f"UPDATE {self._views} SET batch = {{1}}, checkpoint = {{2}}, positions = {{3}}, next_position = {{4}} "
            "WHERE name = {5}",
            marker.batch,
            marker.checkpoint,
            json.dumps(marker.positions),
            next_position,
            name,
        )

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
        """Where the change log may begin: at the oldest batch that is young enough and has not too much after it."""
        found = self._run(
            f"SELECT first_position FROM {self._commits} "
            "WHERE view = {1} AND log_rows_before >= {2} AND committed_ms >= {3} ORDER BY next_position LIMIT 1",
            kept.number,
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
        places = [self._database.place(number) for number in range(len(values) + 1)]
        return self._database.run(statement.format(*places), *values)
