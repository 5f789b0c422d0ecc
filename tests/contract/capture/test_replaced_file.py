"""A file of SQLite's that is replaced or deleted while it is captured: by hand, by the command and in an app."""

import itertools
import os
import signal
import sqlite3
import threading
from contextlib import closing, contextmanager

import pytest

from runnel import App
from runnel.app.capturing import CaptureFailed, capturing
from runnel.capture import capture as captures
from runnel.capture.errors import DatabaseMissing, PositionLost
from runnel.capture.selection import Selection
from runnel.capture.sqlite import SqliteSource, opened
from runnel.capture.state import read_state
from runnel.cli import main
from runnel.client.cluster import Cluster
from runnel.pipeline.kafka import Kafka
from tests.contract.capture.lives import LIMIT_SECONDS, capture_of, caught_up, running, wait_until
from tests.contract.capture.topics import committed

numbers = itertools.count()


@pytest.fixture(autouse=True)
def said_soon(monkeypatch):
    monkeypatch.setattr(opened, "AWAY_SECONDS", 0.02)
    monkeypatch.setattr(captures, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(captures, "WAIT_SECONDS", 0.05)


@pytest.fixture
def name():
    return f"replaced-{next(numbers)}"


@pytest.fixture
def path(tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO customers VALUES (1, 'Anne')")
    return tmp_path / "shop.sqlite"


def insert(path, number):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"INSERT INTO customers VALUES ({number}, 'Bob')")


def copied(path):
    target = path.with_name("copy.sqlite")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
    return target


@contextmanager
def meanwhile(work, stop):
    """In a thread; what runs here is stopped if it does not end by itself."""
    is_over = threading.Event()

    def run():
        work()
        if not is_over.wait(LIMIT_SECONDS):
            stop()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_capture_refuses_a_copy_of_long_ago_that_is_put_in_the_files_place(broker, path, name):
    source, looking = (SqliteSource(path, name, Selection().has) for _ in range(2))
    capture = capture_of(name, source, broker.bootstrap)

    def put_back():
        wait_until(capture.is_streaming.is_set)
        old = copied(path)
        insert(path, 2)
        caught_up(capture, looking)
        old.rename(path)

    lost = pytest.raises(PositionLost, match="as it was read before")
    with closing(source), closing(looking), meanwhile(put_back, capture.stop), lost:
        capture.run()


def test_a_capture_goes_on_with_a_copy_that_has_its_log(broker, path, name):
    with (
        closing(SqliteSource(path, name, Selection().has)) as source,
        running(capture_of(name, source, broker.bootstrap)) as capture,
    ):
        wait_until(capture.is_streaming.is_set)
        copied(path).rename(path)
        insert(path, 2)
        wait_until(lambda: capture.state.position.at["id"] == 2)
    topic = f"{name}.main.customers"
    assert [each.op for each in committed(broker.bootstrap, topic)[topic]] == ["r", "c"]


def test_the_command_says_that_the_file_is_gone(broker, path, name, monkeypatch, capfd):
    def take_away():
        with Cluster(broker.bootstrap) as cluster:
            wait_until(lambda: read_state(cluster, name).is_complete)
        path.unlink()

    words = ["runnel", "capture", "run", name, str(path), "--bootstrap", broker.bootstrap]
    monkeypatch.setattr("sys.argv", words)
    with meanwhile(take_away, lambda: os.kill(os.getpid(), signal.SIGTERM)), pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capfd.readouterr().err.splitlines()[-2:] == [
        f"error: there is no database {path}",
        "hint: give the path of a file that is there",
    ]


def test_an_app_says_that_the_file_is_gone(broker, path, name):
    app = App("shop")
    captured = app.capture(name, f"sqlite:{path}", tables=["customers"])
    app.view(captured.table("customers", key="id", schema="id long, name string").changes(), key="id", name="copy")(
        lambda changes: changes
    )
    failures = []
    with capturing(app.captures, Kafka(broker.bootstrap)) as captures:
        wait_until(lambda: captures.progress[0].doing == "reads changes")
        path.unlink()

        def has_failed():
            try:
                captures.look()
            except CaptureFailed as error:
                failures.append(error)
            return failures

        wait_until(has_failed)
    assert str(failures[0]).startswith(f'capture "{name}" has stopped: there is no database {path}')
    assert isinstance(failures[0].__cause__, DatabaseMissing)
