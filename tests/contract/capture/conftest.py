"""Every source of changes passes what is here. A source is a `Database`: made with the tables below, written to by SQL
that all of them know, and captured under a name.
"""

from __future__ import annotations

import itertools
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest

from runnel import Broker
from runnel.capture.postgres.source import PostgresSource
from runnel.capture.selection import Selection
from runnel.capture.source import Source
from runnel.capture.sqlite import SqliteSource
from tests.contract.capture.captured_mariadb import MariadbDatabase
from tests.contract.capture.captured_postgres import LOGICAL, wait_for
from tests.contract.capture.mariadb_server import Mariadb, mariadb_server
from tests.contract.views.postgres_server import Postgres, postgres_server
from tests.interop.certificates import make_authority, make_certificate

numbers = itertools.count()

TABLES = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR(20) NOT NULL, price INTEGER)",
    "CREATE TABLE pairs (a VARCHAR(5) NOT NULL, b INTEGER NOT NULL, v INTEGER, PRIMARY KEY (a, b))",
    "CREATE TABLE loose (x INTEGER, y INTEGER)",
)


class Database(Protocol):
    schema: str  # of its tables

    def execute(self, *statements: str) -> None:
        """All in one transaction, by somebody else than the capture."""

    def source(self, name: str = "shop", selection: Selection | None = None) -> Source: ...

    def rows(self, table: str) -> list[tuple[Any, ...]]: ...


class SqliteDatabase:
    schema = "main"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._writer.execute("PRAGMA journal_mode = WAL")
        self._sources: list[SqliteSource] = []

    def execute(self, *statements: str) -> None:
        self._writer.execute("BEGIN IMMEDIATE")
        for statement in statements:
            self._writer.execute(statement)
        self._writer.execute("COMMIT")

    def source(self, name: str = "shop", selection: Selection | None = None) -> SqliteSource:
        self._sources.append(SqliteSource(self.path, name, (selection or Selection()).has))
        return self._sources[-1]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self._writer.execute(f"SELECT * FROM {table}").fetchall()

    def close(self) -> None:
        for source in self._sources:
            source.close()
        self._writer.close()


class PostgresDatabase:
    """A database of its own in the server. Its tables tell their old rows whole, as SQLite's do."""

    schema = "public"

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self._name = f"shop_{next(numbers)}"
        self._sources: list[PostgresSource] = []
        server.run(f"CREATE DATABASE {self._name}")
        self._writer = psycopg.connect(self._url, autocommit=True)

    @property
    def _url(self) -> str:
        return self._server.url_of("runnel", self._name)

    def execute(self, *statements: str) -> None:
        with self._writer.transaction():
            for statement in statements:
                self._writer.execute(statement.encode())
                if statement.startswith("CREATE TABLE"):
                    self._writer.execute(f"ALTER TABLE {statement.split()[2]} REPLICA IDENTITY FULL".encode())

    def source(self, name: str = "shop", selection: Selection | None = None) -> PostgresSource:
        """A slot has one reader: whoever read before reads no more."""
        for source in self._sources:
            source.close()
        self._sources.append(PostgresSource(self._url, f"{self._name}_{name}", (selection or Selection()).has))
        return self._sources[-1]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self._writer.execute(f"SELECT * FROM {table}".encode()).fetchall()

    def close(self) -> None:
        for source in self._sources:
            source.close()
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            ours = f"FROM pg_replication_slots WHERE database = '{self._name}'"
            wait_for(lambda: not connection.execute(f"SELECT {ours} AND active".encode()).fetchall())
            connection.execute(f"SELECT pg_drop_replication_slot(slot_name) {ours}".encode())
            self._writer.close()
            connection.execute(f"DROP DATABASE {self._name}".encode())


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """A PostgreSQL that tells its changes."""
    with postgres_server(LOGICAL) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Mariadb]:
    """A MariaDB that tells its changes."""
    with mariadb_server() as server:
        yield server


@pytest.fixture(scope="session")
def certificates() -> Iterator[Path]:
    """A directory with those of two authorities, and one of a server that is called localhost, for anybody to read."""
    with tempfile.TemporaryDirectory(prefix="runnel-certificates-", dir="/tmp") as name:
        directory = Path(name)
        for authority in ("ca", "stranger"):
            make_authority(directory, authority)
        make_certificate(directory, "server", "subjectAltName=DNS:localhost")
        for path in (directory, *directory.iterdir()):
            path.chmod(0o755)
        yield directory


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.servers),
        pytest.param("mariadb", marks=pytest.mark.servers),
    ]
)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    found: Any
    if request.param == "sqlite":
        found = SqliteDatabase(tmp_path / "shop.sqlite")
    elif request.param == "mariadb":
        found = MariadbDatabase(request.getfixturevalue("mariadb"))
    else:
        found = PostgresDatabase(request.getfixturevalue("server"))
    found.execute(*TABLES)
    yield found
    found.close()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker
