"""What a source of changes promises (src/runnel/capture/source.py)."""

import json
import time

import pytest

from runnel.app.capturing import WatchedSource
from runnel.capture.errors import InvalidFilter, TableMissing
from runnel.capture.events import Began, Change, Ended, Mark, Passed, Position
from runnel.capture.selection import Selection
from runnel.capture.tables import TableId
from tests.contract.capture.lives import wait_until

SECONDS = 60.0


def read_until(changes, count):
    """Events until so many changes of rows were told and their transaction is over."""
    events = []
    while True:
        events += changes.read(SECONDS)
        told = [event for event in events if isinstance(event, Change)]
        if len(told) >= count and isinstance(events[-1], Ended | Passed):
            return events


def rows_of(events):
    return [
        (event.op, event.table.id.name, plain(event.before), plain(event.after))
        for event in events
        if isinstance(event, Change)
    ]


def plain(row):
    return None if row is None else tuple(value if value is None else str(value) for value in row)


def some(database):
    database.execute("INSERT INTO orders VALUES (1, 'a', 10)", "INSERT INTO orders VALUES (2, 'b', 20)")
    database.execute("UPDATE orders SET price = 11 WHERE id = 1", "DELETE FROM orders WHERE id = 2")


SOME = [
    ("c", "orders", None, ("1", "a", "10")),
    ("c", "orders", None, ("2", "b", "20")),
    ("u", "orders", ("1", "a", "10"), ("1", "a", "11")),
    ("d", "orders", ("2", "b", "20"), None),
]


def test_committed_changes_are_told_in_their_order(database):
    source = database.source()
    position = source.prepare()
    some(database)
    assert rows_of(read_until(source.changes(position), 4)) == SOME


def test_a_change_is_inside_of_a_transaction_that_begins_and_ends(database):
    source = database.source()
    position = source.prepare()
    some(database)
    is_inside = False
    for event in read_until(source.changes(position), 4):
        if isinstance(event, Began):
            assert not is_inside
            is_inside = True
        elif isinstance(event, Ended):
            assert is_inside
            is_inside = False
        elif isinstance(event, Change):
            assert is_inside


def test_the_same_position_gives_the_same_again(database):
    source = database.source()
    position = source.prepare()
    some(database)
    first = read_until(source.changes(position), 4)
    ends = [event.at for event in first if isinstance(event, Ended)]
    assert rows_of(read_until(database.source().changes(position), 4)) == SOME
    database.execute("INSERT INTO orders VALUES (3, 'c', 30)")
    behind = Position(json.loads(json.dumps(ends[-1])))
    assert rows_of(read_until(database.source().changes(behind), 1)) == [("c", "orders", None, ("3", "c", "30"))]


def test_a_transaction_that_is_known_by_what_it_said_when_it_began_is_the_same_again(database):
    source = database.source()
    position = source.prepare()
    some(database)
    first = read_until(source.changes(position), 4)
    began = next(event for event in first if isinstance(event, Began))
    inside = position if began.at is None else Position(json.loads(json.dumps(began.at)))
    database.execute("INSERT INTO orders VALUES (3, 'c', 30)")
    again = read_until(database.source().changes(inside), 5)
    assert [each.id for each in again if isinstance(each, Began | Ended)][:2] == [began.id, began.id]
    assert rows_of(again)[:4] == SOME


def test_what_was_rolled_back_is_not_told(database):
    source = database.source()
    position = source.prepare()
    database.execute("SAVEPOINT s", "INSERT INTO orders VALUES (1, 'a', 10)", "ROLLBACK TO SAVEPOINT s",
                     "INSERT INTO orders VALUES (2, 'b', 20)")  # fmt: skip
    assert rows_of(read_until(source.changes(position), 1)) == [("c", "orders", None, ("2", "b", "20"))]


def test_only_chosen_tables_are_told_of(database):
    source = database.source(selection=Selection(tables=[rf"{database.schema}\.pairs"]))
    position = source.prepare()
    some(database)
    database.execute("INSERT INTO pairs VALUES ('a', 1, 2)")
    assert rows_of(read_until(source.changes(position), 1)) == [("c", "pairs", None, ("a", "1", "2"))]
    assert source.tables() == [TableId(database.schema, "pairs")]


def test_a_snapshot_is_the_tables_at_its_position(database):
    source = database.source()
    source.prepare()
    some(database)
    with source.snapshot() as snapshot:
        database.execute("INSERT INTO orders VALUES (9, 'z', 90)", "UPDATE orders SET price = 0 WHERE id = 1")
        tables = {table.id.name: table for table in snapshot.tables()}
        assert set(tables) == {"orders", "pairs", "loose"}
        rows = [plain(row) for piece in snapshot.rows(tables["orders"]) for row in piece]
        position = snapshot.position
    assert rows == [("1", "a", "11")]
    assert rows_of(read_until(source.changes(position), 2)) == [
        ("c", "orders", None, ("9", "z", "90")),
        ("u", "orders", ("1", "a", "11"), ("1", "a", "0")),
    ]


def test_rows_come_in_the_order_of_their_key_and_from_behind_a_key_on(database):
    values = [(a, b) for a in "cab" for b in (2, 1, 3)]
    database.execute(*(f"INSERT INTO pairs VALUES ('{a}', {b}, 0)" for a, b in values))
    source = database.source()
    source.prepare()
    with source.snapshot() as snapshot:
        table = next(each for each in snapshot.tables() if each.id.name == "pairs")
        rows = [row for piece in snapshot.rows(table) for row in piece]
        assert [plain(table.key_of(row)) for row in rows] == [(a, str(b)) for a, b in sorted(values)]
        for number, row in enumerate(rows):
            rest = [each for piece in snapshot.rows(table, table.key_of(row)) for each in piece]
            assert rest == rows[number + 1 :]
        assert snapshot.estimate(table) >= 0


def test_changes_up_to_a_snapshot_end_exactly_there(database):
    source = database.source()
    position = source.prepare()
    some(database)
    with source.snapshot() as snapshot:
        database.execute("INSERT INTO orders VALUES (9, 'z', 90)")
        changes = source.changes(position, snapshot.position)
        events = []
        while not (events and events[-1] == Passed(snapshot.position.at)):
            events += changes.read(SECONDS)
        assert rows_of(events) == SOME
        assert not changes.read(0.01)


def test_what_is_confirmed_may_be_forgotten_and_what_is_behind_it_stays(database):
    source = database.source()
    position = source.prepare()
    some(database)
    changes = source.changes(position)
    behind = Position(read_until(changes, 4)[-1].at)
    assert source.behind(position) > 0
    source.confirm(behind)

    def is_all_read():
        nonlocal behind
        places = [event.at for event in changes.read(0.1) if isinstance(event, Ended | Passed)]
        behind = Position(places[-1]) if places else behind
        return source.behind(behind) == 0

    wait_until(is_all_read)  # a server may write to its log by itself
    source.confirm(behind)
    database.execute("INSERT INTO orders VALUES (3, 'c', 30)")
    assert rows_of(read_until(source.changes(behind), 1)) == [("c", "orders", None, ("3", "c", "30"))]


@pytest.mark.parametrize("is_last", [True, False])
def test_an_app_is_caught_up_behind_the_log_that_was_there_whoever_wrote_it(database, is_last):
    source = WatchedSource(database.source(selection=Selection(tables=[rf"{database.schema}\.pairs"])))
    position = source.prepare()
    for number in range(20):
        database.execute(f"INSERT INTO orders VALUES ({number}, 'a', 10)")
    if is_last:
        database.execute("INSERT INTO pairs VALUES ('a', 1, 0)")
    changes, events = source.changes(position), []
    deadline = time.monotonic() + SECONDS
    while not source.is_caught_up:
        assert time.monotonic() < deadline
        events += changes.read(0.01)
    assert len(rows_of(events)) == is_last


def test_to_prepare_again_changes_nothing(database):
    source = database.source()
    position = source.prepare()
    some(database)
    database.source().prepare()
    assert rows_of(read_until(source.changes(position), 4)) == SOME


def chunk_of(source, table, after=None, limit=10, tag="tag", where=None):
    """It may take until others have ended what they are at."""
    deadline = time.monotonic() + SECONDS
    while (found := source.chunk(table, after, limit, tag, where)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def read_until_mark(changes, tag):
    events = []
    while Mark(tag) not in events:
        events += changes.read(SECONDS)
    return events


def test_a_chunk_is_marked_behind_all_that_its_rows_have_seen(database):
    source = database.source()
    changes = source.changes(source.prepare())
    some(database)
    table = source.table(TableId(database.schema, "orders"))
    chunk = chunk_of(source, table)
    database.execute("INSERT INTO orders VALUES (9, 'z', 90)")
    assert ([plain(row) for row in chunk.rows], chunk.is_last) == ([("1", "a", "11")], True)
    events = read_until_mark(changes, "tag")
    before = events[: events.index(Mark("tag"))]
    assert rows_of(before) == SOME
    assert all(chunk.sees(event.id) for event in before if isinstance(event, Began))
    rest = events[events.index(Mark("tag")) :]
    while not rows_of(rest):
        rest += changes.read(SECONDS)
    assert rows_of(rest) == [("c", "orders", None, ("9", "z", "90"))]


def test_a_mark_stands_between_transactions_also_when_nothing_happens(database):
    source = database.source()
    changes = source.changes(source.prepare())
    table = source.table(TableId(database.schema, "orders"))
    for number in range(3):
        chunk = chunk_of(source, table, tag=f"tag{number}")
        assert (list(chunk.rows), chunk.is_last) == ([], True)
        events = read_until_mark(changes, f"tag{number}")
        assert [event for event in events if not isinstance(event, Passed)] == [Mark(f"tag{number}")]


def test_chunks_go_through_a_table_in_the_order_of_its_key(database):
    values = [(a, b) for a in "cab" for b in (2, 1, 3)]
    database.execute(*(f"INSERT INTO pairs VALUES ('{a}', {b}, {b})" for a, b in values))
    source = database.source()
    source.changes(source.prepare())
    table = source.table(TableId(database.schema, "pairs"))
    found, after, is_last = [], None, False
    while not is_last:
        chunk = chunk_of(source, table, after, limit=2)
        found += [plain(chunk.table.key_of(row)) for row in chunk.rows]
        is_last = chunk.is_last
        after = json.loads(json.dumps(chunk.table.key_of(chunk.rows[-1]))) if chunk.rows else after
    assert found == [(a, str(b)) for a, b in sorted(values)]
    filtered = chunk_of(source, table, ("a", "2") if database.schema == "public" else ("a", 2), where="v <> 1")
    assert [plain(chunk.table.key_of(row)) for row in filtered.rows] == [
        (a, str(b)) for a, b in sorted(values) if (a, b) > ("a", 2) and b != 1
    ]


@pytest.mark.parametrize("where", ["nonsense of some kind", "1 = 1); DELETE FROM orders; SELECT (1", "nothing > 1"])
def test_a_filter_that_is_no_condition_is_told(database, where):
    source = database.source()
    database.execute("INSERT INTO orders VALUES (1, 'a', 10)")
    changes = source.changes(source.prepare())
    table = source.table(TableId(database.schema, "orders"))
    with pytest.raises(InvalidFilter) as raised:
        chunk_of(source, table, where=where)
    assert where in str(raised.value)
    assert len(database.rows("orders")) == 1
    chunk_of(source, table, tag="next")
    assert read_until_mark(changes, "next")


def test_a_table_that_is_gone_has_no_chunks(database):
    source = database.source()
    source.changes(source.prepare())
    table = source.table(TableId(database.schema, "orders"))
    chunk_of(source, table)
    database.execute("DROP TABLE orders")
    with pytest.raises(TableMissing):
        chunk_of(source, table)


def test_what_is_left_in_the_log_of_a_table_that_is_not_chosen_any_more_is_not_told(database):
    position = database.source().prepare()
    database.execute("INSERT INTO pairs VALUES ('a', 1, 2)", "INSERT INTO orders VALUES (1, 'a', 10)")
    narrow = database.source(selection=Selection(tables=[rf"{database.schema}\.orders"]))
    narrow.prepare()
    assert rows_of(read_until(narrow.changes(position), 1)) == [("c", "orders", None, ("1", "a", "10"))]
