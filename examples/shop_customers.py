"""The shop's own database: its customers, who sign up, change their names, move, and leave.

    python examples/shop_customers.py shop.sqlite

makes one with its first customers. It is SQLite, written by plain SQL: nobody who writes knows of the capture.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

CUSTOMERS = 200
NAMES = ("Anne", "Bjarne", "Cecilie", "David", "Eli", "Frida", "Gunnar", "Hanne")
COUNTRIES = ("NO", "SE", "DK")
PAUSE = 0.1  # seconds between two changes
PATIENCE = 60.0  # seconds that another writer may take
TABLE = """
CREATE TABLE customers (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE, country TEXT NOT NULL
)
"""


class Customers:
    """`changes` counts what was written live."""

    def __init__(self, path: Path, seed: int = 11) -> None:
        self.path = path
        self.changes = 0
        self._chance = random.Random(seed)
        self._last = 0
        self._stop = threading.Event()
        self._live: threading.Thread | None = None

    def make(self, count: int = CUSTOMERS) -> None:
        """The database, with its first customers."""
        with closing(self._connect()) as database:
            database.execute("PRAGMA journal_mode = WAL")  # whoever reads does not wait for whoever writes
            database.execute(TABLE)
            for _ in range(count):
                self._sign_up(database)

    def start(self) -> None:
        """Live, until `finish`."""
        self._live = threading.Thread(target=self._go_on, name="customers", daemon=True)
        self._live.start()

    def finish(self) -> None:
        self._stop.set()
        if self._live is not None:
            self._live.join()

    def of_country(self, country: str) -> set[tuple[int, str, str]]:
        """As the database has them now: what a view of them must hold."""
        with closing(self._connect()) as database:
            found = database.execute("SELECT id, name, country FROM customers WHERE country = ?", [country])
            return set(found.fetchall())

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)

    def _go_on(self) -> None:
        with closing(self._connect()) as database:
            while not self._stop.wait(PAUSE):
                self._happen(database)
                self.changes += 1

    def _happen(self, database: sqlite3.Connection) -> None:
        """Now and then in a transaction that is taken back: nobody may ever hear of that."""
        somebody = self._chance.randrange(1, self._last + 1)
        country, name = self._chance.choice(COUNTRIES), self._chance.choice(NAMES)
        match self._chance.randrange(10):
            case 0 | 1:
                self._sign_up(database)
            case 2:
                database.execute("DELETE FROM customers WHERE id = ?", [somebody])
            case 3 | 4 | 5:
                database.execute("UPDATE customers SET country = ? WHERE id = ?", [country, somebody])
            case 6:
                database.execute("BEGIN")
                database.execute("DELETE FROM customers WHERE country = ?", [country])
                database.execute("ROLLBACK")
            case _:
                database.execute("UPDATE customers SET name = ? WHERE id = ?", [name, somebody])

    def _sign_up(self, database: sqlite3.Connection) -> None:
        self._last += 1
        row = [self._last, self._chance.choice(NAMES), f"{self._last}@example.org", self._chance.choice(COUNTRIES)]
        database.execute("INSERT INTO customers VALUES (?, ?, ?, ?)", row)


if __name__ == "__main__":
    Customers(Path(sys.argv[1])).make()
