"""What is missing is told with the SQL that mends it, and that SQL mends it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg
import pytest

from runnel.capture.errors import TableMissing
from runnel.capture.events import Change, Gone
from runnel.capture.opening import open_source
from runnel.capture.postgres import readiness
from runnel.capture.postgres.connections import Address
from runnel.capture.postgres.errors import (
    DatabaseRefused,
    DatabaseUnreachable,
    NotReady,
    SlotWaits,
    TableMoved,
    TableReplaced,
)
from runnel.capture.postgres.source import PostgresSource
from runnel.capture.selection import Selection
from runnel.durable import watched
from tests.contract.capture.captured_postgres import Database, events_of, told, wait_for
from tests.contract.views.postgres_server import Postgres, postgres_server

pytestmark = pytest.mark.servers


@pytest.fixture
def user(database: Database) -> Iterator[str]:
    """One who may log in, and nothing else."""
    name = f"user_{database.schema}"
    database.run(f"CREATE ROLE {name} LOGIN")
    yield name
    database.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def missing(source) -> NotReady:
    with pytest.raises(NotReady) as raised:
        source.prepare()
    return raised.value


def test_a_server_that_does_not_write_what_is_needed_or_has_no_place_left_is_told():
    with postgres_server({"fsync": "off"}) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t(id int PRIMARY KEY)")
        with pytest.raises(NotReady) as raised:
            prepared(server.url)
        assert str(raised.value) == (
            f"database postgresql://runnel@127.0.0.1:{server.port}/runnel cannot be captured: wal_level is replica "
            "(run ALTER SYSTEM SET wal_level = logical; and restart the server)"
        )
        for statement in raised.value.statements:
            server.run(statement)
        for setting, other in (
            ("max_replication_slots", "drop a slot that nobody reads"),
            ("max_wal_senders", "end one of those in pg_stat_replication"),
        ):
            server.run(f"ALTER SYSTEM SET {setting} = 1")
            restart(server)
            with pytest.raises(NotReady) as raised:
                prepared(server.url)
            assert raised.value.missing == f"it has 1 free of {setting} = 1, and needs 2"
            assert raised.value.hint == f"run ALTER SYSTEM SET {setting} = 11; and restart the server, or {other}"
            for statement in raised.value.statements:
                server.run(statement)
        restart(server)
        prepared(server.url)


def restart(server: Postgres) -> None:
    server.stop()
    server.start()


def prepared(url: str):
    return PostgresSource(url, "shop", lambda table: True).prepare()


def test_each_right_that_is_missing_is_told_until_none_is(database: Database, user: str):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source(url=database.server.url_of(user))
    name = f"runnel_{database.schema}"
    said = []
    for _ in range(3):
        error = missing(source)
        said.append(error.missing)
        database.run(*error.statements)
    assert said == [
        f'user "{user}" may not replicate',
        f'user "{user}" may not read {database.schema}.t',
        f'there is no publication "{name}", and user "{user}" may not make it: it does not own {database.schema}.t',
    ]
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1)")
    assert told(events_of(source, start)) == [("c", None, {"id": 1})]
    with source.snapshot() as snapshot:
        (table,) = snapshot.tables()
        assert list(snapshot.rows(table)) == [[("1",)]]
    source.remove()
    assert database.ask(f"SELECT FROM pg_publication WHERE pubname = '{name}'"), "it is not ours to remove"


def test_what_an_administrator_made_is_used_and_left_alone(database: Database, user: str):
    database.run("CREATE TABLE t(id int PRIMARY KEY)", f"ALTER ROLE {user} REPLICATION")
    database.run(f"GRANT USAGE ON SCHEMA {database.schema} TO {user}", f"GRANT SELECT ON t TO {user}")
    name = f"runnel_{database.schema}_admin"
    source = database.source(url=database.server.url_of(user), slot=name, publication=name)
    error = missing(source)
    assert error.missing == f'there is no publication "{name}"'
    database.run(*error.statements)
    error = missing(source)
    assert error.missing == f'there is no slot "{name}"'
    database.run(*error.statements)
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1)")
    assert told(events_of(source, start)) == [("c", None, {"id": 1})]
    source.remove()
    assert database.ask(f"SELECT FROM pg_replication_slots WHERE slot_name = '{name}'")


def test_a_publication_without_a_table_is_told(database: Database):
    database.run("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY)")
    name = f"runnel_{database.schema}_admin"
    database.run(f"CREATE PUBLICATION {name} FOR TABLE a")
    error = missing(database.source(publication=name))
    assert error.missing == f'publication "{name}" does not have {database.schema}.b'
    database.run(*error.statements)
    database.source(publication=name).prepare()


def test_our_publication_follows_the_choice(database: Database):
    database.run("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY)")
    database.source([database.table("a")]).prepare()
    source = database.source([database.table("b")])
    source.remember({}, describe=False)
    start = source.prepare()
    source.remember(source.ready(), describe=False)
    database.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (2)")
    assert told(events_of(source, start)) == [("c", None, {"id": 2})]
    published = database.ask(f"SELECT tablename FROM pg_publication_tables WHERE pubname = 'runnel_{database.schema}'")
    assert published == [("b",)]


@pytest.mark.parametrize("made", ["CREATE TABLE t(v int)", "CREATE TABLE t(id int PRIMARY KEY DEFERRABLE)"])
def test_a_table_without_a_key_is_refused_before_its_writers_are(database: Database, made: str):
    database.run(made, "INSERT INTO t VALUES (1)")
    error = missing(database.source())
    assert "has no primary key: its updates and deletes would fail once it is published" in str(error)
    assert error.statements == (f'ALTER TABLE "{database.schema}"."t" REPLICA IDENTITY FULL;',)
    database.run("DELETE FROM t")
    database.run(*error.statements)
    database.source().prepare()


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        # an identity of its own whose index was dropped since
        (
            (
                "CREATE TABLE t(id int NOT NULL)",
                "CREATE UNIQUE INDEX i ON t(id)",
                "ALTER TABLE t REPLICA IDENTITY USING INDEX i",
                "DROP INDEX i",
            ),
            "t",
        ),
        # a partition, which has not got the identity of its table
        (
            (
                "CREATE TABLE t(id int) PARTITION BY RANGE (id)",
                "CREATE TABLE part PARTITION OF t FOR VALUES FROM (0) TO (9)",
                "ALTER TABLE t REPLICA IDENTITY FULL",
            ),
            "part",
        ),
    ],
)
def test_so_is_one_whose_identity_is_none(database: Database, made: tuple[str, ...], fault: str):
    database.run(*made, "INSERT INTO t VALUES (1)")
    error = missing(database.source())
    assert error.statements == (f'ALTER TABLE "{database.schema}"."{fault}" REPLICA IDENTITY FULL;',)
    database.run("UPDATE t SET id = 2")
    database.run(*error.statements)
    source = database.source()
    start = source.prepare()
    database.run("UPDATE t SET id = 3", "DELETE FROM t")
    assert [each[0] for each in told(events_of(source, start))] == ["u", "d"]


PARTED = (
    "CREATE TABLE t(id int PRIMARY KEY, v text, w text) PARTITION BY RANGE (id)",
    "CREATE TABLE part PARTITION OF t FOR VALUES FROM (0) TO (9)",
    "ALTER TABLE t REPLICA IDENTITY FULL",
    "INSERT INTO t VALUES (1, 'a', 'b')",
)


def test_a_partition_that_tells_less_than_its_table_is_refused_with_the_sql(database: Database):
    database.run(*PARTED)
    error = missing(database.source())
    assert f"{database.schema}.part has not got the REPLICA IDENTITY FULL of its table" in str(error)
    assert error.statements == (f'ALTER TABLE "{database.schema}"."part" REPLICA IDENTITY FULL;',)
    database.run(*error.statements)
    source = database.source()
    start = source.prepare()
    database.run("UPDATE t SET w = 'c'", "DELETE FROM t")
    assert told(events_of(source, start)) == [
        ("u", {"id": 1, "v": "a", "w": "b"}, {"id": 1, "v": "a", "w": "c"}),
        ("d", {"id": 1, "v": "a", "w": "c"}, None),
    ]


def test_one_that_was_made_later_is_said_once_with_the_sql(database: Database, caplog):
    database.run(*PARTED[:1], *PARTED[2:3])
    database.source().prepare()
    database.run(PARTED[1])
    source = database.source()
    source.remember({database.table("t"): None}, describe=False)
    source.prepare()
    source.prepare()
    (said,) = (each.getMessage() for each in caplog.records if each.levelno == logging.WARNING)
    assert said.endswith(f'; ALTER TABLE "{database.schema}"."part" REPLICA IDENTITY FULL;')


def test_one_that_is_made_while_changes_are_read_is_said_with_its_first_update(database: Database, caplog):
    database.run(*PARTED[:1], *PARTED[2:3])
    source = database.source()
    start = source.prepare()
    database.run(PARTED[1], PARTED[3], "UPDATE t SET w = 'c'", "UPDATE t SET w = 'd'")
    assert [each[0] for each in told(events_of(source, start))] == ["c", "u", "u"]
    (said,) = (each.getMessage() for each in caplog.records if each.levelno == logging.WARNING)
    assert said.startswith(f"{database.schema}.t: an update came without its old row")


def test_a_key_that_the_log_does_not_tell_of_a_partition_is_refused(database: Database):
    database.run(*PARTED)
    source, table = database.source(), database.table("t")
    source.check_key(table, ["id"])
    with pytest.raises(NotReady, match=r"the key of .*\.t shall have v, .* from .*\.part") as caught:
        source.check_key(table, ["id", "v"])
    database.run(*caught.value.statements)
    source.check_key(table, ["id", "v"])


def test_a_key_that_the_log_does_not_tell_is_refused(database: Database):
    database.run(
        "CREATE TABLE t(a int, b int GENERATED ALWAYS AS (a % 2) STORED, v int, PRIMARY KEY (a, b))",
        "CREATE TABLE u(a int PRIMARY KEY, b int GENERATED ALWAYS AS (a % 2) STORED)",
    )
    source = database.source()
    if database.version < 18:
        error = missing(source)
        assert error.missing == (
            f"{database.schema}.t has a generated column in its key, which PostgreSQL before 18 does not tell"
        )
        database.run(*error.statements)
    start = source.prepare()
    database.run("INSERT INTO t VALUES (3, DEFAULT, 1)", "UPDATE t SET v = 2", "DELETE FROM t")
    events = [event for event in events_of(source, start) if isinstance(event, Change)]
    assert [event.op for event in events] == ["c", "u", "d"]
    assert {event.table.key for event in events} == ({(0, 1)} if database.version >= 18 else {()})


def test_so_is_one_that_somebody_asks_for(database: Database):
    """Who deletes a row would leave its record behind: the log has nothing but the primary key of it."""
    database.run("CREATE TABLE t(id int PRIMARY KEY, n int, email text)")

    def opened(*key: str):
        name = rf"{database.schema}\.t"
        return open_source(database.server.url, database.schema, Selection(tables=[name], keys={name: key}))

    opened("id").close()
    with pytest.raises(NotReady) as raised:
        opened("id", "email")
    assert raised.value.missing == (
        f"the key of {database.schema}.t shall have email, which the log does not tell of a row that goes"
    )
    database.run(*raised.value.statements)
    source = opened("id", "email")
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1, 1, 'a')", "DELETE FROM t")
    events = [event for event in events_of(source, start) if isinstance(event, Change)]
    assert events[-1].before == ("1", "1", "a")
    source.close()


def test_a_table_that_is_not_there_is_told_with_those_that_are(database: Database):
    database.run("CREATE TABLE orders(id int PRIMARY KEY)")
    with pytest.raises(
        TableMissing, match=rf'has no table "{database.schema}.order" \(it has .*{database.schema}.orders'
    ):
        database.source([database.table("order")]).prepare()


def test_rows_that_a_policy_hides_are_an_error(database: Database, user: str):
    database.run("CREATE TABLE t(id int PRIMARY KEY, owner text)", "ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    database.run("CREATE POLICY own ON t USING (owner = current_user)", f"ALTER ROLE {user} REPLICATION")
    database.run(f"GRANT USAGE ON SCHEMA {database.schema} TO {user}", f"GRANT SELECT ON t TO {user}")
    database.run(f"CREATE PUBLICATION runnel_{database.schema} FOR TABLE t")
    source = database.source(url=database.server.url_of(user))
    source.prepare()
    with source.snapshot() as snapshot, pytest.raises(DatabaseRefused, match="row-level security"):
        list(snapshot.rows(snapshot.tables()[0]))


def test_a_transaction_that_does_not_end_is_told(database: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(readiness, "PATIENCE_SECONDS", 0.2)
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    other = database.connect()
    with other.transaction():
        other.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(SlotWaits, match="it waits for transactions that are open"):
            database.source().prepare()
    database.source().prepare()


def test_a_wrong_password_is_told_without_it(database: Database):
    database.run("DROP ROLE IF EXISTS locked", "CREATE ROLE locked LOGIN PASSWORD 'right'")
    source = database.source(url=database.server.url_of("locked", password="w0rng-secret"))
    with pytest.raises(DatabaseRefused) as raised:
        source.prepare()
    assert "password authentication failed" in str(raised.value)
    assert "w0rng-secret" not in str(raised.value)
    assert "w0rng-secret" not in repr(raised.value.__dict__)


def test_a_server_that_is_not_there_is_told_without_the_password():
    source = PostgresSource("postgresql://me:s3cret@127.0.0.1:1/shop", "shop", lambda table: True)
    with pytest.raises(DatabaseUnreachable, match=r"postgresql://me@127\.0\.0\.1:1/shop cannot be reached") as raised:
        source.prepare()
    assert "s3cret" not in str(raised.value)


def test_a_type_that_is_not_known_is_captured_as_text_and_said_once(
    database: Database, caplog: pytest.LogCaptureFixture
):
    database.run("CREATE TYPE pair AS (a int, b text)", "CREATE TABLE t(id int PRIMARY KEY, v pair, w pair)")
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1, '(1,x)', NULL)")
    with caplog.at_level(logging.WARNING):
        assert told(events_of(source, start)) == [("c", None, {"id": 1, "v": "(1,x)", "w": None})]
        events_of(source, start)
    assert caplog.messages == ['type "pair" is not known: its values are captured as text']


def test_a_table_that_was_told_of_stays_published_while_it_has_another_name(database: Database):
    """It may come back to its own, and nobody would know what had happened to it meanwhile."""
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "CREATE TABLE u(id int PRIMARY KEY)")
    source = database.source(lambda table: table.schema == database.schema and table.name in ("t", "u"))
    start = source.prepare()
    source.remember(source.numbers(), describe=False)
    database.run("ALTER TABLE t RENAME TO elsewhere")
    source.prepare()
    database.run("ALTER TABLE elsewhere RENAME TO t", "INSERT INTO t VALUES (1)")
    assert told(events_of(source, start)) == [("c", None, {"id": 1})]
    database.run("ALTER TABLE t RENAME TO elsewhere")
    source.remember({database.table("u"): source.numbers()[database.table("u")]}, describe=False)
    source.prepare()
    assert database.ask(f"SELECT tablename FROM pg_publication_tables WHERE schemaname = '{database.schema}'") == [
        ("u",)
    ]


def test_a_table_that_comes_later_and_cannot_be_captured_is_said_and_left_out(database: Database, user: str, caplog):
    """At the beginning it is refused. Whoever makes one while others are captured does not end the capture."""
    name = f"runnel_{database.schema}_all"
    database.run("CREATE TABLE t(id int PRIMARY KEY)", f"ALTER ROLE {user} REPLICATION")
    database.run(f"GRANT USAGE ON SCHEMA {database.schema} TO {user}", f"GRANT SELECT ON t TO {user}")
    database.run(f"CREATE PUBLICATION {name} FOR ALL TABLES")
    source = database.source(url=database.server.url_of(user), publication=name)
    start = source.prepare()
    source.remember({table: source.numbers()[table] for table in source.tables()}, describe=False)
    database.run("CREATE TABLE keyless(id int)", f"GRANT SELECT ON keyless TO {user}")
    database.run("CREATE TABLE hidden(id int PRIMARY KEY)", "INSERT INTO hidden VALUES (1)")
    database.run("INSERT INTO keyless VALUES (1)", "INSERT INTO t VALUES (1)")
    for _ in range(2):
        assert told(events_of(source, start)) == [("c", None, {"id": 1})]
        assert source.prepare() == start
    assert source.tables() == list(source.ready()) == [database.table("t")]
    with source.snapshot() as snapshot:
        assert [table.id.name for table in snapshot.tables()] == ["t"]
    assert sorted(message.partition(" captured: ")[2].partition(" (run ")[0] for message in caplog.messages) == [
        f"{database.schema}.keyless has no primary key: its updates and deletes would fail once it is published",
        f'user "{user}" may not read {database.schema}.hidden',
    ]
    database.run("ALTER TABLE keyless ADD PRIMARY KEY (id)", "INSERT INTO keyless VALUES (2)")
    with pytest.raises(TableReplaced):
        events_of(source, start)


def published(database: Database) -> list[str]:
    found = database.ask(
        f"SELECT tablename FROM pg_publication_tables WHERE schemaname = '{database.schema}' ORDER BY 1"
    )
    return [name for (name,) in found]


@pytest.mark.parametrize("has_publication", [True, False])
def test_a_table_that_goes_before_it_is_published_is_looked_for_again(database: Database, has_publication: bool):
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "CREATE TABLE u(id int PRIMARY KEY)")
    source = database.source()
    if has_publication:
        database.source([database.table("t")]).prepare()
    with moved(database, "DROP TABLE u"), pytest.raises(TableMoved, match=r'"[^"]*u" does not exist'):
        source.prepare()
    source.prepare()
    assert published(database) == ["t"]


def test_nor_does_one_end_the_capture_that_goes_before_it_is_left_out(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "CREATE TABLE u(id int PRIMARY KEY)")
    database.source().prepare()
    source = database.source([database.table("t")])
    source.remember(source.ready(), describe=False)
    with moved(database, "DROP TABLE u"), pytest.raises(TableMoved):
        source.prepare()
    source.prepare()
    assert published(database) == ["t"]


@contextmanager
def moved(database: Database, statement: str) -> Iterator[None]:
    """With this done right before the publication is made or altered."""

    def do(place: str) -> None:
        if place in ("capture.postgres.alter:before", "capture.postgres.publication:before"):
            database.run(statement)

    with watched(do):
        yield


@pytest.mark.parametrize("has_publication", [True, False])
def test_what_the_server_finishes_for_a_killed_capture_is_no_reason_to_end(database: Database, has_publication: bool):
    """It does not notice that nobody waits for the statement any more, and the next one starts meanwhile."""
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "CREATE TABLE u(id int PRIMARY KEY)")
    if has_publication:
        database.source([database.table("t")]).prepare()
    name, source = f"runnel_{database.schema}", database.source()
    unfinished = (
        f"ALTER PUBLICATION {name} ADD TABLE u" if has_publication else f"CREATE PUBLICATION {name} FOR TABLE t"
    )
    with closing(database.connect()) as killed, ThreadPoolExecutor() as pool:
        killed.execute("BEGIN")
        killed.execute(unfinished.encode())
        start = pool.submit(source.prepare)
        waits = f"SELECT FROM pg_stat_activity WHERE query LIKE '%PUBLICATION%{name}%' AND wait_event_type = 'Lock'"
        wait_for(lambda: database.ask(waits) or start.done())
        killed.execute("COMMIT")
        start.result()
    assert published(database) == ["t", "u"]


def test_captured_tables_that_are_all_away_are_no_reason_to_end(database: Database):
    """The first start says that there are none; later on the changes say that they are gone."""
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    source.remember(source.numbers() | {database.table("u"): 1}, describe=False)
    database.run("DROP TABLE t")
    assert source.prepare() == start
    gone = [event.table.name for event in events_of(source, start) if isinstance(event, Gone)]
    assert sorted(gone) == ["t", "u"]
    database.run(f"DROP PUBLICATION runnel_{database.schema}")
    source.prepare()
    source.remember({}, describe=False)  # those that were captured were removed
    source.prepare()


def test_what_a_role_is_set_to_cuts_no_capture_off(database: Database, user: str):
    """Operators set time-outs for roles: a capture reads long, is idle long, and waits for locks."""
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "INSERT INTO t VALUES (1)", f"ALTER ROLE {user} SUPERUSER")
    for setting in ("statement_timeout", "lock_timeout", "idle_session_timeout", "idle_in_transaction_session_timeout"):
        database.run(f"ALTER ROLE {user} SET {setting} = '100ms'")
    source = database.source(url=database.server.url_of(user))
    source.prepare()
    with source.snapshot() as snapshot, closing(database.connect()) as other, ThreadPoolExecutor() as pool:
        (table,) = snapshot.tables()
        other.execute("BEGIN")
        other.execute("LOCK TABLE t")
        read = pool.submit(lambda: [row for piece in snapshot.rows(table) for row in piece])
        waits = f"SELECT FROM pg_stat_activity WHERE usename = '{user}' AND wait_event_type = 'Lock'"
        wait_for(lambda: database.ask(f"{waits} AND state_change < now() - interval '200 ms'") or read.done())
        other.execute("COMMIT")
        assert read.result() == [("1",)]
    with closing(Address(database.server.url_of(user), "shop").connect()) as connection:
        assert connection.execute("SHOW idle_session_timeout").fetchone() == ("0",)
