"""PostgreSQL's own subscription as a second opinion: another database of the same server that it keeps equal.

    with reference_of(database) as reference:
        ...
        reference.rows("plain")

It begins before there are rows, and has the columns that writers may add. The table whose columns are renamed is not in
it: a subscription does not follow that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import psycopg

from tests.contract.capture.captured_postgres import Database, wait_for
from tests.contract.capture.postgres.histories import EXTRA_COLUMNS, TABLES, rows_of
from tests.contract.views.postgres_server import USER

FOLLOWED: Final = tuple(name for name in TABLES if name != "shaped")


class Reference:
    def __init__(self, database: Database, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._database = database
        self._connection = connection

    def rows(self, table: str) -> list[dict[str, Any]]:
        return rows_of(self._connection, f"{self._database.schema}.{table}")

    def wait(self) -> None:
        """Until it has taken over all that is in the log now: it is its position that says so, and not its rows."""
        ((end,),) = self._database.ask("SELECT pg_current_wal_flush_lsn()::text")
        confirmed = f"SELECT FROM pg_replication_slots WHERE slot_name = '{name_of(self._database)}'"
        wait_for(lambda: self._database.ask(f"{confirmed} AND confirmed_flush_lsn >= '{end}'"))


def name_of(database: Database) -> str:
    """Of the subscription, and of what it needs."""
    return f"reference_{database.schema}"


@contextmanager
def reference_of(database: Database) -> Iterator[Reference]:
    name = name_of(database)
    followed = ", ".join(FOLLOWED)
    database.run(
        f"CREATE PUBLICATION {name} FOR TABLE {followed} WITH (publish_via_partition_root = true)",
        # By hand: a subscription to its own server would wait for itself.
        f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')",
        f"CREATE DATABASE {name}",
    )
    with ExitStack() as stack:
        stack.callback(_drop, database, name)
        url = database.server.url_of(USER, name)
        connection = stack.enter_context(psycopg.connect(url, autocommit=True, prepare_threshold=None))
        _make(database, connection)
        origin = database.server.url
        connection.execute(
            f"CREATE SUBSCRIPTION {name} CONNECTION '{origin}' PUBLICATION {name} "
            f"WITH (create_slot = false, slot_name = '{name}', copy_data = false)".encode()
        )
        stack.callback(_unsubscribe, connection, name)
        yield Reference(database, connection)


def _make(database: Database, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    extra = ", ".join(f"ADD COLUMN extra{number} int" for number in range(EXTRA_COLUMNS))
    statements = [statement for name in FOLLOWED for statement in TABLES[name]]
    for statement in (
        f"CREATE SCHEMA {database.schema}",
        f"SET search_path = {database.schema}",
        *statements,
        f"ALTER TABLE plain {extra}",
        "RESET search_path",
    ):
        connection.execute(statement.encode())


def _unsubscribe(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> None:
    for statement in (
        f"ALTER SUBSCRIPTION {name} DISABLE",
        f"ALTER SUBSCRIPTION {name} SET (slot_name = NONE)",
        f"DROP SUBSCRIPTION {name}",
    ):
        connection.execute(statement.encode())


def _drop(database: Database, name: str) -> None:
    wait_for(lambda: not database.ask(f"SELECT FROM pg_replication_slots WHERE slot_name = '{name}' AND active"))
    database.run(
        f"SELECT pg_drop_replication_slot('{name}')",
        f"DROP PUBLICATION {name}",
        f"DROP DATABASE {name} WITH (FORCE)",
    )
