"""Killed at any durable step, a capture of PostgreSQL comes to what an undisturbed life gives: nothing lost, nothing
twice. The steps that all captures have are tried in other ways by tests/contract/capture/test_crash_points.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import runnel.capture.postgres
from runnel.capture.chosen import Mode
from runnel.durable import watched
from tests.contract.capture.captured_postgres import Database
from tests.contract.capture.lives import Died
from tests.contract.capture.postgres.histories import rows_of
from tests.contract.capture.postgres.lives import Life, lived, lived_here
from tests.contract.capture.postgres.rebuilding import rebuilt, shown
from tests.contract.capture.topics import check_transactions, committed

# Of each step the times at which it is interrupted, in a life that reads tables and in one that only goes on.
FIRST_LIFE = {
    "capture.init": [1],
    "capture.topic": [1, 2],
    "capture.postgres.publication": [1],
    "capture.postgres.slot": [1],
    "capture.write": [2, 4],
    "capture.state": [1, 3],
    "capture.commit": [1, 3, 2, 5],
}
SECOND_LIFE = {
    "capture.write": [1],
    "capture.commit": [1, 2],
    "capture.confirm": [1],
}
# A life that reads tables by chunks, and tells what happened meanwhile.
CHUNKS_LIFE = {
    "capture.init": [1],
    "capture.postgres.publication": [1],
    "capture.postgres.slot": [1],
    "capture.topic": [1, 2],
    "capture.state": [8, 1],
    "capture.write": [8, 1, 3],
    "capture.commit": [8, 1, 2, 3],
    "capture.confirm": [6, 1],
}
# Few of them, for a quick look: the others are tried with killed processes.
SOME_OF_FIRST = (
    "capture.postgres.slot:after:1",
    "capture.write:before:2",
    "capture.commit:before:3",
    "capture.commit:after:3",
)
SOME_OF_SECOND = ("capture.commit:after:1", "capture.confirm:before:1")
BELOW = {"capture.postgres.alter", "capture.postgres.remove"}
LARGE = "(SELECT string_agg(md5((i * 100 + j)::text), '') FROM generate_series(1, 90) j)"
COLUMNS = {"orders": ("id", "name", "v"), "loose": ("x",)}


def steps(points):
    return [f"{name}:{side}:{time}" for name, times in points.items() for time in times for side in ("before", "after")]


def test_every_durable_step_of_a_capture_of_postgresql_is_tried():
    sources = Path(runnel.capture.postgres.__file__).parent.glob("**/*.py")
    names = {name for source in sources for name in re.findall(r'durable\("([^"]+)"\)', source.read_text())}
    assert names == {name for name in {*FIRST_LIFE, *SECOND_LIFE} if name.startswith("capture.postgres")} | BELOW


def make(database: Database) -> None:
    database.run(
        "CREATE TABLE orders(id int PRIMARY KEY, name text, v text)",
        "ALTER TABLE orders ALTER v SET STORAGE EXTERNAL",
        "CREATE TABLE loose(x int)",
        "ALTER TABLE loose REPLICA IDENTITY FULL",
        f"INSERT INTO orders SELECT i, 'a', {LARGE} FROM generate_series(1, 22) i",
        "INSERT INTO loose SELECT i % 2 FROM generate_series(1, 7) i",
    )


def life_of(database: Database, broker, **named) -> Life:
    return Life(database.server.url, database.schema, database.schema, broker.bootstrap, **named)


def check(database: Database, life: Life, columns=COLUMNS) -> None:
    topics = committed(life.bootstrap, f"{life.name}.")
    state = life.state()
    assert state.is_complete
    check_transactions(topics, life.name)
    with database.connect() as connection:
        for table, names in columns.items():
            since = state.tables[f"{life.schema}.{table}"].since
            told = rebuilt(topics[f"{life.name}.{life.schema}.{table}"], since["lsn"])
            rows = list(told.rows.values()) or [{"x": int(text[6:-1])} for text in told.bag.elements()]
            assert shown(rows, names) == shown(rows_of(connection, table), names), table


def interrupt_a_snapshot(live, database: Database, broker, step: str) -> None:
    make(database)
    life = life_of(database, broker)
    assert live(life, step)
    database.run(
        "UPDATE orders SET name = 'b' WHERE id % 3 = 0",
        "DELETE FROM orders WHERE id IN (1, 22)",
        # From where nobody has read to where reading is past, with a large value that the log leaves out.
        "UPDATE orders SET id = -id WHERE id IN (2, 20, 21)",
        "INSERT INTO orders VALUES (30, 'c', NULL)",
        "INSERT INTO loose VALUES (0)",
        "DELETE FROM loose WHERE x = 1",
    )
    # It comes back, and dies again at its next commit: in the middle of catching up, or of reading.
    assert live(life, "capture.commit:before:2")
    database.run(
        "UPDATE orders SET name = 'd' WHERE id % 2 = 0",
        "UPDATE orders SET id = id - 100 WHERE id IN (-20, 19)",
        "INSERT INTO loose VALUES (5)",
    )
    assert not live(life)
    check(database, life)


def interrupt_a_stream(live, database: Database, broker, step: str) -> None:
    make(database)
    life = life_of(database, broker)
    assert not live(life)
    database.run(
        "ALTER TABLE orders ADD COLUMN city text",
        "UPDATE orders SET name = 'b', city = 'Graz' WHERE id % 2 = 0",
        "UPDATE orders SET id = -id WHERE id = 5",
        "DELETE FROM orders WHERE id BETWEEN 1 AND 4",
        "INSERT INTO loose VALUES (0)",
    )
    assert live(life, step)
    database.run("UPDATE orders SET name = 'c' WHERE id % 5 = 0")
    assert not live(life)
    check(database, life, {**COLUMNS, "orders": ("id", "name", "v", "city")})


def interrupt_chunks(live, database: Database, broker, step: str) -> None:
    make(database)
    life = life_of(database, broker, tables="orders", mode=Mode.INCREMENTAL)
    assert live(life, step)
    database.run(
        "UPDATE orders SET name = 'b' WHERE id % 3 = 0",
        "DELETE FROM orders WHERE id IN (1, 22)",
        # Past where reading is, and back from there, with a large value that the log leaves out.
        "UPDATE orders SET id = -id WHERE id IN (20, 21)",
        "UPDATE orders SET id = id + 100 WHERE id IN (2, 3)",
        "INSERT INTO orders VALUES (30, 'c', NULL)",
    )
    # It comes back, and dies again in the middle of catching up, or of reading.
    assert live(life, "capture.commit:before:3")
    database.run(
        "UPDATE orders SET name = 'd' WHERE id % 2 = 0", "UPDATE orders SET id = id - 100 WHERE id IN (-20, 19)"
    )
    assert live(life, "capture.commit:after:2")
    database.run("UPDATE orders SET name = 'e' WHERE id % 5 = 0", "UPDATE orders SET id = 40 WHERE id = 102")
    assert not live(life)
    check(database, life, {"orders": COLUMNS["orders"]})


@pytest.mark.servers
@pytest.mark.parametrize("step", SOME_OF_FIRST)
def test_a_snapshot_goes_on_wherever_it_was_cut_off(database, broker, step):
    interrupt_a_snapshot(lived_here, database, broker, step)


@pytest.mark.servers
@pytest.mark.parametrize("step", SOME_OF_SECOND)
def test_a_stream_goes_on_wherever_it_was_cut_off(database, broker, step):
    interrupt_a_stream(lived_here, database, broker, step)


@pytest.mark.servers
def test_chunks_go_on_though_each_life_is_cut_off_at_another_step(database, broker):
    make(database)
    database.run(f"INSERT INTO orders SELECT i, 'a', {LARGE} FROM generate_series(23, 99) i")
    life = life_of(database, broker, tables="orders", mode=Mode.INCREMENTAL)
    for number, step in enumerate(steps({name: times[:1] for name, times in CHUNKS_LIFE.items()})):
        assert lived_here(life, step), f"{step} was not reached"
        database.run(f"UPDATE orders SET name = 'n{number}' WHERE id IN ({number}, {60 + number})")
        # From where nobody has read to where reading is past, with a large value that the log leaves out.
        database.run(f"UPDATE orders SET id = {-100 - number} WHERE id = {99 - number}")
    assert life.state().tables[f"{life.schema}.orders"].key is not None, "nothing was read yet"
    assert not lived_here(life._replace(chunk=50))
    check(database, life, {"orders": COLUMNS["orders"]})


@pytest.mark.soak
@pytest.mark.parametrize("step", steps(CHUNKS_LIFE))
def test_chunks_go_on_wherever_their_process_was_killed(database, broker, step):
    interrupt_chunks(lived, database, broker, step)


@pytest.mark.soak
@pytest.mark.parametrize("step", steps(FIRST_LIFE))
def test_a_snapshot_goes_on_wherever_its_process_was_killed(database, broker, step):
    interrupt_a_snapshot(lived, database, broker, step)


@pytest.mark.soak
@pytest.mark.parametrize("step", steps(SECOND_LIFE))
def test_a_stream_goes_on_wherever_its_process_was_killed(database, broker, step):
    interrupt_a_stream(lived, database, broker, step)


@pytest.mark.servers
def test_a_capture_that_is_cut_off_again_and_again_comes_to_the_end_when_that_does(database, broker):
    """At its second commit: the first one brings what has changed since the last snapshot."""
    make(database)
    life = life_of(database, broker)
    for attempt in range(60):
        if not lived_here(life, "capture.commit:after:2"):
            break
        if attempt < 5:
            database.run(f"UPDATE orders SET id = {-attempt - 100} WHERE id = {22 - attempt}")
    else:
        pytest.fail("it did not come to its end")
    check(database, life)


@pytest.mark.servers
@pytest.mark.parametrize("side", ["before", "after"])
def test_another_choice_of_tables_is_taken_up_wherever_that_was_cut_off(database, broker, side):
    make(database)
    narrow = life_of(database, broker, tables="orders")
    wide = narrow._replace(tables=".*")
    assert not lived_here(narrow)
    assert lived_here(wide, f"capture.postgres.alter:{side}:1")
    database.run("INSERT INTO loose VALUES (9)", "UPDATE orders SET name = 'e' WHERE id = 7")
    assert not lived_here(wide)
    check(database, wide)


@pytest.mark.servers
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_table_that_is_not_chosen_any_more_is_let_go_wherever_that_was_cut_off(database, broker, side):
    make(database)
    wide = life_of(database, broker)
    narrow = wide._replace(tables="orders")
    assert not lived_here(wide)
    database.run("INSERT INTO loose VALUES (8)", "UPDATE orders SET name = 'e' WHERE id = 7")
    assert lived_here(narrow, f"capture.postgres.alter:{side}:1")
    assert published(database) == (["orders"] if side == "after" else ["loose", "orders"])
    database.run("INSERT INTO loose VALUES (9)", "UPDATE orders SET name = 'f' WHERE id = 8")
    assert not lived_here(narrow)
    assert published(database) == ["orders"]
    check(database, narrow, {"orders": COLUMNS["orders"]})


def published(database: Database) -> list[str]:
    tables = database.ask("SELECT schemaname, tablename FROM pg_publication_tables ORDER BY 2")
    return [name for schema, name in tables if schema == database.schema]


@pytest.mark.servers
@pytest.mark.parametrize("step", steps({"capture.postgres.remove": [1, 2]}))
def test_what_was_made_can_be_removed_wherever_that_was_cut_off(database, broker, step):
    make(database)
    source = life_of(database, broker).source()
    source.prepare()
    reached = []

    def die(place: str) -> None:
        reached.append(place)
        if f"{place}:{reached.count(place)}" == step:
            raise Died(place)

    with watched(die), pytest.raises(Died):
        source.remove()
    source.remove()
    assert not database.ask(f"SELECT FROM pg_replication_slots WHERE slot_name = 'runnel_{database.schema}'")
    assert not database.ask(f"SELECT FROM pg_publication WHERE pubname = 'runnel_{database.schema}'")
