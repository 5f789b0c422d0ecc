import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from runnel.views.errors import NameTaken, StoreFull, StoreLocked, StoreRefused, StoreUnreachable, UnknownView
from runnel.views.sqlite import CACHE_KIB, LARGE_BATCH, LARGE_CACHE_KIB, SqliteStore
from runnel.views.store import Declared, Marker
from runnel.views.watching import Watch

NOBODY = 65_534
SCHEMA = pa.schema([("page", pa.string()), ("text", pa.string())])
PAGES = Declared("pages", ("page",), SCHEMA)


def rows(count: int, size: int = 10) -> pa.Table:
    return pa.table({"page": [str(number) for number in range(count)], "text": ["x" * size] * count})


def marker(batch: int) -> Marker:
    return Marker("q", batch, "c", {})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "views.sqlite"


@pytest.fixture
def store(path: Path) -> SqliteStore:
    return SqliteStore(str(path), patience=0.2)


def test_the_directory_is_made_when_a_view_is_claimed_and_not_before(store, path):
    assert store.names() == []
    with store.writer(PAGES, "q") as writer:
        assert not path.parent.exists()
        writer.claim()
    assert path.exists()


def test_a_large_batch_has_a_larger_cache_which_goes_with_the_next_small_one(store):
    def cache() -> int:
        return -writer._database.run("PRAGMA cache_size")[0][0]

    with store.writer(PAGES, "q") as writer:
        writer.claim()
        assert cache() == CACHE_KIB
        writer.apply(rows(LARGE_BATCH), marker(0))
        assert cache() == LARGE_CACHE_KIB
        writer.apply(rows(LARGE_BATCH - 1), marker(1))
        assert cache() == CACHE_KIB


def test_a_full_store_is_an_error_and_nothing_is_applied(store):
    with store.writer(PAGES, "q") as writer:
        writer.claim()
        writer.apply(rows(10), marker(0))
        database, reader = writer._database, store.reader("pages")
        ((pages,),) = database.run("PRAGMA page_count")
        database.run(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreFull, match="make room"):
            writer.apply(rows(1_000, size=1_000), marker(1))
        assert writer.marker() == marker(0)
        assert reader.rows().num_rows == 10
        database.run(f"PRAGMA max_page_count = {pages + 10_000}")
        writer.apply(rows(1_000, size=1_000), marker(1))
        assert reader.rows().num_rows == 1_000
        reader.close()


def test_a_store_that_another_process_writes_to_is_waited_for_and_then_told(store, path):
    with store.writer(PAGES, "q") as writer:
        writer.claim()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            with pytest.raises(StoreLocked, match=r"another process for 0\.2 s"):
                writer.apply(rows(1), marker(0))
        finally:
            other.close()
        writer.apply(rows(1), marker(0))


def test_a_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    writer = SqliteStore(str(tmp_path / "file" / "views.sqlite")).writer(PAGES, "q")
    with writer, pytest.raises(StoreRefused, match=r"cannot be made.*that this user can write to"):
        writer.claim()


def test_a_directory_in_the_place_of_the_file_is_told(tmp_path):
    writer = SqliteStore(str(tmp_path)).writer(PAGES, "q")
    with writer, pytest.raises(StoreRefused, match="see whether its directory is there"):
        writer.claim()


def test_a_directory_that_is_not_writable_is_told():
    with closed_directory() as directory:
        writer = SqliteStore(str(directory / "views.sqlite")).writer(PAGES, "q")
        with writer, pytest.raises(StoreRefused, match="may write to it"):
            writer.claim()


def test_a_directory_that_nobody_may_look_into_is_told_and_is_not_one_without_views():
    with closed_directory() as directory:
        directory.chmod(0)
        with pytest.raises(StoreRefused, match="to read, look into it"):
            SqliteStore(str(directory / "views.sqlite")).names()


@contextmanager
def closed_directory() -> Iterator[Path]:
    """A directory that nobody may write to; root, who may, is somebody else in the meantime."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        if user == 0:
            os.chown(name, NOBODY, NOBODY)
        os.chmod(name, 0o500)
        os.seteuid(NOBODY if user == 0 else user)
        try:
            yield Path(name)
        finally:
            os.seteuid(user)
            os.chmod(name, 0o700)


def test_a_file_that_is_no_database_is_told_and_left_alone(tmp_path):
    path = tmp_path / "views.sqlite"
    path.write_bytes(b"something else, longer than a header of SQLite's" * 100)
    store = SqliteStore(str(path))
    with store.writer(PAGES, "q") as writer, pytest.raises(StoreRefused, match=r"not a database.*another file"):
        writer.claim()
    with pytest.raises(StoreRefused):
        store.names()
    assert path.read_bytes().startswith(b"something else")


def test_a_path_with_signs_of_a_url_is_a_path(tmp_path):
    store = SqliteStore(str(tmp_path / "a?b#c%20d &mode=ro" / "views.sqlite"))
    with store.writer(PAGES, "q") as writer:
        writer.claim()
    assert store.names() == ["pages"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a?b#c%20d &mode=ro"]


def test_a_path_may_have_bytes_that_are_no_text(tmp_path):
    store = SqliteStore(os.path.join(tmp_path, os.fsdecode(b"\xff\xfe"), "views.sqlite"))
    with store.writer(PAGES, "q") as writer:
        writer.claim()
    assert store.names() == ["pages"]
    assert os.listdir(os.fsencode(tmp_path)) == [b"\xff\xfe"]


def test_readers_are_not_in_the_way_of_the_write_ahead_log(store, path):
    with store.writer(PAGES, "q") as writer:
        writer.claim()
        assert sqlite_mode(path) == "wal"


def test_names_that_differ_in_case_alone_are_one_to_sqlite(store):
    with store.writer(PAGES, "q") as writer:
        writer.claim()
    writer = store.writer(Declared("Pages", ("page",), SCHEMA), "q")
    with writer, pytest.raises(NameTaken, match="'pages' that is not ours"):
        writer.claim()


def test_a_reader_cannot_write(store):
    with store.writer(PAGES, "q") as writer:
        writer.claim()
    with store.reader("pages") as reader, pytest.raises(StoreRefused, match="readonly"):
        reader._database.run("DELETE FROM pages")


def sqlite_mode(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    finally:
        connection.close()


def test_a_reader_sees_the_file_that_is_there_now(store, path, tmp_path):
    """As after a backup was put back: what was read before is another store."""
    with store.writer(PAGES, "q") as writer:
        writer.claim()
        writer.apply(rows(2), marker(0))
    shutil.copy(path, tmp_path / "backup")
    with store.writer(PAGES, "q") as writer:
        writer.claim()
        writer.apply(rows(3), marker(1))
    with store.reader("pages") as reader:
        assert reader.count() == 3
        (tmp_path / "backup").replace(path)
        assert reader.count() == 2
        path.unlink()
        with pytest.raises(StoreUnreachable, match="it was moved away or removed"):
            reader.count()
        with pytest.raises(UnknownView):
            store.reader("pages")
        with store.writer(PAGES, "q") as writer:
            writer.claim()
        assert reader.count() == 0


def test_a_watcher_waits_for_a_directory_that_was_moved_away(store, path, tmp_path, monkeypatch):
    with store.writer(PAGES, "q") as writer:
        writer.claim()
        writer.apply(rows(2), marker(0))
    with Watch(lambda: store.reader("pages"), "pages") as watch:
        assert len(next(watch)) == 2
        path.parent.rename(tmp_path / "away")
        pauses = []

        def wait(seconds):
            pauses.append(seconds)
            if len(pauses) == 3:
                (tmp_path / "away").rename(path.parent)
                with store.writer(PAGES, "q") as writer:
                    writer.claim()
                    writer.apply(rows(3), marker(1))
            return False

        monkeypatch.setattr(watch._stopping, "wait", wait)
        assert [change.key for change in next(watch)] == [{"page": "2"}]
        assert len(pauses) == 3


@pytest.mark.parametrize("is_replaced", [True, False])
def test_nothing_is_written_to_a_file_that_nobody_can_find_any_more(store, path, tmp_path, is_replaced):
    with store.writer(PAGES, "q") as writer:
        writer.claim()
        writer.apply(rows(2), marker(0))
    shutil.copy(path, tmp_path / "backup")
    with store.writer(PAGES, "q") as writer:
        writer.claim()
        path.unlink()
        if is_replaced:
            (tmp_path / "backup").replace(path)
        with pytest.raises(StoreRefused, match="its file was replaced or removed while it was written to"):
            writer.apply(rows(3), marker(1))
    with store.writer(PAGES, "q") as writer:
        writer.claim()
        assert writer.marker() == (marker(0) if is_replaced else None)


def test_a_reader_that_was_let_go_of_for_forks_reads_again_until_it_is_closed(store):
    with store.writer(PAGES, "q") as writer:
        writer.claim()
        writer.apply(rows(3), marker(0))
    with closing(store._read()) as database:
        for _ in range(2):
            database.let_go()
            database.let_go()
            with database.reading():
                database.let_go()  # as where the thread forks that reads
                assert database.run("SELECT count(*) FROM pages") == [(3,)]
    database.let_go()
    with pytest.raises(StoreRefused, match="closed"), database.reading():
        pass
