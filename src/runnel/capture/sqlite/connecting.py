"""Connections to a database of SQLite's, and its errors in our words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from runnel.capture.errors import DatabaseBusy, DatabaseMissing, NotADatabase

PATIENCE = 60.0  # seconds that another writer may take


def connect(path: str, *, patience: float = PATIENCE) -> sqlite3.Connection:
    """Nothing is made by asking for it. Text that is not UTF-8 is read with a mark for each byte that is wrong."""
    if not os.path.isfile(path):
        raise DatabaseMissing(path)
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
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise DatabaseBusy(path, patience) from None
        raise
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorname == "SQLITE_NOTADB":
            raise NotADatabase(path, "SQLite") from None
        raise


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
