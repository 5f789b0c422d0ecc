"""Random histories of a PostgreSQL: every way in which a row can come, change and go, and tables that change, too.

A column that is added has no default: the log does not tell what older rows have in it. One that is renamed or retyped
is written to in the same transaction, because the log would not tell its values otherwise.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import psycopg

from tests.contract.capture.captured_postgres import Database

TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "plain": (
        "CREATE TABLE plain(id int PRIMARY KEY, v text, n int)",
        "ALTER TABLE plain ALTER v SET STORAGE EXTERNAL",
    ),
    "pairs": ("CREATE TABLE pairs(a int, b text, v text, PRIMARY KEY (b, a))",),
    "whole": (
        "CREATE TABLE whole(id int PRIMARY KEY, v text, n int)",
        "ALTER TABLE whole ALTER v SET STORAGE EXTERNAL",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
    ),
    "coded": (
        "CREATE TABLE coded(id int PRIMARY KEY, code text NOT NULL UNIQUE, n int)",
        "ALTER TABLE coded REPLICA IDENTITY USING INDEX coded_code_key",
    ),
    "loose": ("CREATE TABLE loose(x int, y text)", "ALTER TABLE loose REPLICA IDENTITY FULL"),
    "parted": (
        "CREATE TABLE parted(id int, part int, v text, PRIMARY KEY (id, part)) PARTITION BY LIST (part)",
        "CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1)",
    ),
    "shaped": (
        "CREATE TABLE shaped(id int PRIMARY KEY, a0 int, w text)",
        "ALTER TABLE shaped ALTER w SET STORAGE EXTERNAL",
    ),
}
WHOLE: Final = {"whole", "loose"}  # whose events tell the row before
STATEMENTS: Final = (
    "INSERT INTO plain(id, v, n) VALUES ({k}, {text}, {n}) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
    "INSERT INTO plain(id, v, n) SELECT i, {text}, {n} FROM generate_series({k}, {k} + 5) i ON CONFLICT DO NOTHING",
    "UPDATE plain SET n = n + 1 WHERE id % 5 = {n} % 5",
    "UPDATE plain SET id = {k} + 1000 - id WHERE id = {k} AND NOT EXISTS (SELECT FROM plain WHERE id = 1000)",
    "UPDATE plain SET id = -{k} WHERE id = 1000 AND NOT EXISTS (SELECT FROM plain WHERE id = -{k})",
    "DELETE FROM plain WHERE id IN ({k}, -{k})",
    "INSERT INTO pairs VALUES ({k}, 'b{n}', {text}) ON CONFLICT (b, a) DO UPDATE SET v = 'again'",
    "UPDATE pairs SET a = a + 1000 WHERE a = {k} AND NOT EXISTS (SELECT FROM pairs WHERE a = {k} + 1000)",
    "DELETE FROM pairs WHERE a % 7 = {n}",
    "INSERT INTO whole VALUES ({k}, {text}, {n}) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
    "UPDATE whole SET n = n + 1 WHERE id % 3 = {n} % 3",
    "UPDATE whole SET id = -id WHERE id = {k} AND NOT EXISTS (SELECT FROM whole WHERE id = -{k})",
    "DELETE FROM whole WHERE id = {k}",
    "INSERT INTO coded VALUES ({k}, 'c{k}', {n}) ON CONFLICT (id) DO UPDATE SET n = excluded.n",
    "UPDATE coded SET code = code || 'x' WHERE id = {k}",
    "UPDATE coded SET id = id + 1000 WHERE id = {k} AND NOT EXISTS (SELECT FROM coded WHERE id = {k} + 1000)",
    "DELETE FROM coded WHERE id % 10 = {n}",
    "INSERT INTO loose VALUES ({k}, {text}), ({n}, NULL)",
    "UPDATE loose SET x = x + 1 WHERE x = {k}",
    "DELETE FROM loose WHERE x % 10 = {n}",
    "INSERT INTO parted VALUES ({k}, {n} % 2, {text}) ON CONFLICT DO NOTHING",
    "UPDATE parted SET part = 1 - part WHERE id = {k} AND (SELECT count(*) FROM parted WHERE id = {k}) = 1",
    "DELETE FROM parted WHERE id % 10 = {n}",
    "INSERT INTO shaped VALUES ({k}, {n}, {text}) ON CONFLICT (id) DO UPDATE SET w = excluded.w",
    "UPDATE shaped SET id = -id WHERE id = {k} AND NOT EXISTS (SELECT FROM shaped WHERE id = -{k})",
    "SELECT pg_logical_emit_message(true, 'x', 'y')",
    "SELECT pg_logical_emit_message(false, 'x', 'y')",
)
# More than a server with the least memory for it keeps until the commit.
LARGE_STATEMENTS: Final = (
    "INSERT INTO plain(id, v, n) SELECT i, {text}, {n} FROM generate_series({k} * 100, {k} * 100 + 30) i "
    "ON CONFLICT DO NOTHING",
    "UPDATE plain SET v = {text} WHERE id % 3 = {n} % 3",
    "DELETE FROM plain WHERE id % 10 = {n}",
)
TEXTS: Final = ("NULL", "''", "'a'", "'Ä€😀'", "repeat(md5(random()::text), 200)")
TRUNCATED: Final = ("plain", "pairs, whole", "loose", "parted", "shaped, coded")
EXTRA_COLUMNS: Final = 12
# What writers do to each other, and what they find changed.
CONFLICTS: Final = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UniqueViolation,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.SerializationFailure,  # a row that went to another partition
)


def numbers_of_columns() -> Iterator[int]:
    """Names are used once: older rows in a topic keep what they had in a column that was dropped."""
    return iter(range(EXTRA_COLUMNS))


class Writer:
    def __init__(self, database: Database, seed: str, numbers: Iterator[int], *, large: bool = False) -> None:
        self._chance = random.Random(seed)
        self._connection = database.connect()
        self._names = (f"{database.schema} {seed} {number}" for number in itertools.count())
        self._numbers = numbers
        self._known = (*STATEMENTS, *LARGE_STATEMENTS) if large else STATEMENTS
        for setting in ("lock_timeout = '1s'", "deadlock_timeout = '20ms'"):
            self._connection.execute(f"SET {setting}".encode())

    def transact(self) -> None:
        try:
            self._run("BEGIN", *self._statements())
            self._end()
        except CONFLICTS:
            self._run("ROLLBACK")

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self._connection.execute(statement.encode())

    def _end(self) -> None:
        chance = self._chance.random()
        if chance < 0.1:
            name = next(self._names)
            self._run(f"PREPARE TRANSACTION '{name}'")
            with suppress(psycopg.errors.LockNotAvailable):  # it may have a lock on the table
                self._run("INSERT INTO loose VALUES (-1, 'beside')")
            self._run(f"{self._chance.choice(['COMMIT', 'COMMIT', 'ROLLBACK'])} PREPARED '{name}'")
        else:
            self._run("ROLLBACK" if chance < 0.2 else "COMMIT")

    def _statements(self) -> list[str]:
        chance = self._chance
        statements = [self._statement() for _ in range(chance.randrange(1, 6))]
        if chance.random() < 0.3:
            statements[1:1] = ["SAVEPOINT s", "DELETE FROM plain", self._statement(), "ROLLBACK TO s"]
        if chance.random() < 0.2:
            statements += ["SAVEPOINT t", self._statement(), "SAVEPOINT u", self._statement(), "RELEASE t"]
        if chance.random() < 0.03:
            statements.append(f"TRUNCATE {chance.choice(TRUNCATED)}")
        if chance.random() < 0.06:
            statements += self._redefinition()
        return statements

    def _statement(self) -> str:
        chance = self._chance
        text = chance.choice(TEXTS)
        return chance.choice(self._known).format(k=chance.randrange(1, 30), n=chance.randrange(10), text=text)

    def _redefinition(self) -> list[str]:
        match self._chance.randrange(4):
            case 0:
                number = next(self._numbers, None)
                added = [] if number is None else [f"ALTER TABLE plain ADD COLUMN extra{number} int"]
                return [*added, f"UPDATE plain SET extra{number or 0} = 7 WHERE id % 2 = 0"]
            case 1:
                return [f"ALTER TABLE plain DROP COLUMN IF EXISTS extra{self._chance.randrange(EXTRA_COLUMNS)}"]
            case 2:
                name = self._name_of_shaped()
                return [f"ALTER TABLE shaped RENAME COLUMN {name} TO a{int(name[1:]) + 1}", "UPDATE shaped SET id = id"]
            case _:
                name, kind = self._name_of_shaped(), self._chance.choice(["int", "bigint", "text"])
                changed = f"ALTER TABLE shaped ALTER {name} TYPE {kind} USING {name}::{kind}"
                return [changed, "UPDATE shaped SET id = id"]

    def _name_of_shaped(self) -> str:
        ((name,),) = self._connection.execute(
            "SELECT attname::text FROM pg_attribute WHERE attrelid = 'shaped'::regclass AND attnum = 2"
        ).fetchall()
        return str(name)


def rows_of(connection: psycopg.Connection[tuple[Any, ...]], table: str) -> list[dict[str, Any]]:
    return [row for (row,) in connection.execute(f"SELECT to_json(t) FROM {table} t".encode()).fetchall()]


def columns_of(connection: psycopg.Connection[tuple[Any, ...]], table: str) -> list[str]:
    asked = "SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
    return [name for (name,) in connection.execute(asked, [table]).fetchall()]
