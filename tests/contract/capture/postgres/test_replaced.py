"""Tables whose name another one has: made again, or swapped by renaming. Topics tell the one that is there."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from runnel.capture import capture as captures
from runnel.capture.chosen import Mode
from runnel.capture.events import Gone, Position, Redefined
from runnel.capture.postgres import changes as changes_module
from runnel.capture.postgres import vanished
from runnel.capture.postgres.errors import NotReady
from runnel.capture.selection import Selection
from tests.contract.capture.captured_postgres import Database, told, wait_for
from tests.contract.capture.lives import capture_of, running
from tests.contract.capture.postgres.lives import Life, end_of_log, has_come_to, lived_here
from tests.contract.capture.postgres.test_chunks import unseen
from tests.contract.capture.topics import committed

pytestmark = pytest.mark.servers

MADE = (
    "CREATE TABLE t(id int PRIMARY KEY, v text)",
    "INSERT INTO t SELECT i, 'old' FROM generate_series(1, 30) i",
    "CREATE TABLE loose(x int)",
    "ALTER TABLE loose REPLICA IDENTITY FULL",
    "INSERT INTO loose VALUES (1), (1), (2)",
)
MADE_AGAIN = (
    "INSERT INTO t VALUES (31, 'last of the old')",
    "DROP TABLE t, loose",
    "CREATE TABLE t(id int PRIMARY KEY, v text, w int)",
    "INSERT INTO t SELECT i, 'new', 0 FROM generate_series(20, 40) i",
    "CREATE TABLE loose(x int)",
    "ALTER TABLE loose REPLICA IDENTITY FULL",
    "INSERT INTO loose VALUES (7)",
)
RENAMED = (
    "CREATE TABLE other(id int PRIMARY KEY, v text)",
    "INSERT INTO other SELECT i, 'new' FROM generate_series(20, 40) i",
    "ALTER TABLE t RENAME TO former",
    "ALTER TABLE other RENAME TO t",
)
SWAPS = {"made again": MADE_AGAIN, "renamed": RENAMED}
AWAY = (
    "INSERT INTO t SELECT i, 'before' FROM generate_series(60, 66) i",
    "ALTER TABLE t RENAME TO elsewhere",
    "INSERT INTO elsewhere SELECT i, 'away' FROM generate_series(70, 76) i",
    "UPDATE elsewhere SET v = 'away' WHERE id = 1",
    "INSERT INTO loose SELECT generate_series(10, 16)",
    "DELETE FROM elsewhere WHERE id IN (2, 60)",
    "ALTER TABLE elsewhere RENAME TO t",
    "UPDATE t SET v = 'back' WHERE id = 3",
)
AFTERWARDS = (
    "INSERT INTO t VALUES (50, 'end')",
    "UPDATE t SET v = 'changed' WHERE id = 40",
    "DELETE FROM t WHERE id = 20",
)


def folded(records):
    """The rows that the last words of their keys tell. A value that was not told is the one from before, also where the
    row had another key.
    """
    rows, moved = {}, {}
    for each in records:
        if each.value is None:
            rows.pop(each.key, None)
        elif each.op == "t":
            rows.clear()
        elif each.op == "d":
            gone = rows.pop(each.key, None)
            moved[each.headers.get("__debezium.newkey")] = gone
        else:
            old = rows.get(each.key) or moved.pop(each.key, None) or {}
            rows[each.key] = {
                name: old.get(name, value) if value == "__debezium_unavailable_value" else value
                for name, value in each.value["after"].items()
            }
    return rows.values()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (vanished, "LOOK_SECONDS", 0.05),
        (changes_module, "PASSED_SECONDS", 0.02),
        (captures, "WAIT_SECONDS", 0.05),
        (captures, "FIRST_PAUSE", 0.02),
        (captures, "IDLE_MICROS", 0),
    ):
        monkeypatch.setattr(module, name, value)


def chosen(database: Database) -> Selection:
    return Selection(tables=[rf"{database.schema}\.(t|loose)"])


def capture(broker, database: Database, **options):
    selection = chosen(database)
    source = database.source(selection.has)
    return capture_of(database.schema, source, broker.bootstrap, selection, schema_changes=True, **options)


def topic(broker, database: Database, table: str):
    name = f"{database.schema}.{database.schema}.{table}"
    return committed(broker.bootstrap, name).get(name, [])


def bag(records) -> Counter:
    """So many of each row, of a table without a key."""
    rows: Counter = Counter()
    for each in records:
        if each.op == "t":
            rows.clear()
        else:
            for row, count in ((each.value["before"], -1), (each.value["after"], 1)):
                rows.update({row["x"]: count} if row is not None else {})
    return +rows


def settle(at_work, database: Database) -> None:
    """Until the tables that are there are read, and all is told."""
    there = "FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname IN ('t', 'loose')"
    numbers = {f"{database.schema}.{name}": int(oid) for name, oid in database.ask(f"SELECT relname, oid {there}")}
    end = end_of_log(database.server.url)

    def is_settled() -> bool:
        has_come = has_come_to(at_work, end)  # before the state is looked at, which goes on meanwhile
        state = at_work.state
        return has_come and state.is_complete and {name: each.number for name, each in state.tables.items()} == numbers

    wait_for(is_settled)


def check(broker, database: Database) -> None:
    rows = sorted(tuple(row.values()) for row in folded(topic(broker, database, "t")))
    assert rows == sorted(database.ask("SELECT * FROM t"))
    assert bag(topic(broker, database, "loose")) == Counter(x for (x,) in database.ask("SELECT x FROM loose"))


def schema_changes(broker, database: Database, table: str):
    records = committed(broker.bootstrap, database.schema)[database.schema]
    found = [each for record in records for each in record.value["tableChanges"]]
    return [each["type"] for each in found if each["id"].endswith(f'."{table}"')]


def all_changes(broker, database: Database):
    return {table: schema_changes(broker, database, table) for table in ("t", "loose")}


def swap(database: Database, statements) -> None:
    with database.transaction():
        database.run(*statements)


@pytest.mark.parametrize(
    ("mode", "swapped"),
    [
        (Mode.INITIAL, "made again"),
        pytest.param(Mode.INCREMENTAL, "renamed", marks=pytest.mark.soak),
        pytest.param(Mode.INITIAL, "renamed", marks=pytest.mark.soak),
        pytest.param(Mode.INCREMENTAL, "made again", marks=pytest.mark.soak),
    ],
)
def test_another_table_of_the_same_name_is_read_and_the_topic_tells_it_alone(broker, database, swapped, mode):
    database.run(*(MADE if mode is Mode.INITIAL else MADE[:2]))
    statements = SWAPS[swapped]
    if mode is Mode.INCREMENTAL:
        database.run("CREATE TABLE loose(x int PRIMARY KEY)", "INSERT INTO loose VALUES (1), (2)")
        statements = [each.replace("loose(x int)", "loose(x int PRIMARY KEY)") for each in statements]
    with running(capture(broker, database, snapshot=mode, chunk=7)) as at_work:
        settle(at_work, database)
        swap(database, statements)
        settle(at_work, database)
        database.run(*AFTERWARDS)
        settle(at_work, database)
    check(broker, database)
    assert schema_changes(broker, database, "t") == ["CREATE", "DROP", "CREATE"]
    assert schema_changes(broker, database, "loose") == ["CREATE", "DROP", "CREATE"][: 3 if "made" in swapped else 1]


@pytest.mark.parametrize("swapped", ["made again", pytest.param("renamed", marks=pytest.mark.soak)])
def test_it_is_noticed_also_if_the_capture_was_down(broker, database, swapped):
    database.run(*MADE)
    with running(capture(broker, database)) as at_work:
        settle(at_work, database)
    swap(database, SWAPS[swapped])
    database.run(*AFTERWARDS)
    with running(capture(broker, database)) as at_work:
        settle(at_work, database)
    check(broker, database)
    assert schema_changes(broker, database, "t") == ["CREATE", "DROP", "CREATE"]
    values = [each.value["after"]["v"] for each in topic(broker, database, "t") if each.op == "c"]
    # What happened to the old one until then is told, too.
    assert ("last of the old" in values) == (swapped == "made again")


@pytest.mark.parametrize("is_down", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_table_that_has_another_name_for_a_moment_is_read_again(broker, database, monkeypatch, is_down):
    """The log alone tells it: nobody looks at the catalog meanwhile."""
    monkeypatch.setattr(vanished, "LOOK_SECONDS", 3600.0)
    database.run(*MADE)
    with running(capture(broker, database)) as at_work:
        settle(at_work, database)
        if not is_down:
            database.run(*AWAY)
            settle(at_work, database)
    if is_down:
        database.run(*AWAY)
        with running(capture(broker, database)) as at_work:
            settle(at_work, database)
    check(broker, database)
    told_of = [each.value["after"]["v"] for each in topic(broker, database, "t") if each.op in "cu"]
    assert "before" in told_of
    assert "away" not in told_of


@pytest.mark.parametrize("statements", [MADE_AGAIN, pytest.param(RENAMED, marks=pytest.mark.soak)])
def test_where_the_publication_has_all_tables_the_log_says_at_once_that_it_is_another_one(
    broker, database, monkeypatch, statements
):
    monkeypatch.setattr(vanished, "LOOK_SECONDS", 3600.0)
    name = f"runnel_{database.schema}_all"
    database.run(*MADE, f"CREATE PUBLICATION {name} FOR TABLES IN SCHEMA {database.schema}")
    selection = chosen(database)
    source = database.source(selection.has, publication=name)
    with running(capture_of(database.schema, source, broker.bootstrap, selection)) as at_work:
        settle(at_work, database)
        swap(database, statements)
        database.run(*AFTERWARDS)
        settle(at_work, database)
    check(broker, database)


def test_a_new_table_of_a_publication_of_all_is_read_and_told_from_the_end_of_its_first_transaction(
    broker, database, monkeypatch
):
    """It would count for the place inside of that transaction, and be in no state."""
    monkeypatch.setattr(vanished, "LOOK_SECONDS", 3600.0)
    name = f"runnel_{database.schema}_all"
    database.run(*MADE[:2], f"CREATE PUBLICATION {name} FOR TABLES IN SCHEMA {database.schema}")
    source = database.source(publication=name)
    with running(capture_of(database.schema, source, broker.bootstrap, Selection())) as at_work:
        wait_for(lambda: at_work.is_streaming.is_set() and at_work.state.is_complete)
        swap(
            database,
            (
                "CREATE TABLE n(x int PRIMARY KEY)",
                "INSERT INTO n VALUES (1), (2)",
                "INSERT INTO t VALUES (41, 'beside')",
            ),
        )
        wait_for(lambda: at_work.state.table(database.table("n")).state == "complete")
        database.run("INSERT INTO n VALUES (3)", "DELETE FROM n WHERE x = 1")
        end = end_of_log(database.server.url)
        wait_for(lambda: has_come_to(at_work, end))
    assert [row["x"] for row in folded(topic(broker, database, "n"))] == [2, 3]
    told_of = Counter(each.value["after"]["id"] for each in topic(broker, database, "t") if each.op in "cr")
    assert told_of == Counter(range(1, 31)) + Counter([41])


def test_a_new_table_is_read_also_if_the_log_tells_it_before_others_see_it(broker, database, monkeypatch):
    monkeypatch.setattr(vanished, "LOOK_SECONDS", 3600.0)
    name = f"runnel_{database.schema}_all"
    database.run(*MADE[:2], f"CREATE PUBLICATION {name} FOR TABLES IN SCHEMA {database.schema}")
    source = database.source(publication=name)
    made = "CREATE TABLE n(x int PRIMARY KEY); INSERT INTO n VALUES (1), (2); INSERT INTO t VALUES (41, 'beside')"
    with running(capture_of(database.schema, source, broker.bootstrap, Selection())) as at_work:
        wait_for(lambda: at_work.is_streaming.is_set() and at_work.state.is_complete)
        with unseen(database, made):
            wait_for(lambda: topic(broker, database, "t")[-1].op == "c")
            assert database.ask("SELECT FROM t WHERE id = 41") == [], "the race did not happen"
        wait_for(lambda: at_work.state.table(database.table("n")).state == "complete")
    assert [row["x"] for row in folded(topic(broker, database, "n"))] == [1, 2]


@pytest.mark.parametrize(
    "step", ["after:2", *(pytest.param(each, marks=pytest.mark.soak) for each in ("after:1", "before:2", "before:3"))]
)
def test_crashes_in_a_transaction_that_renames_tell_nothing_twice_and_lose_nothing(broker, database, step):
    """Its events go out in pieces, so that positions are inside of it."""
    database.run(*MADE)
    life = Life(database.server.url, database.schema, database.schema, broker.bootstrap, tables="(t|loose)")
    assert not lived_here(life)
    swap(database, AWAY)
    crashes = 0
    while crashes < 12 and lived_here(life, f"capture.commit:{step}"):  # who writes but once in a life may never end
        crashes += 1
    assert crashes >= 2
    with running(capture(broker, database)) as at_work:
        settle(at_work, database)
    check(broker, database)


def test_a_table_that_comes_back_when_the_others_are_published_is_published_and_read(broker, database, monkeypatch):
    """It went while it was read by chunks, and so is waited for, until the next chunk: that does not come here."""
    database.run(*MADE[:2], "CREATE TABLE loose(x int PRIMARY KEY)")
    with running(capture(broker, database, snapshot=Mode.INCREMENTAL, chunk=7, rate=0.01)) as at_work:
        wait_for(lambda: at_work.state.table(database.table("t")).rows)
        database.run("DROP TABLE t")
        wait_for(lambda: at_work.state.table(database.table("t")).is_gone)
    again = capture(broker, database, snapshot=Mode.INCREMENTAL)
    prepare, is_made = again._source.prepare, threading.Event()

    def prepare_and_make() -> Position:
        position = prepare()
        monkeypatch.setattr(again._source, "prepare", prepare)
        database.run("CREATE TABLE t(id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'new')")
        is_made.set()
        return position

    monkeypatch.setattr(again._source, "prepare", prepare_and_make)
    with running(again) as at_work:
        wait_for(is_made.is_set)
        settle(at_work, database)
        database.run("INSERT INTO t VALUES (2, 'newer')")
        settle(at_work, database)
    check(broker, database)


@pytest.mark.soak
@pytest.mark.parametrize("is_down", [False, True])
def test_a_table_that_goes_and_comes_back_later_is_read_again(broker, database, is_down):
    database.run(*MADE)
    again = ("CREATE TABLE t(id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'new')")
    with running(capture(broker, database)) as at_work:
        settle(at_work, database)
        database.run("DROP TABLE t")
        wait_for(lambda: f"{database.schema}.t" not in at_work.state.tables)
        if not is_down:
            database.run(*again)
            settle(at_work, database)
    if is_down:
        database.run(*again)
        with running(capture(broker, database)) as at_work:
            settle(at_work, database)
    check(broker, database)
    assert schema_changes(broker, database, "t") == ["CREATE", "DROP", "CREATE"]


@pytest.mark.soak
@pytest.mark.parametrize("step", ["capture.commit:before:4", "capture.commit:after:4"])
def test_a_table_that_is_swapped_in_the_middle_of_its_snapshot_is_read_from_its_beginning(broker, database, step):
    database.run(*MADE)
    life = Life(database.server.url, database.schema, database.schema, broker.bootstrap, tables="(t|loose)")
    assert lived_here(life, step)
    swap(database, MADE_AGAIN)
    assert not lived_here(life)
    with running(capture(broker, database)) as at_work:
        settle(at_work, database)
    check(broker, database)


@pytest.mark.soak
def test_a_state_from_before_tables_had_numbers_is_taken_as_it_is(broker, database, monkeypatch):
    database.run(*MADE)
    with monkeypatch.context() as patch:
        patch.setattr(captures, "remembered", lambda state, *_, **__: state)
        patch.setattr(captures, "TableState", lambda **_: captures.State().table("none"))
        with running(capture(broker, database)) as at_work:
            wait_for(lambda: at_work.is_streaming.is_set() and at_work.state.is_complete)
        assert {each.number for each in at_work.state.tables.values()} == {None}
    with running(capture(broker, database)) as at_work:
        settle(at_work, database)
        swap(database, MADE_AGAIN)
        settle(at_work, database)
    check(broker, database)


def test_a_publication_of_an_administrator_that_lacks_it_is_told(broker, database):
    database.run(*MADE[:2])
    name = f"runnel_{database.schema}_theirs"
    database.run(f"CREATE PUBLICATION {name} FOR TABLE t")
    selection = chosen(database)
    source = database.source(selection.has, publication=name)
    at_work = capture_of(database.schema, source, broker.bootstrap, selection)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(at_work.run)
        try:
            wait_for(lambda: at_work.is_streaming.is_set() and at_work.state.is_complete)
            swap(database, RENAMED)
            with pytest.raises(NotReady, match=rf'publication "{name}" does not have {database.schema}\.t'):
                ended.result(timeout=120)
        finally:
            at_work.stop()


@pytest.mark.parametrize(
    "statement",
    [
        "VACUUM FULL t",
        "TRUNCATE t",
        "ALTER TABLE t ALTER v TYPE varchar(99) USING v || ''",
        "DROP TABLE parts_1; CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1)",
        "ALTER TABLE parts DETACH PARTITION parts_1; ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES IN (1)",
    ],
)
def test_a_table_that_is_rewritten_and_partitions_that_come_and_go_are_no_other_table(database, monkeypatch, statement):
    database.run(
        *MADE[:2],
        "CREATE TABLE parts(id int PRIMARY KEY) PARTITION BY LIST (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1)",
    )
    source = database.source()
    changes = source.changes(source.prepare())
    monkeypatch.setattr(vanished, "LOOK_SECONDS", 0.0)
    database.run("INSERT INTO parts VALUES (1)", "DELETE FROM parts")
    database.run(*statement.split("; "), "INSERT INTO parts VALUES (1)", "INSERT INTO t VALUES (99, 'end')")
    events = []
    wait_for(lambda: events.extend(changes.read(0.1)) or len([each for each in told(events) if each[0] == "c"]) == 3)
    events.extend(event for _ in range(3) for event in changes.read(0.1))
    changes.close()
    assert not [event for event in events if isinstance(event, Gone)]
    assert {event.table.id for event in events if isinstance(event, Redefined)} <= set(source.tables())
    assert {event.table.number for event in events if isinstance(event, Redefined)} <= set(source.numbers().values())


def test_what_happened_to_tables_while_the_capture_was_down_is_told_though_no_row_comes(broker, database):
    database.run(*MADE)
    for statements, expected in (
        ((), {"t": ["CREATE"], "loose": ["CREATE"]}),
        (
            ("ALTER TABLE t ADD COLUMN w int", "DROP TABLE loose"),
            {"t": ["CREATE", "ALTER"], "loose": ["CREATE", "DROP"]},
        ),
        ((), {"t": ["CREATE", "ALTER"], "loose": ["CREATE", "DROP"]}),
    ):
        database.run(*statements)
        with running(capture(broker, database)) as at_work:
            wait_for(at_work.is_streaming.is_set)
            end = end_of_log(database.server.url)
            wait_for(lambda end=end, at_work=at_work: has_come_to(at_work, end))
            wait_for(lambda expected=expected: all_changes(broker, database) == expected)
    states = {name.removeprefix(f"{database.schema}."): each.state for name, each in at_work.state.tables.items()}
    assert states == {"t": "complete"}
