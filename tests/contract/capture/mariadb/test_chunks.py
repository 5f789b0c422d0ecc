"""Chunks of a table beside the changes, and snapshots: rows at an exact place of the log."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from runnel.capture.errors import InvalidFilter, TableMissing
from runnel.capture.events import Change, Ended, Mark
from runnel.capture.mariadb import chunks
from runnel.capture.mariadb.errors import DatabaseUnreachable, SnapshotOutdated
from tests.contract.capture.captured_mariadb import wait_for

pytestmark = pytest.mark.servers
SECONDS = 60.0


@pytest.fixture
def source(database):
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, v varchar(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')"
    )
    return database.source()


def read_to_mark(changes, tag):
    events = []
    while Mark(tag) not in events:
        events += changes.read(SECONDS)
    return events


def test_a_mark_is_told_behind_all_that_the_rows_have_seen_and_before_the_rest(database, source):
    start = source.prepare()
    table = source.table(database.table("t"))
    with closing(source.changes(start)) as changes:
        database.run("UPDATE t SET v = 'x' WHERE id = 1")
        chunk = source.chunk(table, None, 2, "one")
        database.run("UPDATE t SET v = 'y' WHERE id = 1")
        assert (list(chunk.rows), chunk.is_last) == ([(1, "x"), (2, "b")], False)
        events = read_to_mark(changes, "one")
        before = events[: events.index(Mark("one"))]
        assert [event.after for event in before if isinstance(event, Change)] == [(1, "x")]
        assert isinstance(before[-1], Ended)
        while not any(isinstance(event, Change) and event.after == (1, "y") for event in events):
            events += changes.read(SECONDS)
        chunk = source.chunk(table, (2,), 2, "two")
        assert (list(chunk.rows), chunk.is_last) == ([(3, "c")], True)
        assert all(chunk.sees(event.id) for event in events if isinstance(event, Ended))
        read_to_mark(changes, "two")


def test_a_quiet_log_tells_a_mark_at_once(database, source):
    start = source.prepare()
    with closing(source.changes(start)) as changes:
        assert source.chunk(source.table(database.table("t")), None, 10, "now") is not None
        assert changes.read(SECONDS) == [Mark("now")]


def test_a_chunk_of_rows_that_fit_a_condition(database, source):
    start = source.prepare()
    table = source.table(database.table("t"))
    with closing(source.changes(start)):
        assert list(source.chunk(table, (1,), 10, "some", "v <> 'b' -- or not").rows) == [(3, "c")]
        with pytest.raises(InvalidFilter, match='cannot be chosen by "nothing > 1"'):
            source.chunk(table, None, 10, "none", "nothing > 1")
        assert source.chunk(table, None, 10, "again") is not None


def test_a_condition_that_takes_too_long_is_told_to_need_an_index(database, source, monkeypatch):
    monkeypatch.setattr(chunks, "FILTER_SECONDS", 0.1)
    start = source.prepare()
    table = source.table(database.table("t"))
    with closing(source.changes(start)):
        with pytest.raises(InvalidFilter, match=r"not found within 0\.1 s.*\(the filter needs an index"):
            source.chunk(table, None, 10, "slow", "sleep(60) = 0")
        assert source.chunk(table, None, 10, "again", "id > 1") is not None


@pytest.mark.parametrize("where", [None, "sleep(60) = 0"])
def test_a_statement_that_is_killed_is_tried_again_and_stops_no_snapshot(database, source, where):
    database.run("CREATE VIEW slow AS SELECT id, v, sleep(60) AS n FROM t")
    start = source.prepare()
    table = source.table(database.table("slow" if where is None else "t"))
    asked = "SELECT id FROM information_schema.PROCESSLIST WHERE info LIKE '%FROM `%' AND id <> connection_id()"

    def kill():
        wait_for(lambda: [database.run(f"KILL QUERY {id}") for (id,) in database.ask(asked)])

    with closing(source.changes(start)), ThreadPoolExecutor() as pool:
        killed = pool.submit(kill)
        with pytest.raises(DatabaseUnreachable, match="execution was interrupted"):
            source.chunk(table, None, 10, "killed", where)
        killed.result()
        assert source.chunk(source.table(database.table("t")), None, 10, "again", "id > 1") is not None


@pytest.mark.parametrize("where", [None, "id > 1"])
def test_a_deadlock_stops_no_snapshot(database, source, monkeypatch, where):
    start = source.prepare()
    table = source.table(database.table("t"))
    with closing(source.changes(start)):
        monkeypatch.setattr(chunks, "query_of", lambda *_: "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213")
        with pytest.raises(DatabaseUnreachable):
            source.chunk(table, None, 10, "locked", where)


@pytest.mark.parametrize("where", [None, "id > 1"])
@pytest.mark.parametrize("locks", [["LOCK TABLES t WRITE"], ["SELECT * FROM t", "ALTER TABLE t ADD COLUMN n int"]])
def test_a_lock_that_somebody_keeps_holds_up_no_changes(database, source, locks, where):
    """Nor one that somebody waits for: whoever comes then waits behind him."""
    database.run("CREATE TABLE other (id int PRIMARY KEY)")
    start = source.prepare()
    table = source.table(database.table("t"))
    waits = "SELECT 1 FROM information_schema.PROCESSLIST WHERE state LIKE 'Waiting for table metadata lock%'"
    *_, last = holders = [database.connect() for _ in locks]
    with closing(source.changes(start)) as changes, ThreadPoolExecutor() as pool:
        for holder, statement in zip(holders[:-1], locks[:-1], strict=True):
            holder.cursor().execute("BEGIN")
            holder.cursor().execute(statement)
        waiting = pool.submit(last.cursor().execute, locks[-1])
        wait_for(lambda: waiting.done() if len(locks) == 1 else database.ask(waits))
        asked = pool.submit(source.chunk, table, None, 10, "now", where)
        try:
            assert asked.result(SECONDS) is None
            assert pool.submit(source.prepare).result(SECONDS) is not None
            database.run("INSERT INTO other VALUES (1)")
            assert any(isinstance(event, Change) for event in changes.read(SECONDS))
        finally:
            for holder in holders[:-1]:
                holder.rollback()
            waiting.result(SECONDS)
            last.cursor().execute("UNLOCK TABLES")
        found = []
        wait_for(lambda: found.append(source.chunk(table, None, 10, "later", where)) or found[-1])
        assert [row[0] for row in found[-1].rows] == ([1, 2, 3] if where is None else [2, 3])


def test_chunks_of_wide_rows_have_few_of_them(database, source, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 50_000)
    database.run("CREATE TABLE wide (id int PRIMARY KEY, v text)")
    database.run("INSERT INTO wide SELECT seq, repeat('x', 2000) FROM seq_1_to_200")
    start, table = source.prepare(), source.table(database.table("wide"))
    with closing(source.changes(start)):
        sizes, keys, is_last = [], [], False
        while not is_last:
            chunk = source.chunk(table, keys[-1] if keys else None, 1_000, f"wide/{len(sizes)}")
            sizes.append(sum(len(row[1]) for row in chunk.rows))
            keys += [table.key_of(row) for row in chunk.rows]
            is_last = chunk.is_last
    assert keys == [(number,) for number in range(1, 201)]
    assert max(sizes) <= 50_000


def test_a_chunk_of_a_table_that_is_gone_is_an_error(database, source):
    start = source.prepare()
    table = source.table(database.table("t"))
    with closing(source.changes(start)):
        database.run("DROP TABLE t")
        with pytest.raises(TableMissing):
            source.chunk(table, None, 10, "gone")


def test_a_chunk_behind_a_key_that_is_no_longer_one_begins_anew(database, source):
    start = source.prepare()
    table = source.table(database.table("t"))
    with closing(source.changes(start)):
        database.run("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v)")
        chunk = source.chunk(table, (1,), 10, "key")
        assert (chunk.rows, chunk.is_last, chunk.table.key) == ((), False, (1,))


KEYS = {
    "enum('z','a','m')": ["'z'", "'a'", "'m'"],
    "set('x','y')": ["''", "'x'", "'y'", "'x,y'"],
    "bit(9)": ["b'1'", "b'10'", "b'100000000'"],
    "float": ["-1.5", "0.1", "0.2", "16777216"],
    "double": ["-1e300", "0.1", "3"],
    "decimal(10,3)": ["-1.5", "0", "2.25"],
    "bigint unsigned": ["0", "18446744073709551615"],
    "date": ["'1999-01-01'", "'2024-02-29'"],
    "time(3)": ["'-100:00:00'", "'00:00:00.001'", "'200:00:00'"],
    "datetime(6)": ["'2024-01-01'", "'2024-01-01 00:00:00.000001'"],
    "timestamp": ["'2024-01-01'", "'2024-01-02'"],
    "year": ["1999", "2024"],
    "varchar(10)": ["'a'", "'B'", "'c'", "'ä\\\\'"],
    "varchar(10) character set latin1 collate latin1_bin": ["'B'", "'a'", "'ä'"],
    "varbinary(5)": ["x''", "x'00'", "x'ff'"],
    "enum('z','a\\\\b','it''s','\\n','\\\\n','c,d')": ["'z'", "'a\\\\b'", "'it''s'", "'\\n'", "'\\\\n'", "'c,d'"],
    "set('z','a\\\\b','it''s','\\r')": ["'z'", "'a\\\\b'", "'it''s,z'", "'\\r,z'"],
    "binary(4)": ["x'00'", "x'01'"],
    "uuid": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-9c0b-1ef8-bb6d-6bb9bd380a11'", "uuid()"],
    "inet6": ["'::1'", "'2001:db8::1'"],
}


def test_keys_of_every_type_are_read_in_order_from_each_on(database, source):
    database.run("SET time_zone = '+00:00'")
    for number, (kind, values) in enumerate(KEYS.items()):
        rows = ", ".join(f"({value}, {place % 2})" for value in values for place in range(2))
        database.run(f"CREATE TABLE k{number} (k {kind} NOT NULL, n int NOT NULL, PRIMARY KEY (k, n))")
        database.run(f"INSERT INTO k{number} VALUES {rows}")
    with source.snapshot() as snapshot:
        for table in snapshot.tables():
            rows = [row for piece in snapshot.rows(table) for row in piece]
            assert len(rows) == len(set(rows)) == len(database.rows(table.id.name)), table.id
            for number, row in enumerate(rows):
                rest = [each for piece in snapshot.rows(table, table.key_of(row)) for each in piece]
                assert rest == rows[number + 1 :], (table.id, row)


def test_a_snapshot_does_not_see_what_was_altered_since(database, source):
    database.run("SET lock_wait_timeout = 20", "CREATE TABLE read_first (id int PRIMARY KEY)")
    database.run("INSERT INTO read_first VALUES (1)")
    with source.snapshot() as snapshot:
        tables = {table.id.name: table for table in snapshot.tables()}
        assert list(snapshot.rows(tables["read_first"])) == [[(1,)]]
        database.run("ALTER TABLE read_first ADD COLUMN n int")  # it was let go of, and this waits for nobody
        database.run("TRUNCATE TABLE t")
        with pytest.raises(SnapshotOutdated):
            list(snapshot.rows(tables["t"]))


def test_many_rows_come_in_pieces(database, source):
    database.run(f"INSERT INTO t VALUES {', '.join(f'({number}, 1)' for number in range(10, 30_010))}")
    database.run("CREATE TABLE loose (x int)", "INSERT INTO loose SELECT id FROM t")
    with source.snapshot() as snapshot:
        for table in snapshot.tables():
            pieces = list(snapshot.rows(table))
            assert sum(len(piece) for piece in pieces) == 30_003
            assert len(pieces) > 5
            assert max(len(piece) for piece in pieces) <= 4096
