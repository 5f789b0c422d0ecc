"""What goes wrong with a database of SQLite's is told in our words, with what to do."""

import sqlite3

import pytest

from runnel.capture.errors import DatabaseBusy, DatabaseUnusable, DiskFull, NotADatabase, PositionLost
from runnel.capture.sqlite import SqliteSource
from runnel.capture.sqlite.connecting import connect, told


@pytest.fixture
def path(tmp_path):
    connection = sqlite3.connect(tmp_path / "shop.sqlite")
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)")
    connection.close()
    return str(tmp_path / "shop.sqlite")


@pytest.fixture
def source(path):
    source = SqliteSource(path, "shop", lambda _: True)
    yield source
    source.close()


def read(source, table):
    source.prepare()
    with source.snapshot() as snapshot:
        return list(snapshot.rows(next(each for each in snapshot.tables() if each.id.name == table)))


def test_a_file_that_may_not_be_written_is_told_with_what_to_do(path):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    with pytest.raises(DatabaseUnusable, match=r"shop.sqlite may not be written: .*let this user write"), told(path):
        connection.execute("INSERT INTO orders VALUES (1, 'a')")
    connection.close()


def test_a_file_that_cannot_be_opened_is_told_with_what_to_do(path, monkeypatch):
    real = sqlite3.connect

    def refused(given, **options):
        return real(f"{given}/nothing", **options)  # root may read anything, but not in what is no directory

    monkeypatch.setattr(sqlite3, "connect", refused)
    with pytest.raises(DatabaseUnusable, match=r"shop.sqlite cannot be opened: .*let this user read and write"):
        connect(path)


def test_a_disk_that_fails_is_told_with_what_to_do(source, tmp_path):
    (tmp_path / "shop.sqlite-journal").mkdir()  # which SQLite takes for a fault of the disk
    with pytest.raises(DatabaseUnusable, match=r"shop.sqlite cannot be read or written: .*see to its disk"):
        source.prepare()


@pytest.mark.parametrize(
    "table", ["t (name TEXT COLLATE own PRIMARY KEY)", "t (id INTEGER PRIMARY KEY, g AS (own(id)))"]
)
def test_what_only_the_application_has_is_told_with_what_to_do(path, table):
    connection = sqlite3.connect(path)
    connection.create_collation("own", lambda one, other: (one > other) - (one < other))
    connection.create_function("own", 1, lambda value: value, deterministic=True)
    connection.execute(f"CREATE TABLE {table}")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    connection.close()
    source = SqliteSource(path, "shop", lambda _: True)
    with pytest.raises(DatabaseUnusable, match=r": own.*leave out the tables that use it"):
        read(source, "t")
    source.close()
    without = SqliteSource(path, "shop", lambda table: table.name != "t")
    without.prepare()
    without.close()


def test_a_disk_that_is_full_is_waited_for(path):
    connection = connect(path)
    connection.execute("PRAGMA max_page_count = 2")
    with pytest.raises(DiskFull, match=r"its disk is full.*make room"), told(path):
        connection.execute("INSERT INTO orders VALUES (1, ?)", ["x" * 10_000])
    connection.close()


def test_a_file_that_is_malformed_is_told_with_what_to_do(source, path, tmp_path):
    source.prepare()
    source.close()
    data = bytearray((tmp_path / "shop.sqlite").read_bytes())
    data[100:120] = b"\xff" * 20  # where the first page says what is on it
    (tmp_path / "shop.sqlite").write_bytes(data)
    with pytest.raises(DatabaseUnusable, match=r"shop.sqlite is malformed: .*restore it from a backup"):
        SqliteSource(path, "shop", lambda _: True).tables()


def test_a_change_log_that_is_not_there_is_a_position_that_is_lost(source, path):
    position = source.prepare()
    other = SqliteSource(path, "other", lambda _: True)
    with pytest.raises(PositionLost, match="it has no change log of this capture"):
        other.behind(position)
    other.close()


def test_a_capture_that_is_removed_while_it_reads_is_told(source, path):
    changes = source.changes(source.prepare())
    beside = SqliteSource(path, "shop", lambda _: True)
    beside.remove()
    beside.close()
    with pytest.raises(PositionLost, match="it has no change log of this capture, or has it no more"):
        changes.read(0)


def test_a_lock_and_a_file_of_another_kind_are_told(path, tmp_path):
    holding, waiting = connect(path), connect(path, patience=0)
    holding.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DatabaseBusy), told(path):
        waiting.execute("SELECT * FROM orders")
    holding.close()
    waiting.close()
    (tmp_path / "letter").write_text("Dear Anne, " * 100)
    with pytest.raises(NotADatabase):
        connect(str(tmp_path / "letter"))


def test_what_nobody_expects_is_told_as_such(path):
    connection = connect(path)
    with pytest.raises(DatabaseUnusable, match=r"refuses what a capture asks: near .*please report it"), told(path):
        connection.execute("SELEKT 1")
    connection.close()
