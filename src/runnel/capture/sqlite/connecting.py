"""Connections to a database of SQLite's, and its errors in our words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from runnel.capture.errors import (
    DatabaseBusy,
    DatabaseMissing,
    DatabaseUnusable,
    DiskFull,
    NotADatabase,
    PositionLost,
)
from runnel.capture.sqlite.errors import FileReplaced
from runnel.capture.sqlite.names import PREFIX
from runnel.errors import RunnelError

PATIENCE = 60.0  # seconds that another writer may take
UNUSABLE = {  # what SQLite's codes begin with: what is wrong with the file, and what to do
    "SQLITE_READONLY": (
        "may not be written",
        "let this user write the file and its directory: triggers and a change log are made in it",
    ),
    "SQLITE_CANTOPEN": (
        "cannot be opened",
        "let this user read and write the file and its directory, where SQLite keeps its journal",
    ),
    "SQLITE_CORRUPT": ("is malformed", "restore it from a backup, or see what `sqlite3 FILE .recover` saves of it"),
    "SQLITE_IOERR": ("cannot be read or written", "see to its disk, and to what the system's log says of it"),
}
# An order or a function of its own, of which a key, a unique index or a generated column makes use.
ONLY_ITS_APPLICATION_HAS = ("no such collation sequence:", "unknown function:", "no such function:")


def connect(path: str, *, patience: float = PATIENCE) -> sqlite3.Connection:
    """Nothing is made by asking for it. Text that is not UTF-8 is read with a mark for each byte that is wrong."""
    if not os.path.isfile(path):
        raise DatabaseMissing(path)
    with told(path, patience):
        connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    connection.text_factory = _text
    try:
        with told(path, patience):
            connection.execute("PRAGMA schema_version").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def told(path: str, patience: float = PATIENCE) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "")
        if not code:  # it is not SQLite that complains, but Python of how we use it
            raise
        raise _in_our_words(path, patience, code, str(error)) from error


def _in_our_words(path: str, patience: float, code: str, reason: str) -> RunnelError:
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return DatabaseBusy(path, patience)
    if code == "SQLITE_NOTADB":
        return NotADatabase(path, "SQLite")
    if code == "SQLITE_READONLY_DBMOVED":
        return FileReplaced(path) if os.path.exists(path) else DatabaseMissing(path)
    if code == "SQLITE_FULL":
        return DiskFull(path)
    if code == "SQLITE_ERROR" and reason.startswith("no such table:") and PREFIX in reason:
        return PositionLost(path, "it has no change log of this capture, or has it no more")
    for beginning, (what, hint) in UNUSABLE.items():
        if code.startswith(beginning):
            return DatabaseUnusable(path, f"{what}: {reason}", hint=hint)
    what = f"refuses what a capture asks: {reason}"
    if reason.startswith(ONLY_ITS_APPLICATION_HAS):
        hint = "only the application that writes to it has that: leave out the tables that use it (--without-tables)"
        return DatabaseUnusable(path, what, hint=hint)
    return DatabaseUnusable(path, what, hint="this is unexpected: please report it")


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction that sees the database as it is when it is first asked: nothing changes in between."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction that has the write lock from its beginning."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
