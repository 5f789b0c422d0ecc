"""Some rows of a table beside the changes: they have seen exactly what is in the log up to its last line then."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from runnel.capture.errors import InvalidFilter, TableMissing
from runnel.capture.forms import Binary
from runnel.capture.source import Chunk
from runnel.capture.sqlite.changes import last_line, own_fields, taken
from runnel.capture.sqlite.connecting import reading
from runnel.capture.sqlite.keeping import Keeping
from runnel.capture.sqlite.names import Names
from runnel.capture.sqlite.shapes import Shape, shape_of, tables_of
from runnel.capture.sqlite.snapshot import can_part, estimate_of, selected
from runnel.capture.tables import Row, Table


class Chunks:
    """Over a connection on which nothing else is under way. With a journal that is no WAL, writers wait for a chunk."""

    def __init__(self, path: str, connection: sqlite3.Connection, keeping: Keeping, names: Names, mode: Binary) -> None:
        self._path = path
        self._connection = connection
        self._keeping = keeping
        self._names = names
        self._mode = mode

    def read(self, table: Table, after: Row | None, limit: int, where: str | None) -> tuple[Chunk, int] | None:
        """A chunk, and the last line that it has seen. None while the triggers do not fit the table as it is."""
        with reading(self._connection):
            shape = self._shape(table)
            if shape is None:
                return None
            found = shape.to_table(self._mode)
            line, _ = last_line(self._connection, self._names)
            if after is not None and _key_of(found) != _key_of(table):
                return Chunk(found, (), False, _sees_all), line
            with _blaming(where, found):
                rows, is_last = _some(selected(self._connection, found, after, where), found, limit)
            about = estimate_of(self._connection, shape) if after is None else None
            source = own_fields(str(line), line)
            return Chunk(found, rows, is_last, _sees_all, source, time.time_ns() // 1000, about), line

    # --- inside

    def _shape(self, table: Table) -> Shape | None:
        name = table.id.name
        known = [each.name for each in tables_of(self._connection)]
        if name not in known:
            raise TableMissing(str(table.id), self._path, known)
        kept = next((each for each in self._keeping.kept().shapes.values() if each.table == name), None)
        return kept if kept == shape_of(self._connection, name) else None


@contextmanager
def _blaming(where: str | None, table: Table) -> Iterator[None]:
    """What goes wrong while a person's condition is asked for is taken for its fault."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:
        if where is None or getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise
        raise InvalidFilter(str(table.id), where, str(error)) from None


def _some(found: sqlite3.Cursor, table: Table, limit: int) -> tuple[list[Any], bool]:
    """So many rows, or fewer if they are large, and those up to where a chunk can end; whether no others are left."""
    rows = taken(found, limit)
    following = found.fetchone() if rows else None
    while following is not None and not can_part(table.key_of(rows[-1]), table.key_of(following)):
        rows.append(following)
        following = found.fetchone()
    found.close()
    return rows, following is None


def _key_of(table: Table) -> list[str]:
    return [table.columns[place].name for place in table.key]


def _sees_all(transaction: str) -> bool:  # noqa: ARG001
    """There is one writer at a time: whoever was told of was seen."""
    return True
