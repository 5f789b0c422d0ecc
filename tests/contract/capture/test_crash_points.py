"""Killed at any durable step, a capture comes to what an undisturbed life gives: nothing lost, nothing twice."""

import re
import sqlite3
from pathlib import Path

import pytest

import runnel.capture
from runnel.capture.chosen import Mode
from runnel.capture.state import read_state
from runnel.client.cluster import Cluster
from tests.contract.capture.lives import BY_CHUNKS, Way, lived, lived_here
from tests.contract.capture.signalling import signal
from tests.contract.capture.topics import check_transactions, committed, rebuilt

# Of each step the times at which it is interrupted, in a life that reads tables and in one that only goes on.
FIRST_LIFE = {
    "capture.init": [1],
    "capture.topic": [1, 2, 3],
    "capture.sqlite.make": [1],
    "capture.write": [2, 4],
    "capture.state": [1, 3],
    "capture.commit": [1, 2, 3, 5],
}
SECOND_LIFE = {
    "capture.write": [1],
    "capture.commit": [1, 2],
    "capture.confirm": [1],
    "capture.sqlite.trim": [1],
}
# A life that reads tables by chunks, and tells what happened while nobody read.
CHUNKS_LIFE = {
    "capture.init": [1],
    "capture.write": [1, 2, 3],
    "capture.state": [1, 2],
    "capture.commit": [1, 2, 3, 4],
    "capture.confirm": [1],
    "capture.sqlite.trim": [1],
}
# A life that heeds a signal.
SIGNAL_LIFE = {"capture.write": [1], "capture.state": [1], "capture.commit": [1, 2, 3]}
# A life that heeds one signal that adds a table, and one that removes another.
CHOICE_LIFE = {
    "capture.init": [2, 3],
    "capture.sqlite.make": [1, 2],
    "capture.state": [1, 2, 3],
    "capture.commit": [1, 2, 3, 4],
}
ELSEWHERE = {"capture.sqlite.remove", "capture.sqlite.follow"}  # tests/unit/capture/sqlite/test_keeping.py


def first_times(points):
    """Few of them, for a quick look: the others are tried with killed processes."""
    return steps({name: times[:1] for name, times in points.items()})


def few(points, *quick):
    """The first times of all steps; those that are not to be tried each time are of the tier that takes longer."""
    return [step if step in quick else pytest.param(step, marks=pytest.mark.servers) for step in first_times(points)]


def steps(points):
    return [f"{name}:{side}:{time}" for name, times in points.items() for time in times for side in ("before", "after")]


def test_every_durable_step_of_a_capture_is_tried():
    """Of all captures. Those of PostgreSQL are tried in a file of their own; MariaDB's has none beside those of all."""
    folder = Path(runnel.capture.__file__).parent
    known = [each for each in folder.glob("**/*.py") if each.relative_to(folder).parts[0] != "postgres"]
    assert any("mariadb" in each.parts for each in known)
    names = {name for source in known for name in re.findall(r"\bdurable\(([^)]*)\)", source.read_text())}
    assert names == {f'"{name}"' for name in (*FIRST_LIFE, *SECOND_LIFE, *ELSEWHERE)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "shop.sqlite"


def execute(path, *statements):
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def make(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    execute(
        path,
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)",
        "CREATE TABLE loose (x)",
        *(f"INSERT INTO orders VALUES ({number}, 'a')" for number in range(1, 13)),
        *(f"INSERT INTO loose VALUES ({number % 2})" for number in range(7)),
    )


def check(path, name, broker, columns=("id", "name"), has_loose=True):
    topics = committed(broker.bootstrap, f"{name}.")
    with Cluster(broker.bootstrap) as cluster:
        state = read_state(cluster, name)
    assert state.is_complete
    connection = sqlite3.connect(path)
    orders = connection.execute(f"SELECT {', '.join(columns)} FROM orders").fetchall()
    loose = connection.execute("SELECT x FROM loose").fetchall()
    connection.close()
    found = rebuilt(topics[f"{name}.main.orders"], complete_from=state.tables["main.orders"].since["id"])
    assert {tuple(row.get(column) for column in columns) for row in found.rows.values()} == set(orders)
    if has_loose:
        bag = rebuilt(topics[f"{name}.main.loose"]).bag
        found = sorted(text for text, count in bag.items() for _ in range(count))
        assert found == sorted(f'{{"x": {x}}}' for (x,) in loose)
    check_transactions(topics, name)


def interrupt_a_snapshot(live, path, name, broker, step):
    make(path)
    assert live(path, name, broker.bootstrap, step)
    execute(path, "UPDATE orders SET name = 'b' WHERE id % 3 = 0", "DELETE FROM orders WHERE id IN (1, 12)")
    execute(path, "INSERT INTO orders VALUES (20, 'c')", "INSERT INTO loose VALUES (0)")
    execute(path, "DELETE FROM loose WHERE x = 1")
    # It comes back, and dies again at its next commit: in the middle of catching up, or of reading.
    assert live(path, name, broker.bootstrap, "capture.commit:before:2")
    execute(path, "UPDATE orders SET name = 'd' WHERE id % 2 = 0", "INSERT INTO loose VALUES (5)")
    assert not live(path, name, broker.bootstrap)
    check(path, name, broker)


def interrupt_a_stream(live, path, name, broker, step):
    make(path)
    assert not live(path, name, broker.bootstrap)
    execute(path, "ALTER TABLE orders ADD COLUMN city", "UPDATE orders SET name = 'b', city = 'Graz' WHERE id % 2 = 0")
    execute(path, "DELETE FROM orders WHERE id < 4", "INSERT INTO loose VALUES (0)")
    assert live(path, name, broker.bootstrap, step)
    execute(path, "UPDATE orders SET name = 'c' WHERE id % 5 = 0")
    assert not live(path, name, broker.bootstrap)
    check(path, name, broker, ("id", "name", "city"))


def interrupt_chunks(live, path, name, broker, step):
    make(path)
    assert live(path, name, broker.bootstrap, "capture.commit:before:4", way=BY_CHUNKS)
    execute(path, "UPDATE orders SET name = 'b' WHERE id % 3 = 0", "DELETE FROM orders WHERE id IN (1, 12)")
    execute(path, "INSERT INTO orders VALUES (20, 'c')", "UPDATE orders SET id = 0 WHERE id = 11")
    assert live(path, name, broker.bootstrap, step, way=BY_CHUNKS)
    execute(path, "UPDATE orders SET name = 'd' WHERE id % 2 = 0", "UPDATE orders SET id = 30 WHERE id = 2")
    assert not live(path, name, broker.bootstrap, way=BY_CHUNKS)
    check(path, name, broker, has_loose=False)


def interrupt_a_signal(live, path, name, broker, step):
    make(path)
    none = Way(Mode.NONE)
    assert not live(path, name, broker.bootstrap, way=none)
    signal(broker.bootstrap, name, "execute-snapshot", {"data-collections": ["main.orders"]})
    assert live(path, name, broker.bootstrap, step, way=none._replace(signals=1))
    execute(path, "UPDATE orders SET name = 'b' WHERE id % 3 = 0")
    assert not live(path, name, broker.bootstrap, way=none._replace(signals=1))
    check(path, name, broker, has_loose=False)


def interrupt_a_choice(live, path, name, broker, step):
    make(path)
    way = Way(without=(r"main\.orders",))
    assert not live(path, name, broker.bootstrap, way=way)
    loose = committed(broker.bootstrap, f"{name}.main.loose")
    assert len(loose[f"{name}.main.loose"]) == 7
    signal(broker.bootstrap, name, "add-tables", {"data-collections": [r"main\.orders"]})
    signal(broker.bootstrap, name, "remove-tables", {"data-collections": [r"main\.loose"]})
    assert live(path, name, broker.bootstrap, step, way=way._replace(signals=2))
    execute(path, "UPDATE orders SET name = 'b' WHERE id % 3 = 0", "DELETE FROM orders WHERE id = 1")
    execute(path, "INSERT INTO loose VALUES (5)", "INSERT INTO orders VALUES (20, 'c')")
    assert not live(path, name, broker.bootstrap, way=way._replace(signals=2))
    check(path, name, broker, has_loose=False)
    assert committed(broker.bootstrap, f"{name}.main.loose") == loose
    connection = sqlite3.connect(path)
    triggers = connection.execute("SELECT DISTINCT tbl_name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    connection.close()
    assert triggers == [("orders",)]


@pytest.mark.parametrize("step", [*first_times(FIRST_LIFE), "capture.commit:before:3", "capture.commit:after:3"])
def test_a_snapshot_goes_on_wherever_it_was_cut_off(broker, path, step):
    interrupt_a_snapshot(lived_here, path, "first-" + step.replace(":", "-"), broker, step)


@pytest.mark.parametrize("step", first_times(SECOND_LIFE))
def test_a_stream_goes_on_wherever_it_was_cut_off(broker, path, step):
    interrupt_a_stream(lived_here, path, "second-" + step.replace(":", "-"), broker, step)


@pytest.mark.parametrize("step", few(CHUNKS_LIFE, "capture.commit:before:1", "capture.commit:after:1"))
def test_chunks_go_on_wherever_they_were_cut_off(broker, path, step):
    interrupt_chunks(lived_here, path, "chunks-" + step.replace(":", "-"), broker, step)


@pytest.mark.parametrize("step", few(SIGNAL_LIFE, "capture.commit:before:1", "capture.commit:after:1"))
def test_a_signal_takes_effect_once_wherever_it_was_cut_off(broker, path, step):
    interrupt_a_signal(lived_here, path, "signal-" + step.replace(":", "-"), broker, step)


@pytest.mark.parametrize(
    "step",
    [
        step
        if step in ("capture.commit:before:1", "capture.init:before:3")
        else pytest.param(step, marks=pytest.mark.servers)
        for step in steps(CHOICE_LIFE)
    ],
)
def test_tables_are_added_and_removed_once_wherever_it_was_cut_off(broker, path, step):
    interrupt_a_choice(lived_here, path, "choice-" + step.replace(":", "-"), broker, step)


@pytest.mark.soak
@pytest.mark.parametrize("step", steps(CHOICE_LIFE))
def test_tables_are_added_and_removed_once_wherever_the_process_was_killed(broker, path, step):
    interrupt_a_choice(lived, path, "killed-choice-" + step.replace(":", "-"), broker, step)


@pytest.mark.soak
@pytest.mark.parametrize("step", steps(FIRST_LIFE))
def test_a_snapshot_goes_on_wherever_its_process_was_killed(broker, path, step):
    interrupt_a_snapshot(lived, path, "killed-first-" + step.replace(":", "-"), broker, step)


@pytest.mark.soak
@pytest.mark.parametrize("step", steps(SECOND_LIFE))
def test_a_stream_goes_on_wherever_its_process_was_killed(broker, path, step):
    interrupt_a_stream(lived, path, "killed-second-" + step.replace(":", "-"), broker, step)


@pytest.mark.soak
@pytest.mark.parametrize("step", steps(CHUNKS_LIFE))
def test_chunks_go_on_wherever_their_process_was_killed(broker, path, step):
    interrupt_chunks(lived, path, "killed-chunks-" + step.replace(":", "-"), broker, step)


@pytest.mark.soak
@pytest.mark.parametrize("step", steps(SIGNAL_LIFE))
def test_a_signal_takes_effect_once_wherever_its_process_was_killed(broker, path, step):
    interrupt_a_signal(lived, path, "killed-signal-" + step.replace(":", "-"), broker, step)


@pytest.mark.servers
def test_chunks_come_to_the_end_though_each_life_ends_at_its_first_commit(broker, path):
    make(path)
    for attempt in range(60):
        if not lived_here(path, "each", broker.bootstrap, "capture.commit:after:1", way=BY_CHUNKS):
            break
        if attempt < 8:
            execute(path, f"UPDATE orders SET name = '{attempt}' WHERE id % 5 = {attempt % 5}")
    else:
        pytest.fail("it did not come to its end")
    check(path, "each", broker, has_loose=False)


def test_a_capture_that_is_cut_off_at_each_of_its_commits_comes_to_the_end_when_they_do(broker, path):
    make(path)
    for attempt in range(60):
        if not lived_here(path, "every", broker.bootstrap, "capture.commit:after:1"):
            break
        if attempt < 10:
            execute(path, f"UPDATE orders SET name = '{attempt}' WHERE id % 5 = {attempt % 5}")
    else:
        pytest.fail("it did not come to its end")
    check(path, "every", broker)
