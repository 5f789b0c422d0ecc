"""A column of SQLite's is dropped by the remedy of docs/howto/capture-a-database.md, and the capture goes on right."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.contract.capture.lives import BY_CHUNKS, INITIAL, lived_here
from tests.contract.capture.topics import check_transactions, committed, rebuilt

HOW_TO = Path(__file__).parents[3] / "docs" / "howto" / "capture-a-database.md"
REMEDY = (
    "Stop the capture, stop the writers, drop the triggers of that table that are called `_runnel_...`, drop the "
    "column, and start the capture: it makes the triggers again and tells the table as emptied (`t`), and then all rows"
)


@pytest.fixture
def write(tmp_path):
    connection = sqlite3.connect(tmp_path / "shop.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, price INT)")
    connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY)")
    connection.execute("INSERT INTO orders VALUES (1, 'a', 10), (2, 'b', 20)")
    connection.execute("INSERT INTO items VALUES (1)")
    yield connection.execute
    connection.close()


def test_the_how_to_gives_this_remedy():
    assert REMEDY in HOW_TO.read_text(encoding="utf-8")


@pytest.mark.parametrize("way", [INITIAL, BY_CHUNKS], ids=["at-one-position", "by-chunks"])
def test_after_the_remedy_the_topic_tells_the_table_as_it_is(broker, tmp_path, write, way):
    path, name = str(tmp_path / "shop.sqlite"), f"dropped-{way.mode.value}"
    assert not lived_here(path, name, broker.bootstrap, way=way)
    write("UPDATE orders SET name = 'c' WHERE id = 2")  # nobody has read it when the triggers go
    with pytest.raises(sqlite3.OperationalError, match=f"error in trigger _runnel_{name}_"):
        write("ALTER TABLE orders DROP COLUMN price")
    triggers = write("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'orders'").fetchall()
    assert triggers
    for (trigger,) in triggers:
        assert trigger.startswith("_runnel_")
        write(f'DROP TRIGGER "{trigger}"')
    write("ALTER TABLE orders DROP COLUMN price")
    assert not lived_here(path, name, broker.bootstrap, way=way)
    write("INSERT INTO orders VALUES (3, 'd')")
    write("DELETE FROM orders WHERE id = 1")
    assert not lived_here(path, name, broker.bootstrap, way=way)
    topics = committed(broker.bootstrap, f"{name}.")
    records = topics[f"{name}.main.orders"]
    told = [(each.op, each.value["after"]) for each in records if each.value is not None]
    assert told == [
        ("r", {"id": 1, "name": "a", "price": 10}),
        ("r", {"id": 2, "name": "b", "price": 20}),
        ("u", {"id": 2, "name": "c", "price": 20}),
        ("t", None),
        ("u", {"id": 1, "name": "a"}),
        ("u", {"id": 2, "name": "c"}),
        ("c", {"id": 3, "name": "d"}),
        ("d", None),
    ]
    assert list(rebuilt(records).rows.values()) == [{"id": 2, "name": "c"}, {"id": 3, "name": "d"}]
    assert [each.op for each in topics[f"{name}.main.items"]] == ["r"]  # another table's are left as they are
    check_transactions(topics, name)
