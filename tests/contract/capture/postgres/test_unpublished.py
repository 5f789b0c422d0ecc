"""Tables that somebody takes out of the publication: the log does not tell of them then, and says nothing of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from runnel.capture.chosen import Mode
from runnel.capture.postgres.errors import DatabaseRefused, NotReady
from runnel.capture.selection import Selection
from tests.contract.capture.captured_postgres import Database, wait_for
from tests.contract.capture.lives import capture_of, running
from tests.contract.capture.postgres.lives import end_of_log, has_come_to
from tests.contract.capture.postgres.test_replaced import _soon, folded  # noqa: F401  # a fixture
from tests.contract.capture.topics import committed

pytestmark = pytest.mark.servers

MADE = (
    "CREATE TABLE t(id int PRIMARY KEY, v text)",
    "INSERT INTO t SELECT i, 'old' FROM generate_series(1, 30) i",
    "CREATE TABLE parts(id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100)",
    "INSERT INTO parts SELECT i, 'old' FROM generate_series(1, 30) i",
)
MEANWHILE = tuple(
    f"{statement.format(table)}"
    for table in ("t", "parts")
    for statement in (
        "DELETE FROM {} WHERE id = 1",
        "UPDATE {} SET v = 'meanwhile' WHERE id = 2",
        "INSERT INTO {} VALUES (31, 'meanwhile')",
    )
)
TAKEN_OUT = {
    "dropped": "ALTER PUBLICATION {} DROP TABLE t",
    "set": "ALTER PUBLICATION {} SET TABLE parts",
    "by-partitions": "ALTER PUBLICATION {} SET (publish_via_partition_root = false)",
}


def capture(broker, database: Database, *, mode: Mode = Mode.INITIAL, publication: str | None = None, **reading):
    selection = Selection(tables=[rf"{database.schema}\.(t|parts)"])
    source = database.source(selection.has, publication=publication)
    return capture_of(database.schema, source, broker.bootstrap, selection, snapshot=mode, **reading)


def topic(broker, database: Database, table: str):
    name = f"{database.schema}.{database.schema}.{table}"
    return committed(broker.bootstrap, name).get(name, [])


def own(database: Database) -> str:
    return f"runnel_{database.schema}"


def published(database: Database, publication: str) -> set[str]:
    return {
        name for (name,) in database.ask(f"SELECT tablename FROM pg_publication_tables WHERE pubname = '{publication}'")
    }


def settle(at_work, database: Database, publication: str = "") -> None:
    """Until both are published and read, and all is told."""
    names = {f"{database.schema}.{name}" for name in ("t", "parts")}
    wait_for(lambda: published(database, publication or own(database)) == {"t", "parts"})
    end = end_of_log(database.server.url)
    wait_for(lambda: has_come_to(at_work, end) and at_work.state.tables.keys() == names)


def check(broker, database: Database) -> None:
    for table in ("t", "parts"):
        rows = sorted(tuple(row.values()) for row in folded(topic(broker, database, table)))
        assert rows == sorted(database.ask(f"SELECT * FROM {table}")), table


@pytest.mark.parametrize("is_down", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize("way", TAKEN_OUT)
def test_it_is_put_back_and_read_anew(broker, database, way, is_down, caplog):
    database.run(*MADE)
    taken_out = TAKEN_OUT[way].format(own(database))
    with running(capture(broker, database)) as at_work:
        settle(at_work, database)
        if not is_down:
            with database.transaction():  # before anybody can see that it is not published
                database.run(taken_out, *MEANWHILE)
            settle(at_work, database)
            check(broker, database)
    if is_down:
        database.run(taken_out, *MEANWHILE)
    with running(capture(broker, database)) as at_work:
        settle(at_work, database)
        database.run("INSERT INTO t VALUES (50, 'end')", "INSERT INTO parts VALUES (50, 'end')")
        settle(at_work, database)
    check(broker, database)
    table = "parts" if way == "by-partitions" else "t"
    (said,) = [each for each in caplog.messages if "is not published any more" in each]
    assert f'table "{database.schema}.{table}"' in said


def test_in_a_publication_of_an_administrator_it_is_told_with_the_sql_and_read_anew_when_it_is_back(broker, database):
    given = f"{own(database)}_given"
    database.run(*MADE, f"CREATE PUBLICATION {given} FOR TABLE t, parts WITH (publish_via_partition_root = true)")
    at_work = capture(broker, database, publication=given)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(at_work.run)
        try:
            wait_for(lambda: at_work.is_streaming.is_set() and at_work.state.is_complete)
            database.run(f"ALTER PUBLICATION {given} DROP TABLE t")
            with pytest.raises(NotReady, match=rf'publication "{given}" does not have {database.schema}\.t'):
                ended.result(timeout=120)
        finally:
            at_work.stop()
    database.run(*MEANWHILE, f"ALTER PUBLICATION {given} ADD TABLE t")
    with running(capture(broker, database, publication=given)) as at_work:
        settle(at_work, database, given)
    check(broker, database)


def test_nothing_is_told_to_be_no_more_that_nobody_reads_anew(broker, database, caplog):
    database.run(*MADE)
    with running(capture(broker, database, mode=Mode.NONE)) as at_work:
        settle(at_work, database)
        database.run("INSERT INTO t VALUES (40, 'before')")
        settle(at_work, database)
        with database.transaction():
            database.run(TAKEN_OUT["dropped"].format(own(database)), *MEANWHILE)
        settle(at_work, database)
        database.run("INSERT INTO t VALUES (50, 'end')")
        settle(at_work, database)
    assert [(each.op, each.value["after"]["id"]) for each in topic(broker, database, "t")] == [("c", 40), ("c", 50)]
    assert f"the topic of {database.schema}.t stays as it is: nothing reads the table anew" in caplog.text
    assert "what changed meanwhile is not told" in caplog.text


def test_one_that_is_being_read_by_chunks_is_read_once_more(broker, database):
    database.run(*MADE, "INSERT INTO t SELECT i, 'more' FROM generate_series(100, 500) i")
    at_work = capture(broker, database, mode=Mode.INCREMENTAL, chunk=5, rate=100)
    with running(at_work):
        wait_for(lambda: at_work.state.table(database.table("t")).rows > 5)
        with database.transaction():
            database.run(TAKEN_OUT["dropped"].format(own(database)), *MEANWHILE)
        wait_for(lambda: at_work.state.table(database.table("t")).is_again)
        settle(at_work, database)
    check(broker, database)


def test_where_all_are_taken_out_with_the_publication_nothing_is_missing_when_it_is_made_again(broker, database):
    database.run(*MADE)
    with running(capture(broker, database)) as at_work:
        settle(at_work, database)
    database.run(f"DROP PUBLICATION {own(database)}")
    with running(capture(broker, database)) as at_work:
        settle(at_work, database)
    check(broker, database)


def test_what_changed_while_there_was_no_publication_is_told_to_be_lost_or_read_anew(broker, database):
    database.run(*MADE)
    with running(capture(broker, database)) as at_work:
        settle(at_work, database)
    database.run(f"DROP PUBLICATION {own(database)}", *MEANWHILE)
    at_work = capture(broker, database)
    if database.version < 18:
        with pytest.raises(DatabaseRefused, match=r"the publication was dropped, .* remove`, and begin anew"):
            at_work.run()
        return
    with running(at_work):
        settle(at_work, database)
    check(broker, database)
