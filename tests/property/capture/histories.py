"""Random histories of a database of SQLite's: every way in which a row can come, change and go."""

from __future__ import annotations

import random
import sqlite3
from contextlib import suppress
from typing import Any

from runnel.capture.forms import Binary
from runnel.capture.sqlite.shapes import shape_of

TABLES = ("items", "parts", "pairs", "people", "loose")
SCHEMA = """
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT UNIQUE, price REAL, data BLOB);
CREATE UNIQUE INDEX lowered ON items (lower(name), price) WHERE price > 3;
CREATE TABLE parts (id INTEGER PRIMARY KEY, item INTEGER REFERENCES items (id) ON DELETE CASCADE ON UPDATE CASCADE, n);
CREATE TABLE pairs (a TEXT, b INTEGER, v, PRIMARY KEY (a, b)) WITHOUT ROWID;
CREATE TABLE people (id TEXT PRIMARY KEY COLLATE NOCASE NOT NULL, email TEXT, age INT, UNIQUE (email, age));
CREATE TRIGGER touched AFTER UPDATE OF email ON people WHEN NEW.age < 5 BEGIN
  UPDATE people SET age = age + 1 WHERE id = NEW.id;
END;
CREATE TABLE loose (x, y);
"""
VALUES: list[Any] = [
    None,
    0,
    1,
    -1,
    2**63 - 1,
    -(2**63),
    0.5,
    1e300,
    "",
    "a",
    "Ä€😀",
    "x\x00y",
    "1",
    b"",
    b"\x00\xff",
    b"a",
]
WAYS = ("INSERT", "INSERT", "INSERT OR REPLACE", "INSERT OR REPLACE", "INSERT OR IGNORE", "INSERT OR FAIL", "REPLACE")


def make(path: str, chance: random.Random) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA journal_mode = {chance.choice(['WAL', 'WAL', 'DELETE'])}")
        connection.executescript(SCHEMA)
    connection.close()


class Writer:
    def __init__(self, path: str, seed: int, *, recursive: bool = False) -> None:
        """`recursive` says whether a replaced row's own triggers are called: the writer's `recursive_triggers`."""
        self._chance = random.Random(seed)
        self._connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        self._connection.execute(f"PRAGMA recursive_triggers = {'ON' if recursive else 'OFF'}")
        self._connection.execute(f"PRAGMA foreign_keys = {self._chance.choice(['ON', 'ON', 'OFF'])}")
        self._connection.execute("PRAGMA synchronous = OFF")

    def close(self) -> None:
        self._connection.close()

    def transact(self) -> None:
        execute, chance = self._connection.execute, self._chance
        execute("BEGIN IMMEDIATE")
        for _ in range(chance.randrange(1, 6)):
            is_saved = chance.random() < 0.2
            if is_saved:
                execute("SAVEPOINT s")
            self._attempt()
            if not self._connection.in_transaction:  # OR ROLLBACK
                return
            if is_saved and chance.random() < 0.5:
                execute("ROLLBACK TO s")
        execute("ROLLBACK" if chance.random() < 0.1 else "COMMIT")

    def _attempt(self) -> None:
        with suppress(sqlite3.IntegrityError):
            self._connection.execute(*self._statement())

    def _statement(self) -> tuple[str, list[Any]]:
        chance = self._chance
        return chance.choice((self._items, self._items, self._parts, self._pairs, self._people, self._loose))()

    def _value(self) -> Any:
        if self._chance.random() < 0.03:
            return "wide" * self._chance.randrange(5_000)
        return self._chance.choice(VALUES)

    def _small(self) -> int:
        return self._chance.randrange(12)

    def _items(self) -> tuple[str, list[Any]]:
        chance, name = self._chance, self._chance.choice("abcdefABC")
        row = [self._small(), name, self._small() / 2, self._value()]
        match chance.randrange(8):
            case 0 | 1 | 2:
                return f"{chance.choice(WAYS)} INTO items VALUES (?, ?, ?, ?)", row
            case 3:
                return f"{chance.choice(WAYS)} INTO items (name, price, data) VALUES (?, ?, ?)", row[1:]
            case 4:
                told = "INSERT INTO items VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET price = price + 1"
                return chance.choice([told, told.replace("(id) DO UPDATE SET price = price + 1", "DO NOTHING")]), row
            case 5:
                way = chance.choice(["UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE", "UPDATE OR ROLLBACK"])
                if way == "UPDATE OR ROLLBACK" and chance.random() < 0.7:
                    way = "UPDATE OR REPLACE"
                return f"{way} items SET name = ?, data = ? WHERE id % 4 = ?", [name, row[3], row[0] % 4]
            case 6:
                way = chance.choice(["UPDATE", "UPDATE OR REPLACE"])
                return f"{way} items SET id = ? WHERE id = ?", [row[0], self._small()]
            case _:
                return "DELETE FROM items WHERE id = ?", row[:1]

    def _parts(self) -> tuple[str, list[Any]]:
        if self._chance.random() < 0.8:
            told = "INSERT OR REPLACE INTO parts VALUES (?, ?, ?)"
            return told, [self._small(), self._small(), self._value()]
        return "DELETE FROM parts WHERE id > ?", [self._small()]

    def _pairs(self) -> tuple[str, list[Any]]:
        chance, row = self._chance, [self._chance.choice("xyz"), self._small() % 3, self._value()]
        match chance.randrange(5):
            case 0 | 1:
                return f"{chance.choice(WAYS)} INTO pairs VALUES (?, ?, ?)", row
            case 2:
                return "UPDATE OR REPLACE pairs SET b = (b + 1) % 3 WHERE a = ?", row[:1]
            case 3:
                told = "INSERT INTO pairs VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET v = excluded.v"
                return told, row
            case _:
                return "DELETE FROM pairs WHERE a = ?", row[:1]

    def _people(self) -> tuple[str, list[Any]]:
        chance = self._chance
        row = [chance.choice(["ann", "Ann", "bob", "BOB", "cy"]), chance.choice(["m1", "m2", None]), self._small()]
        match chance.randrange(4):
            case 0 | 1:
                return f"{chance.choice(WAYS)} INTO people VALUES (?, ?, ?)", row
            case 2:
                return "UPDATE OR REPLACE people SET email = ?, id = ? WHERE id = ?", [row[1], row[0], row[0].upper()]
            case _:
                return "DELETE FROM people WHERE id = ?", row[:1]

    def _loose(self) -> tuple[str, list[Any]]:
        chance = self._chance
        match chance.randrange(4):
            case 0 | 1:
                return "INSERT INTO loose VALUES (?, ?)", [self._value(), self._small()]
            case 2:
                return "UPDATE loose SET x = ? WHERE y = ?", [self._value(), self._small()]
            case _:
                return "DELETE FROM loose WHERE y = ?", [self._small()]


def tables_in(path: str) -> dict[str, tuple[list[str], list[str]]]:
    """Of each table its rows as JSON, and their keys; both empty texts where there is no key."""
    connection = sqlite3.connect(path)
    try:
        found = {}
        for name in TABLES:
            table = shape_of(connection, name).to_table(Binary.BYTES)
            rows = connection.execute(f"SELECT * FROM {name}").fetchall()
            found[name] = (
                [_object(table.columns, row, range(len(row))) for row in rows],
                [_object(table.columns, row, table.key) for row in rows] if table.key else [],
            )
        return found
    finally:
        connection.close()


def _object(columns: Any, row: Any, places: Any) -> str:
    parts = (
        f'"{columns[place].name}":{"null" if row[place] is None else columns[place].form.write(row[place])}'
        for place in places
    )
    return f"{{{','.join(parts)}}}"
