"""Our tables and triggers beside those of people: in step with them, trimmed, and removed without a trace."""

import shutil
import sqlite3

import pytest

from runnel.capture.errors import DatabaseMissing, NotADatabase, PositionLost, TableMissing
from runnel.capture.events import Change, Gone, Position, Redefined, Truncated
from runnel.capture.selection import Selection
from runnel.capture.sqlite import SqliteSource, keeping, source, triggers
from runnel.capture.tables import TableId
from runnel.durable import watched


@pytest.fixture
def orders(captured):
    captured.write("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO orders VALUES (1, 'a')")
    return captured


def test_removal_leaves_no_trace(orders):
    before = orders.trace()
    found = orders.prepare()
    orders.write("INSERT INTO orders VALUES (2, 'b')", "INSERT OR IGNORE INTO orders VALUES (2, 'c')")
    assert orders.trace() != before
    found.remove()
    assert orders.trace() == before
    orders.write("INSERT INTO orders VALUES (3, 'c')")


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_removal_that_is_cut_off_is_whole_or_did_not_happen(orders, side):
    before = orders.trace()
    found = orders.prepare()
    prepared = orders.trace()

    def die(place):
        if place == f"capture.sqlite.remove:{side}":
            raise RuntimeError(place)

    with pytest.raises(RuntimeError), watched(die):
        found.remove()
    assert orders.trace() == (prepared if side == "before" else before)


@pytest.mark.parametrize("side", ["before", "after"])
def test_to_follow_a_changed_table_is_whole_or_did_not_happen(orders, side):
    orders.prepare()
    orders.write("ALTER TABLE orders ADD COLUMN city", "INSERT INTO orders VALUES (2, 'b', 'Graz')")

    def die(place):
        if place == f"capture.sqlite.follow:{side}":
            raise RuntimeError(place)

    with pytest.raises(RuntimeError), watched(die):
        orders.events()
    assert [after for _, _, after in orders.told()] == [(2, "b"), (2, "b", "Graz")]


def test_two_captures_of_a_database_do_not_know_of_each_other(orders):
    first = orders.prepare()
    other = SqliteSource(orders.path, "other", Selection().has)
    position = other.prepare()
    orders.write("UPDATE orders SET name = 'b'")
    first.remove()
    orders.write("UPDATE orders SET name = 'c'")
    told = [each.after for each in other.changes(position).read(0) if isinstance(each, Change)]
    assert told == [(1, "b"), (1, "c")]
    other.close()


def test_a_new_column_is_captured_with_what_was_written_before_that_was_noticed(orders):
    orders.prepare()
    orders.write("ALTER TABLE orders ADD COLUMN city DEFAULT 'Wien'", "INSERT INTO orders VALUES (2, 'b', 'Graz')")
    events = orders.events()
    assert [each.after for each in events if isinstance(each, Change)] == [(2, "b"), (2, "b", "Graz")]
    orders.write("UPDATE orders SET city = 'Linz' WHERE id = 1")
    (change,) = (each for each in orders.events() if isinstance(each, Change))
    assert (change.before, change.after) == ((1, "a", "Wien"), (1, "a", "Linz"))
    assert [column.name for column in change.table.columns] == ["id", "name", "city"]
    assert any(isinstance(each, Redefined) and len(each.table.columns) == 3 for each in events)


def test_a_renamed_column_has_its_new_name_in_every_row(orders):
    orders.prepare()
    orders.write("ALTER TABLE orders RENAME COLUMN name TO title")
    (change,) = (each for each in orders.events() if isinstance(each, Change))
    assert ([column.name for column in change.table.columns], change.after) == (["id", "title"], (1, "a"))


def test_a_column_with_the_name_that_another_had_is_told_with_all_rows(orders):
    """A row was told to have null there, and has the default of the new one now, which nobody fills in for a null."""
    orders.write("INSERT INTO orders VALUES (2, NULL)")
    orders.prepare()
    orders.write("ALTER TABLE orders RENAME COLUMN name TO former")
    assert [after for _, _, after in orders.told()] == [(1, "a")]
    orders.write("ALTER TABLE orders ADD COLUMN name DEFAULT 'new'")
    assert [after for _, _, after in orders.told()] == [(1, "a", "new"), (2, None, "new")]


def test_a_column_that_takes_the_name_of_another_at_once_is_told_with_all_rows(orders):
    orders.write("INSERT INTO orders VALUES (2, NULL)")
    orders.prepare()
    orders.write("ALTER TABLE orders RENAME COLUMN name TO former", "ALTER TABLE orders ADD COLUMN name DEFAULT 'new'")
    assert [after for _, _, after in orders.told()] == [(1, "a", "new"), (2, None, "new")]


def told_as_emptied(orders):
    events = [each for each in orders.events() if isinstance(each, Change | Truncated)]
    assert isinstance(events[0], Truncated)
    return [(each.op, each.before, each.after) for each in events[1:]]


def test_a_renamed_column_of_a_key_makes_other_keys_and_the_table_is_told_as_emptied_before(orders):
    orders.prepare()
    orders.write("ALTER TABLE orders RENAME COLUMN id TO number")
    assert told_as_emptied(orders) == [("u", None, (1, "a"))]


def test_rows_that_nothing_tells_apart_are_told_again_after_their_table_was_told_as_emptied(captured):
    captured.write("CREATE TABLE loose (x)", "INSERT INTO loose VALUES (1), (NULL)")
    captured.prepare()
    captured.write("ALTER TABLE loose ADD COLUMN y")
    assert captured.told() == []  # they are as whoever reads knows them
    captured.write("ALTER TABLE loose RENAME COLUMN x TO z")
    assert told_as_emptied(captured) == [("u", None, (1, None)), ("u", None, (None, None))]


def test_a_table_that_was_made_anew_is_told_of_as_emptied_and_then_as_it_is(orders):
    orders.prepare()
    orders.write(
        "DROP TABLE orders", "CREATE TABLE orders (id INTEGER PRIMARY KEY, n)", "INSERT INTO orders VALUES (7, 7)"
    )
    events = [each for each in orders.events() if isinstance(each, Change | Truncated)]
    assert isinstance(events[0], Truncated)
    assert [each.after for each in events[1:]] == [(7, 7)]


def test_triggers_that_somebody_dropped_are_made_again_and_the_rows_told_of(orders):
    orders.prepare()
    (name,) = orders.writer.execute(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%update'"
    ).fetchone()
    orders.write(f'DROP TRIGGER "{name}"', "UPDATE orders SET name = 'unseen'")
    events = [each for each in orders.events() if isinstance(each, Change | Truncated)]
    assert isinstance(events[0], Truncated)
    assert [each.after for each in events[1:]] == [(1, "unseen")]


def test_a_dropped_table_is_gone_and_a_new_one_is_there_with_its_rows(orders):
    orders.prepare()
    orders.write("DROP TABLE orders", "CREATE TABLE clicks (id INTEGER PRIMARY KEY)", "INSERT INTO clicks VALUES (1)")
    events = orders.events()
    assert [each.table.name for each in events if isinstance(each, Gone)] == ["orders"]
    assert [(each.op, each.after) for each in events if isinstance(each, Change)] == [("c", (1,))]


def make_again(orders):
    """For somebody who has read up to the position."""
    orders.write("CREATE TABLE orders (id INTEGER PRIMARY KEY, n)", "INSERT INTO orders VALUES (7, 7)")
    found = orders.source()
    found.recognize(orders.position)
    found.prepare()


def test_a_table_that_comes_back_before_its_end_was_read_is_told_of_with_the_rows_that_it_has(orders):
    orders.prepare()
    before = orders.position
    orders.write("DROP TABLE orders")
    orders.events()
    orders.position = before  # nobody has kept what was read
    make_again(orders)
    told = [type(each) for each in orders.events() if isinstance(each, Change | Truncated | Gone)]
    assert told == [Truncated, Gone, Change]


def test_a_table_that_comes_back_after_its_end_was_read_is_left_to_be_read_as_a_new_one(orders):
    orders.prepare()
    orders.write("DROP TABLE orders")
    told = [type(each) for each in orders.events() if isinstance(each, Change | Truncated | Gone)]
    assert told == [Truncated, Gone]
    make_again(orders)
    assert orders.told() == []
    orders.write("INSERT INTO orders VALUES (8, 8)")
    assert orders.told() == [("c", None, (8, 8))]


def test_a_column_cannot_be_dropped_while_its_table_is_captured(orders):
    """The remedy is run in tests/contract/capture/test_dropped_column.py."""
    orders.prepare()
    with pytest.raises(sqlite3.OperationalError, match="error in trigger _runnel_shop_"):
        orders.write("ALTER TABLE orders DROP COLUMN name")


def test_the_log_is_trimmed_up_to_what_is_confirmed(orders, monkeypatch):
    monkeypatch.setattr(source, "TRIM_SECONDS", 0.0)
    monkeypatch.setattr(keeping, "TRIMMED_AT_ONCE", 3)
    found = orders.prepare()
    for number in range(2, 12):
        orders.write(f"INSERT INTO orders VALUES ({number}, 'b')")
    orders.write("INSERT OR IGNORE INTO orders VALUES (1, 'x')")
    first = orders.position
    assert len(orders.told()) == 10
    found.confirm(orders.position)
    lines = orders.writer.execute("SELECT id FROM _runnel_shop_log").fetchall()
    assert lines == [(orders.position.at["id"],)]  # the last one stays: its number is not given again
    assert orders.writer.execute("SELECT count(*) FROM _runnel_shop_noted_1").fetchone() == (0,)
    with pytest.raises(PositionLost, match="does not have line 1 as it was read before"):
        found.changes(first)
    orders.write("INSERT INTO orders VALUES (99, 'b')")
    assert orders.told() == [("c", None, (99, "b"))]


def test_a_log_that_is_gone_or_another_one_is_noticed(orders):
    found = orders.prepare()
    found.remove()
    with pytest.raises(PositionLost, match="its change log is gone"):
        orders.source().changes(orders.position)
    orders.source().prepare()
    with pytest.raises(PositionLost, match="its change log was made anew"):
        orders.source().changes(orders.position)


def test_a_copy_of_long_ago_is_noticed(orders, tmp_path):
    orders.prepare()
    orders.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(orders.path, tmp_path / "old.sqlite")
    orders.write("INSERT INTO orders VALUES (2, 'b')")
    assert len(orders.told()) == 1
    old = sqlite3.connect(tmp_path / "old.sqlite", isolation_level=None)
    restored = SqliteSource(tmp_path / "old.sqlite", "shop", Selection().has)
    with pytest.raises(PositionLost):
        restored.changes(orders.position)
    old.execute("INSERT INTO orders VALUES (3, 'c')")  # it has as many lines now, of another life
    at = {**orders.position.at, "time": orders.position.at["time"] - 1.0}
    with pytest.raises(PositionLost):
        restored.changes(Position(at))
    restored.close()
    old.close()


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_any_journal_will_do(tmp_path, journal):
    writer = sqlite3.connect(tmp_path / "any.sqlite", isolation_level=None)
    writer.execute(f"PRAGMA journal_mode = {journal}")
    writer.execute("CREATE TABLE t (a)")
    writer.execute("INSERT INTO t VALUES (1)")
    found = SqliteSource(tmp_path / "any.sqlite", "shop", Selection().has)
    found.prepare()
    with found.snapshot() as snapshot:
        writer.execute("INSERT INTO t VALUES (2)")  # nobody waits for the snapshot
        (table,) = snapshot.tables()
        assert [list(piece) for piece in snapshot.rows(table)] == [[(1,)]]
        position = snapshot.position
    changes = found.changes(position)
    assert [each.after for each in changes.read(0) if isinstance(each, Change)] == [(2,)]
    assert not changes.read(0)
    writer.execute("INSERT INTO t VALUES (3)")
    assert [each.after for each in changes.read(10) if isinstance(each, Change)] == [(3,)]
    found.close()
    writer.close()


def test_a_file_that_is_no_database_or_not_there_is_told(tmp_path):
    (tmp_path / "notes.txt").write_text("no database, and long enough to be looked at" * 100)
    with pytest.raises(DatabaseMissing, match="there is no database"):
        SqliteSource(tmp_path / "nothing.sqlite", "shop", Selection().has)
    with pytest.raises(NotADatabase, match=r"notes\.txt is no SQLite database"):
        SqliteSource(tmp_path / "notes.txt", "shop", Selection().has)
    assert not (tmp_path / "nothing.sqlite").exists()


def test_nulls_in_a_key_are_read_by_pieces_too(orders, monkeypatch):
    from runnel.capture.sqlite import snapshot as snapshots  # noqa: PLC0415  # whose size of a piece is changed

    monkeypatch.setattr(snapshots, "ROWS_AT_ONCE", 2)
    orders.write("CREATE TABLE odd (a TEXT, b INT, PRIMARY KEY (a, b))")
    keys = [(None, None), (None, None), (None, None), (None, 1), ("x", None), ("x", 1), ("y", None)]
    for key in keys:
        orders.writer.execute("INSERT INTO odd VALUES (?, ?)", key)
    found = orders.prepare()
    with found.snapshot() as snapshot:
        table = next(each for each in snapshot.tables() if each.id.name == "odd")
        pieces = [list(piece) for piece in snapshot.rows(table)]
        assert [row for piece in pieces for row in piece] == keys
        for number in range(len(pieces)):
            rest = [row for piece in snapshot.rows(table, table.key_of(pieces[number][-1])) for row in piece]
            assert rest == [row for piece in pieces[number + 1 :] for row in piece]


def test_a_table_that_goes_while_the_tables_are_looked_at_is_gone_at_the_next_look(orders):
    orders.write("CREATE TABLE items (id INTEGER PRIMARY KEY)")
    orders.prepare()
    goes = ["items"]

    def is_chosen(table):
        if goes == [table.name]:
            orders.write(f"DROP TABLE {goes.pop()}")
        return True

    found = SqliteSource(orders.path, "shop", is_chosen)
    changes = found.changes(orders.position)
    orders.write("CREATE INDEX i ON orders (name)")
    events = [*changes.read(0), *changes.read(0)]
    assert not goes
    orders.write("INSERT INTO orders VALUES (2, 'b')")
    events += [*changes.read(0), *changes.read(0)]
    found.close()
    assert [each.table.name for each in events if isinstance(each, Gone)] == ["items"]
    assert [each.after for each in events if isinstance(each, Change)] == [(2, "b")]


def test_a_table_that_changes_right_after_others_were_followed_is_followed_too(orders):
    orders.write("CREATE TABLE items (id INTEGER PRIMARY KEY)")
    found = orders.prepare()
    changes = found.changes(orders.position)
    others = ["ALTER TABLE items ADD COLUMN city"]

    def change(place):
        if place == "capture.sqlite.follow:after" and others:
            orders.write(others.pop())

    orders.write("ALTER TABLE orders ADD COLUMN city")
    with watched(change):
        changes.read(0)
    orders.write("INSERT INTO items VALUES (1, 'Graz')")
    events = [*changes.read(0), *changes.read(0)]
    assert not others
    assert [each.after for each in events if isinstance(each, Change)][-1] == (1, "Graz")


def test_a_table_that_is_not_there_is_told_with_those_that_are(orders):
    with pytest.raises(TableMissing, match=r'shop\.sqlite has no table "main\.items" \(it has main\.orders'):
        orders.prepare().table(TableId("main", "items"))


@pytest.fixture
def made_long_ago(captured, monkeypatch):
    """A table with the triggers of a version that took no heed of defaults, and a change that is not read yet."""
    captured.write("CREATE TABLE coded (id INTEGER PRIMARY KEY, code TEXT NOT NULL DEFAULT 'x' UNIQUE)")
    with monkeypatch.context() as patch:
        patch.setattr(triggers.Triggers, "_new_value", lambda self, place: f"NEW.{self._columns[place]}")
        captured.prepare()
    captured.write("INSERT INTO coded VALUES (1, 'x')")
    return captured


def test_triggers_of_an_older_version_are_made_anew_at_a_start_and_lose_nothing(made_long_ago):
    made_long_ago.source().prepare()
    made_long_ago.write("REPLACE INTO coded VALUES (2, NULL)")
    assert made_long_ago.told() == [("c", None, (1, "x")), ("d", (1, "x"), None), ("c", None, (2, "x"))]
    before = made_long_ago.trace()
    made_long_ago.source().prepare()
    assert made_long_ago.trace() == before


@pytest.mark.parametrize("side", ["before", "after"])
def test_to_make_older_triggers_anew_is_whole_or_did_not_happen(made_long_ago, side):
    before = made_long_ago.trace()

    def die(place):
        if place == f"capture.sqlite.make:{side}":
            raise RuntimeError(place)

    with pytest.raises(RuntimeError), watched(die):
        made_long_ago.source().prepare()
    assert (made_long_ago.trace() == before) == (side == "before")
    assert made_long_ago.told() == [("c", None, (1, "x"))]


def test_triggers_as_this_version_makes_them_are_left_as_they_are(captured):
    captured.write(
        'CREATE TABLE "it\'s ""odd" (id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE UNIQUE, b DEFAULT 5, UNIQUE (a, b))',
        "CREATE TABLE pairs (a TEXT, b INT, v, PRIMARY KEY (b, a)) WITHOUT ROWID",
        "CREATE UNIQUE INDEX folded ON pairs (lower(v) DESC) WHERE v <> ''",
    )
    captured.prepare()
    (version,) = captured.writer.execute("PRAGMA schema_version").fetchone()
    captured.source().prepare()
    assert captured.writer.execute("PRAGMA schema_version").fetchone() == (version,)
