"""What PostgreSQL's log tells: rows, keys, large values, truncates, messages, and tables that change on the way."""

import pytest

from runnel.capture.events import Began, Change, Ended, Gone, Message, Passed, Position, Redefined
from runnel.capture.postgres import changes as changes_module
from runnel.capture.postgres import vanished
from runnel.capture.postgres.errors import DatabaseUnreachable
from runnel.capture.tables import UNCHANGED, UNKNOWN
from tests.contract.capture.captured_postgres import Database, events_of, plain, position_after, told, wait_for

pytestmark = pytest.mark.servers
LARGE = "repeat(md5(i::text), 400)"  # of a text that is kept apart once it does not compress
APART = "ALTER TABLE t ALTER v SET STORAGE EXTERNAL"


def kinds(events):
    return [type(event) for event in events if not isinstance(event, Passed)]


def test_a_transaction_is_told_whole_and_in_its_order(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, v text)")
    source = database.source()
    start = source.prepare()
    with database.transaction():
        database.run(
            "INSERT INTO t VALUES (1, 'a'), (2, NULL)",
            "UPDATE t SET v = 'b' WHERE id = 1",
            "DELETE FROM t WHERE id = 2",
        )
    events = events_of(source, start)
    assert kinds(events) == [Began, Change, Change, Change, Change, Ended]
    assert told(events) == [
        ("c", None, {"id": 1, "v": "a"}),
        ("c", None, {"id": 2, "v": None}),
        ("u", None, {"id": 1, "v": "b"}),
        ("d", {"id": 2, "v": UNKNOWN}, None),
    ]


def test_nothing_is_told_of_what_was_rolled_back(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    with database.transaction():
        database.run("INSERT INTO t VALUES (1)", "SAVEPOINT s", "INSERT INTO t VALUES (2)", "ROLLBACK TO s")
    database.run("BEGIN", "INSERT INTO t VALUES (3)", "ROLLBACK")
    assert told(events_of(source, start)) == [("c", None, {"id": 1})]


def test_transactions_come_in_the_order_of_their_commits(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    other = database.connect()
    with other.transaction():
        other.execute("INSERT INTO t VALUES (1)")
        database.run("INSERT INTO t VALUES (2)")
    events = events_of(source, start)
    assert [row["id"] for _, _, row in told(events)] == [2, 1]
    places = [event.at["lsn"] for event in events if isinstance(event, Ended)]
    assert places == sorted(set(places))


def test_a_prepared_transaction_is_told_when_it_is_committed(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    name = f"of {database.schema}"
    database.run("BEGIN", "INSERT INTO t VALUES (1)", f"PREPARE TRANSACTION '{name}'", "INSERT INTO t VALUES (2)")
    assert [row["id"] for _, _, row in told(events_of(source, start))] == [2]
    database.run(f"COMMIT PREPARED '{name}'")
    assert [row["id"] for _, _, row in told(events_of(source, start))] == [2, 1]


def test_the_same_position_gives_the_same_events_and_a_later_one_the_rest(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    for number in range(3):
        database.run(f"INSERT INTO t VALUES ({number})")
    first = [event for event in events_of(source, start) if not isinstance(event, Passed)]
    assert [event for event in events_of(source, start) if not isinstance(event, Passed)] == first
    middle = Position([event for event in first if isinstance(event, Ended)][1].at)
    assert told(events_of(source, middle)) == [("c", None, {"id": 2})]
    assert told(events_of(source, position_after(first))) == []


def test_a_key_that_changes_is_told_with_the_old_key(database: Database):
    database.run("CREATE TABLE t(a int, b text, v text, PRIMARY KEY (b, a))", "INSERT INTO t VALUES (1, 'x', 'v')")
    source = database.source()
    start = source.prepare()
    database.run("UPDATE t SET a = 2")
    (change,) = told(events_of(source, start))
    assert change == ("u", {"a": 1, "b": "x", "v": UNKNOWN}, {"a": 2, "b": "x", "v": "v"})


def test_a_key_is_in_the_order_of_its_index(database: Database):
    database.run("CREATE TABLE t(a int, b text, v text, PRIMARY KEY (b, a))")
    source = database.source()
    source.prepare()
    assert source.table(database.table("t")).key == (1, 0)


def test_a_full_identity_tells_the_old_row(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, v text)", "ALTER TABLE t REPLICA IDENTITY FULL")
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET v = 'b'", "DELETE FROM t")
    events = events_of(source, start)
    assert told(events)[1:] == [("u", {"id": 1, "v": "a"}, {"id": 1, "v": "b"}), ("d", {"id": 1, "v": "b"}, None)]
    assert {event.table.key for event in events if isinstance(event, Change)} == {(0,)}


def test_an_index_can_be_the_identity(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, code text NOT NULL UNIQUE, v text)")
    database.run("ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key", "INSERT INTO t VALUES (1, 'x', 'v')")
    source = database.source()
    start = source.prepare()
    database.run("DELETE FROM t")
    events = events_of(source, start)
    assert told(events) == [("d", {"id": UNKNOWN, "code": "x", "v": UNKNOWN}, None)]
    assert {event.table.key for event in events if isinstance(event, Change)} == {(1,)}


def test_a_table_without_a_key_is_told_with_its_full_identity(database: Database):
    database.run("CREATE TABLE t(v text)", "ALTER TABLE t REPLICA IDENTITY FULL")
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t VALUES ('a'), ('a')", "DELETE FROM t WHERE ctid = '(0,1)'")
    events = events_of(source, start)
    assert told(events) == [("c", None, {"v": "a"}), ("c", None, {"v": "a"}), ("d", {"v": "a"}, None)]
    assert source.table(database.table("t")).key == ()


def test_a_large_value_that_an_update_left_alone_is_marked(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, n int, v text)", APART)
    database.run(f"INSERT INTO t SELECT i, 0, {LARGE} FROM generate_series(1, 1) i")
    source = database.source()
    start = source.prepare()
    database.run("UPDATE t SET n = 1", "UPDATE t SET v = 'small'")
    assert told(events_of(source, start)) == [
        ("u", None, {"id": 1, "n": 1, "v": UNCHANGED}),
        ("u", None, {"id": 1, "n": 1, "v": "small"}),
    ]


def test_a_large_value_that_an_update_left_alone_is_filled_from_the_old_row(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, n int, v text)", APART, "ALTER TABLE t REPLICA IDENTITY FULL")
    database.run(f"INSERT INTO t SELECT i, 0, {LARGE} FROM generate_series(1, 1) i")
    source = database.source()
    start = source.prepare()
    database.run("UPDATE t SET n = 1")
    ((large,),) = database.ask("SELECT v FROM t")
    assert told(events_of(source, start)) == [("u", {"id": 1, "n": 0, "v": large}, {"id": 1, "n": 1, "v": large})]


def test_a_large_key_that_did_not_change_is_known(database: Database):
    database.run("CREATE TABLE t(v text PRIMARY KEY, n int)", APART)
    database.run("INSERT INTO t SELECT string_agg(md5(i::text), '') , 0 FROM generate_series(1, 75) i")
    source = database.source()
    start = source.prepare()
    database.run("UPDATE t SET n = 1")
    ((large,),) = database.ask("SELECT v FROM t")
    (change,) = told(events_of(source, start))
    assert change == ("u", {"v": large, "n": UNKNOWN}, {"v": large, "n": 1})


def test_a_truncate_is_told_of_each_of_its_tables(database: Database):
    database.run("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    source = database.source()
    start = source.prepare()
    database.run("TRUNCATE a, b", "INSERT INTO a VALUES (2)")
    events = events_of(source, start)
    assert sorted(told(events)[:2]) == [("t", "a"), ("t", "b")]
    assert told(events)[2:] == [("c", None, {"id": 2})]
    assert Redefined not in kinds(events)


def test_messages_of_applications_are_told(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    with database.transaction():
        database.run("SELECT pg_logical_emit_message(true, 'in', 'one')", "INSERT INTO t VALUES (1)")
    database.run(r"SELECT pg_logical_emit_message(false, 'out', '\x00ff'::bytea)", "INSERT INTO t VALUES (2)")
    database.run("BEGIN", "SELECT pg_logical_emit_message(true, 'in', 'never')", "ROLLBACK")
    events = events_of(source, start)
    messages = [event for event in events if isinstance(event, Message)]
    assert [(each.prefix, each.content, each.transactional) for each in messages] == [
        ("in", b"one", True),
        ("out", b"\x00\xff", False),
    ]
    behind = events[events.index(messages[1]) + 1]
    assert isinstance(behind, Passed)
    rest = events_of(source, Position(behind.at))
    assert Message not in kinds(rest)
    assert told(rest) == [("c", None, {"id": 2})]


def test_columns_that_come_and_go_are_told_where_they_do(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, v int)")
    source = database.source()
    start = source.prepare()
    database.run(
        "INSERT INTO t VALUES (1, 1)",
        "ALTER TABLE t ADD COLUMN w text NOT NULL DEFAULT 'd'",
        "INSERT INTO t VALUES (2, 2)",
        "ALTER TABLE t RENAME COLUMN v TO x",
        "INSERT INTO t VALUES (3, 3)",
        "ALTER TABLE t ALTER COLUMN x TYPE text",
        "INSERT INTO t VALUES (4, 4)",
        "ALTER TABLE t DROP COLUMN x",
        "INSERT INTO t VALUES (5, 'e')",
    )
    events = events_of(source, start)
    assert [row for _, _, row in told(events)] == [
        {"id": 1, "v": 1},
        {"id": 2, "v": 2, "w": "d"},
        {"id": 3, "x": 3, "w": "d"},
        {"id": 4, "x": "4", "w": "d"},
        {"id": 5, "w": "e"},
    ]
    assert kinds(events).count(Redefined) == 5  # the first one: the catalog knows only what there is now
    assert all(event.table.key == (0,) for event in events if isinstance(event, Change))


def test_a_column_that_changes_while_its_log_is_read_is_told_once(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1)")
    first = events_of(source, start)
    assert Redefined not in kinds(first)
    database.run(
        "ALTER TABLE t ADD COLUMN v int", "INSERT INTO t VALUES (2, 2)", "TRUNCATE t", "INSERT INTO t VALUES (3, 3)"
    )
    events = events_of(source, position_after(first))
    assert kinds(events)[:3] == [Began, Redefined, Change]
    assert kinds(events).count(Redefined) == 1


def test_the_log_of_a_table_that_is_gone_can_be_read(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, v text)", "CREATE TABLE other(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    source.remember(source.numbers(), describe=False)  # of what is not known, nothing is told
    database.run("INSERT INTO t VALUES (1, 'a')", "DELETE FROM t", "DROP TABLE t", "INSERT INTO other VALUES (1)")
    events = events_of(source, start)
    assert told(events) == [
        ("c", None, {"id": 1, "v": "a"}),
        ("d", {"id": 1, "v": UNKNOWN}, None),
        ("c", None, {"id": 1}),
    ]
    assert [event.table.key for event in events if isinstance(event, Change)] == [(0,)] * 3


def test_the_log_of_a_type_that_is_gone_is_read_as_text(database: Database):
    database.run("CREATE TYPE mood AS ENUM ('good', 'bad')", "CREATE TABLE t(id int PRIMARY KEY, v mood)")
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1, 'good')", "ALTER TABLE t ALTER v TYPE text", "DROP TYPE mood")
    assert told(events_of(source, start)) == [("c", None, {"id": 1, "v": "good"})]


def test_partitions_are_told_as_their_table(database: Database):
    database.run(
        "CREATE TABLE t(id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')",
        "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')",
    )
    source = database.source()
    start = source.prepare()
    assert source.tables() == [database.table("t")]
    database.run("INSERT INTO t VALUES (1, '2024-01-01')", "UPDATE t SET day = '2024-02-02'", "TRUNCATE t")
    events = events_of(source, start)
    assert {event.table.id for event in events if isinstance(event, Change)} == {database.table("t")}
    assert [(change[0], change[1:]) for change in told(events)] == [
        ("c", (None, {"id": 1, "day": 19723})),
        ("d", ({"id": 1, "day": 19723}, None)),
        ("c", (None, {"id": 1, "day": 19755})),
        ("t", ("t",)),
    ]


def test_one_that_inherits_is_a_table_of_its_own(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "CREATE TABLE child(PRIMARY KEY (id)) INHERITS (t)")
    source = database.source([database.table("t")])
    start = source.prepare()
    database.run("INSERT INTO child VALUES (1)", "INSERT INTO t VALUES (2)")
    assert told(events_of(source, start)) == [("c", None, {"id": 2})]


def test_generated_columns_are_told_and_read_or_neither(database: Database):
    """Servers tell them from 18 on, if they are stored."""
    database.run("CREATE TABLE t(id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED, v int)")
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1, DEFAULT, 3)")
    expected = {"id": 1, "twice": 2, "v": 3} if database.version >= 18 else {"id": 1, "v": 3}
    assert told(events_of(source, start)) == [("c", None, expected)]
    with source.snapshot() as snapshot:
        (table,) = snapshot.tables()
        assert [plain(table, row) for piece in snapshot.rows(table) for row in piece] == [expected]


def test_tables_that_are_not_chosen_are_not_told_though_the_publication_has_them(database: Database):
    database.run("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY)")
    database.run(f"CREATE PUBLICATION runnel_{database.schema}_all FOR TABLE a, b")
    source = database.source([database.table("a")], publication=f"runnel_{database.schema}_all")
    start = source.prepare()
    database.run("INSERT INTO b VALUES (1)", "INSERT INTO a VALUES (2)", "TRUNCATE b", "INSERT INTO b VALUES (3)")
    events = events_of(source, start)
    assert told(events) == [("c", None, {"id": 2})]
    assert kinds(events) == [Began, Change, Ended]


def test_names_may_need_quotes(database: Database):
    database.run('CREATE TABLE "Or""der Lines"("I d" int PRIMARY KEY, "sel""ect" text)')
    source = database.source()
    start = source.prepare()
    database.run("""INSERT INTO "Or""der Lines" VALUES (1, 'a')""")
    assert told(events_of(source, start)) == [("c", None, {"I d": 1, 'sel"ect': "a"})]
    with source.snapshot() as snapshot:
        (table,) = snapshot.tables()
        assert list(snapshot.rows(table, ("0",))) == [[("1", "a")]]


def test_a_server_that_ends_the_stream_is_told_as_unreachable(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    changes = source.changes(source.prepare())
    slot = f"runnel_{database.schema}"
    database.ask(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{slot}'")
    with pytest.raises(DatabaseUnreachable, match="terminating connection"):
        wait_for(lambda: changes.read(10) is None)
    changes.close()


@pytest.mark.parametrize(
    "statement", ["DROP TABLE t", "ALTER TABLE t RENAME TO u", "DROP TABLE t; DROP TABLE parted_0"]
)
def test_a_table_that_is_gone_is_told_behind_its_last_change(database: Database, monkeypatch, statement: str):
    monkeypatch.setattr(vanished, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(changes_module, "PASSED_SECONDS", 0.0)
    database.run(
        "CREATE TABLE t(id int PRIMARY KEY)",
        "CREATE TABLE parted(id int PRIMARY KEY) PARTITION BY LIST (id)",
        "CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0)",
    )
    source = database.source(lambda table: table.schema == database.schema and table.name != "u")
    changes = source.changes(source.prepare())
    database.run("INSERT INTO t VALUES (1)", *statement.split("; "))
    events = []
    wait_for(lambda: events.extend(changes.read(0.1)) or any(isinstance(event, Gone) for event in events))
    changes.close()
    (gone,) = [event for event in events if isinstance(event, Gone)]
    assert gone.table == database.table("t")
    assert told(events[: events.index(gone)]) == [("c", None, {"id": 1})]
    assert isinstance(events[events.index(gone) - 1], (Ended, Passed))


def test_a_single_partition_that_is_truncated_is_not_told_by_the_server(database: Database):
    """What the how-to page says of it; if this fails, a newer server tells it."""
    database.run(
        "CREATE TABLE t(id int PRIMARY KEY) PARTITION BY LIST (id)",
        "CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0)",
        "INSERT INTO t VALUES (0)",
    )
    source = database.source()
    start = source.prepare()
    database.run("TRUNCATE t_0", "INSERT INTO t VALUES (0)")
    assert told(events_of(source, start)) == [("c", None, {"id": 0})]
