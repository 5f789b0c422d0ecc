"""Random histories by several writers, read by one who dies again and again: at rest its tables are the database's."""

from __future__ import annotations

import copy
import random
import threading
from contextlib import ExitStack, closing, suppress
from typing import Any

import psycopg
import pytest

from runnel.capture.events import Change, Ended, Message, Passed, Position, Truncated
from runnel.capture.postgres.errors import SnapshotOutdated
from runnel.capture.postgres.source import PostgresSource
from runnel.capture.tables import UNCHANGED
from tests.contract.capture.captured_postgres import Database, now, wait_for

TABLES = (
    "CREATE TABLE plain(id int PRIMARY KEY, v text, n int)",
    "CREATE TABLE pairs(a int, b text, v text, PRIMARY KEY (b, a))",
    "CREATE TABLE whole(id int PRIMARY KEY, v text)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    "ALTER TABLE plain ALTER v SET STORAGE EXTERNAL",
)
STATEMENTS = (
    "INSERT INTO plain VALUES ({k}, {text}, {n}) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
    "INSERT INTO plain SELECT i, {text}, {n} FROM generate_series({k}, {k} + 5) i ON CONFLICT DO NOTHING",
    "UPDATE plain SET n = n + 1 WHERE id % 5 = {n} % 5",
    "UPDATE plain SET id = id + 1000 WHERE id = {k} AND NOT EXISTS (SELECT FROM plain WHERE id = {k} + 1000)",
    "DELETE FROM plain WHERE id IN ({k}, {k} + 1000)",
    "INSERT INTO pairs VALUES ({k}, 'b{n}', {text}) ON CONFLICT (b, a) DO UPDATE SET v = 'again'",
    "UPDATE pairs SET a = a + 1000 WHERE a = {k} AND NOT EXISTS (SELECT FROM pairs WHERE a = {k} + 1000)",
    "DELETE FROM pairs WHERE a % 7 = {n}",
    "INSERT INTO whole VALUES ({k}, {text}) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
    "UPDATE whole SET id = -id WHERE id = {k} AND NOT EXISTS (SELECT FROM whole WHERE id = -{k})",
    "DELETE FROM whole WHERE id = {k}",
    "SELECT pg_logical_emit_message(true, 'x', 'y')",
)
TEXTS = ("NULL", "''", "'a'", "repeat(md5(random()::text), 200)")


def write(database: Database, seed: str, transactions: int) -> None:
    chance = random.Random(seed)
    with closing(database.connect()) as connection:
        for _ in range(transactions):
            statements = [
                chance.choice(STATEMENTS).format(
                    k=chance.randrange(30), n=chance.randrange(10), text=chance.choice(TEXTS)
                )
                for _ in range(chance.randrange(1, 6))
            ]
            if chance.random() < 0.02:
                statements.append(f"TRUNCATE {chance.choice(['plain', 'pairs, whole'])}")
            if chance.random() < 0.3:
                statements[1:1] = [
                    "SAVEPOINT s",
                    "DELETE FROM plain",
                    "INSERT INTO whole VALUES (-99, 'x')",
                    "ROLLBACK TO s",
                ]
            ending = "ROLLBACK" if chance.random() < 0.1 else "COMMIT"
            try:
                for statement in ("BEGIN", *statements, ending):
                    connection.execute(statement.encode())
            except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):  # what writers do to each other
                connection.execute("ROLLBACK")


class Reader:
    """Tables rebuilt from events. What it keeps, it keeps with the position; a death takes it back to that."""

    def __init__(self, position: Position, tables: dict[str, dict[Any, Any]]) -> None:
        self.position = position
        self.tables = tables
        self.skipped = position.index
        self.told = 0
        self.is_inside = False

    def take(self, event: Any) -> None:
        if isinstance(event, (Ended, Passed)):
            self.position, self.told, self.skipped = Position(event.at), 0, 0
        elif isinstance(event, (Change, Truncated, Message)):
            self.told += 1
            if self.told > self.skipped:
                self._apply(event)
                self.position = Position(self.position.at, self.told)

    def _apply(self, event: Any) -> None:
        if isinstance(event, Truncated):
            self.tables[event.table.id.name].clear()
        elif isinstance(event, Change):
            rows, table = self.tables[event.table.id.name], event.table
            key = table.key_of(event.before if event.before is not None else event.after)
            before = rows.pop(key, None)
            assert (before is None) == (event.op == "c"), (event.op, table.id, key)
            if event.after is not None:
                known = before or (None,) * len(event.after)
                rows[table.key_of(event.after)] = tuple(
                    old if value is UNCHANGED else value for value, old in zip(event.after, known, strict=True)
                )


def begun(source: PostgresSource) -> Reader:
    while True:
        with source.snapshot() as snapshot, suppress(SnapshotOutdated):
            tables = {
                table.id.name: {table.key_of(row): row for piece in snapshot.rows(table) for row in piece}
                for table in snapshot.tables()
            }
            return Reader(snapshot.position, tables)


def converge(database: Database, source: PostgresSource, seed: str, transactions: int) -> int:
    chance = random.Random(seed)
    database.run(*TABLES)
    source.prepare()
    writers = [threading.Thread(target=write, args=(database, f"{seed}/{number}", transactions)) for number in range(3)]
    for writer in writers:
        writer.start()
    kept = begun(source)
    deaths = 0

    def live() -> bool:
        """One life. Whether it came to the end of the log, and nobody writes any more."""
        nonlocal kept, deaths
        is_over = not any(writer.is_alive() for writer in writers)
        end = now(source)
        reader = Reader(kept.position, copy.deepcopy(kept.tables))
        changes = source.changes(kept.position)
        try:
            while chance.random() < 0.9:
                for event in changes.read(0.5):
                    reader.take(event)
                    if chance.random() < 0.02:
                        kept = copy.deepcopy(reader)
                        source.confirm(kept.position)
                    if chance.random() < 0.01:
                        deaths += 1
                        return False
                if is_over and not reader.position.index and reader.position.at["lsn"] >= end:
                    kept = reader
                    return True
            return False
        finally:
            changes.close()

    wait_for(live)
    for writer in writers:
        writer.join()
    for name, rows in kept.tables.items():
        asked = database.ask(f"SELECT * FROM {name}")
        expected = sorted(tuple(None if value is None else str(value) for value in row) for row in asked)
        assert sorted(rows.values(), key=str) == sorted(expected, key=str), name
    return deaths


@pytest.mark.servers
def test_tables_rebuilt_by_a_reader_that_dies_are_those_of_the_database(database: Database, seed: int):
    assert converge(database, database.source(), f"{seed}", 60) > 0


@pytest.mark.soak
def test_tables_rebuilt_by_a_reader_that_dies_are_those_of_the_database_each_time(server, seed: int, rounds: int, told):
    for number in told(range(rounds)):
        with ExitStack() as stack:
            database = Database(server, stack)
            converge(database, database.source(), f"{seed}/{number}", 150)
            database.close()
