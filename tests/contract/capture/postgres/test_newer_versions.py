"""Newer servers than the one that is installed: PostgreSQL 16 and 18, out of a package of PyPI.

The suite runs on the one that is installed. Here are, for each of the others, some of its tests that tell most, and
what only newer servers can do. `test_whole_suite.py` has all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from runnel.capture.errors import PositionLost
from runnel.capture.postgres.errors import TableMoved
from tests.contract.capture.captured_postgres import LOGICAL, Database, events_of, plain, told, wait_for
from tests.contract.capture.lives import running
from tests.contract.capture.postgres.histories import TABLES, Writer, columns_of, numbers_of_columns, rows_of
from tests.contract.capture.postgres.lives import Life, in_small_pieces, lived_here
from tests.contract.capture.postgres.rebuilding import rebuilt_tables, shown
from tests.contract.capture.postgres.standby import promote, standby_of, synchronize

# Of the suite; here they meet the servers of this file.
from tests.contract.capture.postgres.test_changes import (  # noqa: F401
    test_a_large_value_that_an_update_left_alone_is_marked,
    test_a_prepared_transaction_is_told_when_it_is_committed,
    test_a_truncate_is_told_of_each_of_its_tables,
    test_columns_that_come_and_go_are_told_where_they_do,
    test_generated_columns_are_told_and_read_or_neither,
    test_messages_of_applications_are_told,
    test_partitions_are_told_as_their_table,
)
from tests.contract.capture.postgres.test_convergence_in_topics import LITTLE_MEMORY, WHOLE, rows_told
from tests.contract.capture.postgres.test_in_progress import (  # noqa: F401
    pieces,
    test_a_large_transaction_with_savepoints_rolled_back_is_told_as_without_pieces,
    test_nothing_is_told_before_the_commit_and_nothing_of_what_is_rolled_back,
    test_what_a_server_cannot_send_before_the_commit_is_told_with_the_remedy,
)
from tests.contract.capture.postgres.test_readiness import (  # noqa: F401
    test_a_key_that_the_log_does_not_tell_is_refused,
    test_each_right_that_is_missing_is_told_until_none_is,
    test_what_an_administrator_made_is_used_and_left_alone,
    user,
)
from tests.contract.capture.postgres.test_snapshot import (  # noqa: F401
    test_a_change_is_in_it_or_behind_it_though_writers_do_not_wait,
    test_it_has_what_the_publication_has,
)
from tests.contract.capture.postgres.test_types import captured_types, expected
from tests.contract.capture.topics import committed
from tests.contract.views.postgres_server import Postgres, postgres_server

pytestmark = pytest.mark.servers
VERSIONS = ("18", "16")  # the newest first: tests of it alone are put among the others of it
WAITING = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'runnel%'"

on_the_newest = pytest.mark.parametrize("server", VERSIONS[:1], indirect=True)


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    with postgres_server(LOGICAL, version=request.param) as server:
        yield server


def test_a_capture_that_is_cut_off_while_transactions_come_in_pieces_converges(database: Database, broker, seed):
    database.run(*(statement for statements in TABLES.values() for statement in statements))
    url = database.server.url + LITTLE_MEMORY
    life = Life(url, database.schema, database.schema, broker.bootstrap, small=50, in_progress=True)
    writer = Writer(database, f"{seed}", numbers_of_columns(), large=True)
    for die_at in ("capture.commit:before:2", "capture.write:after:2", "capture.commit:after:1", ""):
        for _ in range(15):
            writer.transact()
        lived_here(life, die_at)
    told = rebuilt_tables(life, TABLES, WHOLE)
    with database.connect() as connection:
        for table in TABLES:
            columns = columns_of(connection, table)
            assert shown(rows_told(told[table]), columns) == shown(rows_of(connection, table), columns), table


def test_types_stand_in_json_as_the_table_says(server: Postgres):
    captured = captured_types(server)
    assert len(captured.types) > 100
    assert {name: captured.told(name) for name in captured.tables} == {
        each.name: expected(each) for each in captured.types
    }


@on_the_newest
def test_whoever_alters_a_table_is_not_waited_for(database: Database):
    """A look at the publication opens its tables, and he may wait for a lock of ours."""
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "CREATE TABLE u(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    table = source.table(database.table("t"))
    wait_for(lambda: source.chunk(table, None, 10, "t/1") is not None)
    with closing(database.connect()) as other:
        with other.transaction():
            other.execute("ALTER TABLE u ADD COLUMN v int")
            assert source.chunk(table, None, 10, "t/2") is None
            with pytest.raises(TableMoved, match="lock timeout"):
                source.table(table.id)
            source.changes(start).close()
        assert source.chunk(table, None, 10, "t/3") is not None
        with ThreadPoolExecutor(1) as pool:
            with other.transaction():
                other.execute("DROP TABLE u")
                looking = pool.submit(source.table, table.id)
                wait_for(lambda: database.ask(WAITING) or looking.done())
            with pytest.raises(TableMoved):
                looking.result()
    assert source.table(table.id) == table


def test_the_protocol_is_the_newest_that_the_server_knows(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source(in_progress=True)
    start = source.prepare()
    with closing(source.changes(start)):
        ((asked,),) = database.ask(
            "SELECT query FROM pg_stat_activity JOIN pg_replication_slots ON active_pid = pid "
            f"WHERE slot_name = 'runnel_{database.schema}'"
        )
    assert "proto_version '4'" in asked
    assert "streaming 'on'" in asked


@on_the_newest
@pytest.mark.parametrize(("published", "row"), [("none", {"id": 1}), ("stored", {"id": 1, "twice": 2})])
def test_generated_columns_are_told_as_an_administrator_says(database: Database, published: str, row: dict[str, int]):
    name = f"runnel_{database.schema}_admin"
    database.run(
        "CREATE TABLE t(id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED,"
        " thrice int GENERATED ALWAYS AS (id * 3) VIRTUAL)",
        f"CREATE PUBLICATION {name} FOR TABLE t WITH (publish_generated_columns = {published})",
    )
    source = database.source(publication=name)
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1)", "UPDATE t SET id = 1")
    assert told(events_of(source, start)) == [("c", None, row), ("u", None, row)]
    with source.snapshot() as snapshot:
        (table,) = snapshot.tables()
        assert [plain(table, each) for piece in snapshot.rows(table) for each in piece] == [row]


@on_the_newest
def test_a_slot_that_the_server_gave_up_is_told_with_its_setting(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    slot = f"FROM pg_replication_slots WHERE slot_name = 'runnel_{database.schema}'"
    database.run("ALTER SYSTEM SET idle_replication_slot_timeout = '1s'", "SELECT pg_reload_conf()")
    try:
        wait_for(lambda: database.run("CHECKPOINT") or database.ask(f"SELECT {slot} AND wal_status = 'lost'"))
    finally:
        database.run("ALTER SYSTEM RESET idle_replication_slot_timeout", "SELECT pg_reload_conf()")
    with pytest.raises(
        PositionLost, match="which nobody read for its idle_replication_slot_timeout; SELECT pg_drop_repl"
    ):
        source.changes(start)


@on_the_newest
def test_a_capture_goes_on_with_the_standby_that_took_over(database: Database, broker):
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "INSERT INTO t VALUES (0)")
    primary = database.server
    life = Life(primary.url, database.schema, database.schema, broker.bootstrap)
    with standby_of(primary) as standby:
        assert not lived_here(life)
        assert database.ask(f"SELECT failover FROM pg_replication_slots WHERE slot_name = 'runnel_{life.name}'") == [
            (True,)
        ]
        with in_small_pieces(life.small), closing(life.source()) as source, running(life.capture(source)):
            database.run("INSERT INTO t VALUES (1)")
            synchronize(primary, standby, f"runnel_{life.name}")
        database.run("INSERT INTO t VALUES (2)")
        assert not lived_here(life)
        database.run("INSERT INTO t VALUES (3)")  # which the old server has told nobody
        promote(primary, standby)
        standby.run(f"INSERT INTO {life.schema}.t VALUES (4)")
        assert not lived_here(life._replace(url=standby.url))
    records = committed(broker.bootstrap, f"{life.name}.{life.schema}.t")[f"{life.name}.{life.schema}.t"]
    assert [(each.op, each.value["after"]["id"]) for each in records] == [("r", 0), *(("c", n) for n in range(1, 5))]
