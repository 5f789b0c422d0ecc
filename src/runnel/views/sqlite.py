"""Views in a file of SQLite's: `views.sqlite` in the data directory, which any tool that reads SQLite can open.

The file is in write-ahead mode, so readers and the writer never wait for each other, and a commit is on the disk when
it is told (`synchronous=FULL`). Several views share the file; their writers take turns, and a batch is prepared before
its writer's turn comes.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from typing import Any

import pyarrow as pa

from runnel.clock import SYSTEM_CLOCK, Clock
from runnel.durable import durable
from runnel.errors import RunnelError
from runnel.forking import never_forked, whole
from runnel.views.batch import Batch
from runnel.views.errors import StoreFailed, StoreFull, StoreLocked, StoreRefused
from runnel.views.layout import Layout
from runnel.views.sql_store import SqlStore
from runnel.views.sqlite_values import by_number, from_sqlite, is_number_in_text, to_sqlite, type_of
from runnel.views.statements import Dialect, Statements, quoted
from runnel.views.store import Keep

FILE_NAME = "views.sqlite"
PATIENCE = 60.0
CACHE_KIB = 8 * 1024  # each app has one of its own, which grows up to this
LARGE_CACHE_KIB = 16 * 1024  # with less, pages of a large batch would be written twice
LARGE_BATCH = 10_000  # rows
ROWS_AT_ONCE = 50_000
MAIN, TEMPORARY = "main.", "temp."
BY_NUMBER = "runnel_by_number"  # an order of our readers' own
HINTS = {
    sqlite3.SQLITE_CANTOPEN: "see whether its directory is there and this user may write to it; to read, look into it",
    sqlite3.SQLITE_READONLY: "let this user write to the file and its directory",
    sqlite3.SQLITE_PERM: "let this user write to the file and its directory",
    sqlite3.SQLITE_NOTADB: "name another file, or move this one away",
    sqlite3.SQLITE_CORRUPT: "restore the file from a backup, or move it away and rebuild the views",
}


class SqliteStore(SqlStore):
    """The views in one file. Opening it does nothing; the file is made when the first view is claimed."""

    def __init__(
        self, path: str, *, keep: Keep | None = None, patience: float = PATIENCE, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(keep, clock)
        self.path = os.path.abspath(path)
        self._patience = patience

    def _connect(self, view: str) -> Callable[[], SqliteDatabase]:  # noqa: ARG002  # whatever it is
        return partial(SqliteDatabase, self.path, self._patience)

    def _read(self) -> SqliteDatabase:
        return SqliteDatabase(self.path, self._patience, read_only=True)


class SqliteDatabase:
    schema = MAIN
    bytes_type = "blob"

    def __init__(self, path: str, patience: float, *, read_only: bool = False) -> None:
        self.store = path
        self.identity = f"process {os.getpid()} on {socket.gethostname()}"
        self._patience = patience
        self._read_only = read_only
        self._is_open = self._is_let_go = False
        with whole():
            self._connect()
            never_forked(self)

    @property
    def is_current(self) -> bool:
        return _identity(self.store) == self._file

    @property
    def is_there(self) -> bool:
        return self._file is not None

    @property
    def is_let_go(self) -> bool:
        return self._is_let_go

    def dialect(self, layout: Layout) -> Dialect:
        return Dialect(
            type_of=lambda name: type_of(layout.schema.field(name).type),
            schema=MAIN,
            temporary=TEMPORARY,
            differs="IS NOT",
            clustered=" WITHOUT ROWID",
        )

    @contextmanager
    def making(self) -> Iterator[None]:
        with self._transaction("BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._transaction("BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def staged(self, layout: Layout, statements: Statements, batch: Batch) -> Iterator[None]:
        self._make_room(batch.table.num_rows)
        self._stage(layout, statements, batch)
        try:
            with self._transaction("BEGIN IMMEDIATE"):
                yield
        finally:
            self._clear(statements)

    @contextmanager
    def reading(self, view: str | None = None) -> Iterator[None]:  # noqa: ARG002  # names, too, are those of the moment
        with self._transaction("BEGIN"):
            yield

    def commit(self) -> None:
        self.run("COMMIT")

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._telling():
            return self._connection.execute(statement, values).fetchall()

    def place(self, number: int) -> str:
        return f"?{number}"

    def held(self, statement: str) -> str:
        return statement  # a transaction that writes has the file to itself

    def table_like(self, name: str) -> str | None:
        rows = self.run("SELECT name FROM main.sqlite_master WHERE name = ?1 COLLATE NOCASE", name)
        return str(rows[0][0]) if rows else None

    def drop_table(self, name: str) -> str:
        self.run(f"DROP TABLE {MAIN}{quoted(name)}")
        return ""

    def hand_on(self, old: str, new: str) -> None:
        """Whoever can read the file can read all of it."""

    def make_way(self, layout: Layout) -> bool:  # noqa: ARG002  # the lock is another process's, whatever the view
        return False

    def table(self, rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
        columns = zip(*rows, strict=True) if rows else repeat((), len(schema))
        arrays = [from_sqlite(values, field.type) for values, field in zip(columns, schema, strict=True)]
        return pa.table(arrays, schema=schema)

    def value(self, value: pa.Scalar) -> object:
        return to_sqlite(pa.chunked_array([pa.array([value.as_py()], value.type)]))[0]

    def ordered(self, column: str, kind: pa.DataType) -> str:
        return f"{column} COLLATE {BY_NUMBER}" if is_number_in_text(kind) else column

    def let_go(self) -> None:
        """Another process could not have locks of its own beside this connection."""
        if self._is_open and not self._connection.in_transaction:  # else it is the forking thread's
            self._connection.close()
            self._is_open, self._is_let_go = False, True

    def close(self) -> None:
        with whole():
            self._is_open = self._is_let_go = False
            self._connection.close()

    def _connect(self) -> None:
        self._file = _identity(self.store) if self._read_only else None
        with self._telling():
            self._connection = _open(self.store, self._patience, self._read_only)
        try:
            self._set_up()
        except BaseException:
            self._connection.close()
            raise
        self._file = self._file if self._read_only else _identity(self.store)  # which is made by then
        self._is_open, self._is_let_go = True, False

    def _set_up(self) -> None:
        if self._read_only:
            self._connection.create_collation(BY_NUMBER, by_number)
            return
        ((mode,),) = self.run("PRAGMA journal_mode")
        if mode != "wal":
            with durable("view.file"):
                self.run("PRAGMA journal_mode = WAL")
        self.run("PRAGMA synchronous = FULL")
        self.run("PRAGMA legacy_alter_table = ON")  # SQL views of others go by the name of a table, whichever has it
        self._make_room(0)
        self.run(f"PRAGMA temp.cache_size = -{LARGE_CACHE_KIB}")

    def _make_room(self, rows: int) -> None:
        """In memory, for the pages that a batch of so many rows may touch. What a larger one had more is given up."""
        self.run(f"PRAGMA cache_size = -{LARGE_CACHE_KIB if rows >= LARGE_BATCH else CACHE_KIB}")

    def _stage(self, layout: Layout, statements: Statements, batch: Batch) -> None:
        """The temporary tables are our own, so this holds up nobody."""
        self._clear(statements)
        places = ", ".join("?" * (len(layout.columns) + 2))
        insert = f"INSERT INTO {statements.batch_columns()} VALUES ({places})"
        with self._transaction("BEGIN"):
            for start in range(0, batch.table.num_rows, ROWS_AT_ONCE):
                with self._telling():
                    self._connection.executemany(insert, _rows(batch, start))
            self.commit()

    def _clear(self, statements: Statements) -> None:
        for statement in statements.clear():
            self.run(statement)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with whole():
            if self._is_let_go:
                self._connect()
            self.run(begin)
            try:
                yield
            finally:
                if self._connection.in_transaction:
                    self._connection.rollback()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise told(self.store, self._patience, error) from error


def _open(path: str, patience: float, read_only: bool) -> sqlite3.Connection:
    if read_only and _is_missing(path):
        path = ":memory:"  # as good as a file without views
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    if not read_only:
        _make_directory(path)
    name = f"file:{urllib.parse.quote(os.fsencode(path))}?mode={'ro' if read_only else 'rwc'}"
    return sqlite3.connect(name, uri=True, isolation_level=None, timeout=patience, check_same_thread=False)


def _is_missing(path: str) -> bool:
    """Whether nothing is there; what cannot be seen may well be."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _identity(path: str) -> tuple[int, int] | None:
    """Which file it is; None if there is none that can be seen."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make_directory(path: str) -> None:
    directory = os.path.dirname(path)
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise StoreRefused(
            path, f"{directory} cannot be made: {error.strerror}", hint="name a directory that this user can write to"
        ) from error


def _rows(batch: Batch, start: int) -> Iterator[tuple[Any, ...]]:
    table = batch.table.slice(start, ROWS_AT_ONCE)
    removes = to_sqlite(batch.removes.slice(start, ROWS_AT_ONCE))
    numbers = range(start, start + table.num_rows)
    return zip(numbers, removes, *(to_sqlite(column) for column in table.columns), strict=True)


def told(store: str, patience: float, error: sqlite3.Error) -> RunnelError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    reason = str(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLocked(store, patience)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(store, reason)
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM):
        return StoreFailed(store, reason)
    return StoreRefused(store, reason, hint=HINTS.get(code, "this is unexpected: please report it"))
