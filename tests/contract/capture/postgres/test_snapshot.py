"""Tables as they were at one place of the log."""

import threading
from contextlib import closing
from dataclasses import replace

import pytest

from runnel.capture.events import Passed
from runnel.capture.postgres import snapshot as snapshots
from runnel.capture.postgres.errors import SlotWaits, SnapshotOutdated
from runnel.capture.tables import UNCHANGED
from tests.contract.capture.captured_postgres import (
    Database,
    events_of,
    plain,
    position_after,
    skip_without,
    told,
    wait_for,
)

pytestmark = pytest.mark.servers


def rows_of(snapshot, after=None, name="t"):
    (table,) = [table for table in snapshot.tables() if table.id.name == name]
    return [row for piece in snapshot.rows(table, after) for row in piece]


def test_a_change_is_in_it_or_behind_it_though_writers_do_not_wait(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, n int)", "INSERT INTO t SELECT i, 0 FROM generate_series(1, 50) i")
    source = database.source()
    source.prepare()
    stop = threading.Event()

    def write(seed: int) -> None:
        with closing(database.connect()) as connection:
            number = 0
            while not stop.is_set():
                number += 1
                with connection.transaction():
                    connection.execute("UPDATE t SET n = n + 1 WHERE id = %s", [(number * 7 + seed) % 50 + 1])
                    connection.execute("INSERT INTO t VALUES (%s, 1)", [1000 * seed + number])
                    if number % 5 == 0:
                        connection.execute("DELETE FROM t WHERE id = %s", [1000 * seed + number - 2])

    writers = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
    for writer in writers:
        writer.start()
    snapshots = []
    for _ in range(5):
        with source.snapshot() as snapshot:
            snapshots.append((snapshot.position, dict(rows_of(snapshot))))
    stop.set()
    for writer in writers:
        writer.join()
    final = {str(key): str(value) for key, value in database.ask("SELECT id, n FROM t")}
    for position, table in snapshots:
        for op, before, after in told(events_of(source, position)):
            if op == "d":
                assert table.pop(str(before["id"]), None) is not None, "a delete was in the snapshot already"
                continue
            assert (str(after["id"]) in table) == (op == "u"), "an insert was in the snapshot already"
            table[str(after["id"])] = str(after["n"])
        assert table == final


def test_a_transaction_that_does_not_end_is_told(database: Database, monkeypatch: pytest.MonkeyPatch):
    """The server takes none before it is over, for as long as that may be."""
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    source.prepare()
    monkeypatch.setattr(snapshots, "PATIENCE_SECONDS", 0.3)
    with closing(database.connect()) as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (1)")
        end = threading.Timer(10.0, other.execute, ["COMMIT"])
        end.start()
        with (
            pytest.raises(SlotWaits, match=r"within 0\.3 s: it waits for transactions that are open"),
            source.snapshot(),
        ):
            pass
        end.cancel()
        wait_for(lambda: not database.ask("SELECT FROM pg_replication_slots WHERE temporary"))
        other.execute("COMMIT")
    with source.snapshot() as snapshot:
        assert rows_of(snapshot) == [("1",)]


def test_a_table_that_came_when_the_others_were_published_is_not_in_it(database: Database, caplog):
    """Nothing would tell what happens to it from there on."""
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "CREATE TABLE u(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    database.run("DROP TABLE u", "CREATE TABLE u(id int PRIMARY KEY)", "CREATE TABLE n(id int PRIMARY KEY)")
    with source.snapshot() as snapshot:
        assert [table.id.name for table in snapshot.tables()] == ["t"]
    assert list(source.ready()) == [database.table("t")]
    assert len(source.tables()) == 3, "they can be asked for"
    [source.changes(start).close() for _ in range(2)]
    assert [message.partition(" of ")[0] for message in caplog.messages] == [
        f'table "{database.schema}.{name}"' for name in "nu"
    ]
    source.prepare()
    assert len(source.ready()) == 3
    with source.snapshot() as snapshot:
        assert [table.id.name for table in snapshot.tables()] == ["n", "t", "u"]


def test_changes_can_end_exactly_where_it_begins(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    with source.snapshot() as snapshot:
        database.run("INSERT INTO t VALUES (3)")
        events = events_of(source, start, snapshot.position)
        assert [after["id"] for _, _, after in told(events)] == [1, 2]
        assert events[-1] == Passed(snapshot.position.at)
        assert told(events_of(source, snapshot.position)) == [("c", None, {"id": 3})]
        assert events_of(source, snapshot.position, snapshot.position) == [Passed(snapshot.position.at)]


def test_an_idle_log_comes_to_where_it_begins(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)")
    source = database.source()
    start = source.prepare()
    with source.snapshot() as snapshot:
        assert events_of(source, start, snapshot.position) == [Passed(snapshot.position.at)]


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ('a int, b text COLLATE "C"', "(1, 'b'), (1, 'B'), (1, 'a'), (2, 'A'), (-1, 'z')"),
        (
            'a text COLLATE "en-US-x-icu", b timestamptz',
            "('b', 'infinity'), ('B', '0044-01-01 BC'), ('a', now()), ('É', now())",
        ),
        ("a numeric, b char(3)", "(1.10, 'x'), (1.2, 'y'), ('NaN', 'z'), (-5, ''), (100, 'q')"),
        ("a uuid, b bytea", "(gen_random_uuid(), '\\x00'), (gen_random_uuid(), '\\xff'), (gen_random_uuid(), '')"),
        ("a date, b interval", "('2024-01-01', '1 mon'), ('2024-01-01', '29 days'), ('0001-01-01 BC', '-1 day')"),
        ("a mood, b double precision", "('late', 0.1), ('early', 'NaN'), ('early', -0.5), ('late', 1e300)"),
    ],
)
def test_it_goes_on_behind_any_key(database: Database, columns: str, values: str):
    if "icu" in columns and not database.ask("SELECT FROM pg_collation WHERE collname = 'en-US-x-icu'"):
        skip_without(database.server, "ICU")
    database.run("CREATE TYPE mood AS ENUM ('late', 'early')")
    database.run(f"CREATE TABLE t({columns}, PRIMARY KEY (a, b))", f"INSERT INTO t VALUES {values}")
    source = database.source()
    source.prepare()
    with source.snapshot() as snapshot:
        rows = rows_of(snapshot)
        assert len(rows) == len(database.ask("SELECT FROM t"))
        for place, row in enumerate(rows):
            assert rows_of(snapshot, row) == rows[place + 1 :]


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE t",
        "ALTER TABLE t ALTER v TYPE text",
        "TRUNCATE p_1",
        "ALTER TABLE t DROP v",
        "ALTER TABLE t RENAME v TO w",
    ],
)
def test_a_table_that_was_emptied_or_rewritten_since_is_not_read_as_if_nothing_was(database: Database, statement: str):
    database.run("CREATE TABLE t(id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    database.run("CREATE TABLE p(id int PRIMARY KEY) PARTITION BY LIST (id)", "CREATE TABLE p_1 PARTITION OF p DEFAULT")
    source = database.source()
    source.prepare()
    with source.snapshot() as snapshot:
        database.run(statement)
        with pytest.raises(SnapshotOutdated, match="was truncated, rewritten or redefined since"):
            rows_of(snapshot, name=statement.split()[-1][0] if "p_1" in statement else "t")
    with source.snapshot() as snapshot:
        assert len(rows_of(snapshot)) == (0 if statement == "TRUNCATE t" else 1)


def test_another_table_that_has_its_name_since_is_not_read_in_its_place(database: Database):
    for name, value in (("t", 1), ("other", 2)):
        database.run(f"CREATE TABLE {name}(id int PRIMARY KEY)", f"INSERT INTO {name} VALUES ({value})")
    source = database.source()
    source.prepare()
    with source.snapshot() as snapshot:
        database.run("ALTER TABLE t RENAME TO former", "ALTER TABLE other RENAME TO t")
        with pytest.raises(SnapshotOutdated):
            rows_of(snapshot)
    with source.snapshot() as snapshot:
        assert rows_of(snapshot) == [("2",)]


def test_rows_come_in_pieces_of_a_measure(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, v text)")
    database.run("INSERT INTO t SELECT i, 'x' FROM generate_series(1, 10000) i")
    database.run("CREATE TABLE wide(id int PRIMARY KEY, v text)")
    database.run("INSERT INTO wide SELECT i, repeat('x', 100000) FROM generate_series(1, 60) i")
    source = database.source()
    source.prepare()
    with source.snapshot() as snapshot:
        t, wide = snapshot.tables()
        pieces = [len(piece) for piece in snapshot.rows(t)]
        assert sum(pieces) == 10000
        assert max(pieces) == 4096
        assert max(len(piece) for piece in snapshot.rows(wide)) == 16
        assert rows_of(snapshot, ("9998",)) == [("9999", "x"), ("10000", "x")]


def test_reading_can_stop_in_the_middle_and_go_on_with_another_table(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 100)")
    source = database.source()
    source.prepare()
    with source.snapshot() as snapshot:
        (table,) = snapshot.tables()
        pieces = snapshot.rows(table)
        assert next(pieces)[0] == ("1",)
        pieces.close()
        assert len(rows_of(snapshot)) == 100


def test_a_table_can_be_read_again_while_an_earlier_reading_of_it_is_left_open(database: Database):
    """Parts of a transaction of the cluster that was lost are made again, whoever holds the first ones."""
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 100)")
    source = database.source()
    source.prepare()
    with source.snapshot() as snapshot:
        (table,) = snapshot.tables()
        first = snapshot.rows(table)
        assert next(first)[0] == ("1",)
        assert len(rows_of(snapshot)) == 100
        assert next(first)[0] == ("17",)


def test_a_table_without_a_key_is_read(database: Database):
    database.run(
        "CREATE TABLE t(v text)", "ALTER TABLE t REPLICA IDENTITY FULL", "INSERT INTO t VALUES ('a'), ('a'), (NULL)"
    )
    source = database.source()
    source.prepare()
    with source.snapshot() as snapshot:
        assert rows_of(snapshot) == [("a",), ("a",), (None,)]


def test_it_has_what_the_publication_has(database: Database):
    database.run(
        "CREATE TABLE t(id int PRIMARY KEY, v int, secret text)", "INSERT INTO t VALUES (1, 1, 'x'), (2, 20, 'y')"
    )
    database.run(f"CREATE PUBLICATION runnel_{database.schema}_some FOR TABLE t (id, v) WHERE (id > 1)")
    source = database.source(publication=f"runnel_{database.schema}_some")
    start = source.prepare()
    with source.snapshot() as snapshot:
        (table,) = snapshot.tables()
        assert [plain(table, row) for row in rows_of(snapshot)] == [{"id": 2, "v": 20}]
    database.run("INSERT INTO t VALUES (0, 0, 'z'), (3, 30, 'z')")
    events = events_of(source, start)
    assert told(events) == [("c", None, {"id": 3, "v": 30})]
    assert position_after(events)


def test_it_has_a_size_for_people_and_a_source_block(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 500)", "ANALYZE t")
    source = database.source()
    source.prepare()
    with source.snapshot() as snapshot:
        (table,) = snapshot.tables()
        assert snapshot.estimate(table) == 500
        assert f'"lsn":{snapshot.position.at["lsn"]}' in snapshot.source
        assert snapshot.micros > 0
    wait_for(lambda: database.ask("SELECT FROM pg_replication_slots WHERE temporary") == [])


def test_changes_up_to_it_have_the_large_values_that_the_log_leaves_out(database: Database):
    large = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 90) i)"
    database.run(
        "CREATE TABLE t(id int PRIMARY KEY, v text, n int)",
        "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
        f"INSERT INTO t SELECT i, {large}, 0 FROM generate_series(1, 3) i",
    )
    source = database.source()
    start = source.prepare()
    database.run("UPDATE t SET id = -1 WHERE id = 1", "UPDATE t SET n = 1 WHERE id = 2")
    database.run("UPDATE t SET n = 1 WHERE id = 3", "DELETE FROM t WHERE id = 3")
    ((expected,),) = database.ask("SELECT v FROM t WHERE id = 2")
    with source.snapshot() as snapshot:
        database.run("DELETE FROM t")
        changes = told(events_of(source, start, snapshot.position))
    values = {row["id"]: row["v"] for op, _, row in changes if op == "u"}
    assert values == {-1: expected, 2: expected, 3: UNCHANGED}  # the last one is gone: nobody needs it
    assert {row["v"] for op, _, row in told(events_of(source, start)) if op == "u"} == {UNCHANGED}


def test_a_table_that_was_rewritten_since_fills_nothing_in(database: Database):
    database.run("CREATE TABLE t(id int PRIMARY KEY, v text)", "ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
    database.run("INSERT INTO t SELECT 1, string_agg(md5(i::text), '') FROM generate_series(1, 90) i")
    source = database.source()
    start = source.prepare()
    database.run("UPDATE t SET id = 2")
    with source.snapshot() as snapshot:
        database.run("ALTER TABLE t ALTER id TYPE bigint")
        with pytest.raises(SnapshotOutdated):
            events_of(source, start, snapshot.position)


def test_nor_does_another_table_that_has_its_name_since(database: Database):
    """It has a row of the same key."""
    for name, letter in (("t", "a"), ("other", "b")):
        database.run(
            f"CREATE TABLE {name}(id int PRIMARY KEY, v text)", f"ALTER TABLE {name} ALTER v SET STORAGE EXTERNAL"
        )
        database.run(f"INSERT INTO {name} VALUES (2, repeat('{letter}', 5000))")
    source = database.source()
    start = source.prepare()
    source.remember(source.numbers(), describe=False)
    database.run("UPDATE t SET id = 1", "UPDATE t SET id = 2")
    with source.snapshot() as snapshot:
        database.run("ALTER TABLE t RENAME TO former", "ALTER TABLE other RENAME TO t")
        with pytest.raises(SnapshotOutdated):
            events_of(source, start, snapshot.position)
        (table,) = (each for each in snapshot.tables() if each.id.name == "t")
        assert snapshot.row(replace(table, number=table.number + 1), ("2", "c")) is None


@pytest.mark.parametrize(
    ("extension", "key", "rows"),
    [
        # small and capital letters in between, which no order of text has so
        ("citext", "k public.citext PRIMARY KEY", [(word,) for word in ("a", "B", "c", "D", "e", "F", "g")]),
        ("citext", "k s.word, n int, PRIMARY KEY (k, n)", [(word, n) for word in ("a", "B", "c", "D") for n in "12"]),
        ("ltree", "k public.ltree PRIMARY KEY", [(path,) for path in ("a", "a.b", "a.b.c", "b", "b.a")]),
    ],
)
def test_a_key_of_a_type_that_has_operators_of_its_own_is_gone_on_with_in_its_order(
    database: Database, extension, key, rows
):
    if not database.ask(f"SELECT FROM pg_available_extensions WHERE name = '{extension}'"):
        skip_without(database.server, extension)
    database.run(
        f"CREATE EXTENSION IF NOT EXISTS {extension} SCHEMA public",
        *(["CREATE DOMAIN word AS public.citext"] if "s.word" in key else []),
        f"CREATE TABLE t({key.replace('s.word', f'{database.schema}.word')}, v text)",
    )
    values = ", ".join(f"({', '.join(repr(value) for value in row)}, 'x')" for row in reversed(rows))
    database.run(f"INSERT INTO t VALUES {values}")
    source = database.source()
    changes = source.changes(source.prepare())
    with source.snapshot() as snapshot:
        for place, after in enumerate([None, *rows]):
            assert [row[:-1] for row in rows_of(snapshot, after)] == rows[place:]
        (table,) = snapshot.tables()
        assert snapshot.row(table, (*rows[1], UNCHANGED)) == {
            column.name: value for column, value in zip(table.columns, (*rows[1], "x"), strict=True)
        }
    read: list[tuple[str, ...]] = []
    wait_for(lambda: source.chunk(table, None, 2, "first") is not None)
    while len(read) < len(rows):
        found = source.chunk(table, read[-1] if read else None, 2, f"chunk {len(read)}")
        assert found is not None
        assert found.rows
        read += [row[:-1] for row in found.rows]
    assert read == rows
    changes.close()
