"""A file that is replaced, moved or deleted while it is captured is noticed."""

import itertools
import os
import shutil
import sqlite3
import time
from contextlib import closing
from unittest.mock import Mock

import pytest

from runnel.capture.errors import DatabaseMissing, DatabaseUnusable, NotADatabase, OtherDatabase, PositionLost
from runnel.capture.events import Change, Position
from runnel.capture.selection import Selection
from runnel.capture.sqlite import SqliteSource, opened
from runnel.capture.sqlite import source as sources
from runnel.capture.sqlite.errors import FileReplaced
from runnel.capture.tables import TableId
from runnel.capture.watching import Watching


class Read:
    """A file, and a capture of it that is running."""

    def __init__(self, path, journal):
        self.path = path
        self.writer = sqlite3.connect(path.resolve(), isolation_level=None)
        self.writer.execute(f"PRAGMA journal_mode = {journal}")
        self.writer.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)")
        self.source = SqliteSource(path, "shop", Selection().has)
        self.position = self.source.prepare()
        self.changes = self.source.changes(self.position)

    def insert(self, number):
        self.writer.execute("INSERT INTO orders VALUES (?, 'a')", [number])

    def read(self):
        """The numbers of the rows that came, by three looks."""
        found = []
        for _ in range(3):
            events = self.changes.read(0)
            found += [each.after[0] for each in events if isinstance(each, Change)]
            self.position = Position(events[-1].at) if events else self.position
        return found

    def copy(self, name):
        """The database as it is now, in a file of its own."""
        target = self.path.parent / name
        with closing(sqlite3.connect(target)) as copied:
            self.writer.backup(copied)
            copied.execute("PRAGMA journal_mode = DELETE")
        return target

    def start(self):
        """As a capture that begins again."""
        self.source.recognize(self.position)
        self.source.prepare()
        self.changes = self.source.changes(self.position)

    def close(self):
        self.source.close()
        self.writer.close()


@pytest.fixture(autouse=True)
def said_at_once(monkeypatch):
    monkeypatch.setattr(opened, "AWAY_SECONDS", 0.0)
    monkeypatch.setattr(opened, "BESIDE_SECONDS", 0.0)


@pytest.fixture
def reading(tmp_path):
    """Makes one."""
    made = []

    def make(journal="DELETE", path=tmp_path / "shop.sqlite"):
        made.append(Read(path, journal))
        return made[-1]

    yield make
    for each in made:
        each.close()


def remove_journals(path):
    for what in ("-wal", "-shm"):
        path.with_name(f"{path.name}{what}").unlink()


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_copy_of_long_ago_that_is_put_in_the_files_place_is_refused(reading, journal):
    shop = reading(journal)
    old = shop.copy("old.sqlite")
    shop.insert(1)
    assert shop.read() == [1]
    if journal == "WAL":
        remove_journals(shop.path)
    old.rename(shop.path)
    with pytest.raises(FileReplaced, match="it was replaced"):
        shop.read()
    with pytest.raises(PositionLost, match="does not have line 2 as it was read before"):
        shop.start()


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_copy_with_the_log_as_it_was_read_is_gone_on_with(reading, journal):
    shop = reading(journal)
    shop.insert(1)
    assert shop.read() == [1]
    same = shop.copy("same.sqlite")
    with closing(sqlite3.connect(same, isolation_level=None)) as writer:
        writer.execute("INSERT INTO orders VALUES (2, 'b')")
    if journal == "WAL":
        remove_journals(shop.path)
    same.rename(shop.path)
    with pytest.raises(FileReplaced):
        shop.read()
    shop.start()
    assert shop.read() == [2]


def written_into(path, old, way):
    """A file keeps its number."""
    if way == "cp":
        shutil.copy(old, path)
    else:
        with closing(sqlite3.connect(old)) as source, closing(sqlite3.connect(path)) as target:
            source.backup(target)


@pytest.mark.parametrize(
    ("journal", "way", "others"),
    [("DELETE", "cp", 0)] + [(journal, "restore", others) for journal in ("DELETE", "WAL") for others in (0, 1, 2)],
)
def test_a_copy_of_long_ago_that_is_written_into_the_file_is_refused(reading, journal, way, others):
    shop = reading(journal)
    old = shop.copy("old.sqlite")
    shop.insert(1)
    assert shop.read() == [1]
    written_into(shop.path, old, way)
    with closing(sqlite3.connect(shop.path, isolation_level=None)) as writer:
        for number in range(others):
            writer.execute("INSERT INTO orders VALUES (?, 'b')", [number])
    with pytest.raises(PositionLost, match="does not have line 2 as it was read before"):
        shop.read()


def test_a_line_that_a_newer_copy_of_the_capture_has_trimmed_is_no_older_state(reading, monkeypatch):
    """That it is the older one, the cluster tells it."""
    monkeypatch.setattr(sources, "TRIM_SECONDS", 0.0)
    shop = reading()
    shop.insert(1)
    newer = SqliteSource(shop.path, "shop", Selection().has)
    with closing(newer):
        events = newer.changes(shop.position).read(0)
        newer.confirm(Position(events[-1].at))
    assert shop.read() == [1]


def test_another_file_is_refused_before_anything_is_made_in_it(reading, tmp_path):
    shop = reading()
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as other:
        other.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)")
    before = (tmp_path / "other.sqlite").read_bytes()
    (tmp_path / "other.sqlite").rename(shop.path)
    with pytest.raises(FileReplaced):
        shop.read()
    with pytest.raises(OtherDatabase, match="it has no change log of this capture"):
        shop.start()
    assert shop.path.read_bytes() == before


def test_a_file_is_not_opened_with_the_wal_of_the_one_before(reading):
    shop = reading("WAL")
    old = shop.copy("old.sqlite")
    before = old.read_bytes()
    shop.insert(1)
    assert shop.read() == [1]
    old.rename(shop.path)
    with pytest.raises(FileReplaced):
        shop.read()
    for _ in range(2):
        with pytest.raises(
            DatabaseUnusable, match=r"shop\.sqlite-wal is still that of the file before .*remove its -wal"
        ):
            shop.start()
    shop.close()
    assert shop.path.read_bytes() == before


def test_a_file_that_is_deleted_is_told(reading):
    shop = reading()
    shop.insert(1)
    assert shop.read() == [1]
    shop.path.unlink()
    with pytest.raises(DatabaseMissing, match="there is no database"):
        shop.read()
    with pytest.raises(DatabaseMissing):
        shop.start()


def test_a_file_that_is_away_for_a_moment_is_gone_on_with(reading, tmp_path, monkeypatch):
    monkeypatch.setattr(opened, "AWAY_SECONDS", 600.0)
    shop = reading()
    shop.path.rename(tmp_path / "away.sqlite")
    assert not shop.changes.read(0)
    (tmp_path / "away.sqlite").rename(shop.path)
    shop.insert(1)
    assert shop.read() == [1]


def test_a_new_file_and_its_writer_are_left_alone_until_it_is_said(reading, monkeypatch):
    """SQLite finds a journal by its path: that of the new file's writer would be taken for one that was left behind."""
    monkeypatch.setattr(opened, "AWAY_SECONDS", 600.0)
    monkeypatch.setattr(sources, "TRIM_SECONDS", 0.0)
    shop = reading()
    shop.insert(1)
    assert shop.read() == [1]
    shop.copy("same.sqlite").rename(shop.path)
    table = shop.source.table(TableId("main", "orders"))
    with closing(sqlite3.connect(shop.path, isolation_level=None)) as writer:
        writer.execute("PRAGMA synchronous = OFF")  # his journal is one from its beginning on
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO orders VALUES (2, 'b')")
        assert shop.read() == []
        shop.source.confirm(shop.position)
        assert shop.source.chunk(table, None, 10, "tag") is None
        assert shop.path.with_name("shop.sqlite-journal").exists()
        writer.execute("COMMIT")
    monkeypatch.setattr(opened, "AWAY_SECONDS", 0.0)
    with pytest.raises(FileReplaced):
        shop.read()
    shop.start()
    assert shop.read() == [2]


def test_what_sqlite_notices_itself_is_told_alike(reading, monkeypatch):
    monkeypatch.setattr(sources, "TRIM_SECONDS", 0.0)
    monkeypatch.setattr(opened.OpenFile, "is_there", lambda _: True)  # it goes right after it was looked for
    shop = reading()
    shop.insert(1)
    assert shop.read() == [1]
    copy = shop.copy("same.sqlite")
    shop.path.unlink()
    with pytest.raises(DatabaseMissing):
        shop.source.confirm(shop.position)
    copy.rename(shop.path)
    with pytest.raises(FileReplaced):
        shop.source.confirm(shop.position)


def test_whoever_asks_how_far_behind_it_is_is_told_too(reading):
    shop = reading()
    shop.copy("same.sqlite").rename(shop.path)
    with pytest.raises(FileReplaced):
        shop.source.behind(shop.position)


def test_a_file_system_that_gives_other_numbers_each_time_says_nothing(reading, monkeypatch):
    numbers = itertools.count()
    monkeypatch.setattr(opened, "number_of", lambda path: (0, next(numbers)))
    shop = reading()
    for number in range(5):
        shop.insert(number)
        assert shop.read() == [number]
    shop.start()


def test_numbers_that_never_stay_the_same_do_not_keep_it_waiting_for_ever(reading, monkeypatch):
    monkeypatch.setattr(opened, "AWAY_SECONDS", 0.01)
    shop, numbers = reading(), itertools.count()
    monkeypatch.setattr(opened.OpenFile, "_found", lambda _: (0, next(numbers)))
    with pytest.raises(FileReplaced):
        shop.changes.read(600.0)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_a_copy_that_is_on_its_way_is_waited_for(reading, share, monkeypatch):
    monkeypatch.setattr(opened, "WRITTEN_SECONDS", 600.0)
    shop = reading()
    shop.insert(1)
    assert shop.read() == [1]
    copy = shop.copy("same.sqlite").read_bytes()
    shop.path.unlink()
    shop.path.write_bytes(copy[: int(len(copy) * share)])
    with pytest.raises(FileReplaced):
        shop.read()
    with pytest.raises(FileReplaced):
        shop.start()
    with shop.path.open("r+b") as file:
        file.write(copy)
    shop.start()
    with closing(sqlite3.connect(shop.path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO orders VALUES (2, 'b')")
    assert shop.read() == [2]


@pytest.mark.parametrize("ahead", [-86_400, 86_400])  # of our clock, as where that was set back
def test_half_a_file_that_nobody_writes_to_is_told_to_be_broken(reading, ahead):
    shop = reading()
    copy = shop.copy("same.sqlite").read_bytes()
    shop.path.unlink()
    shop.path.write_bytes(copy[: len(copy) // 2])
    os.utime(shop.path, (time.time() + ahead,) * 2)
    with pytest.raises(FileReplaced):
        shop.read()
    with pytest.raises((DatabaseUnusable, NotADatabase)):
        shop.start()


def test_who_watches_a_capture_does_not_open_a_file_with_the_wal_of_the_one_before(reading):
    shop = reading("WAL")
    old = shop.copy("old.sqlite")
    before = old.read_bytes()
    shop.insert(1)
    assert shop.read() == [1]
    work = Mock(state=Mock(position=shop.position), progress=Mock(read=0, estimate=0))
    publisher = Mock(events={}, rejected={})
    watching = Watching(work, publisher, Mock(), lambda: SqliteSource(shop.path, "shop", Selection().has))
    watching.look()
    assert watching.numbers.behind == 0
    old.rename(shop.path)
    for _ in range(5):
        watching.look()
        assert watching.numbers.behind is None
    shop.close()
    assert shop.path.read_bytes() == before


def test_nor_does_it_when_the_file_is_replaced_once_more(reading):
    shop = reading("WAL")
    shop.insert(1)
    assert shop.read() == [1]
    first, second = shop.copy("first.sqlite"), shop.copy("second.sqlite")
    work = Mock(state=Mock(position=shop.position), progress=Mock(read=0, estimate=0))
    publisher = Mock(events={}, rejected={})
    watching = Watching(work, publisher, Mock(), lambda: SqliteSource(shop.path, "shop", Selection().has))
    watching.look()
    shop.close()
    remove_journals(shop.path)
    first.rename(shop.path)
    watching.look()
    assert watching.numbers.behind == 0
    before = second.read_bytes()
    with closing(sqlite3.connect(shop.path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("INSERT INTO orders VALUES (2, 'b')")
        watching.look()
        assert watching.numbers.behind == 1
        second.rename(shop.path)
        for _ in range(5):
            watching.look()
            assert watching.numbers.behind is None
        assert shop.path.read_bytes() == before


def test_a_link_that_leads_elsewhere_is_noticed(reading, tmp_path):
    link = tmp_path / "shop.sqlite"
    link.symlink_to(tmp_path / "first.sqlite")
    shop = reading("WAL", link)
    shop.insert(1)
    assert shop.read() == [1]
    shutil.copy(shop.copy("second.sqlite"), tmp_path / "third.sqlite")
    link.unlink()
    link.symlink_to(tmp_path / "third.sqlite")
    with pytest.raises(FileReplaced):
        shop.read()
    shop.start()
    with closing(sqlite3.connect(link, isolation_level=None)) as writer:
        writer.execute("INSERT INTO orders VALUES (2, 'b')")
    assert shop.read() == [2]


def test_the_wal_of_a_file_behind_a_link_is_looked_at(reading, tmp_path, monkeypatch):
    """Its commits do not change the file's own time."""
    monkeypatch.setattr("runnel.capture.sqlite.changes.FRESH_SECONDS", -1.0)
    link = tmp_path / "shop.sqlite"
    link.symlink_to(tmp_path / "first.sqlite")
    shop = reading("WAL", link)
    assert shop.read() == []
    shop.insert(1)
    assert shop.read() == [1]
