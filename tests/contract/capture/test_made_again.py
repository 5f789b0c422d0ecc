"""A table of SQLite's that is dropped and made again: whoever reads its topic has its rows, and no others."""

from __future__ import annotations

import itertools
import json
import sqlite3
import threading
from collections import Counter

import pytest

from runnel.capture import capture as captures
from runnel.capture.sqlite.triggers import Entry
from runnel.errors import Transient
from tests.contract.capture.conftest import TABLES, SqliteDatabase
from tests.contract.capture.lives import capture_of, caught_up, running, wait_until
from tests.contract.capture.topics import committed, rebuilt

numbers = itertools.count()

MADE = {"orders": TABLES[0], "loose": TABLES[2]}
FIRST = {
    "orders": ["INSERT INTO orders VALUES (1, 'a', 10)", "INSERT INTO orders VALUES (2, 'b', 20)"],
    "loose": ["INSERT INTO loose VALUES (1, 1)"],
}
OTHERS = {
    "orders": ["INSERT INTO orders VALUES (2, 'c', 30)", "INSERT INTO orders VALUES (3, 'd', 40)"],
    "loose": ["INSERT INTO loose VALUES (2, 2)"],
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(captures, "WAIT_SECONDS", 0.02)
    monkeypatch.setattr(captures, "FIRST_PAUSE", 0.01)


@pytest.fixture
def name():
    return f"again{next(numbers)}"


@pytest.fixture(params=["orders", pytest.param("loose", marks=pytest.mark.servers)])
def table(request):
    return request.param


@pytest.fixture
def database(tmp_path, table):
    found = SqliteDatabase(tmp_path / "shop.sqlite")
    found.execute(MADE[table])
    yield found
    found.close()


def is_end_logged(database, name):
    with sqlite3.connect(database.path) as connection:
        found = connection.execute(f"SELECT 1 FROM _runnel_{name}_log WHERE op = {int(Entry.GONE)}").fetchall()
    connection.close()
    return bool(found)


def still(capture, looking):
    wait_until(lambda: capture.state.is_complete)
    caught_up(capture, looking)


def assert_same(broker, name, database, table):
    """The topic tells the rows of the table, as a consumer puts them together."""
    told = rebuilt(committed(broker.bootstrap, f"{name}.")[f"{name}.main.{table}"])
    rows = [*(json.dumps(row, sort_keys=True) for row in told.rows.values()), *told.bag.elements()]
    columns = ("id", "name", "price") if table == "orders" else ("x", "y")
    there = [json.dumps(dict(zip(columns, row, strict=True)), sort_keys=True) for row in database.rows(table)]
    assert Counter(rows) == Counter(there)


def test_while_the_cluster_is_away(broker, database, name, table, monkeypatch):
    """Its end is in the log, and in no topic yet, when it is there again."""
    away, publish = threading.Event(), captures.Capture._publish

    def publish_sometimes(capture, out, state):
        if away.is_set():
            raise Transient("the cluster is away")
        publish(capture, out, state)

    monkeypatch.setattr(captures.Capture, "_publish", publish_sometimes)
    with running(capture_of(name, database.source(name), broker.bootstrap)) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute(*FIRST[table])
        caught_up(capture, database.source(name))
        away.set()
        database.execute(f"DROP TABLE {table}")
        wait_until(lambda: is_end_logged(database, name), "the end of the table")
        wait_until(lambda: not capture.is_streaming.is_set())
        database.execute(MADE[table], *OTHERS[table])
        away.clear()
        wait_until(capture.is_streaming.is_set)
        still(capture, database.source(name))
    assert_same(broker, name, database, table)


@pytest.mark.servers  # it takes its time
@pytest.mark.parametrize("is_noticed", [True, False])
def test_while_the_capture_is_stopped(broker, database, name, table, is_noticed):
    """Its end is in the topics before, or nobody has noticed it at all."""
    with running(capture_of(name, database.source(name), broker.bootstrap)) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute(*FIRST[table])
        if is_noticed:
            caught_up(capture, database.source(name))
            database.execute(f"DROP TABLE {table}")
            wait_until(lambda: not capture.state.tables)
        caught_up(capture, database.source(name))
    database.execute(*([] if is_noticed else [f"DROP TABLE {table}"]), MADE[table], *OTHERS[table])
    with running(capture_of(name, database.source(name), broker.bootstrap)) as capture:
        wait_until(lambda: f"main.{table}" in capture.state.tables)
        still(capture, database.source(name))
    assert_same(broker, name, database, table)


def test_without_a_row_when_its_end_was_not_read_before(broker, database, name, table):
    """It is known as it is there, and not from its first row on."""
    source = database.source(name)
    with running(capture_of(name, source, broker.bootstrap)) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute(*FIRST[table])
        caught_up(capture, database.source(name))
    database.execute(f"DROP TABLE {table}")
    database.source(name).prepare()  # and dies
    assert is_end_logged(database, name)
    database.execute(MADE[table])
    with running(capture_of(name, database.source(name), broker.bootstrap)) as capture:
        wait_until(capture.is_streaming.is_set)
        still(capture, database.source(name))
        assert f"main.{table}" in capture.state.tables
        database.execute(*OTHERS[table])
        still(capture, database.source(name))
    assert_same(broker, name, database, table)


def test_an_empty_one_that_comes_while_it_runs_is_known(broker, database, name, table):
    with running(capture_of(name, database.source(name), broker.bootstrap)) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute("CREATE TABLE other (id INTEGER PRIMARY KEY)")
        wait_until(lambda: "main.other" in capture.state.tables)
