"""A log that is not the one that was read from, or has lost a part, is never read as if it were."""

import os
from contextlib import closing

import pytest

from runnel.capture.errors import PositionLost
from runnel.capture.events import Position
from runnel.capture.mariadb.errors import PreparedLost
from tests.contract.capture.captured_mariadb import MariadbDatabase, changes_of, events_of, wait_for

pytestmark = pytest.mark.servers


@pytest.fixture
def database(alone):
    database = MariadbDatabase(alone)
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    yield database
    database.close()


def purge(database):
    database.run("FLUSH BINARY LOGS")
    ((last, *_),) = database.ask("SHOW MASTER STATUS")

    def is_alone() -> bool:
        """The server keeps a file for as long as it would need it after a crash."""
        database.run(f"PURGE BINARY LOGS TO '{last}'")
        return len(database.ask("SHOW BINARY LOGS")) == 1

    wait_for(is_alone)


def read(source, position):
    with closing(source.changes(position)) as changes:
        return list(changes.read(20.0))


def test_changes_whose_files_were_purged_are_lost(database):
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1)")
    purge(database)
    with pytest.raises(PositionLost, match="purged"):
        read(source, start)


def test_an_xa_transaction_whose_rows_were_purged_is_told_with_what_mends_it(database):
    source = database.source()
    with database.connect().cursor() as cursor:
        for statement in ("XA START 'old'", "INSERT INTO t VALUES (1)", "XA END 'old'", "XA PREPARE 'old'"):
            cursor.execute(statement)
        database.run("INSERT INTO t VALUES (2)")
        purge(database)
        start = source.prepare()
        cursor.execute("XA COMMIT 'old'")
    with pytest.raises(PreparedLost, match=r"XA COMMIT x'6f6c64',x'',1, .* prepared before all that the log still has"):
        read(source, start)


def test_files_that_were_read_may_be_purged(database):
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1)")
    events = events_of(database, source, start)
    purge(database)
    database.run("INSERT INTO t VALUES (2)")
    assert [new for _, _, new in changes_of(events_of(database, source, Position(events[-1].at)))] == [{"id": 2}]


def test_a_log_that_was_begun_anew_is_refused_though_its_numbers_come_again(database):
    source = database.source()
    for number in range(5):
        database.run(f"INSERT INTO t VALUES ({number})")
    start = source.prepare()
    database.run("RESET MASTER")
    with pytest.raises(PositionLost):
        read(source, start)
    for number in range(100, 130):
        database.run(f"INSERT INTO t VALUES ({number})")
    with pytest.raises(PositionLost):
        read(source, start)


def test_a_place_behind_four_gigabytes_is_one_of_a_file_that_is_so_long(database):
    source = database.source()
    start = source.prepare()
    database.run("FLUSH BINARY LOGS")
    path = database.server.directory / "data" / start.at["file"]
    size = path.stat().st_size
    os.truncate(path, 2**32 + 1_000)  # as if a large transaction were in it
    try:
        source.changes(Position({**start.at, "pos": 2**32 + 999})).close()
        with pytest.raises(PositionLost, match="begun anew"):
            source.changes(Position({**start.at, "pos": 2**32 + 1_001}))
    finally:
        os.truncate(path, size)


def test_reading_goes_on_when_the_server_was_restarted(database):
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1)")
    database.server.stop()
    database.server.start()
    database.server.run(f"INSERT INTO {database.schema}.t VALUES (2)")
    with closing(source.changes(start)) as changes:
        found = []
        while len(changes_of(found)) < 2:
            found += changes.read(60.0)
    assert [new for _, _, new in changes_of(found)] == [{"id": 1}, {"id": 2}]
