"""A database with a writer, and a source that is read when it is asked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runnel.capture.events import Change, Event, Position
from runnel.capture.selection import Selection
from runnel.capture.sqlite import SqliteSource


class Captured:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer = sqlite3.connect(path, isolation_level=None)
        self.writer.execute("PRAGMA journal_mode = WAL")
        self.position: Position | None = None
        self._sources: list[SqliteSource] = []

    def write(self, *statements: str) -> None:
        for statement in statements:
            self.writer.execute(statement)

    def source(self, **options: Any) -> SqliteSource:
        self._sources.append(SqliteSource(self.path, "shop", Selection(**options).has))
        return self._sources[-1]

    def prepare(self) -> SqliteSource:
        source = self.source()
        self.position = source.prepare()
        return source

    def events(self) -> list[Event]:
        """All since the last time."""
        assert self.position is not None
        changes = self.source().changes(self.position)
        found: list[Event] = []
        while events := changes.read(0):
            found.extend(events)
            self.position = Position(events[-1].at)  # type: ignore[union-attr]
        return found

    def told(self) -> list[Any]:
        """Of each change what it is, and the rows before and after."""
        return [(each.op, each.before, each.after) for each in self.events() if isinstance(each, Change)]

    def trace(self) -> list[Any]:
        return self.writer.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()

    def close(self) -> None:
        for source in self._sources:
            source.close()
        self.writer.close()


@pytest.fixture
def captured(tmp_path: Path) -> Iterator[Captured]:
    found = Captured(tmp_path / "shop.sqlite")
    yield found
    found.close()
