"""What the triggers log of what writers do, in the writers' own SQLite."""

import re
import sqlite3
from contextlib import closing

import pytest

from runnel.capture.sqlite.names import Names
from runnel.capture.sqlite.shapes import shape_of
from runnel.capture.sqlite.triggers import Triggers


@pytest.fixture(params=["ON", "OFF"])
def orders(request, captured):
    """With both settings of the writer's `recursive_triggers`."""
    captured.write(f"PRAGMA recursive_triggers = {request.param}", "PRAGMA foreign_keys = ON")
    captured.write(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT UNIQUE, price)",
        "INSERT INTO orders VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)",
    )
    captured.prepare()
    return captured


def test_plain_changes(orders):
    orders.write(
        "INSERT INTO orders VALUES (4, 'd', 40)",
        "UPDATE orders SET price = 41 WHERE id = 4",
        "DELETE FROM orders WHERE id = 4",
    )
    assert orders.told() == [
        ("c", None, (4, "d", 40)),
        ("u", (4, "d", 40), (4, "d", 41)),
        ("d", (4, "d", 41), None),
    ]


def test_a_replaced_row_is_told_as_deleted(orders):
    orders.write("REPLACE INTO orders VALUES (1, 'z', 0)")
    assert orders.told() == [("d", (1, "a", 10), None), ("c", None, (1, "z", 0))]


def test_a_row_that_replaces_several_tells_of_each(orders):
    orders.write("INSERT OR REPLACE INTO orders VALUES (1, 'c', 0)")
    told = orders.told()
    assert sorted(told[:2]) == [("d", (1, "a", 10), None), ("d", (3, "c", 30), None)]
    assert told[2:] == [("c", None, (1, "c", 0))]


def test_a_row_that_gets_its_number_replaces_too(orders):
    orders.write("REPLACE INTO orders (name, price) VALUES ('b', 0)")
    assert orders.told() == [("d", (2, "b", 20), None), ("c", None, (4, "b", 0))]


def test_update_or_replace(orders):
    orders.write("UPDATE OR REPLACE orders SET name = 'b' WHERE id = 1")
    assert orders.told() == [("d", (2, "b", 20), None), ("u", (1, "a", 10), (1, "b", 10))]
    orders.write("UPDATE OR REPLACE orders SET id = 3 WHERE id = 1")
    assert orders.told() == [("d", (3, "c", 30), None), ("u", (1, "b", 10), (3, "b", 10))]


def test_an_ignored_row_is_not_told_of_and_harms_nothing_later(orders):
    orders.write(
        "INSERT OR IGNORE INTO orders VALUES (1, 'b', 0)",
        "INSERT INTO orders VALUES (2, 'x', 0) ON CONFLICT DO NOTHING",
        "UPDATE OR IGNORE orders SET name = 'b' WHERE id = 3",
    )
    assert orders.told() == []
    orders.write(
        "DELETE FROM orders WHERE id = 1",
        "INSERT INTO orders VALUES (1, 'n', 1)",
        "REPLACE INTO orders VALUES (5, 'b', 5)",
    )
    assert orders.told() == [
        ("d", (1, "a", 10), None),
        ("c", None, (1, "n", 1)),
        ("d", (2, "b", 20), None),
        ("c", None, (5, "b", 5)),
    ]


def test_an_upsert_is_what_it_did(orders):
    upsert = "INSERT INTO orders VALUES (?, ?, 0) ON CONFLICT (id) DO UPDATE SET price = price + 1"
    orders.writer.execute(upsert, (1, "q"))
    orders.writer.execute(upsert, (9, "q"))
    assert orders.told() == [("u", (1, "a", 10), (1, "a", 11)), ("c", None, (9, "q", 0))]


@pytest.mark.parametrize("way", ["ABORT", "FAIL", "ROLLBACK", "IGNORE", "REPLACE"])
def test_no_statement_fails_because_of_what_was_noted(orders, way):
    """A writer's way with conflicts holds inside of its triggers, too."""
    for _ in range(3):
        orders.write(
            "INSERT OR IGNORE INTO orders VALUES (1, 'b', 0)",
            f"INSERT OR {way} INTO orders VALUES (7, 'x', 1)",
            "DELETE FROM orders WHERE id = 7",
        )
    assert [op for op, _, _ in orders.told()] == ["c", "d"] * 3


def test_what_fails_or_is_rolled_back_is_not_told_of(orders):
    with pytest.raises(sqlite3.IntegrityError):
        orders.write("INSERT INTO orders VALUES (4, 'a', 0)")
    orders.write(
        "BEGIN",
        "SAVEPOINT s",
        "DELETE FROM orders",
        "ROLLBACK TO s",
        "REPLACE INTO orders VALUES (1, 'y', 1)",
        "ROLLBACK",
    )
    assert orders.told() == []


def test_a_cascade_is_told_of(orders):
    orders.write(
        "CREATE TABLE parts (id INTEGER PRIMARY KEY, o REFERENCES orders (id) ON DELETE CASCADE ON UPDATE CASCADE)"
    )
    orders.write("INSERT INTO parts VALUES (1, 1), (2, 2)")
    orders.position = orders.source().prepare()
    orders.write("UPDATE orders SET id = 11 WHERE id = 1", "REPLACE INTO orders VALUES (2, 'n', 0)")
    told = orders.told()
    assert ("u", (1, 1), (1, 11)) in told
    assert ("d", (2, 2), None) in told
    assert ("d", (2, "b", 20), None) in told


def test_all_rows_that_one_statement_deletes_are_told_of(orders):
    orders.write("DELETE FROM orders")
    assert len(orders.told()) == 3


@pytest.mark.parametrize("is_newer", [False, True])
def test_a_trigger_of_somebody_elses_does_not_turn_the_order_round(captured, is_newer):
    """Whichever was made first: the last that is told of a row is how it is."""
    captured.write("CREATE TABLE t (id INTEGER PRIMARY KEY, v, seen DEFAULT 0)")
    others = (
        "CREATE TRIGGER touch AFTER UPDATE OF v ON t BEGIN UPDATE t SET seen = seen + 1 WHERE id = NEW.id; END",
        "CREATE TRIGGER first AFTER INSERT ON t BEGIN UPDATE t SET seen = 100 WHERE id = NEW.id; END",
        "CREATE TRIGGER back AFTER DELETE ON t WHEN OLD.v = 9 BEGIN INSERT INTO t (id, v) VALUES (OLD.id, 1); END",
        "CREATE TRIGGER away AFTER UPDATE ON t WHEN NEW.v = 7 BEGIN DELETE FROM t WHERE id = NEW.id; END",
    )
    if not is_newer:
        captured.write(*others)
    captured.prepare()
    if is_newer:
        captured.write(*others)
    captured.write(
        "INSERT INTO t (id, v) VALUES (1, 1), (2, 2), (3, 3)",
        "UPDATE t SET v = 2 WHERE id = 1",
        "UPDATE t SET v = 9 WHERE id = 2",
        "DELETE FROM t WHERE id = 2",
        "UPDATE t SET v = 7, id = 8 WHERE id = 3",
    )
    rows = {}
    for op, before, after in captured.told():
        if op == "d" or (before is not None and after is not None and before[0] != after[0]):
            rows.pop(before[0], None)
        if after is not None:
            rows[after[0]] = after
    assert sorted(rows.values()) == captured.writer.execute("SELECT * FROM t ORDER BY id").fetchall()
    assert [row[0] for row in sorted(rows.values())] == [1, 2]


@pytest.mark.parametrize(
    ("table", "rows", "statement"),
    [
        ("t (a TEXT, b INT, v, PRIMARY KEY (a, b)) WITHOUT ROWID", "('x', 1, 1)", "REPLACE INTO t VALUES ('x', 1, 2)"),
        ("t (a TEXT PRIMARY KEY COLLATE NOCASE, v) WITHOUT ROWID", "('x', 1)", "REPLACE INTO t VALUES ('X', 2)"),
        ("t (a TEXT COLLATE NOCASE UNIQUE, v)", "('x', 1)", "REPLACE INTO t VALUES ('X', 2)"),
        ("t (a, b, UNIQUE (b, a))", "('x', 1)", "REPLACE INTO t VALUES ('x', 1)"),
        ("t (a REAL UNIQUE, v)", "(1, 1)", "REPLACE INTO t VALUES ('1.0', 2)"),
        ("t (a INT UNIQUE, v)", "(12, 1)", "REPLACE INTO t VALUES ('12', 2)"),
        ("t (a, v)", "('x', 1)", "REPLACE INTO t (rowid, a, v) VALUES (1, 'y', 2)"),
        ("t (rowid TEXT PRIMARY KEY, oid)", "('x', 1)", "REPLACE INTO t VALUES ('x', 2)"),
        ('"my ""t" ("a b" UNIQUE, "select")', "('x', 1)", 'REPLACE INTO "my ""t" VALUES (\'x\', 2)'),
    ],
)
def test_whatever_must_be_unique_a_replaced_row_is_told_of(captured, table, rows, statement):
    name = table.partition(" (")[0]
    captured.write(f"CREATE TABLE {table}", f"INSERT INTO {name} VALUES {rows}")
    before = captured.writer.execute(f"SELECT * FROM {name}").fetchone()
    captured.prepare()
    captured.write(statement)
    after = captured.writer.execute(f"SELECT * FROM {name}").fetchall()
    assert captured.told() == [("d", before, None), ("c", None, after[0])]
    assert len(after) == 1


@pytest.mark.parametrize("way", ["REPLACE INTO t VALUES (2, NULL, NULL)", "UPDATE OR REPLACE t SET a = NULL, b = NULL"])
@pytest.mark.parametrize(
    ("column", "also"),
    [
        ("a TEXT NOT NULL DEFAULT 'it''s (none)' UNIQUE, b", "SELECT 1"),
        ("a INT NOT NULL DEFAULT '7' UNIQUE, b", "SELECT 1"),
        ("a NOT NULL DEFAULT (1 + 2) UNIQUE, b", "SELECT 1"),
        ("a NOT NULL DEFAULT none UNIQUE, b", "SELECT 1"),
        ("a NOT NULL DEFAULT (7 -- it's (seven\n) UNIQUE, b", "SELECT 1"),
        ("a NOT NULL DEFAULT ('--' /* (none) */) UNIQUE, b", "SELECT 1"),
        ("a TEXT NOT NULL DEFAULT 'X', b", "CREATE UNIQUE INDEX i ON t (lower(a))"),
    ],
)
def test_a_null_that_is_replaced_by_the_default_replaces_the_row_that_has_it(captured, column, also, way):
    captured.write(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {column})", also, "INSERT INTO t (id) VALUES (1)")
    if way.startswith("UPDATE"):
        captured.write("INSERT INTO t (id, a) VALUES (2, 9)")
        way = f"{way} WHERE id = 2"
    captured.prepare()
    captured.write(way)
    ((number, value, _),) = captured.writer.execute("SELECT * FROM t").fetchall()
    told = captured.told()
    assert told[0] == ("d", (1, value, None), None)
    assert [after for _, _, after in told[1:]] == [(number, value, None)]


def test_a_default_that_calls_a_function_is_not_called(captured):
    """A writer who gives the column a value need not have the function."""
    captured.writer.create_function("code", 0, lambda: "x", deterministic=True)
    captured.write("CREATE TABLE t (id INTEGER PRIMARY KEY, a NOT NULL DEFAULT (code()) UNIQUE)")
    captured.prepare()
    with closing(sqlite3.connect(captured.path, isolation_level=None)) as other:
        other.execute("INSERT INTO t VALUES (1, 'y')")
    assert captured.told() == [("c", None, (1, "y"))]


def test_unique_indexes_on_expressions_and_on_some_rows(captured):
    captured.write(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, mail, live)",
        "CREATE UNIQUE INDEX i ON t (lower(mail) COLLATE NOCASE DESC, live)",
        "CREATE UNIQUE INDEX j ON t (mail) WHERE live > 5",
        "INSERT INTO t VALUES (1, 'A', 1), (2, 'B', 6), (3, 'c', 3)",
    )
    captured.prepare()
    captured.write("REPLACE INTO t VALUES (9, 'a', 1)")
    assert captured.told() == [("d", (1, "A", 1), None), ("c", None, (9, "a", 1))]
    captured.write("REPLACE INTO t VALUES (8, 'B', 7)")
    assert captured.told() == [("d", (2, "B", 6), None), ("c", None, (8, "B", 7))]
    captured.write("REPLACE INTO t VALUES (7, 'c', 2)")  # in conflict with nobody
    assert captured.told() == [("c", None, (7, "c", 2))]


@pytest.mark.parametrize(
    "terms",
    [
        "\n lower(mail) -- it's the same (or not\n",
        "\n lower(mail) -- for all, DESC\n, live",
        "/* a) */ lower(mail /* ], */) /* COLLATE x */ DESC",
        'lower(mail || \'--/*\' || "live" /* never closed") */)',
    ],
)
def test_comments_in_an_index_on_an_expression_change_nothing(captured, terms):
    captured.write(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, mail TEXT, live INTEGER)",
        f"CREATE UNIQUE INDEX i -- (it's one)\n ON t ({terms})",
        "INSERT INTO t VALUES (1, 'A@x', 1)",
    )
    captured.prepare()
    captured.write("REPLACE INTO t VALUES (2, 'a@X', 1)")
    assert captured.told() == [("d", (1, "A@x", 1), None), ("c", None, (2, "a@X", 1))]


def test_values_are_kept_as_they_are(captured):
    values = [None, 0, 2**63 - 1, -(2**63), 0.1, 1e300, float("inf"), "", "ä\x00😀", b"", b"\x00\xff", "1", b"1"]
    captured.write("CREATE TABLE t (id INTEGER PRIMARY KEY, v)", "CREATE TABLE n (v NUMERIC, t TEXT, r REAL, b BLOB)")
    captured.prepare()
    for value in values:
        captured.writer.execute("INSERT INTO t (v) VALUES (?)", [value])
        captured.writer.execute("INSERT INTO n VALUES (?, ?, ?, ?)", [value] * 4)
    told = captured.told()
    kept = captured.writer.execute("SELECT v FROM t").fetchall()
    assert [(type(after[1]), after[1]) for _, _, after in told if len(after) == 2] == [(type(v), v) for (v,) in kept]
    rows = captured.writer.execute("SELECT * FROM n").fetchall()
    assert [repr(after) for _, _, after in told if len(after) == 4] == [repr(row) for row in rows]


def test_a_writer_does_not_see_that_anything_is_different(orders):
    cursor = orders.writer.execute("INSERT INTO orders VALUES (50, 'x', 1)")
    assert (cursor.lastrowid, cursor.rowcount) == (50, 1)
    orders.write("REPLACE INTO orders (name) VALUES ('x')")
    assert orders.writer.execute("SELECT last_insert_rowid(), changes()").fetchone() == (51, 1)
    assert orders.writer.execute("UPDATE orders SET price = 2 WHERE id > 1").rowcount == 3


def test_a_writer_that_has_attached_the_database_is_seen(orders, tmp_path):
    other = sqlite3.connect(tmp_path / "other.sqlite", isolation_level=None)
    other.execute("ATTACH ? AS shop", [str(orders.path)])
    other.execute("REPLACE INTO shop.orders VALUES (1, 'q', 1)")
    other.close()
    assert orders.told() == [("d", (1, "a", 10), None), ("c", None, (1, "q", 1))]


def test_only_one_plain_function_is_called(captured):
    """So that the SQLite of any writer knows it, and one that trusts no schema runs it."""
    captured.write("CREATE TABLE t (id TEXT PRIMARY KEY, a, UNIQUE (a, id))")
    text = "\n".join(Triggers(Names("shop"), 1, shape_of(captured.writer, "t")).create())
    words = set(re.findall(r"([a-z_]+)\(", text))
    assert words == {"julianday"}
    assert "->" not in text
    captured.prepare()
    captured.write("PRAGMA trusted_schema = OFF", "REPLACE INTO t VALUES ('x', 1)")
    assert len(captured.told()) == 1
