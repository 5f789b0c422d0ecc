"""Tables that somebody takes out of the publication: the log does not tell of them then, and says nothing of it."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import pytest

from runnel.capture import capture as captures
from runnel.capture.chosen import Mode
from runnel.capture.events import Came, Gone, Position
from runnel.capture.postgres import catalog
from runnel.capture.postgres.errors import DatabaseRefused, NotReady
from runnel.capture.postgres.readiness import Readiness
from runnel.capture.selection import Selection
from tests.contract.capture.captured_postgres import Database, wait_for
from tests.contract.capture.lives import capture_of, running
from tests.contract.capture.postgres.lives import end_of_log, has_come_to
from tests.contract.capture.postgres.test_replaced import _soon, folded, schema_changes  # noqa: F401  # a fixture
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
WENT = {
    "dropped": ["DROP TABLE t"],
    "renamed": ["ALTER TABLE t RENAME TO elsewhere"],
    "made-again": ["DROP TABLE t", "CREATE TABLE t(id int PRIMARY KEY, v text)"],
    "attached": ["DELETE FROM t", "ALTER TABLE parts ATTACH PARTITION t FOR VALUES FROM (100) TO (200)"],
}
READ = {
    "initial": {"mode": Mode.INITIAL},
    "incremental": {"mode": Mode.INCREMENTAL},
    "being-read": {"mode": Mode.INCREMENTAL, "chunk": 5, "rate": 100},
}
TAKEN_OUT = {
    "dropped": "ALTER PUBLICATION {} DROP TABLE t",
    "set": "ALTER PUBLICATION {} SET TABLE parts",
    "by-partitions": "ALTER PUBLICATION {} SET (publish_via_partition_root = false)",
}


def capture(broker, database: Database, *, mode: Mode = Mode.INITIAL, publication: str | None = None, **options):
    selection = Selection(tables=[rf"{database.schema}\.(t|parts)"])
    source = database.source(selection.has, publication=publication)
    return capture_of(database.schema, source, broker.bootstrap, selection, snapshot=mode, **options)


def topic(broker, database: Database, table: str):
    name = f"{database.schema}.{database.schema}.{table}"
    return committed(broker.bootstrap, name).get(name, [])


def own(database: Database) -> str:
    return f"runnel_{database.schema}"


def published(database: Database, publication: str) -> set[str]:
    return {
        name for (name,) in database.ask(f"SELECT tablename FROM pg_publication_tables WHERE pubname = '{publication}'")
    }


def settle(at_work, database: Database, publication: str = "", *, tables: Collection[str] = ("t", "parts")) -> None:
    """Until they are published and read, and all is told."""
    names = {f"{database.schema}.{name}" for name in tables}
    wait_for(lambda: published(database, publication or own(database)) == set(tables))
    end = end_of_log(database.server.url)
    wait_for(lambda: has_come_to(at_work, end) and at_work.state.tables.keys() == names)


def check(broker, database: Database) -> None:
    for table in ("t", "parts"):
        rows = sorted(tuple(row.values()) for row in folded(topic(broker, database, table)))
        assert rows == sorted(database.ask(f"SELECT * FROM {table}")), table


def check_gone(broker, database: Database, at_work, publication: str = "") -> None:
    """That t is told as any table that is dropped, and the other one is told on."""
    wait_for(lambda: schema_changes(broker, database, "t") == ["CREATE", "DROP"])
    database.run("INSERT INTO parts VALUES (50, 'end')")
    settle(at_work, database, publication, tables=["parts"])
    assert not folded(topic(broker, database, "t"))
    rows = sorted(tuple(row.values()) for row in folded(topic(broker, database, "parts")))
    assert rows == database.ask("SELECT * FROM parts ORDER BY id")


def refused(broker, database: Database) -> str:
    """A publication of an administrator, who takes t out of it while it is captured: that ends with the SQL."""
    given = f"{own(database)}_given"
    database.run(*MADE, f"CREATE PUBLICATION {given} FOR TABLE t, parts WITH (publish_via_partition_root = true)")
    at_work = capture(broker, database, publication=given, schema_changes=True)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(at_work.run)
        try:
            wait_for(lambda: at_work.is_streaming.is_set() and at_work.state.is_complete)
            database.run(f"ALTER PUBLICATION {given} DROP TABLE t")
            with pytest.raises(NotReady, match=rf'publication "{given}" does not have {database.schema}\.t'):
                ended.result(timeout=120)
        finally:
            at_work.stop()
    return given


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
    given = refused(broker, database)
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


@pytest.mark.parametrize("moment", ["told", "put-back", "read"])
@pytest.mark.parametrize("reading", READ)
def test_one_that_is_dropped_before_it_is_read_anew_is_gone(broker, database, monkeypatch, reading, moment):
    database.run(*MADE, "INSERT INTO t SELECT i, 'more' FROM generate_series(100, 500) i")
    at_work = capture(broker, database, **READ[reading], schema_changes=True)
    source, left = at_work._source, iter(["DROP TABLE t"])
    prepare, is_read_anew = source.prepare, captures.is_read_anew

    def drop_before(*asked):
        database.run(*left)
        return is_read_anew(*asked)

    def drop_beside() -> Position:
        database.run(*left if moment == "put-back" else ())
        position = prepare()
        database.run(*left)
        return position

    with running(at_work):
        if reading != "being-read":
            settle(at_work, database)
        wait_for(lambda: at_work.is_streaming.is_set() and at_work.state.table(database.table("t")).rows > 5)
        if moment == "told":
            monkeypatch.setattr(captures, "is_read_anew", drop_before)
        else:
            monkeypatch.setattr(source, "prepare", drop_beside)
        database.run(TAKEN_OUT["dropped"].format(own(database)))
        wait_for(lambda: not database.ask("SELECT WHERE to_regclass('t') IS NOT NULL"))
        check_gone(broker, database, at_work)


def test_one_that_an_administrator_drops_instead_of_putting_it_back_is_gone(broker, database):
    given = refused(broker, database)
    database.run("DROP TABLE t")
    with running(capture(broker, database, publication=given, schema_changes=True)) as at_work:
        check_gone(broker, database, at_work, given)


@pytest.mark.parametrize("way", WENT)
def test_one_that_goes_between_the_questions_of_a_look_is_gone_and_not_taken_out(database, monkeypatch, way):
    database.run(*MADE)
    source = database.source()
    changes = source.changes(source.prepare())
    meanwhile = iter(WENT[way])  # once, behind the first question

    def answered_before(question):
        def ask(*arguments):
            answer = question(*arguments)
            database.run(*meanwhile)
            return answer

        return ask

    monkeypatch.setattr(catalog, "tables", answered_before(catalog.tables))
    monkeypatch.setattr(Readiness, "published", answered_before(Readiness.published))
    events = []
    wait_for(lambda: events.extend(changes.read(0.1)) or [each for each in events if isinstance(each, Gone | Came)])
    changes.close()
    (found,) = [each for each in events if isinstance(each, Gone | Came)]
    assert (type(found), found.table) == (Gone, database.table("t"))


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
