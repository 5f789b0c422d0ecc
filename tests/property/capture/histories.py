"""Random histories of a database of SQLite's: every way in which a row can come, change and go, while columns are added
and renamed, and tables dropped and made again.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from runnel.capture.forms import Binary
from runnel.capture.sqlite.shapes import shape_of

MADE = {
    "items": [
        "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT UNIQUE, price REAL, data BLOB)",
        "CREATE UNIQUE INDEX lowered ON items (lower(name), price) WHERE price > 3",
    ],
    "parts": [
        "CREATE TABLE parts "
        "(id INTEGER PRIMARY KEY, item INTEGER REFERENCES items ON DELETE CASCADE ON UPDATE CASCADE, n)"
    ],
    "pairs": ["CREATE TABLE pairs (a TEXT, b INTEGER, v, PRIMARY KEY (a, b)) WITHOUT ROWID"],
    "people": [
        "CREATE TABLE people (id TEXT PRIMARY KEY COLLATE NOCASE NOT NULL, email TEXT, age INT, UNIQUE (email, age))",
        "CREATE TRIGGER touched AFTER UPDATE OF email ON people WHEN NEW.age < 5 BEGIN "
        "UPDATE people SET age = age + 1 WHERE id = NEW.id; END",
    ],
    "loose": ["CREATE TABLE loose (x, y)"],
    "late": ["CREATE TABLE late (id INTEGER PRIMARY KEY, v)"],
}
TABLES = tuple(MADE)
LATER = ("late",)  # is not there at first
NEEDED = ("items",)  # what refers to it cannot be written while it is not there
# Columns that are added and renamed are called so; one keeps its letter, which says what its default is.
DEFAULTS = {"e": None, "t": "tee", "k": 7}
NUMBERS = MOST_COLUMNS = 8  # of each letter, and in all: so there is always a name that is free
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
        for table in TABLES:
            if table not in LATER:
                for statement in MADE[table]:
                    connection.execute(statement)
    connection.close()


class Writer:
    def __init__(self, path: str, seed: int, *, recursive: bool = False, definitions: float = 0.04) -> None:
        """`recursive` says whether a replaced row's own triggers are called: the writer's `recursive_triggers`.
        `definitions` is how many of the statements are about tables and not about rows.
        """
        self._chance = random.Random(seed)
        self._definitions = definitions
        self.defined: Counter[str] = Counter()
        self._connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        self._connection.execute(f"PRAGMA recursive_triggers = {'ON' if recursive else 'OFF'}")
        self._connection.execute(f"PRAGMA foreign_keys = {self._chance.choice(['ON', 'ON', 'OFF'])}")
        self._connection.execute("PRAGMA synchronous = OFF")

    def close(self) -> None:
        """What was not committed is rolled back."""
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
            if self._chance.random() < self._definitions:
                self._define()
            else:
                self._connection.execute(*self._statement())

    def _statement(self) -> tuple[str, list[Any]]:
        chance = self._chance
        table = chance.choice(("items", *(table for table in TABLES if self._columns(table))))
        columns = self._columns(table)
        added = [name for name in columns if name[0] in DEFAULTS and name[1:].isdigit()]
        if added and chance.random() < 0.3:
            value = chance.choice([self._value(), *DEFAULTS.values()])
            some = f"length(coalesce({columns[0]}, '')) % 2 = ?"
            return f"UPDATE {table} SET {chance.choice(added)} = ? WHERE {some}", [value, self._small() % 2]
        return getattr(self, f"_{table}")(columns)

    def _columns(self, table: str) -> list[str]:
        """As they are called now; none if it is not there."""
        return [row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")]

    def _define(self) -> None:
        chance = self._chance
        table = chance.choice(TABLES)
        columns = self._columns(table)
        free = [f"{letter}{number}" for letter in DEFAULTS for number in range(NUMBERS)]
        free = [name for name in free if name not in columns]
        what = "make" if not columns else chance.choice(["add", "add", "rename", "drop"])
        if what == "add" and len(columns) < MOST_COLUMNS:
            name = chance.choice(free)
            default = "" if DEFAULTS[name[0]] is None else f" DEFAULT {DEFAULTS[name[0]]!r}"
            self._connection.execute(f"ALTER TABLE {table} ADD COLUMN {name}{default}")
        elif what == "rename":
            old = chance.choice(columns)
            letter = old[0] if old[1:].isdigit() else "e"
            new = chance.choice([name for name in free if name[0] == letter])
            self._connection.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
        elif what == "drop":
            self._connection.execute(f"DROP TABLE {table}")
        if what == "make" or (what == "drop" and (table in NEEDED or chance.random() < 0.5)):
            for statement in MADE[table]:
                self._connection.execute(statement)
        self.defined[what] += 1

    def _value(self) -> Any:
        if self._chance.random() < 0.03:
            return "wide" * self._chance.randrange(5_000)
        return self._chance.choice(VALUES)

    def _small(self) -> int:
        return self._chance.randrange(12)

    def _items(self, columns: list[str]) -> tuple[str, list[Any]]:
        chance, name = self._chance, self._chance.choice("abcdefABC")
        id, unique, price, data = columns[:4]
        row = [self._small(), name, self._small() / 2, self._value()]
        match chance.randrange(8):
            case 0 | 1 | 2:
                return f"{chance.choice(WAYS)} INTO items ({id}, {unique}, {price}, {data}) VALUES (?, ?, ?, ?)", row
            case 3:
                return f"{chance.choice(WAYS)} INTO items ({unique}, {price}, {data}) VALUES (?, ?, ?)", row[1:]
            case 4:
                upsert = f"({id}) DO UPDATE SET {price} = {price} + 1"
                told = f"INSERT INTO items ({id}, {unique}, {price}, {data}) VALUES (?, ?, ?, ?) ON CONFLICT "
                return told + chance.choice([upsert, "DO NOTHING"]), row
            case 5:
                way = chance.choice(["UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE", "UPDATE OR ROLLBACK"])
                if way == "UPDATE OR ROLLBACK" and chance.random() < 0.7:
                    way = "UPDATE OR REPLACE"
                return f"{way} items SET {unique} = ?, {data} = ? WHERE {id} % 4 = ?", [name, row[3], row[0] % 4]
            case 6:
                way = chance.choice(["UPDATE", "UPDATE OR REPLACE"])
                return f"{way} items SET {id} = ? WHERE {id} = ?", [row[0], self._small()]
            case _:
                return f"DELETE FROM items WHERE {id} = ?", row[:1]

    def _parts(self, columns: list[str]) -> tuple[str, list[Any]]:
        id, item, n = columns[:3]
        if self._chance.random() < 0.8:
            told = f"INSERT OR REPLACE INTO parts ({id}, {item}, {n}) VALUES (?, ?, ?)"
            return told, [self._small(), self._small(), self._value()]
        return f"DELETE FROM parts WHERE {id} > ?", [self._small()]

    def _pairs(self, columns: list[str]) -> tuple[str, list[Any]]:
        a, b, v = columns[:3]
        chance, row = self._chance, [self._chance.choice("xyz"), self._small() % 3, self._value()]
        match chance.randrange(5):
            case 0 | 1:
                return f"{chance.choice(WAYS)} INTO pairs ({a}, {b}, {v}) VALUES (?, ?, ?)", row
            case 2:
                return f"UPDATE OR REPLACE pairs SET {b} = ({b} + 1) % 3 WHERE {a} = ?", row[:1]
            case 3:
                told = (
                    f"INSERT INTO pairs ({a}, {b}, {v}) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET {v} = excluded.{v}"
                )
                return told, row
            case _:
                return f"DELETE FROM pairs WHERE {a} = ?", row[:1]

    def _people(self, columns: list[str]) -> tuple[str, list[Any]]:
        chance = self._chance
        id, email, age = columns[:3]
        row = [chance.choice(["ann", "Ann", "bob", "BOB", "cy"]), chance.choice(["m1", "m2", None]), self._small()]
        match chance.randrange(4):
            case 0 | 1:
                return f"{chance.choice(WAYS)} INTO people ({id}, {email}, {age}) VALUES (?, ?, ?)", row
            case 2:
                told = f"UPDATE OR REPLACE people SET {email} = ?, {id} = ? WHERE {id} = ?"
                return told, [row[1], row[0], row[0].upper()]
            case _:
                return f"DELETE FROM people WHERE {id} = ?", row[:1]

    def _loose(self, columns: list[str]) -> tuple[str, list[Any]]:
        chance = self._chance
        x, y = columns[:2]
        match chance.randrange(4):
            case 0 | 1:
                return f"INSERT INTO loose ({x}, {y}) VALUES (?, ?)", [self._value(), self._small()]
            case 2:
                return f"UPDATE loose SET {x} = ? WHERE {y} = ?", [self._value(), self._small()]
            case _:
                return f"DELETE FROM loose WHERE {y} = ?", [self._small()]

    def _late(self, columns: list[str]) -> tuple[str, list[Any]]:
        id, v = columns[:2]
        if self._chance.random() < 0.8:
            return f"REPLACE INTO late ({id}, {v}) VALUES (?, ?)", [self._small(), self._value()]
        return f"DELETE FROM late WHERE {id} = ?", [self._small()]


def known(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without what whoever reads its topic fills in: a column that is not there has its default."""
    return {name: value for name, value in row.items() if value != default_of(name)}


def default_of(column: str) -> Any:
    return DEFAULTS.get(column[0]) if column[1:].isdigit() else None


def tables_in(path: str) -> dict[str, tuple[list[str], list[str]]]:
    """Of each table that is there its rows as JSON, and their keys; no keys where there is none."""
    connection = sqlite3.connect(path)
    try:
        found = {}
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for name in TABLES:
            if name not in there:
                continue
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
