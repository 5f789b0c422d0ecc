"""Chunks of PostgreSQL's tables, and what they have seen."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import psycopg
import pytest

from runnel.capture.chosen import Mode
from runnel.capture.errors import TableMissing
from runnel.capture.events import Change, Ended, Mark
from runnel.capture.incremental import key_columns
from runnel.capture.postgres import chunks
from runnel.capture.postgres.errors import CommitHidden, TableMoved
from tests.contract.capture.captured_postgres import Database, wait_for
from tests.contract.capture.lives import capture_of, caught_up, running
from tests.contract.capture.postgres import histories
from tests.contract.capture.postgres.lives import STEPS, Life, lived_here
from tests.contract.capture.postgres.rebuilding import rebuilt_tables, shown
from tests.contract.capture.postgres.test_convergence import TABLES, write
from tests.contract.capture.topics import committed

pytestmark = pytest.mark.servers

MOST_DEATHS = 100


@contextmanager
def unseen(database: Database, statement: str) -> Iterator[None]:
    """A statement whose commit is in the log, and told, and not seen by others until the block is over: it waits for a
    standby that never comes.
    """
    with closing(database.connect()) as connection:
        waits = f"SELECT FROM pg_stat_activity WHERE pid = {connection.info.backend_pid} AND wait_event = 'SyncRep'"
        is_waiting = threading.Event()

        def run() -> None:
            while not is_waiting.is_set():  # the server takes a moment to heed its new setting
                connection.execute("SELECT pg_logical_emit_message(true, 'runnel.capture.nobody', '')")
            connection.execute(statement.encode())

        thread = threading.Thread(target=run)
        try:
            set_standby(database, "nosuch")
            thread.start()
            wait_for(lambda: database.ask(waits))
            is_waiting.set()
            database.run(f"SELECT pg_cancel_backend({connection.info.backend_pid})")
            yield
        finally:
            is_waiting.set()
            set_standby(database, "")
            if thread.ident is not None:
                thread.join()


def set_standby(database: Database, name: str) -> None:
    database.run(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'", "SELECT pg_reload_conf()")
    wait_for(lambda: database.ask("SHOW synchronous_standby_names") == [(name,)])


def rows_of(broker, name: str, schema: str, table: str = "t"):
    return committed(broker.bootstrap, f"{name}.{schema}.{table}").get(f"{name}.{schema}.{table}", [])


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE t SET v = 'new' WHERE id = 40", {40: "new"}),
        ("UPDATE t SET id = 50, v = 'new' WHERE id = 40", {40: None, 50: "new"}),
        ("DELETE FROM t WHERE id = 40", {40: None}),
    ],
)
def test_a_change_that_is_told_before_others_see_it_is_the_last_word_of_its_key(
    broker, database: Database, monkeypatch, statement, expected
):
    """The race between commit and visibility: the changes tell of a transaction, and a chunk that is read afterwards
    does not see it yet.
    """
    database.run("CREATE TABLE t(id int PRIMARY KEY, v text)")
    database.run("INSERT INTO t SELECT i, 'old' FROM generate_series(1, 40) i")
    source, name = database.source(), database.schema
    chunk, is_told = source.chunk, threading.Event()

    def when_told(table, after, *rest):
        return None if after is not None and not is_told.is_set() else chunk(table, after, *rest)

    monkeypatch.setattr(source, "chunk", when_told)
    capture = capture_of(name, source, broker.bootstrap, snapshot=Mode.INCREMENTAL, chunk=16)
    with running(capture):
        wait_for(lambda: any(table.rows == 16 for table in capture.state.tables.values()))
        with unseen(database, statement):
            wait_for(lambda: any(each.op in ("u", "d") for each in rows_of(broker, name, database.schema)))
            assert database.ask("SELECT v FROM t WHERE id = 40") == [("old",)], "the race did not happen"
            is_told.set()
            wait_for(lambda: capture.state.is_complete)
            assert database.ask("SELECT v FROM t WHERE id = 40") == [("old",)], "the race did not happen"
        database.run("INSERT INTO t VALUES (60, 'end')")
        wait_for(lambda: rows_of(broker, name, database.schema)[-1].op == "c")
    last = {json.loads(each.key)["id"]: each.value for each in rows_of(broker, name, database.schema)}
    assert {key: value and value["after"] and value["after"]["v"] for key, value in last.items()} == {
        **dict.fromkeys(range(1, 40), "old"),
        **expected,
        60: "end",
    }


def test_another_table_that_has_its_name_is_not_read_in_its_place(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "CREATE TABLE other(id int PRIMARY KEY)")
    source = database.source()
    changes = source.changes(source.prepare())
    source.settle()
    table = source.table(database.table("t"))
    wait_for(lambda: source.chunk(table, None, 10, "t/1") is not None)
    database.run("ALTER TABLE t RENAME TO former", "ALTER TABLE other RENAME TO t")
    assert source.chunk(table, None, 10, "t/2") is None
    assert source.chunk(source.table(database.table("t")), None, 10, "t/3") is not None
    changes.close()


def test_a_chunk_waits_for_what_ran_when_the_changes_were_opened(database: Database):
    """What was told in a former life may not be seen yet."""
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = database.source()
    position = source.prepare()
    with closing(database.connect()) as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (2)")
        source.changes(position)
        table = source.table(database.table("t"))
        assert source.chunk(table, None, 10, "a") is None
        assert source.chunk(table, None, 10, "b") is None
        other.execute("COMMIT")
    found = source.chunk(table, None, 10, "c")
    assert found is not None
    assert found.rows == [("1",), ("2",)]
    source.settle()
    with closing(database.connect()) as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (3)")
        assert source.chunk(table, None, 10, "d") is None
        other.execute("ROLLBACK")
    assert source.chunk(table, None, 10, "e") is not None


def test_a_transaction_that_is_open_while_a_chunk_is_read_is_not_seen_by_it(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    source = database.source()
    changes = source.changes(source.prepare())
    table = source.table(database.table("t"))
    assert source.chunk(table, None, 10, "first") is not None
    with closing(database.connect()) as other:
        other.execute("BEGIN")
        other.execute("UPDATE t SET v = 2 WHERE id = 1")
        chunk = source.chunk(table, None, 10, "second")
        other.execute("COMMIT")
    assert chunk is not None
    database.run("UPDATE t SET v = 3 WHERE id = 2")
    events: list[object] = []
    wait_for(lambda: events.extend(changes.read(0.2)) or len([e for e in events if isinstance(e, Change)]) == 2)
    assert [event.tag for event in events if isinstance(event, Mark)] == ["first", "second"]
    assert [chunk.sees(event.id) for event in events if isinstance(event, Ended)] == [False, False]
    again = source.chunk(table, None, 10, "third")
    assert again is not None
    assert [again.sees(event.id) for event in events if isinstance(event, Ended)] == [True, True]


def test_a_table_that_somebody_is_altering_is_read_later(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    source = database.source()
    source.changes(source.prepare())
    table = source.table(database.table("t"))
    assert source.chunk(table, None, 10, "a") is not None
    with closing(database.connect()) as other:
        other.execute("BEGIN")
        other.execute("ALTER TABLE t ALTER v TYPE text")
        assert source.chunk(table, None, 10, "b") is None
        other.execute("COMMIT")
    wait_for(lambda: source.chunk(table, None, 10, "c") is not None)
    database.run("DROP TABLE t")
    with pytest.raises(TableMissing):
        source.chunk(table, None, 10, "d")


def test_a_key_of_other_columns_begins_anew(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, other int NOT NULL)", "INSERT INTO t VALUES (1, 1)")
    source = database.source()
    source.changes(source.prepare())
    table = source.table(database.table("t"))
    database.run("ALTER TABLE t DROP CONSTRAINT t_pkey", "ALTER TABLE t ADD PRIMARY KEY (other)")
    found = source.chunk(table, ("0",), 10, "a")
    assert found is not None
    assert (found.rows, found.is_last, found.table.key) == ((), False, (1,))
    fresh = source.chunk(table, None, 10, "b")
    assert fresh is not None
    assert fresh.rows == [("1", "1")]


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        ("text", "integer", "i"),
        ("text", "uuid", "md5(i::text)"),
        ("inet", "text", "'10.0.0.0'::inet + i"),
    ],
)
def test_a_key_of_another_type_begins_anew(database: Database, before: str, after: str, value: str):
    database.run(f"CREATE TABLE t(id {before} PRIMARY KEY)")
    database.run(f"INSERT INTO t SELECT {value} FROM generate_series(1, 20) i")
    source = database.source()
    source.changes(source.prepare())
    table = source.table(database.table("t"))
    first = source.chunk(table, None, 16, "a")
    assert first is not None
    database.run(f"ALTER TABLE t ALTER id TYPE {after} USING id::{after}")
    again = source.chunk(table, first.rows[-1], 16, "b")
    assert again is not None
    assert (again.rows, again.is_last) == ((), False)
    assert key_columns(again.table) != key_columns(table)


def test_a_table_whose_key_becomes_of_another_type_while_it_is_read_is_told_whole(
    broker, database: Database, monkeypatch, caplog
):
    database.run("CREATE TABLE t(id text PRIMARY KEY)", "INSERT INTO t SELECT i FROM generate_series(1, 40) i")
    source, name = database.source(), database.schema
    chunk, is_altered = source.chunk, threading.Event()

    def when_altered(table, after, *rest):
        return None if after is not None and not is_altered.is_set() else chunk(table, after, *rest)

    monkeypatch.setattr(source, "chunk", when_altered)
    with running(capture_of(name, source, broker.bootstrap, snapshot=Mode.INCREMENTAL, chunk=16)) as capture:
        wait_for(lambda: any(table.rows == 16 for table in capture.state.tables.values()))
        database.run("ALTER TABLE t ALTER id TYPE integer USING id::integer")
        is_altered.set()
        wait_for(lambda: capture.state.is_complete)
    told = [json.loads(each.key)["id"] for each in rows_of(broker, name, database.schema)]
    assert [each for each in told if isinstance(each, int)] == list(range(1, 41))
    assert f"{name}.t has another key than before: it is read from its beginning" in caplog.text


def test_a_large_value_that_an_update_left_as_it_was_is_in_the_topic(broker, database: Database):
    """What is told of the update has not got it. So the row must be told whole before or after it."""
    database.run("CREATE TABLE t(id int PRIMARY KEY, n int, v text)", "ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
    database.run("INSERT INTO t SELECT i, 0, repeat('x', 5000) FROM generate_series(1, 60) i")
    source, name = database.source(), database.schema
    with running(capture_of(name, source, broker.bootstrap, snapshot=Mode.INCREMENTAL, chunk=3)) as capture:
        wait_for(lambda: capture.state.tables)
        number = 0
        while not capture.state.is_complete:
            number += 1
            assert number < 100_000
            database.run(f"UPDATE t SET n = n + 1 WHERE id = {number % 60 + 1}")
        caught_up(capture, database.source(name=f"{name}_looking"))
    whole = {each.key for each in rows_of(broker, name, database.schema) if each.value["after"]["v"] == "x" * 5000}
    assert len(whole) == 60


def test_a_large_value_of_a_row_that_comes_to_where_reading_is_past_is_in_the_topic(
    broker, database: Database, monkeypatch
):
    """Nobody has read it at its former place, and nobody will at this one."""
    database.run("CREATE TABLE t(id int PRIMARY KEY, v text)", "ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
    database.run("INSERT INTO t SELECT i, repeat('x', 5000) FROM generate_series(1, 40) i")
    source, name = database.source(), database.schema
    chunk, is_told = source.chunk, threading.Event()

    def when_told(table, after, *rest):
        return None if after is not None and not is_told.is_set() else chunk(table, after, *rest)

    monkeypatch.setattr(source, "chunk", when_told)
    with running(capture_of(name, source, broker.bootstrap, snapshot=Mode.INCREMENTAL, chunk=16)) as capture:
        wait_for(lambda: any(table.rows == 16 for table in capture.state.tables.values()))
        with database.transaction():
            database.run("UPDATE t SET id = -id WHERE id = 40", "UPDATE t SET id = -5 WHERE id = -40")
        database.run("UPDATE t SET id = -id WHERE id = 39")
        wait_for(lambda: any(each.op == "c" and "-39" in each.key for each in rows_of(broker, name, database.schema)))
        is_told.set()
        wait_for(lambda: capture.state.is_complete)
    last = {json.loads(each.key)["id"]: each.value for each in rows_of(broker, name, database.schema)}
    whole = {key for key, value in last.items() if value and value["after"] and value["after"]["v"] == "x" * 5000}
    assert whole == {*range(1, 39), -5, -39}


def test_a_row_is_asked_for_when_its_transaction_is_seen(database: Database, monkeypatch):
    monkeypatch.setattr(chunks, "HIDDEN_SECONDS", 0.2)
    database.run("CREATE TABLE t(id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')")
    database.run("CREATE TABLE other(id int PRIMARY KEY)")
    source = database.source()
    changes = source.changes(source.prepare())
    table, events = source.table(database.table("t")), []
    with unseen(database, "UPDATE t SET id = 2"):
        wait_for(lambda: events.extend(changes.read(0.2)) or any(isinstance(each, Ended) for each in events))
        (id,) = (each.id for each in events if isinstance(each, Ended))
        with pytest.raises(CommitHidden, match=r"shows it to nobody after 0\.2 s \(it waits for a standby"):
            source.row_now(table, ("2",), id)
    assert source.row_now(table, ("2",), id) == {"id": "2", "v": "a"}
    assert source.row_now(table, ("1",), id) is None
    with closing(database.connect()) as other:
        other.execute("BEGIN")
        other.execute("ALTER TABLE t ADD COLUMN w int")
        with pytest.raises(TableMoved, match="is locked"):
            source.row_now(table, ("2",), id)
    with closing(database.connect()) as somebody:
        somebody.execute("BEGIN")
        somebody.execute("LOCK TABLE other")
        assert source.row_now(table, ("2",), id) == {"id": "2", "v": "a"}  # whatever becomes of others
    database.run("ALTER TABLE t ALTER v TYPE varchar(9)")
    assert source.row_now(table, ("2",), id) == {"id": "2"}  # the other one has another form now
    database.run("ALTER TABLE t ALTER id TYPE uuid USING gen_random_uuid()")
    assert source.row_now(table, ("2",), id) is None  # the key says nothing any more
    database.run("DROP TABLE t")
    assert source.row_now(table, ("2",), id) is None


def test_messages_that_mark_chunks_are_nobodys(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    changes = source.changes(source.prepare())
    table = source.table(database.table("t"))
    database.run("SELECT pg_logical_emit_message(true, 'runnel.capture.other', 'x')")
    wait_for(lambda: source.chunk(table, None, 10, "own") is not None)
    database.run("INSERT INTO t VALUES (1)")
    events: list[object] = []
    wait_for(lambda: events.extend(changes.read(0.2)) or any(isinstance(each, Ended) for each in events))
    assert [type(each).__name__ for each in events if type(each).__name__ != "Passed"] == [
        "Mark",
        "Began",
        "Change",
        "Ended",
    ]


def test_a_capture_that_is_cut_off_again_and_again_while_writers_write_converges(broker, database: Database, seed: int):
    converge(broker, database, f"{seed}", transactions=40)


@pytest.mark.soak
def test_captures_converge_also_while_commits_are_told_before_they_are_seen(
    broker, server, seed: int, rounds: int, told
):
    for number in told(range(rounds)):
        with ExitStack() as stack:
            database = Database(server, stack)
            with hanging_now_and_then(database):
                converge(broker, database, f"{seed}/{number}", transactions=150)
            database.close()


@contextmanager
def hanging_now_and_then(database: Database) -> Iterator[None]:
    """Commits wait for a standby that is not there, for a while, again and again."""
    is_over = threading.Event()
    with closing(database.connect()) as connection:

        def run() -> None:
            for name in itertools.cycle(("nosuch", "")):
                connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'".encode())
                connection.execute("SELECT pg_reload_conf()")
                if is_over.wait(0.3) and not name:
                    return

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def converge(broker, database: Database, seed: str, transactions: int) -> None:
    """Lives are cut off at any durable step, and some come to where the log ended when they began."""
    database.run(*TABLES)
    chance, name = random.Random(seed), database.schema
    for number in range(30):
        database.run(f"INSERT INTO plain SELECT {number} * 100 + i, 'x', 0 FROM generate_series(1, 10) i")
    writers = [threading.Thread(target=write, args=(database, f"{seed}/{number}", transactions)) for number in range(3)]
    life = Life(database.server.url, name, name, broker.bootstrap, small=100, mode=Mode.INCREMENTAL, chunk=5)
    for writer in writers:
        writer.start()
    deaths = lived_here(life, f"capture.commit:{chance.choice(['before', 'after'])}:1", while_reading=True)
    assert deaths, "the others may come to the end without one where a machine is quick"
    while any(writer.is_alive() for writer in writers) or not life.state().is_complete:
        assert deaths < MOST_DEATHS, "it does not come further"
        step = f"{chance.choice(STEPS)}:{chance.choice(['before', 'after'])}:{chance.randrange(1, 12)}"
        deaths += lived_here(life, step, while_reading=True)
    for writer in writers:
        writer.join()
    assert not lived_here(life)
    with database.connect() as connection:
        for table, told in rebuilt_tables(life, ("plain", "pairs", "whole"), whole={"whole"}).items():
            columns = histories.columns_of(connection, table)
            there = shown(histories.rows_of(connection, table), columns)
            assert shown(told.rows.values(), columns) == there, table


def test_whoever_may_only_read_and_replicate_can_read_chunks(database: Database):
    """With what an administrator made, no right to write is needed."""
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    own = f"runnel_{database.schema}"
    database.run(f"CREATE PUBLICATION {own} FOR TABLE t")
    database.run(f"SELECT pg_create_logical_replication_slot('{own}', 'pgoutput')")
    user = f"reader_{database.schema}"
    database.run(f"CREATE ROLE {user} LOGIN REPLICATION", f"GRANT USAGE ON SCHEMA {database.schema} TO {user}")
    database.run(f"GRANT SELECT ON t TO {user}")
    try:
        source = database.source(url=database.server.url_of(user), slot=own, publication=own)
        source.changes(source.prepare())
        chunk = source.chunk(source.table(database.table("t")), None, 10, "a")
        assert chunk is not None
        assert chunk.rows == [("1",)]
        source.close()
    finally:
        database.run(f"DROP OWNED BY {user}", f"DROP ROLE {user}")


def test_a_server_that_goes_away_is_transient(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    source.changes(source.prepare())
    table = source.table(database.table("t"))
    assert source.chunk(table, None, 10, "a") is not None
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE application_name = 'runnel capture {database.schema}' AND backend_type = 'client backend'"
    )
    with pytest.raises(Exception, match="cannot be reached") as raised:
        source.chunk(table, None, 10, "b")
    assert not isinstance(raised.value, psycopg.Error)
