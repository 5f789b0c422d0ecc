"""What becomes of a MariaDB's log: transactions of every kind, and tables that change in the middle."""

import logging
from contextlib import closing

import pymysql
import pytest

from runnel.capture.events import Began, Change, Ended, Gone, Position, Truncated
from runnel.capture.mariadb import changes, groups
from runnel.capture.mariadb.errors import HistoryKept, StatementLogged
from runnel.capture.selection import Selection
from tests.contract.capture.captured_mariadb import changes_of, events_of, told

pytestmark = pytest.mark.servers


@pytest.fixture
def source(database):
    database.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))")
    return database.source()


@pytest.fixture
def start(source):
    return source.prepare()


def transactions(events):
    return [event.id for event in events if isinstance(event, Began)]


def test_a_transaction_of_several_statements_is_one(database, source, start):
    database.execute("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET id = 2", "DELETE FROM t")
    events = events_of(database, source, start)
    assert len(transactions(events)) == 1
    assert changes_of(events) == [
        ("c", None, {"id": 1, "v": "a"}),
        ("u", {"id": 1, "v": "a"}, {"id": 2, "v": "a"}),
        ("d", {"id": 2, "v": "a"}, None),
    ]
    ended = events[-1]
    assert isinstance(ended, Ended)
    assert ended.id == ended.at["gtid"].split(",")[0] == transactions(events)[0]


def test_what_was_rolled_back_to_a_savepoint_is_not_told_even_if_the_log_has_it(database, source, start):
    # a temporary table in the transaction makes the server write down what it rolls back
    database.execute(
        "INSERT INTO t VALUES (1, 'a')",
        "CREATE TEMPORARY TABLE passing (x int)",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (2, 'b')",
        "ROLLBACK TO SAVEPOINT s",
        "INSERT INTO t VALUES (3, 'c')",
    )
    database.run("BEGIN", "INSERT INTO t VALUES (4, 'd')", "CREATE TEMPORARY TABLE other (x int)", "ROLLBACK")
    assert [new["id"] for _, _, new in changes_of(events_of(database, source, start))] == [1, 3]
    assert sorted(id for id, _ in database.rows("t")) == [1, 3]


def test_a_replaced_row_is_told_as_what_became_of_it(database, source, start):
    database.run("INSERT INTO t VALUES (1, 'a')", "REPLACE INTO t VALUES (1, 'b')")
    database.run("INSERT INTO t VALUES (1, 'x') ON DUPLICATE KEY UPDATE v = 'c'")
    assert changes_of(events_of(database, source, start)) == [
        ("c", None, {"id": 1, "v": "a"}),
        ("u", {"id": 1, "v": "a"}, {"id": 1, "v": "b"}),
        ("u", {"id": 1, "v": "b"}, {"id": 1, "v": "c"}),
    ]


def test_tables_of_engines_without_transactions_are_told(database, source):
    database.run("CREATE TABLE loose (id int PRIMARY KEY) ENGINE = Aria")
    start = source.prepare()
    database.run("INSERT INTO loose VALUES (1), (2)", "BEGIN", "INSERT INTO loose VALUES (3)", "ROLLBACK")
    assert [new for _, _, new in changes_of(events_of(database, source, start))] == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_a_truncated_table_is_told(database, source, start):
    database.run("INSERT INTO t VALUES (1, 'a')", "TRUNCATE TABLE t", f"truncate `{database.schema}`.`t`")
    assert [each[0] for each in changes_of(events_of(database, source, start))] == ["c", "t", "t"]


@pytest.mark.parametrize("charset", ["latin1", "cp1250", "sjis", "gbk", "utf8mb4"])
def test_names_of_tables_are_read_in_the_letters_of_who_wrote_the_statement(database, source, charset):
    name = "表" if charset in ("sjis", "gbk") else "größe"
    database.run(f"CREATE TABLE {name} (id int PRIMARY KEY)")
    start = source.prepare()
    settings = "SET auto_increment_increment = 2"
    writer = pymysql.connect(
        **database.server.account(), database=database.schema, charset=charset, init_command=settings
    )
    with closing(writer), writer.cursor() as cursor:
        cursor.execute(f"TRUNCATE {name}")
        cursor.execute(f"RENAME TABLE {name} TO {name}2")
        cursor.execute(f"CREATE OR REPLACE TABLE {name}2 SELECT 1 AS id")
        cursor.execute("CREATE TEMPORARY TABLE other (id int)")
        cursor.execute(f"CREATE OR REPLACE TABLE {name}2 LIKE other")
        cursor.execute(f"DROP TABLE {name}2")
    assert [each[:2] for each in changes_of(events_of(database, source, start))] == [
        ("t", name),
        ("gone", name),
        ("came", f"{name}2"),
        ("gone", f"{name}2"),
        ("c", None),
        ("gone", f"{name}2"),
        ("gone", f"{name}2"),
    ]


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE t ADD SYSTEM VERSIONING", "ALTER TABLE t DROP SYSTEM VERSIONING"],
        ["CREATE TABLE u (id int PRIMARY KEY) WITH SYSTEM VERSIONING", "INSERT INTO u VALUES (1)", "DROP TABLE u"],
        ["ALTER TABLE hidden.t ADD SYSTEM VERSIONING", "CREATE TABLE u LIKE hidden.t", "INSERT INTO u VALUES (1)"],
    ],
)
def test_a_table_that_begins_to_keep_its_own_history_ends_the_capture(database, source, start, statements):
    """Its former rows would come as new ones, and its deletes as updates."""
    other = f"{database.schema}_hidden"
    database.run(f"CREATE DATABASE {other}", f"CREATE TABLE {other}.t (id int PRIMARY KEY)")
    try:
        database.run(*(each.replace("hidden", other) for each in statements))
        with pytest.raises(HistoryKept, match="it keeps its own history"):
            events_of(database, source, start)
        left_out = database.source(chosen=lambda table: table.name not in ("t", "u"))
        assert told(events_of(database, left_out, start)) == []
    finally:
        database.run(f"DROP DATABASE {other}")


def test_statements_under_settings_of_their_own_are_told_as_those_without(database, source, start):
    """As JDBC's setQueryTimeout makes them."""
    under = "SET STATEMENT max_statement_time = 60, sql_mode = 'ANSI' FOR"
    database.run(f"{under} TRUNCATE TABLE t", f"{under} RENAME TABLE t TO u", f"{under} DROP TABLE u")
    expected = [("t", "t"), ("gone", "t"), ("came", "u"), ("gone", "u")]
    assert told(events_of(database, source, start)) == expected
    database.run("CREATE TABLE t (id int)", "SET STATEMENT binlog_format = 'STATEMENT' FOR INSERT INTO t VALUES (1)")
    with pytest.raises(StatementLogged, match="instead of its rows: SET STATEMENT binlog_format"):
        events_of(database, source, start)


def test_an_alter_that_is_logged_in_two_phases_is_told_once_and_one_that_fails_not_at_all(database, source, start):
    database.run("INSERT INTO t VALUES (1, 'a'), (2, 'a')", "SET SESSION binlog_alter_two_phase = ON")
    with pytest.raises(pymysql.IntegrityError, match="Duplicate entry"):
        database.run("ALTER TABLE t RENAME TO u, ADD UNIQUE (v)")
    database.run("ALTER TABLE t RENAME TO u, ADD n int", "INSERT INTO u VALUES (3, 'b', 4)")
    assert changes_of(events_of(database, source, start))[2:] == [
        ("gone", "t"), ("came", "u"), ("c", None, {"id": 3, "v": "b", "n": 4}),
    ]  # fmt: skip


def test_a_truncated_table_is_told_though_it_is_gone_since(database, source, start):
    database.run("TRUNCATE TABLE t", "DROP TABLE t")
    assert told(events_of(database, source, start)) == [("t", "t"), ("gone", "t")]


def test_no_reading_ends_between_what_a_statement_does_to_a_table_and_its_end(database, source, start, monkeypatch):
    """Whoever went on there would not count it again, if no row of the table was told: it is not known."""
    monkeypatch.setattr(changes, "AT_ONCE", 1)
    readings = []

    class Noted:
        def __init__(self, reading):
            self.close = reading.close
            self.read = lambda seconds: readings.append(reading.read(seconds)) or readings[-1]

    opened = source.changes
    monkeypatch.setattr(source, "changes", lambda after: Noted(opened(after)))
    database.run("TRUNCATE TABLE t", "DROP TABLE t")
    events_of(database, source, start)
    kinds = [[type(event) for event in events] for events in readings if events]
    assert kinds == [[Began, Truncated, Ended], [Began, Gone, Ended]]


def test_columns_that_change_in_the_middle_are_told_as_they_were(database, source, start):
    database.run("INSERT INTO t VALUES (1, 'a')")
    database.run("ALTER TABLE t ADD COLUMN n int unsigned DEFAULT 7 AFTER id", "INSERT INTO t VALUES (2, 1, 'b')")
    database.run("ALTER TABLE t CHANGE COLUMN v w text, DROP COLUMN n", "UPDATE t SET w = 'c' WHERE id = 2")
    assert told(events_of(database, source, start)) == [
        ("redefined", "t", ["id", "v"]),
        ("c", None, {"id": 1, "v": "a"}),
        ("redefined", "t", ["id", "n", "v"]),
        ("c", None, {"id": 2, "n": 1, "v": "b"}),
        ("redefined", "t", ["id", "w"]),
        ("u", {"id": 2, "w": "b"}, {"id": 2, "w": "c"}),
    ]


def test_a_column_of_another_type_is_told_by_its_type_of_then(database, source, start):
    database.run(
        "INSERT INTO t VALUES (1, '5')", "ALTER TABLE t MODIFY v bigint unsigned", "INSERT INTO t VALUES (2, 6)"
    )
    assert changes_of(events_of(database, source, start)) == [
        ("c", None, {"id": 1, "v": "5"}),
        ("c", None, {"id": 2, "v": 6}),
    ]


def test_tables_that_go_are_told_and_those_that_come_too(database, source, start):
    database.run("INSERT INTO t VALUES (1, 'a')", "RENAME TABLE t TO u", "INSERT INTO u VALUES (2, 'b')")
    database.run("ALTER TABLE u RENAME TO w", "DELETE FROM w WHERE id = 1", "DROP TABLE w")
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (9)", "CREATE OR REPLACE TABLE t (x int)")
    assert told(events_of(database, source, start)) == [
        ("redefined", "t", ["id", "v"]),
        ("c", None, {"id": 1, "v": "a"}),
        ("gone", "t"),
        ("came", "u"),
        ("redefined", "u", ["id", "v"]),
        ("c", None, {"id": 2, "v": "b"}),
        ("gone", "u"),
        ("came", "w"),
        ("redefined", "w", ["id", "v"]),
        ("d", {"id": 1, "v": "a"}, None),
        ("gone", "w"),
        ("redefined", "t", ["id"]),
        ("c", None, {"id": 9}),
        ("gone", "t"),
    ]


def test_a_dropped_database_takes_its_tables_with_it(database, source, start):
    with closing(source.changes(start)) as changes:
        database.run("INSERT INTO t VALUES (1, 'a')", f"DROP DATABASE {database.schema}")
        events = []
        while ("gone", "t") not in told(events):
            events += changes.read(60.0)
    assert told(events) == [("redefined", "t", ["id", "v"]), ("c", None, {"id": 1, "v": "a"}), ("gone", "t")]


def test_an_xa_transaction_is_told_when_it_is_committed(database, source, start):
    database.run("XA START 'one'", "INSERT INTO t VALUES (1, 'a')", "XA END 'one'", "XA PREPARE 'one'")
    other = database.connect()
    with other.cursor() as cursor:
        for statement in ("XA START 'two'", "INSERT INTO t VALUES (2, 'b')", "XA END 'two'", "XA PREPARE 'two'"):
            cursor.execute(statement)
        cursor.execute("XA ROLLBACK 'two'")
        cursor.execute("INSERT INTO t VALUES (3, 'c')")
    first = events_of(database, source, start)
    assert [new["id"] for _, _, new in changes_of(first)] == [3]
    behind = Position(first[-1].at)
    database.run("XA COMMIT 'one'")
    # whoever begins behind the preparation finds it all the same
    second = events_of(database, database.source(), behind)
    assert [new["id"] for _, _, new in changes_of(second)] == [1]
    assert "from" in behind.at
    assert "from" not in second[-1].at


def test_an_xa_transaction_from_before_a_snapshot_is_told_once_when_it_is_committed(database, source, monkeypatch):
    """Also where a large transaction was rolled back in between."""
    monkeypatch.setattr(groups, "HELD_BYTES", 2_000)
    database.run("XA START 'old'", "INSERT INTO t VALUES (1, 'of long ago')", "XA END 'old'", "XA PREPARE 'old'")
    other = database.connect()
    with other.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (2, 'b')")
        rows = "INSERT INTO t SELECT seq, 'x' FROM seq_100_to_2000"
        for statement in ("BEGIN", rows, "CREATE TEMPORARY TABLE passing (x int)", "ROLLBACK"):
            cursor.execute(statement)
        for number in range(3, 6):
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute(f"INSERT INTO t VALUES ({number}, 'c')")
    with source.snapshot() as snapshot:
        rows = [row for piece in snapshot.rows(snapshot.tables()[0]) for row in piece]
        start = snapshot.position
    assert [id for id, _ in rows] == [2, 3, 4, 5]
    database.run("XA COMMIT 'old'")
    assert changes_of(events_of(database, source, start)) == [("c", None, {"id": 1, "v": "of long ago"})]


def test_a_statement_instead_of_rows_is_not_passed_over(database, source, start):
    database.run("SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(StatementLogged, match="has a statement in the log instead of its rows: INSERT INTO t"):
        events_of(database, source, start)


def test_a_table_that_a_statement_makes_with_its_rows_is_not_passed_over(database, source, start):
    made = "CREATE TABLE u (id int PRIMARY KEY) SELECT 1 AS id"
    database.run(made, "CREATE TABLE IF NOT EXISTS u SELECT 2 AS id")
    assert changes_of(events_of(database, source, start)) == [("c", None, {"id": 1})]
    database.run("DROP TABLE u", "SET SESSION binlog_format = 'MIXED'", "CREATE TEMPORARY TABLE v SELECT 1 AS id", made)
    with pytest.raises(StatementLogged, match="instead of its rows: CREATE TABLE u"):
        events_of(database, source, start)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO seen VALUES (1, 'a')",
        "INSERT INTO watched VALUES (1)",
        "DO written(1)",
        "INSERT INTO n VALUES (written(1))",
    ],
    ids=["by a view", "by a trigger", "by a function", "by a function in another statement"],
)
def test_a_statement_that_may_have_changed_rows_of_a_captured_table_unseen_is_said(database, caplog, statement):
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, v varchar(100))",
        "CREATE TABLE n (id int PRIMARY KEY)",
        "CREATE TABLE watched (id int PRIMARY KEY)",
        "CREATE VIEW seen AS SELECT * FROM t",
        "CREATE TRIGGER watching AFTER INSERT ON watched FOR EACH ROW INSERT INTO t VALUES (NEW.id, 'b')",
        "CREATE FUNCTION written(x int) RETURNS int DETERMINISTIC BEGIN INSERT INTO t VALUES (x, 'c'); RETURN x; END",
    )
    source = database.source(selection=Selection(tables=[rf"{database.schema}\.t"]))
    start = source.prepare()
    database.run("SET SESSION binlog_format = 'MIXED'", statement)
    assert len(database.rows("t")) == 1
    assert not changes_of(events_of(database, source, start))
    (said,) = caplog.messages
    assert "has a statement in the log instead of its rows" in said


def test_a_file_that_is_loaded_by_a_statement_is_passed_over_or_refused_as_others(database, source):
    database.run("CREATE TABLE loaded (id int PRIMARY KEY)")
    file = database.server.directory / f"{database.schema}.txt"
    file.write_text("1\n2\n")
    file.chmod(0o644)
    of_others = database.source("others", Selection(tables=[rf"{database.schema}\.t"]))
    of_all = database.source("all")
    start = of_all.prepare()
    database.run("SET SESSION binlog_format = 'STATEMENT'", f"LOAD DATA INFILE '{file}' INTO TABLE loaded")
    database.run("SET SESSION binlog_format = 'ROW'", "INSERT INTO t VALUES (1, 'a')")
    assert changes_of(events_of(database, of_others, start)) == [("c", None, {"id": 1, "v": "a"})]
    with pytest.raises(StatementLogged, match="instead of its rows: LOAD DATA INFILE"):
        events_of(database, of_all, start)


def test_statements_about_a_temporary_table_are_passed_over(database, source, start):
    database.run(
        "SET SESSION binlog_format = 'STATEMENT'",
        "CREATE TEMPORARY TABLE mine (id int)",
        "INSERT INTO mine VALUES (1)",
        "SET SESSION binlog_format = 'ROW'",
        "INSERT INTO t VALUES (1, 'a')",
    )
    assert [each[0] for each in changes_of(events_of(database, source, start))] == ["c"]


def test_rows_of_which_the_log_has_a_part_are_filled_from_what_they_were(database, source, start):
    database.run("INSERT INTO t VALUES (1, 'a')", "SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE t SET v = 'b'")
    (_, update) = [event for event in events_of(database, source, start) if isinstance(event, Change)]
    assert update.after == (1, "b")


def test_a_large_transaction_is_told_in_pieces_and_whole(database, source, start, monkeypatch):
    monkeypatch.setattr(groups, "HELD_BYTES", 2_000)
    rows = ", ".join(f"({number}, 'a')" for number in range(20_000))
    database.execute(f"INSERT INTO t VALUES {rows}", "UPDATE t SET v = 'b' WHERE id < 10")
    events = events_of(database, source, start)
    assert len(transactions(events)) == 1
    assert len([event for event in events if isinstance(event, Change)]) == 20_010


def test_a_compressed_log_is_read(database, source, start):
    database.server.run("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
    try:
        database.run("SET SESSION sql_mode = ''", f"INSERT INTO t VALUES (1, '{'a' * 20}'), (2, '{'b' * 20}')")
        database.run("UPDATE t SET v = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2", "TRUNCATE TABLE t")
        assert [each[0] for each in changes_of(events_of(database, source, start))] == ["c", "c", "u", "d", "t"]
    finally:
        database.server.run("SET GLOBAL log_bin_compress = OFF")


def test_transactions_of_several_domains_are_told_in_their_order(database, source, start):
    for number, domain in enumerate((0, 7, 0, 7, 3)):
        database.run(f"SET SESSION gtid_domain_id = {domain}", f"INSERT INTO t VALUES ({number}, 'a')")
    events = events_of(database, source, start)
    assert [new["id"] for _, _, new in changes_of(events)] == [0, 1, 2, 3, 4]
    for number, event in enumerate(event for event in events if isinstance(event, Ended)):
        rest = events_of(database, database.source(), Position(event.at))
        assert [new["id"] for _, _, new in changes_of(rest)] == list(range(number + 1, 5))


def test_generated_and_invisible_columns_are_the_same_in_the_log_and_in_a_snapshot(database, source):
    database.run(
        "CREATE TABLE g (id int PRIMARY KEY, twice int AS (id * 2) STORED, thrice int AS (id * 3) VIRTUAL,"
        " hidden int INVISIBLE DEFAULT 5)"
    )
    start = source.prepare()
    database.run("INSERT INTO g (id) VALUES (1)", "UPDATE g SET id = 2")
    found = changes_of(events_of(database, source, start))
    row = {"id": 2, "twice": 4, "thrice": 6, "hidden": 5}
    assert found[-1] == ("u", {"id": 1, "twice": 2, "thrice": 3, "hidden": 5}, row)
    with source.snapshot() as snapshot:
        table = next(each for each in snapshot.tables() if each.id.name == "g")
        assert list(snapshot.rows(table)) == [[tuple(row.values())]]


def test_a_column_that_the_server_makes_for_a_unique_index_is_none_of_the_table(database, source):
    database.run("CREATE TABLE long_ones (a int PRIMARY KEY, b text UNIQUE, c varchar(3000) NOT NULL UNIQUE, d int)")
    start = source.prepare()
    database.run(
        "INSERT INTO long_ones VALUES (1, 'x', 'y', 2)",
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE long_ones SET c = 'z'",
        "SET SESSION binlog_row_image = 'FULL'",
        "DELETE FROM long_ones",
    )
    events = events_of(database, source, start)
    table = source.table(database.table("long_ones"))
    assert all(event.table is table for event in events if isinstance(event, Change))
    before, after = ({"a": 1, "b": "x", "c": c, "d": 2} for c in "yz")
    (_, _, inserted), (_, old, new), deleted = changes_of(events)
    assert (inserted, old["a"], new["c"], deleted) == (before, 1, "z", ("d", after, None))


def test_words_of_enums_and_sets_are_the_same_in_the_log_and_in_a_snapshot(database, source):
    words = "'a\\\\b', 'it''s', 'x\\ny', 'x\\\\ny', '\\r', '\\\\', '\"', '\\Z', '\\t'"
    database.run(f"CREATE TABLE e (id int PRIMARY KEY, e enum({words}), s set({words}))")
    start = source.prepare()
    database.run("INSERT INTO e VALUES (1, 'a\\\\b', 'x\\ny')")
    (change,) = [event for event in events_of(database, source, start) if isinstance(event, Change)]
    assert change.table is source.table(database.table("e"))


def test_a_table_without_a_primary_key_has_that_of_a_unique_index(database, source):
    database.run("CREATE TABLE u (a int, b int NOT NULL, UNIQUE (a), UNIQUE later (b))", "CREATE TABLE loose (x int)")
    start = source.prepare()
    database.run("INSERT INTO u VALUES (1, 2)", "INSERT INTO loose VALUES (1)")
    keys = {
        event.table.id.name: event.table.key
        for event in events_of(database, source, start)
        if isinstance(event, Change)
    }
    assert keys == {"u": (1,), "loose": ()}


@pytest.mark.parametrize(
    ("indexes", "key"),
    [
        ("UNIQUE z (a), UNIQUE y (b)", ["a"]),
        ("UNIQUE y (n), UNIQUE z (b), UNIQUE za (a)", ["b"]),
        ("UNIQUE z (v(3)), UNIQUE y (b, a), UNIQUE x (a)", ["b", "a"]),
        ("INDEX w (b), UNIQUE x (v, n), UNIQUE z (c, b), UNIQUE y (a)", ["c", "b"]),
    ],
)
def test_of_several_unique_indexes_the_same_is_the_key_in_the_log_and_in_a_snapshot(database, source, indexes, key):
    columns = "a int NOT NULL, b int NOT NULL, c int NOT NULL, n int, v varchar(9) NOT NULL"
    database.run(f"CREATE TABLE u ({columns}, {indexes})")
    start = source.prepare()
    database.run("INSERT INTO u VALUES (1, 2, 3, 4, '5')")
    (change,) = [event for event in events_of(database, source, start) if isinstance(event, Change)]
    assert [change.table.columns[place].name for place in change.table.key] == key
    assert source.table(database.table("u")) is change.table
    database.run("DROP INDEX z ON u", "CREATE UNIQUE INDEX aa ON u (c)", "DELETE FROM u")
    *_, change = [event for event in events_of(database, source, start) if isinstance(event, Change)]
    assert source.table(database.table("u")) is change.table


def test_a_table_of_which_rows_go_at_once_is_to_be_read_anew_and_that_is_said(database, source, caplog):
    database.run(
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)"
        " (PARTITION low VALUES LESS THAN (10), PARTITION high VALUES LESS THAN MAXVALUE)"
    )
    start = source.prepare()
    database.run("INSERT INTO p VALUES (1), (11)", "ALTER TABLE p TRUNCATE PARTITION low")
    database.run("INSERT INTO t VALUES (1, 'a'), (2, 'a')", "ALTER IGNORE TABLE t ADD UNIQUE (v)")
    with caplog.at_level(logging.WARNING):
        events = changes_of(events_of(database, source, start))
    assert [each for each in events if each[0] != "c"] == [("came", "p"), ("came", "t")]
    assert database.rows("t") == [(1, "a")]
    for table in ("p", "t"):
        said = f"rows of table {database.schema}.{table} came or went at once, as with a partition: the log has none"
        assert said in caplog.messages


FOREIGN = "CREATE TABLE child (id int PRIMARY KEY, p int, CONSTRAINT its_parent FOREIGN KEY (p) REFERENCES t (id)"
IN_NO_LOG = (
    "table {table}: what its foreign keys do to its rows is in no log, and not told: its_parent (ON DELETE CASCADE ON"
    " UPDATE SET NULL, with t); delete or update such rows by statements of their own, before those that they"
    " refer to"
)


@pytest.mark.parametrize("is_later", [False, True])
def test_what_a_foreign_key_does_to_rows_is_in_no_log_and_that_is_said_once(database, source, caplog, is_later):
    made = f"{FOREIGN} ON DELETE CASCADE ON UPDATE SET NULL)"
    start = source.prepare()
    assert not caplog.messages
    database.run(made)
    if not is_later:
        start = source.prepare()
        source.prepare()
    database.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO child VALUES (5, 1), (6, 2)")
    database.run("DELETE FROM t WHERE id = 1", "UPDATE t SET id = 3")
    found = changes_of(events_of(database, source, start))[4:]
    assert found == [("d", {"id": 1, "v": "a"}, None), ("u", {"id": 2, "v": "b"}, {"id": 3, "v": "b"})]
    assert database.rows("child") == [(6, None)]
    assert caplog.messages == [IN_NO_LOG.format(table=database.table("child"))]


def test_a_foreign_key_that_does_nothing_to_rows_is_not_said(database, source, caplog):
    database.run(f"{FOREIGN} ON DELETE RESTRICT ON UPDATE NO ACTION)")
    source.prepare()
    assert not caplog.messages


def test_what_the_log_tells_of_others_moves_the_position_on(database, source, start):
    database.server.run("CREATE DATABASE IF NOT EXISTS elsewhere", "CREATE OR REPLACE TABLE elsewhere.t (id int)")
    database.server.run("INSERT INTO elsewhere.t VALUES (1)", "FLUSH BINARY LOGS")
    assert source.behind(start) > 0
    events = events_of(database, source, start)
    assert not changes_of(events)
    assert source.behind(Position(events[-1].at)) == 0
    with closing(source.changes(Position(events[-1].at))) as changes:
        database.run("INSERT INTO t VALUES (1, 'a')")
        following = []
        while not changes_of(following):
            following += changes.read(60.0)
    assert changes_of(following) == [("c", None, {"id": 1, "v": "a"})]
