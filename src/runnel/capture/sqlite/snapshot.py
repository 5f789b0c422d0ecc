"""The tables at one position of the log: one read transaction, in which the log's last line is the position.

With a WAL nobody waits for it. With any other journal a reader would keep writers from committing for as long as it
reads, so that the database is copied first, and the copy is read: writers wait for the copying alone.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from runnel.capture.events import Position
from runnel.capture.forms import Binary
from runnel.capture.sqlite.changes import last_line, own_fields, position_at, taken
from runnel.capture.sqlite.connecting import connect, told
from runnel.capture.sqlite.errors import TableAltered
from runnel.capture.sqlite.keeping import Keeping
from runnel.capture.sqlite.names import Names, quoted_name
from runnel.capture.sqlite.shapes import Shape, shape_of
from runnel.capture.tables import Row, Table

ROWS_AT_ONCE = 2_000
UNREADABLE = "\ufffd"  # what stands for bytes that are no text


class SqliteSnapshot:
    def __init__(self, path: str, connection: sqlite3.Connection, keeping: Keeping, names: Names, mode: Binary) -> None:
        """The connection is inside of a read transaction; `path` is for people."""
        self._path = path
        self._connection = connection
        line, days = last_line(connection, names)
        kept = keeping.kept()
        self.position = Position(position_at(kept.log, line, days))
        self.source = own_fields(str(line), line)
        self.micros = time.time_ns() // 1000
        there = {table.name for table in keeping.chosen_tables()}
        self._shapes = {shape.table: shape for shape in kept.shapes.values() if shape.table in there}
        self._tables = [shape.to_table(mode) for _, shape in sorted(self._shapes.items())]

    def tables(self) -> Sequence[Table]:
        return self._tables

    def estimate(self, table: Table) -> int:
        return estimate_of(self._connection, self._shapes[table.id.name])

    def rows(self, table: Table, after: Row | None = None) -> Iterator[Sequence[Row]]:
        name = table.id.name
        if self._shapes[name] != shape_of(self._connection, name):  # a name that is no column's is read as text
            raise TableAltered(self._path, name)
        return _pieces(selected(self._connection, table, after), table)


def estimate_of(connection: sqlite3.Connection, shape: Shape) -> int:
    """About how many rows it has. The first and the last number of a row are found at once, however many there are in
    between.
    """
    name = quoted_name(shape.table)
    if not shape.rowid:
        return int(connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0])
    first, last = (
        connection.execute(f"SELECT {which}({shape.rowid}) FROM {name}").fetchone()[0] for which in ("min", "max")
    )
    return 0 if first is None else last - first + 1


def selected(
    connection: sqlite3.Connection, table: Table, after: Row | None, where: str | None = None
) -> sqlite3.Cursor:
    """Its rows in the order of the key, from behind a key on."""
    columns = ", ".join(quoted_name(column.name) for column in table.columns)
    key = [quoted_name(table.columns[place].name) for place in table.key]
    order = f" ORDER BY {', '.join(key)}" if key else ""
    condition, values = _behind(key, after) if after is not None else ("1", [])
    if where is not None:
        condition += f" AND ({where}\n)"  # it may end with a comment
    return connection.execute(f"SELECT {columns} FROM {quoted_name(table.id.name)} WHERE {condition}{order}", values)


def _pieces(found: sqlite3.Cursor, table: Table) -> Iterator[Sequence[Row]]:
    """A piece ends where the key does."""
    held: list[Row] = []
    while rows := taken(found, ROWS_AT_ONCE):
        cut = 0
        while table.key and held and cut < len(rows) and not can_part(table.key_of(held[-1]), table.key_of(rows[cut])):
            held.append(rows[cut])
            cut += 1
        if held and cut < len(rows):
            yield held
            held = []
        held.extend(rows[cut:])
    if held:
        yield held


def can_part(last: Row, following: Row) -> bool:
    """Whether a piece can end between the rows of two keys, so that reading goes on behind the first of them: several
    rows may have a key in which there is a null; a column's own order may take for the same what the key tells apart,
    such as small and capital letters, or spaces at the end; and where a text is not UTF-8, nobody knows what it was.
    """
    is_known = not any(UNREADABLE in value for value in last if isinstance(value, str))
    return is_known and _folded(last) != _folded(following)


def _folded(key: Row) -> Row:
    """As SQLite's own orders see it at most."""
    return tuple(value.rstrip(" ").lower() if isinstance(value, str) else value for value in key)


def _behind(key: list[str], after: Row) -> tuple[str, list[object]]:
    """Rows with a greater key: greater in a column, and the same in those before it. Nulls are the first of all.

    Without nulls a row is compared as a whole, for which SQLite goes straight to its place in the index.
    """
    if None not in after:
        return f"({', '.join(key)}) > ({', '.join('?' * len(key))})", list(after)
    cases: list[str] = []
    values: list[object] = []
    for place, column in enumerate(key):
        parts = [f"{each} IS ?" for each in key[:place]]
        values.extend(after[:place])
        if after[place] is None:
            parts.append(f"{column} IS NOT NULL")
        else:
            parts.append(f"{column} > ?")
            values.append(after[place])
        cases.append(f"({' AND '.join(parts)})")
    return f"({' OR '.join(cases)})", values


@contextmanager
def snapshot_of(path: str, names: Names, mode: Binary) -> Iterator[SqliteSnapshot]:
    with told(path), closing(connect(path)) as connection:
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        if journal == "wal":
            with _reading(path, connection, names, mode) as snapshot:
                yield snapshot
            return
        with tempfile.TemporaryDirectory(prefix="runnel-snapshot-") as directory:
            copy = os.path.join(directory, "copy.sqlite")
            with closing(sqlite3.connect(copy)) as target:
                connection.backup(target)
            with closing(connect(copy)) as copied, _reading(path, copied, names, mode) as snapshot:
                yield snapshot


@contextmanager
def _reading(path: str, connection: sqlite3.Connection, names: Names, mode: Binary) -> Iterator[SqliteSnapshot]:
    connection.execute("BEGIN")
    try:
        yield SqliteSnapshot(path, connection, Keeping(connection, names, lambda _: True), names, mode)
    finally:
        connection.execute("ROLLBACK")
