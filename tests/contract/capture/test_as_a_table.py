"""A captured table as an app reads it, without Spark: whatever empties it in the database, it has the rows of the
database, joined or change by change.
"""

from __future__ import annotations

import itertools

import pytest

from runnel import Debezium
from runnel.capture import capture as captures
from runnel.capture.selection import Selection
from runnel.pipeline.source import aside
from runnel.pipeline.source.offsets import ranges
from tests.contract.capture.conftest import TABLES
from tests.contract.capture.lives import capture_of, running, wait_until
from tests.contract.source.test_tables import Customers

numbers = itertools.count()

ORDERS = Selection(tables=[r".*\.orders"])
SCHEMA = Debezium("id int, name string, price int")
EMPTIED = {"main": ("DROP TABLE orders", TABLES[0])}  # SQLite knows no TRUNCATE


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(captures, "WAIT_SECONDS", 0.02)


class Copies:
    """Of the table, batch by batch: as it is joined, and as its changes make it."""

    def __init__(self, bootstrap, directory, topic):
        ways = {"joined": False, "changes": True}
        self._joined, self._told = (
            Customers(bootstrap, directory / way, topic, changes=changes, schema=SCHEMA)
            for way, changes in ways.items()
        )
        self._joined.lookout.begin()
        self._end = self._told.first()
        self._batches = itertools.count()
        self._rows = {}
        self.rejected = []

    def close(self):
        self._joined.close()
        self._told.close()

    def read(self):
        """What both are behind all that is there by now."""
        batch = next(self._batches)
        joined = sorted((row["id"], row["name"], row["price"]) for row in self._joined.rows(batch))
        start = self._end
        changes, self._end = self._told.changes(start, batch)
        for change in changes:
            row = change["id"], change["name"], change["price"]
            if change["_change"] in ("delete", "update_before"):
                assert self._rows.pop(row[0]) == row
            else:
                self._rows[row[0]] = row
        directory = aside.directory_of(self._told.spec.path, batch)
        for read in ranges(start, self._end):
            self.rejected += aside.read_aside(directory, self._told.spec.number, read).rows["reason"].to_pylist()
        return joined, sorted(self._rows.values())


@pytest.fixture
def captured(broker, database, tmp_path):
    """What was captured so far, and goes on to be."""
    name = f"table{next(numbers)}"
    database.execute("INSERT INTO orders VALUES (1, 'a', 10)", "INSERT INTO orders VALUES (2, 'b', 20)")
    with running(capture_of(name, database.source(name, ORDERS), broker.bootstrap, ORDERS)) as capture:
        wait_until(capture.is_streaming.is_set)
        copies = Copies(broker.bootstrap, tmp_path, f"{name}.{database.schema}.orders")
        yield copies
        copies.close()


def test_a_table_that_is_emptied_and_filled_again_is_followed(captured, database):
    def is_same():
        rows = sorted(database.rows("orders"))
        return captured.read() == (rows, rows)

    wait_until(is_same)
    database.execute("UPDATE orders SET price = 11 WHERE id = 1")
    database.execute(*EMPTIED.get(database.schema, ["TRUNCATE TABLE orders"]))
    wait_until(is_same)
    database.execute("INSERT INTO orders VALUES (2, 'c', 30)", "INSERT INTO orders VALUES (3, 'd', 40)")
    wait_until(is_same)
    assert captured.rejected == []


def test_a_row_that_gets_another_key_is_followed(captured, database):
    def is_same():
        rows = sorted(database.rows("orders"))
        return captured.read() == (rows, rows)

    wait_until(is_same)
    database.execute("UPDATE orders SET id = 3 WHERE id = 1")
    wait_until(is_same)
    database.execute("UPDATE orders SET id = 1 WHERE id = 2", "UPDATE orders SET id = 2, name = 'c' WHERE id = 3")
    wait_until(is_same)
    assert captured.rejected == []
