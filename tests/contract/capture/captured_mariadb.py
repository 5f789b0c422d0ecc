"""What the tests of capturing a real MariaDB share: a database of one's own in it, and events as plain data."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pymysql

from runnel.capture.events import Came, Change, Ended, Event, Gone, Passed, Position, Redefined, Truncated
from runnel.capture.mariadb.gtids import place_of
from runnel.capture.mariadb.source import MariadbSource
from runnel.capture.selection import Selection
from runnel.capture.tables import Absent, Row, Table, TableId
from tests.contract.capture.mariadb_server import Mariadb

LIMIT = 120.0

numbers = itertools.count()


class MariadbDatabase:
    """A database of its own in the server, with what captures it."""

    def __init__(self, server: Mariadb) -> None:
        self.server = server
        self.schema = f"shop_{next(numbers)}"
        server.run(f"CREATE DATABASE {self.schema} CHARACTER SET utf8mb4")
        self._connections: list[Any] = []
        self._sources: list[MariadbSource] = []
        self._writer = self.connect()

    @property
    def url(self) -> str:
        return self.server.url_of(self.schema)

    def connect(self) -> Any:
        connection = pymysql.connect(**self.server.account(), database=self.schema, charset="utf8mb4")
        self._connections.append(connection)
        return connection

    def execute(self, *statements: str) -> None:
        """All in one transaction."""
        self.run("BEGIN", *statements, "COMMIT")

    def run(self, *statements: str) -> None:
        with self._writer.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.ask(f"SELECT * FROM {table}")

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with self._writer.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def table(self, name: str) -> TableId:
        return TableId(self.schema, name)

    def source(
        self, name: str = "shop", selection: Selection | None = None, *, url: str | None = None, chosen: Any = None
    ) -> MariadbSource:
        chosen = chosen or (selection or Selection()).has
        self._sources.append(MariadbSource(url or self.url, f"{self.schema}_{name}", chosen))
        return self._sources[-1]

    def close(self) -> None:
        for source in self._sources:
            source.close()
        for connection in self._connections:
            if connection.open:
                connection.close()
        self.server.run(f"DROP DATABASE IF EXISTS {self.schema}")


def wait_for(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)


def end_of(database: MariadbDatabase) -> str:
    ((gtid,),) = database.ask("SELECT @@GLOBAL.gtid_binlog_pos")
    return str(gtid)


def events_of(database: MariadbDatabase, source: MariadbSource, after: Position) -> list[Event]:
    """All events behind a position up to now."""
    end = place_of(end_of(database))
    events: list[Event] = []
    here = place_of(after.at["gtid"])
    deadline = time.monotonic() + LIMIT
    with closing(source.changes(after)) as changes:
        while here != end:
            for event in changes.read(0.2):
                events.append(event)
                if isinstance(event, (Ended, Passed)):
                    here = place_of(event.at["gtid"])
            assert time.monotonic() < deadline, f"the log did not come to {end}: {events[-3:]}"
    return events


def told(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """Changes as plain data: what was done, before and after, as JSON reads."""
    found: list[tuple[Any, ...]] = []
    for event in events:
        if isinstance(event, Change):
            found.append((event.op, plain(event.table, event.before), plain(event.table, event.after)))
        elif isinstance(event, Truncated):
            found.append(("t", event.table.id.name))
        elif isinstance(event, Gone):
            found.append(("gone", event.table.name))
        elif isinstance(event, Came):
            found.append(("came", event.table.name))
        elif isinstance(event, Redefined):
            found.append(("redefined", event.table.id.name, [column.name for column in event.table.columns]))
    return found


def changes_of(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    return [each for each in told(events) if each[0] != "redefined"]


def plain(table: Table, row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {column.name: _value(column.form.write, value) for column, value in zip(table.columns, row, strict=True)}


def _value(write: Callable[[Any], str], value: Any) -> Any:
    if value is None or isinstance(value, Absent):
        return value
    return json.loads(write(value))
