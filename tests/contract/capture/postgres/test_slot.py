"""What the server keeps for us: it moves on when it may, and one that is not ours any more is noticed."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import psycopg
import pytest

from runnel.capture.errors import PositionLost
from runnel.capture.events import Ended, Passed, Position
from runnel.capture.postgres.errors import DatabaseRefused, DatabaseUnreachable, SlotInUse
from runnel.capture.postgres.replication import lsn_number
from tests.contract.capture.captured_postgres import LOGICAL, Database, events_of, position_after, told, wait_for
from tests.contract.views.postgres_server import postgres_server

pytestmark = pytest.mark.servers
SEGMENT = 16 * 1024 * 1024  # bytes of a file of the log


def confirmed(database: Database) -> int:
    ((lsn,),) = database.ask(
        f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 'runnel_{database.schema}'"
    )
    return lsn_number(lsn)


def test_the_server_forgets_only_what_was_confirmed(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    for number in range(3):
        database.run(f"INSERT INTO t VALUES ({number})")
    changes = source.changes(start)
    ends: list[Ended] = []
    wait_for(lambda: ends.extend(e for e in changes.read(1) if isinstance(e, Ended)) or len(ends) == 3)
    assert confirmed(database) == start.at["lsn"]
    source.confirm(Position(ends[1].at))
    wait_for(lambda: changes.read(0.05) is not None and confirmed(database) == ends[1].at["lsn"])
    changes.close()
    assert told(events_of(source, Position(ends[1].at))) == [("c", None, {"id": 2})]


def test_an_idle_table_beside_a_busy_one_lets_the_slot_move_on(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "CREATE TABLE busy(v text)")
    source = database.source([database.table("t")])
    start = source.prepare()
    changes = source.changes(start)
    kept = []
    for _ in range(4):
        database.run("INSERT INTO busy SELECT repeat('x', 1000) FROM generate_series(1, 500)", "SELECT pg_switch_wal()")
        ((end,),) = database.ask("SELECT pg_current_wal_flush_lsn()::text")

        def passes(end: str = end) -> bool:
            for event in changes.read(0.2):
                assert isinstance(event, Passed)
                source.confirm(Position(event.at))
            return confirmed(database) >= lsn_number(end)

        wait_for(passes)
        database.run("CHECKPOINT")
        kept.append(source.retained())
    changes.close()
    assert source.behind(start) > 3 * SEGMENT
    assert max(kept) < 2 * SEGMENT, kept


def test_a_slot_that_is_gone_is_refused(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    database.run(f"SELECT pg_drop_replication_slot('runnel_{database.schema}')")
    with pytest.raises(PositionLost, match=r'slot "runnel_\w+" is gone'):
        source.changes(start)


def test_a_slot_that_is_gone_is_not_made_for_a_capture_that_has_read_from_it(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    source.prepare()
    source.remember(source.numbers(), describe=False)
    database.run(f"SELECT pg_drop_replication_slot('runnel_{database.schema}')")
    with pytest.raises(PositionLost, match=r'slot "runnel_\w+" is gone'):
        source.prepare()
    assert not database.ask(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = 'runnel_{database.schema}'")


def test_a_slot_that_was_made_again_is_refused(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    database.run(f"SELECT pg_drop_replication_slot('runnel_{database.schema}')", "INSERT INTO t VALUES (1)")
    assert source.prepare().at["lsn"] > start.at["lsn"]
    with pytest.raises(PositionLost, match="it was dropped and made again, or somebody else read from it"):
        source.changes(start)


def test_a_slot_that_somebody_else_read_from_is_refused(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1)")
    name = f"runnel_{database.schema}"
    options = f"'proto_version', '1', 'publication_names', '{name}'"
    database.run(f"SELECT pg_logical_slot_get_binary_changes('{name}', NULL, NULL, {options})")
    with pytest.raises(PositionLost, match="somebody else read from it"):
        source.changes(start)


def test_a_slot_of_another_plugin_is_refused(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    database.run(f"SELECT pg_create_physical_replication_slot('runnel_{database.schema}')")
    with pytest.raises(DatabaseRefused, match=r'slot "runnel_\w+" is foreign: it is a physical one'):
        database.source().prepare()


def test_another_server_and_an_older_state_of_ours_are_refused(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    at = source.prepare().at
    with pytest.raises(PositionLost, match="it is another server: its identifier is"):
        source.changes(Position({**at, "system": "1"}))
    with pytest.raises(PositionLost, match="an older state of it was brought back"):
        source.changes(Position({**at, "lsn": at["lsn"] + (1 << 40)}))


def test_a_slot_has_one_reader(database: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("runnel.capture.postgres.replication.IN_USE_SECONDS", 0.1)
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    other = database.source(name=f"{database.schema}_other", slot=source._slot, publication=source._publication)
    changes = other.changes(start)
    with pytest.raises(SlotInUse, match=r"is in use: .*is active for PID"):
        database.source().changes(start)
    with pytest.raises(SlotInUse, match="stop the other reader"):
        database.source().remove()
    changes.close()


def test_an_older_copy_of_a_capture_has_to_let_go(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    older, newer = database.source(), database.source()
    start = older.prepare()
    abandoned = older.changes(start)
    changes = newer.changes(start)
    with pytest.raises(DatabaseUnreachable):
        wait_for(lambda: abandoned.read(0.1))
    database.run("INSERT INTO t VALUES (1)")
    wait_for(lambda: changes.read(0.1))


def test_the_next_reader_goes_on_after_one_that_was_killed(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1)")
    program = f"""
from runnel.capture.events import Position
from runnel.capture.postgres.source import PostgresSource
source = PostgresSource({database.server.url!r}, {database.schema!r}, lambda table: True)
changes = source.changes(Position({dict(start.at)!r}))
print("reading", flush=True)
changes.read(600)
changes.read(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=dict(os.environ)) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"reading\n"
        reader.send_signal(signal.SIGKILL)
        assert told(events_of(source, start)) == [("c", None, {"id": 1})]


def test_what_was_made_is_removed_without_a_trace(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    source.prepare()
    assert source.remove()
    name = f"runnel_{database.schema}"
    assert database.ask(f"SELECT FROM pg_replication_slots WHERE slot_name = '{name}'") == []
    assert database.ask(f"SELECT FROM pg_publication WHERE pubname = '{name}'") == []
    assert not source.remove()


def test_a_slot_whose_log_was_removed_is_refused_and_a_restart_keeps_the_rest():
    with postgres_server(
        {**LOGICAL, "max_slot_wal_keep_size": "16MB", "max_wal_size": "32MB", "min_wal_size": "32MB"}
    ) as server:
        with ExitStack() as stack:
            database = Database(server, stack)
            database.run("CREATE TABLE t(id int PRIMARY KEY)", "CREATE TABLE busy(v text)")
            source = database.source([database.table("t")])
            start = source.prepare()
            database.run("INSERT INTO t VALUES (1)")
            source.confirm(position_after(events_of(source, start)))  # of a stream that is closed
        server.stop()
        server.start()
        assert told(events_of(source, start)) == [("c", None, {"id": 1})]
        with psycopg.connect(server.url, autocommit=True) as connection:
            for _ in range(5):
                connection.execute(
                    f"INSERT INTO {database.schema}.busy SELECT repeat('x', 1000) FROM generate_series(1, 100)"
                )
                connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
        with pytest.raises(PositionLost, match="the server removed log that slot"):
            source.changes(start)
        with pytest.raises(PositionLost, match="max_slot_wal_keep_size"):
            source.prepare()
