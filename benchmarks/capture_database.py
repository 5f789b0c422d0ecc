"""The database that both captures read: a PostgreSQL of its own, the tables, and what is done to them.

    with server() as postgres, database(postgres, "life") as shop:
        shop.change(3_000)  # transactions of 100 changes
        shop.finish()

A database is a copy of one that was filled once, so that both sides begin with the same pages. Nothing in the server is
synced to the disk: what is measured is the capture, and no row is to wait for the database's own disk. There is no
autovacuum, which would take processor time when it likes.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.broker_process import cpu_seconds
from benchmarks.broker_servers import wait_until
from benchmarks.compaction_cleaners import server_cpu
from tests.contract.views.postgres_server import USER, Postgres, postgres_server

SETTINGS = {
    "fsync": "off",
    "wal_level": "logical",
    "autovacuum": "off",
    "shared_buffers": "256MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "wal_sender_timeout": "0",  # a capture is halted while its backlog is written
}
FILLED = "filled"
ORDERS, TICKS, BIG, BIG_DONE, BULK, LARGE, DONE = "orders", "ticks", "big", "big_done", "bulk", "large", "done"
SIGNALS = "debezium_signal"
CHANGES, TOMBSTONES = 100, 10  # of a transaction
TABLES_OF_A_TRANSACTION, ROWS_OF_A_TABLE = 10, 10
LARGE_BYTES = 1_000_000
ROW = """id bigint PRIMARY KEY, customer int NOT NULL, status text NOT NULL, total numeric(12, 2) NOT NULL,
placed timestamptz NOT NULL, note text NOT NULL"""
ROWS = "SELECT i, (i % 1000)::int, 'new', i % 10000 / 100.0, now(), repeat(md5(i::text), 5) FROM generate_series"
STATEMENTS = f"""
CREATE TABLE {ORDERS} ({ROW});
CREATE TABLE {TICKS} ({ROW});
CREATE TABLE {BIG} ({ROW});
CREATE TABLE {BULK} ({ROW});
CREATE TABLE {BIG_DONE} (id int PRIMARY KEY);
CREATE TABLE {DONE} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
CREATE TABLE {LARGE} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL);
ALTER TABLE {LARGE} ALTER body SET STORAGE EXTERNAL;
CREATE TABLE {SIGNALS} (id text PRIMARY KEY, type text NOT NULL, data text);
INSERT INTO {BIG_DONE} VALUES (1);
CREATE PROCEDURE change(transactions int) LANGUAGE plpgsql AS $$
DECLARE first bigint;
BEGIN
  FOR number IN 1..transactions LOOP
    SELECT coalesce(max(id), 0) + 1 INTO first FROM {ORDERS};
    INSERT INTO {ORDERS} {ROWS}(first, first + 59) i;
    UPDATE {ORDERS} SET status = 'paid', total = total + 1 WHERE id BETWEEN first AND first + 29;
    DELETE FROM {ORDERS} WHERE id BETWEEN first + 50 AND first + 59;
    COMMIT;
  END LOOP;
END $$;
CREATE PROCEDURE change_many(transactions int, tables int) LANGUAGE plpgsql AS $$
DECLARE first bigint;
BEGIN
  FOR number IN 0..transactions - 1 LOOP
    FOR part IN 0..{TABLES_OF_A_TRANSACTION - 1} LOOP
      SELECT nextval('numbers') * {ROWS_OF_A_TABLE} INTO first;
      EXECUTE format('INSERT INTO many_%s {ROWS.replace("'", "''").replace("%", "%%")}($1, $2) i',
        (number * {TABLES_OF_A_TRANSACTION} + part) % tables)
      USING first, first + {ROWS_OF_A_TABLE - 1};
    END LOOP;
    COMMIT;
  END LOOP;
END $$;
CREATE SEQUENCE numbers;
"""


@dataclass(frozen=True)
class Database:
    postgres: Postgres
    name: str

    @property
    def url(self) -> str:
        return self.postgres.url_of(USER, self.name)

    def do(self, statement: str, *given: Any) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode(), given or None)

    def asked(self, statement: str, *given: Any) -> Any:
        """The one value of an answer; None if there is none."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(statement.encode(), given or None).fetchone()
        return None if found is None else found[0]

    # --- what is done to the tables

    def change(self, transactions: int) -> int:
        """So many transactions of 60 inserts, 30 updates and 10 deletes; how many changes these are."""
        self.do(f"CALL change({transactions})")
        return transactions * CHANGES

    def change_many(self, transactions: int, tables: int) -> int:
        """So many transactions, each with ten rows for each of ten tables; how many changes these are."""
        self.do(f"CALL change_many({transactions}, {tables})")
        return transactions * TABLES_OF_A_TRANSACTION * ROWS_OF_A_TABLE

    def insert_bulk(self, rows: int) -> int:
        """In one transaction."""
        self.do(
            f"INSERT INTO {BULK} {ROWS}((SELECT coalesce(max(id), 0) + 1 FROM {BULK}),"
            f" (SELECT coalesce(max(id), 0) + {rows} FROM {BULK})) i"
        )
        return rows

    def insert_large(self, rows: int) -> int:
        """Rows of a megabyte, each in a transaction of its own."""
        for _ in range(rows):
            self.do(
                f"INSERT INTO {LARGE} (body) SELECT left(string_agg(md5(random()::text || i), ''), {LARGE_BYTES})"
                f" FROM generate_series(1, {LARGE_BYTES // 32 + 1}) i"
            )
        return rows

    def finish(self) -> None:
        """A change by which the end of a backlog is known."""
        self.do(f"INSERT INTO {DONE} DEFAULT VALUES")

    def settle(self) -> None:
        """What was written is on its way to no file any more."""
        self.do("CHECKPOINT")

    # --- what the server uses

    def server_cpu(self) -> float:
        """Seconds of all processes of the server, those that have ended included."""
        return server_cpu(_postmaster(self.postgres.directory))

    def sender_cpu(self, slot: str) -> float:
        """Seconds of the process that sends a slot's changes."""
        pid = self.asked("SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", slot)
        return 0.0 if pid is None else cpu_seconds(int(pid))


def server() -> AbstractContextManager[Postgres]:
    return postgres_server(SETTINGS)


def fill(postgres: Postgres, rows: int, tables: int) -> None:
    """The database of which the others are copies: a big table of so many rows, and many empty ones."""
    _administer(postgres, f"CREATE DATABASE {FILLED}")
    filled = Database(postgres, FILLED)
    filled.do(STATEMENTS)
    filled.do("".join(f"CREATE TABLE many_{number} ({ROW});" for number in range(tables)))
    filled.do(f"INSERT INTO {BIG} {ROWS}(1, {rows}) i")
    filled.do(f"VACUUM (FREEZE, ANALYZE) {BIG}")


_numbers = count(1)


@contextmanager
def database(postgres: Postgres) -> Iterator[Database]:
    """A copy, which is gone when the block ends, with the slots that were made in it."""
    name = f"copy_{next(_numbers)}"
    _administer(postgres, f"CREATE DATABASE {name} TEMPLATE {FILLED} STRATEGY file_copy")
    try:
        yield Database(postgres, name)
    finally:
        wait_until(lambda: _dropped(postgres, name), f"the end of database {name}")


def _dropped(postgres: Postgres, name: str) -> bool:
    try:
        _administer(postgres, f"DROP DATABASE {name} WITH (FORCE)")
    except psycopg.errors.ObjectInUse:  # a sender that has not noticed yet that its reader is gone
        time.sleep(0.1)
        return False
    return True


def _administer(postgres: Postgres, statement: str) -> None:
    with psycopg.connect(postgres.url_of(USER, "postgres"), autocommit=True) as connection:
        connection.execute(statement.encode())


def _postmaster(directory: Path) -> int:
    return int((directory / "data" / "postmaster.pid").read_text().split()[0])
