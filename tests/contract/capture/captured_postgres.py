"""What the tests of capturing a real PostgreSQL share: a schema of one's own in it, and events as plain data."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn

import psycopg
import pytest

from runnel.capture.events import Change, Ended, Event, Passed, Position, Truncated
from runnel.capture.postgres.source import PostgresSource
from runnel.capture.tables import Absent, Row, Table, TableId
from tests.contract.views.postgres_package import is_packaged
from tests.contract.views.postgres_server import Postgres

LIMIT = 120.0
LOGICAL = {
    "fsync": "off",
    "wal_level": "logical",
    "max_replication_slots": "12",
    "max_wal_senders": "12",
    "max_prepared_transactions": "4",
    "autovacuum": "off",
}

numbers = itertools.count()


class Database:
    """A schema of its own in the server, with what captures it. Statements find their tables there."""

    def __init__(self, server: Postgres, stack: ExitStack) -> None:
        self.server = server
        self.schema = f"s{next(numbers)}"
        self._stack = stack
        self._connection = self.connect()
        self.run(f"CREATE SCHEMA {self.schema}")
        self._sources: list[PostgresSource] = []

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        connection = psycopg.connect(
            self.server.url, autocommit=True, options=f"-c search_path={self.schema},public", prepare_threshold=None
        )
        return self._stack.enter_context(connection)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self._connection.execute(statement.encode())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._connection.transaction():
            yield

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query.encode()).fetchall()

    @property
    def version(self) -> int:
        """The server's major one."""
        return self._connection.info.server_version // 10_000

    def table(self, name: str) -> TableId:
        return TableId(self.schema, name)

    def source(
        self, chosen: Any = None, *, name: str | None = None, url: str | None = None, **named: Any
    ) -> PostgresSource:
        chosen = chosen or (lambda table: table.schema == self.schema)
        source = PostgresSource(url or self.server.url, name or self.schema, chosen, **named)
        self._sources.append(source)
        return source

    def close(self) -> None:
        for source in self._sources:
            source.close()
        names = self.ask(f"SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'runnel_{self.schema}%'")
        wait_for(lambda: not self.ask("SELECT FROM pg_replication_slots WHERE active AND temporary = false"))
        for (slot,) in names:
            self.run(f"SELECT pg_drop_replication_slot('{slot}')")
        self.run(f"DROP SCHEMA {self.schema} CASCADE")
        for (publication,) in self.ask(
            f"SELECT pubname FROM pg_publication WHERE pubname LIKE 'runnel_{self.schema}%'"
        ):
            self.run(f"DROP PUBLICATION {publication}")


def skip_without(server: Postgres, part: str) -> NoReturn:
    """Only a server out of a package of PyPI may lack a part. Of an installed one, nobody would miss the test."""
    assert is_packaged(server.programs), f"the server in {server.programs} does not have {part}: install it whole"
    pytest.skip(f"this server does not have {part}")


def wait_for(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.05)


def events_of(source: PostgresSource, after: Position, until: Position | None = None) -> list[Event]:
    """All events behind a position up to now, or to `until`."""
    end = now(source)
    changes = source.changes(after, until)
    events: list[Event] = []
    deadline = time.monotonic() + LIMIT
    try:
        while True:
            events.extend(changes.read(0.2))
            if until is None and after.at["lsn"] >= end:
                return events
            places = [event.at["lsn"] for event in events if isinstance(event, (Ended, Passed))]
            if places and places[-1] >= (end if until is None else until.at["lsn"]):
                return events
            assert time.monotonic() < deadline, f"the log did not come to {end}: {events[-3:]}"
    finally:
        changes.close()


def now(source: PostgresSource) -> int:
    start = Position({"lsn": 0})
    return source.behind(start)


def position_after(events: Sequence[Event]) -> Position:
    return Position([event.at for event in events if isinstance(event, (Ended, Passed))][-1])


def told(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """Changes as plain data: what was done, before and after, as JSON reads."""
    found: list[tuple[Any, ...]] = []
    for event in events:
        if isinstance(event, Change):
            found.append((event.op, plain(event.table, event.before), plain(event.table, event.after)))
        elif isinstance(event, Truncated):
            found.append(("t", event.table.id.name))
    return found


def plain(table: Table, row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {column.name: _value(column.form.write, value) for column, value in zip(table.columns, row, strict=True)}


def _value(write: Callable[[Any], str], value: Any) -> Any:
    if value is None or isinstance(value, Absent):
        return value
    return json.loads(write(value))
