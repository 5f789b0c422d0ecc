"""What is missing is told with the SQL that mends it, and that SQL mends it."""

from __future__ import annotations

import logging
from contextlib import closing

import pytest

from runnel.capture.errors import CannotCapture, TableMissing
from runnel.capture.mariadb.connections import Address, ask_one
from runnel.capture.mariadb.errors import (
    DatabaseRefused,
    DatabaseUnreachable,
    LogUnreadable,
    NotReady,
    SnapshotOutdated,
)
from runnel.capture.mariadb.source import MariadbSource
from runnel.capture.opening import open_source
from runnel.capture.selection import Selection
from tests.contract.capture.captured_mariadb import changes_of, events_of
from tests.contract.capture.mariadb_server import mariadb_server

pytestmark = pytest.mark.servers


@pytest.fixture
def user(database):
    """One who may log in, and nothing else."""
    name = f"user_{database.schema}"
    database.run(f"CREATE USER {name}@'%' IDENTIFIED BY 'right'", "CREATE TABLE t (id int PRIMARY KEY)")
    yield name
    database.run(f"DROP USER {name}@'%'")


def missing(source) -> NotReady:
    with pytest.raises(NotReady) as raised:
        source.prepare()
    return raised.value


def test_a_server_without_a_log_is_told():
    with mariadb_server({"log_bin": "0", "skip_log_bin": "ON"}) as server:
        server.run("CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY)")
        error = missing(MariadbSource(server.url_of("shop"), "shop", lambda table: True))
        assert str(error) == (
            f"database mariadb://runnel@127.0.0.1:{server.port}/shop cannot be captured: it keeps no binary log "
            "(write log_bin = mariadb-bin server_id = 1 under [mariadbd] in my.cnf, and restart the server)"
        )


def test_a_replica_whose_log_does_not_have_what_it_replicates_is_told_until_it_is_promoted(alone, caplog):
    """One that others write to has these changes in its log."""
    alone.run("CREATE DATABASE copied", "CREATE TABLE copied.t (id int PRIMARY KEY)")
    source = MariadbSource(alone.url_of("copied"), "copied", lambda table: True)
    alone.run("CHANGE MASTER TO master_host = '127.0.0.1', master_port = 1, master_user = 'nobody'")
    try:
        source.prepare()
        alone.run("START SLAVE SQL_THREAD")
        source.prepare()
        assert "its log does not have what it replicates" in caplog.text
        alone.run("SET GLOBAL read_only = ON")
        error = missing(source)
        assert (error.missing, error.hint) == (
            "it is a replica, and its log does not have what it replicates",
            "write log_slave_updates = ON under [mariadbd] in my.cnf, and restart the server",
        )
        alone.run("STOP SLAVE")
        source.prepare()
    finally:
        alone.run("SET GLOBAL read_only = OFF", "STOP SLAVE", "RESET SLAVE ALL", "DROP DATABASE copied")


def test_a_log_that_leaves_out_the_database_is_told():
    with mariadb_server({"binlog_do_db": "kept"}) as server:
        for database in ("kept", "shop"):
            server.run(f"CREATE DATABASE {database}", f"CREATE TABLE {database}.t (id int PRIMARY KEY)")
        MariadbSource(server.url_of("kept"), "kept", lambda table: True).prepare()
        error = missing(MariadbSource(server.url_of("shop"), "shop", lambda table: True))
        assert (error.missing, error.hint) == (
            "its log leaves out database shop",
            "write binlog_do_db = shop as well under [mariadbd] in my.cnf, and restart the server",
        )


def test_settings_of_the_log_are_told_all_at_once(database):
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    mending = (
        "SET GLOBAL binlog_format = 'ROW';",
        "SET GLOBAL binlog_row_image = 'FULL';",
        "SET GLOBAL binlog_row_metadata = 'FULL';",
    )
    source = database.source()
    try:
        database.run("SET GLOBAL binlog_format = 'MIXED'", "SET GLOBAL binlog_row_image = 'MINIMAL'")
        database.run("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
        error = missing(source)
        assert error.missing == "binlog_format is MIXED, binlog_row_image is MINIMAL, binlog_row_metadata is MINIMAL"
        assert error.statements == mending
    finally:
        database.run(*mending)  # others use the server, too
    source.prepare()


def test_each_right_that_is_missing_is_told_until_none_is(database, user):
    url = database.server.url_of(database.schema, user, "right")
    with pytest.raises(DatabaseRefused, match="Access denied") as raised:
        database.source(url=url).prepare()
    assert raised.value.hint == f"run GRANT SELECT ON `{database.schema}`.* TO '{user}'@'%';"
    database.run(f"GRANT INSERT ON {database.schema}.* TO {user}@'%'")
    source = database.source(url=url)
    said = []
    for _ in range(2):
        error = missing(source)
        said.append(error.missing)
        database.run(*error.statements)
    assert said == [
        f"user '{user}'@'%' may not read the log",
        f"user '{user}'@'%' may not read {database.schema}.t",
    ]
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1)")
    assert changes_of(events_of(database, source, start)) == [("c", None, {"id": 1})]
    with source.snapshot() as snapshot:
        assert list(snapshot.rows(snapshot.tables()[0])) == [[(1,)]]


@pytest.mark.parametrize(
    ("change", "mended"), [("ACCOUNT LOCK", "ACCOUNT UNLOCK;"), ("PASSWORD EXPIRE", "IDENTIFIED BY")]
)
def test_one_who_may_not_log_in_any_more_is_not_waited_for(database, user, change, mended):
    database.run(f"GRANT SELECT ON {database.schema}.* TO {user}@'%'", f"ALTER USER {user}@'%' {change}")
    with pytest.raises(DatabaseRefused) as raised:
        database.source(url=database.server.url_of(database.schema, user, "right")).prepare()
    assert raised.value.hint.startswith(f"run ALTER USER '{user}'@'%' {mended}")


def test_a_limit_of_statements_is_none_of_a_capture(database, user):
    database.run(f"GRANT SELECT ON {database.schema}.* TO {user}@'%'")
    database.run(f"ALTER USER {user}@'%' WITH MAX_STATEMENT_TIME 0.5")
    with closing(Address(database.server.url_of(database.schema, user, "right"), "shop").connect()) as connection:
        assert float(ask_one(connection, "SELECT @@max_statement_time")[0]) == 0


def test_a_wrong_password_is_told_without_it(database, user):
    source = database.source(url=database.server.url_of(database.schema, user, "w0rng-secret"))
    with pytest.raises(DatabaseRefused, match="Access denied for user") as raised:
        source.prepare()
    assert "w0rng-secret" not in str(raised.value)
    assert "w0rng-secret" not in repr(raised.value.__dict__)


def test_a_server_that_is_not_there_is_told_without_the_password():
    source = MariadbSource("mariadb://me:s3cret@127.0.0.1:1/shop", "shop", lambda table: True)
    with pytest.raises(DatabaseUnreachable, match=r"mariadb://me@127\.0\.0\.1:1/shop cannot be reached") as raised:
        source.prepare()
    assert "s3cret" not in str(raised.value)


def test_a_database_that_is_not_there_is_told(database):
    source = database.source(url=database.server.url_of("nowhere"))
    with pytest.raises(DatabaseRefused, match=r"Unknown database 'nowhere' \(see to the database's name"):
        source.prepare()


def test_a_table_that_is_not_there_is_told_with_those_that_are(database):
    database.run("CREATE TABLE orders (id int PRIMARY KEY)")
    with pytest.raises(
        TableMissing, match=rf'has no table "{database.schema}.order" \(it has {database.schema}.orders'
    ):
        open_source(database.url, "shop", Selection(tables=[f"{database.schema}.order"]))
    found = open_source(database.url, "shop", Selection(tables=[f"{database.schema}.orders"]))
    assert found.connector == "mariadb"
    found.close()


def test_a_table_that_keeps_its_history_is_refused(database):
    database.run("CREATE TABLE t (id int PRIMARY KEY) WITH SYSTEM VERSIONING")
    with pytest.raises(CannotCapture, match="it keeps its own history"):
        database.source().prepare()


def test_parts_of_a_second_as_old_servers_kept_them_are_refused(database):
    """The log does not tell how long they are: what is behind them would be read from anywhere."""
    database.server.run("SET GLOBAL mysql56_temporal_format = OFF")
    try:
        database.run("CREATE TABLE t (id int PRIMARY KEY, whole datetime, n int)", "CREATE TABLE u (id int)")
        source = database.source()
        start = source.prepare()
        database.run("INSERT INTO t VALUES (1, '2024-02-29 01:02:03', 7)")
        assert changes_of(events_of(database, source, start)) == [
            ("c", None, {"id": 1, "whole": 1_709_168_523_000, "n": 7})
        ]
        database.run("ALTER TABLE u ADD part time(2)", "INSERT INTO u VALUES (1, '01:02:03.45')")
        with pytest.raises(LogUnreadable, match="column part has parts of a second in an old form"):
            events_of(database, source, start)
        with pytest.raises(CannotCapture, match=r"part: parts of a second are kept.*run ALTER TABLE .*`u` FORCE"):
            source.prepare()
    finally:
        database.server.run("SET GLOBAL mysql56_temporal_format = ON")
    database.run("ALTER TABLE u FORCE")
    start = source.prepare()
    database.run("UPDATE u SET id = 2")
    ((_, _, after),) = changes_of(events_of(database, source, start))
    assert after == {"id": 2, "part": 3_723_450_000}


def test_a_table_whose_file_is_away_is_waited_for(database):
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = database.source()
    start, table = source.prepare(), source.table(database.table("t"))
    database.run("ALTER TABLE t DISCARD TABLESPACE")
    source.prepare()
    with source.snapshot() as snapshot, pytest.raises(SnapshotOutdated, match="Tablespace has been discarded"):
        list(snapshot.rows(table))
    with closing(source.changes(start)), pytest.raises(TableMissing):
        source.chunk(table, None, 10, "away")


def test_one_who_may_only_read_is_told_of_foreign_keys(database, user, caplog):
    database.run("CREATE TABLE child (id int PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id) ON DELETE CASCADE)")
    database.run(f"GRANT SELECT ON {database.schema}.* TO {user}@'%'")
    database.run(f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {user}@'%'")
    database.source(url=database.server.url_of(database.schema, user, "right")).prepare()
    assert any("child_ibfk_1 (ON DELETE CASCADE, with" in message for message in caplog.messages)


def test_a_table_without_a_past_is_said(database, caplog):
    database.run("CREATE TABLE t (id int PRIMARY KEY) ENGINE = Aria")
    with caplog.at_level(logging.WARNING):
        database.source().prepare()
    assert any("of another engine than InnoDB" in message for message in caplog.messages)
