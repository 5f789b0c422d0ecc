"""`runnel capture`, as people type it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from runnel.capture.at_work import at_work, opened
from runnel.capture.options import Options
from runnel.capture.publisher import admin_of
from runnel.capture.selection import Selection
from runnel.capture.signals import Signals
from runnel.capture.sqlite import SqliteSource
from runnel.capture.state import read_state, topic_of
from runnel.cli import capture, main
from runnel.client import Admin, Producer
from runnel.client.cluster import Cluster
from tests.contract.capture.lives import (
    BY_CHUNKS,
    INITIAL,
    LIMIT_SECONDS,
    capture_of,
    caught_up,
    lived_here,
    running,
    wait_until,
)
from tests.contract.capture.topics import committed


@pytest.fixture
def path(tmp_path):
    connection = sqlite3.connect(tmp_path / "shop.sqlite")
    with connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("CREATE TABLE clicks (id INTEGER PRIMARY KEY, secret TEXT)")
        connection.execute("INSERT INTO orders VALUES (1, 'a')")
        connection.execute("INSERT INTO clicks VALUES (1, 'b')")
    connection.close()
    return tmp_path / "shop.sqlite"


def started(broker, *words):
    program = "from runnel.cli import main; main()"
    command = [sys.executable, "-c", program, "capture", *map(str, words), "--bootstrap", broker.bootstrap]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.fixture
def run(monkeypatch, capsys):
    """A command in this process: its exit code, and what it prints."""

    def run(broker, *words):
        monkeypatch.setattr("sys.argv", ["runnel", "capture", *map(str, words), "--bootstrap", broker.bootstrap])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run


def test_a_capture_runs_tells_how_far_it_is_and_is_removed(broker, path, run):
    lines: list[str] = []
    with started(
        broker, "run", "typed", path, "--mask", "clicks.secret", "--transactions", "--partitions", "1"
    ) as process:
        reading = threading.Thread(target=lambda: lines.extend(iter(process.stderr.readline, "")))
        reading.start()
        try:
            wait_until(lambda: any(line == "reading changes: 2 rows are read\n" for line in lines), "the stream")
            connection = sqlite3.connect(path)
            with connection:
                connection.execute("UPDATE orders SET name = 'b'")
            connection.close()
            wait_until(lambda: len(committed(broker.bootstrap, "typed.main.orders")["typed.main.orders"]) == 2)
        finally:
            process.send_signal(signal.SIGTERM)
            reading.join()
    assert process.returncode == 0
    topics = committed(broker.bootstrap, "typed.")
    assert [each.op for each in topics["typed.main.orders"]] == ["r", "u"]
    assert topics["typed.main.clicks"][0].value["after"] == {"id": 1, "secret": "***"}
    assert len(topics["typed.transaction"]) == 2

    code, out, _ = run(broker, "status", "typed", path, "--json")
    told = json.loads(out)
    assert (code, told["connector"], told["behind"]) == (0, "sqlite", 0)
    assert [(each["table"], each["state"], each["rows"]) for each in told["tables"]] == [
        ("main.clicks", "complete", 1),
        ("main.orders", "complete", 1),
    ]
    code, out, _ = run(broker, "status", "typed")
    assert (code, out.splitlines()[0]) == (0, "typed: sqlite, reads changes")
    (path.parent / "other.sqlite").touch()
    code, _, err = run(broker, "status", "typed", path.parent / "other.sqlite")
    assert (code, 'capture "typed" reads: it has no change log of this capture' in err) == (1, True)
    assert run(broker, "remove", "typed", path) == (0, 'removed capture "typed"\n', "")
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE '%runnel%'").fetchone() == (0,)
    connection.close()
    code, _, err = run(broker, "status", "typed")
    assert (code, err.splitlines()[0]) == (1, 'error: there is no capture "typed"')
    code, out, err = run(broker, "remove", "typed", path)
    assert (code, out, err.splitlines()[0]) == (1, "", 'error: there is no capture "typed"')


@pytest.mark.parametrize("way", [INITIAL, BY_CHUNKS], ids=["at-one-position", "by-chunks"])
def test_status_tells_how_much_is_read_of_the_tables_and_how_long_the_rest_takes(broker, path, run, way, monkeypatch):
    name = f"status-{way.mode.value}"
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DROP TABLE clicks")
        connection.executemany("INSERT INTO orders VALUES (?, 'a')", [(number,) for number in range(2, 41)])
    connection.close()
    assert lived_here(str(path), name, broker.bootstrap, "capture.commit:after:4", small=10, way=way)
    code, out, _ = run(broker, "status", name, "--json")
    told = json.loads(out)
    assert code == 0
    (table,) = told["tables"]
    assert (table["state"], table["percent"]) == ("reading", table["rows"] * 100 / 40)
    assert 0 < table["rows"] < 40
    assert told["seconds_left"] > 0
    doing = "reads tables" if way is INITIAL else "reads changes, and tables beside them"
    first, second, *_ = run(broker, "status", name)[1].splitlines()
    assert first == f"{name}: sqlite, {doing}"
    rows = f"reading tables: {table['rows']} rows of about 40 ({table['percent']:.0f} %)"
    assert re.fullmatch(re.escape(rows) + r", \d.* left", second)
    monkeypatch.setattr(capture, "PACE_SECONDS", 0.0)  # it has written nothing for longer than that
    assert run(broker, "status", name)[1].splitlines()[1] == rows
    assert not lived_here(str(path), name, broker.bootstrap, way=way)
    told = json.loads(run(broker, "status", name, "--json")[1])
    assert (told["tables"][0]["percent"], told["seconds_left"], told["last_change"]) == (100.0, None, None)


def test_status_tells_how_late_the_last_change_was_in_the_topics(broker, path, run):
    """By a clock that is seven seconds ahead of the database's."""
    source, looking = (SqliteSource(path, "late", Selection().has) for _ in range(2))
    ahead = 7_000_000
    with running(capture_of("late", source, broker.bootstrap, micros=lambda: time.time_ns() // 1000 + ahead)) as work:
        wait_until(work.is_streaming.is_set)
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("UPDATE orders SET name = 'b'")
        connection.close()
        caught_up(work, looking)
    for each in (source, looking):
        each.close()
    told = json.loads(run(broker, "status", "late", "--json")[1])["last_change"]
    assert 7.0 <= told["seconds_later"] < 7.0 + LIMIT_SECONDS
    _, out, _ = run(broker, "status", "late")
    last = f"last change: {told['committed']}, in the topics {told['seconds_later']:.1f} s later"
    assert out.splitlines()[1] == last
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", told["committed"])


@pytest.mark.servers  # it takes its time
def test_what_is_asked_of_a_capture_is_written_as_signals(broker, path, run):
    lines: list[str] = []
    with started(
        broker, "run", "asked", path, "--snapshot", "incremental", "--chunk", "1", "--partitions", "1"
    ) as process:
        reading = threading.Thread(target=lambda: lines.extend(iter(process.stderr.readline, "")))
        reading.start()
        try:
            wait_until(lambda: any(": 2 rows" in line for line in lines), "the rows")
            asked = 'asked capture "asked": '
            assert run(broker, "pause", "asked") == (0, f"{asked}pause-snapshot\n", "")
            assert run(broker, "snapshot", "asked", "--tables", "orders", "--where", "id > 0") == (
                0,
                f"{asked}execute-snapshot\n",
                "",
            )
            wait_until(lambda: status(run, broker)["tables"][1]["state"] == "pending", "the signals")
            told = status(run, broker)
            assert told["paused"] is True
            assert [each["percent"] for each in told["tables"]] == [100.0, None]
            _, out, _ = run(broker, "status", "asked")
            assert out.splitlines()[0] == "asked: sqlite, reads changes; reading tables is paused"
            run(broker, "stop", "asked", "--tables", "orders")
            wait_until(lambda: status(run, broker)["tables"][1]["state"] == "complete", "the stop")
            run(broker, "snapshot", "asked")
            run(broker, "resume", "asked")
            topics = ("asked.main.orders", "asked.main.clicks")
            wait_until(
                lambda: all(len(committed(broker.bootstrap, each)[each]) == 2 for each in topics), "the rows again"
            )
        finally:
            process.send_signal(signal.SIGTERM)
            reading.join()
    assert process.returncode == 0
    assert run(broker, "remove", "asked", path)[0] == 0
    assert committed(broker.bootstrap, "runnel.capture.asked") == {}
    code, _, err = run(broker, "pause", "asked")
    assert (code, err.splitlines()[0]) == (1, 'error: there is no capture "asked"')


def test_tables_are_shown_added_and_removed_by_what_people_type(broker, path, run):
    name = "shown"
    options = Options(name, f"sqlite:{path}", Selection(tables=[r"main\.orders"]), prefix="db")
    source = opened(options)
    with Cluster(broker.bootstrap) as cluster:
        work, _ = at_work(options, source, cluster, lambda: admin_of(broker.bootstrap))
        with running(work):
            wait_until(work.is_streaming.is_set)
            told = [{"table": "main.orders", "topic": "db.main.orders", "state": "complete"}]
            code, out, _ = run(broker, "tables", name, "--json")
            assert (code, json.loads(out)) == (0, told)
            asked = f'asked capture "{name}": add-tables\nasked capture "{name}": remove-tables\n'
            words = ("--add", "clicks", "--remove", r"main\.order.*")
            assert run(broker, "tables", name, *words) == (0, asked, "")
            wait_until(lambda: work.state.tables.keys() == {"main.clicks"} and work.state.is_complete)
    source.close()
    code, out, _ = run(broker, "tables", name)
    assert [line.split() for line in out.splitlines() if "main." in line] == [
        ["main.clicks", "db.main.clicks", "complete"]
    ]
    code, out, _ = run(broker, "status", name)
    assert out.splitlines()[1] == r"asked for while it ran: added .*\.clicks; removed main\.order.*"
    told = json.loads(run(broker, "status", name, "--json")[1])
    assert told["asked"] == [{"tables": r".*\.clicks", "added": True}, {"tables": r"main\.order.*", "added": False}]
    code, _, err = run(broker, "tables", name, "--add", "clicks", "--remove", "(")
    assert (code, 'error: table "(" cannot be used: ' in err) == (1, True)
    with Cluster(broker.bootstrap) as cluster:
        assert Signals(cluster, name).behind(0)[1] == 2  # of which nothing was written
    code, out, _ = run(broker, "tables", name, "--add", "orders", "--json")
    assert (code, json.loads(out)) == (0, {"name": name, "asked": [{"tables": r".*\.orders", "added": True}]})
    for words in ([], ["--add", "orders"]):
        code, _, err = run(broker, "tables", "nobody", *words)
        assert (code, err.splitlines()[0]) == (1, 'error: there is no capture "nobody"')


def status(run, broker):
    code, out, _ = run(broker, "status", "asked", "--json")
    assert code == 0
    return json.loads(out)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "x", "nothing.sqlite"], "error: there is no database nothing.sqlite\nhint: give the path of a file"),
        (
            ["run", "x", "{path}", "--tables", "nothing"],
            'has no table "nothing"\nhint: it has main.clicks, main.orders',
        ),
        (["run", "a b", "{path}"], 'error: "a b" cannot be the name of a capture'),
        (["run", "x.signals", "{path}"], 'error: "x.signals" cannot be the name of a capture'),
        (["run", "x", "{path}", "--prefix", "a/b"], 'error: "a/b" cannot be the prefix of a capture'),
        (["run", "x", "oracle://somewhere"], 'error: "oracle" is no kind of database that can be captured'),
        (["run", "x", "{path}", "--tables", "("], "cannot be used: "),
        (["run", "x", "{path}", "--key", "orders:nothing"], 'error: key column "nothing" cannot be used'),
    ],
)
def test_mistakes_are_told_in_two_lines(broker, path, run, words, told):
    code, out, err = run(broker, *(word.format(path=path) for word in words))
    assert (code, out) == (1, "")
    assert told in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["status", "remove"])
def test_a_capture_of_another_kind_of_database_is_neither_looked_at_nor_removed(broker, path, run, command):
    name = f"elsewhere-{command}"
    at = json.dumps({"connector": "postgresql", "at": {"lsn": 1}, "index": 0, "step": 1})
    with Admin(broker.bootstrap) as admin, Producer(broker.bootstrap) as producer:
        admin.create(topic_of(name), partitions=1)
        producer.send(topic_of(name), at.encode(), key=b"position")
    code, out, err = run(broker, command, name, path)
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        f'error: capture "{name}" has read from postgresql before, and this is sqlite',
        "hint: give the address of the database it reads",
    ]
    with Cluster(broker.bootstrap) as cluster:
        assert read_state(cluster, name).connector == "postgresql"


@pytest.fixture
def captured(broker, path, request):
    """The name of a capture of the file that has run."""
    name = f"of-{request.node.callspec.id}" if hasattr(request.node, "callspec") else "of-one"
    source = SqliteSource(path, name, Selection().has)
    with running(capture_of(name, source, broker.bootstrap)) as capture:
        wait_until(capture.is_streaming.is_set)
    source.close()
    return name


def traces(path):
    """How many tables and triggers of ours are in a file."""
    connection = sqlite3.connect(path)
    (count,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE '%runnel%'").fetchone()
    connection.close()
    return count


def other_file(path, name, *, has_log):
    other = path.parent / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connection.close()
    if has_log:
        source = SqliteSource(other, name, Selection().has)
        source.prepare()
        source.close()
    return other


@pytest.mark.parametrize(
    ("has_log", "reason"),
    [
        pytest.param(False, "it has no change log of this capture", id="without"),
        pytest.param(True, "its change log is another one", id="other", marks=pytest.mark.servers),
    ],
)
def test_another_file_than_the_captured_one_is_refused_and_nothing_is_made_in_it(
    broker, path, run, captured, has_log, reason
):
    other = other_file(path, captured, has_log=has_log)
    before = traces(path), traces(other)
    for command in ("remove", "run", "status"):
        code, out, err = run(broker, command, captured, other)
        assert (code, out) == (1, "")
        assert err.splitlines()[-2:] == [
            f'error: {other} is not the database that capture "{captured}" reads: {reason}',
            "hint: give the one that it reads; a file that was moved or copied with its change log will do. If that "
            f"log is lost, `runnel capture remove {captured} {other} --force` forgets how far the capture was",
        ]
    assert (traces(path), traces(other)) == before
    with Cluster(broker.bootstrap) as cluster:
        assert set(read_state(cluster, captured).tables) == {"main.clicks", "main.orders"}
    assert run(broker, "remove", captured, other, "--force") == (0, f'removed capture "{captured}"\n', "")
    assert traces(other) == 0
    with Cluster(broker.bootstrap) as cluster:
        assert read_state(cluster, captured).position is None


@pytest.mark.servers  # it takes its time
def test_a_file_that_was_moved_is_the_captured_one(broker, path, run, captured):
    moved = shutil.move(path, path.parent / "moved.sqlite")
    code, out, _ = run(broker, "status", captured, moved, "--json")
    assert (code, json.loads(out)["behind"]) == (0, 0)
    assert run(broker, "remove", captured, moved) == (0, f'removed capture "{captured}"\n', "")
    assert traces(moved) == 0
