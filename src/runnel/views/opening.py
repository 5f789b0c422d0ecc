"""A store by its address.

| address | store |
|---|---|
| a directory | SQLite, `views.sqlite` in it |
| sqlite:PATH | SQLite, that file |
| postgresql://USER@HOST:PORT/DATABASE | PostgreSQL; a password is better kept in PGPASSWORD or ~/.pgpass |
"""

from __future__ import annotations

import os
import re

from runnel.views.errors import InvalidStore
from runnel.views.sqlite import FILE_NAME, SqliteStore
from runnel.views.store import Keep, Store

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def open_store(address: str, *, keep: Keep | None = None) -> Store:
    """The store at an address. Nothing is reached or made yet; InvalidStore if it is no store's address."""
    if "\0" in address:
        raise InvalidStore(address, "it has a character in it that no path has")
    scheme = SCHEME.match(address)
    if scheme is None:
        if not address:
            raise InvalidStore(address, "it is empty")
        return SqliteStore(os.path.join(address, FILE_NAME), keep=keep)
    if scheme[1] == "sqlite":
        return SqliteStore(_path(address), keep=keep)
    if scheme[1] in ("postgresql", "postgres"):
        from runnel.views.postgres import PostgresStore  # noqa: PLC0415  # who has SQLite need not wait for psycopg

        return PostgresStore(address, keep=keep)
    raise InvalidStore(address, f"{scheme[1]} is no kind of store that we know")


def absolute(address: str) -> str:
    """The same store, by an address that means it in whatever directory a process stands."""
    scheme = SCHEME.match(address)
    if scheme is None:
        return os.path.abspath(address) if address else address
    return f"sqlite:{os.path.abspath(_path(address))}" if scheme[1] == "sqlite" else address


def _path(address: str) -> str:
    """`sqlite:PATH`, and `sqlite:///PATH` as others write it, which is a path from the root with a fourth slash."""
    path = address.removeprefix("sqlite:")
    path = path[3:] if path.startswith("///") else path
    if not path or path.startswith("//"):
        raise InvalidStore(address, "it names no file")
    return path
