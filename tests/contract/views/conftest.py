"""What holds for every view store: the tests here run against SQLite, and against a real PostgreSQL."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest

from runnel.testing.clock import StoppedClock
from runnel.views.opening import open_store
from runnel.views.postgres import PostgresStore
from runnel.views.sqlite import SqliteStore
from runnel.views.store import Keep, Store
from tests.contract.views.postgres_server import Postgres, postgres_server

numbers = itertools.count()


class OpenStore(Protocol):
    def __call__(self, *, keep: Keep | None = None, patience: float = 30.0) -> Store: ...


@dataclass(frozen=True)
class Place:
    """Where a store is: empty, and nobody else's."""

    kind: str
    address: str
    query: Callable[[str], list[tuple[Any, ...]]]
    """Asks the database as any other tool would."""

    def store(self) -> Store:
        return open_store(self.address)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if kind == "sqlite":
        path = tmp_path / "views.sqlite"
        return Place(kind, f"sqlite:{path}", lambda statement: ask_sqlite(path, statement))
    postgres: Postgres = request.getfixturevalue("postgres")
    schema = f"test_{next(numbers)}"
    postgres.run(f"CREATE SCHEMA {schema}")
    url = f"{postgres.url}?options=-csearch_path%3D{schema}"
    return Place(kind, url, lambda statement: ask_postgres(url, statement))


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def open_at(place: Place, clock: StoppedClock) -> OpenStore:
    def opened(*, keep: Keep | None = None, patience: float = 30.0) -> Store:
        if place.kind == "sqlite":
            path = place.address.removeprefix("sqlite:")
            return SqliteStore(path, keep=keep, patience=patience, clock=clock)
        return PostgresStore(place.address, keep=keep, patience=patience, clock=clock)

    return opened


@pytest.fixture
def store(open_at: OpenStore) -> Store:
    return open_at()


def ask_sqlite(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


def ask_postgres(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []
