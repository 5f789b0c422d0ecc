"""Large transactions that the server sends before they are committed: unseen until they are, and the same as ever."""

from __future__ import annotations

import pytest

from runnel.capture.events import Began, Change, Ended, Event, Passed, Position
from runnel.capture.postgres import in_progress
from runnel.capture.postgres.errors import DatabaseRefused
from tests.contract.capture.captured_postgres import Database, events_of, position_after, told, wait_for

pytestmark = pytest.mark.servers
# The least that a server allows: what is larger comes in pieces.
LITTLE = "?options=-c%20logical_decoding_work_mem%3D64kB"
ROWS = 2_000


def filled(first: int, name: str) -> str:
    return f"INSERT INTO t SELECT i, '{name}', repeat('x', 100) FROM generate_series({first}, {first + ROWS - 1}) i"


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The parts of which pieces came, in their order, so that a test can see that there were some."""
    found: list[int] = []
    add = in_progress.Pieces.add

    def noted(self: in_progress.Pieces, part: int, data: bytes) -> None:
        found.append(part)
        add(self, part, data)

    monkeypatch.setattr(in_progress.Pieces, "add", noted)
    return found


def sources(database: Database):
    """One that takes pieces, and one that does not; with slots of their own."""
    database.run("CREATE TABLE t(id int PRIMARY KEY, name text, v text)")
    url = database.server.url + LITTLE
    taking = database.source(name=f"{database.schema}_pieces", url=url, in_progress=True)
    whole = database.source(name=f"{database.schema}_whole", url=url)
    return taking, taking.prepare(), whole, whole.prepare()


def known(events: list[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Passed)]


def without_places(events: list[Event]) -> list[object]:
    """The source block tells where a reader began."""
    return [event[1:4] if isinstance(event, Change) else event for event in known(events)]


def test_a_large_transaction_with_savepoints_rolled_back_is_told_as_without_pieces(database: Database, pieces):
    taking, start, whole, start_of_whole = sources(database)
    with database.transaction():
        database.run(
            filled(0, "kept"),
            "SAVEPOINT a", filled(10_000, "dropped"), "SAVEPOINT b", filled(20_000, "dropped"), "ROLLBACK TO a",
            "SAVEPOINT c", filled(30_000, "kept"), "RELEASE c",
            "SAVEPOINT d", "UPDATE t SET name = 'dropped'", "ROLLBACK TO d",
            "UPDATE t SET id = -id WHERE id = 1", "DELETE FROM t WHERE id = 2",
        )  # fmt: skip
    events = events_of(taking, start)
    assert len(set(pieces)) >= 3
    assert without_places(events) == without_places(events_of(whole, start_of_whole))
    changes = told(events)
    assert len(changes) == 2 * ROWS + 2
    assert {row["name"] for _, _, row in changes if row} == {"kept"}


def test_nothing_is_told_before_the_commit_and_nothing_of_what_is_rolled_back(database: Database, pieces):
    taking, start, *_ = sources(database)
    changes = taking.changes(start)
    events: list[Event] = []
    one, other = database.connect(), database.connect()
    one.execute("BEGIN")
    other.execute("BEGIN")
    for number in range(3):
        one.execute(filled(number * ROWS, "one").encode())
        other.execute(filled(100_000 + number * ROWS, "other").encode())
    wait_for(lambda: events.extend(changes.read(0.2)) or len(set(pieces)) == 2)
    database.run("INSERT INTO t VALUES (-1, 'beside', '')")
    wait_for(lambda: events.extend(changes.read(0.2)) or told(events))
    assert told(events) == [("c", None, {"id": -1, "name": "beside", "v": ""})]
    other.execute("ROLLBACK")
    one.execute("COMMIT")
    wait_for(lambda: events.extend(changes.read(0.2)) or sum(isinstance(event, Ended) for event in events) == 2)
    changes.close()
    assert {row["name"] for _, _, row in told(events)[1:]} == {"one"}
    assert len(told(events)) == 1 + 3 * ROWS
    assert [type(event) for event in known(events) if not isinstance(event, Change)] == [Began, Ended, Began, Ended]


def test_two_large_transactions_side_by_side_are_told_in_the_order_of_their_commits(database: Database, pieces):
    taking, start, *_ = sources(database)
    one, other = database.connect(), database.connect()
    one.execute("BEGIN")
    other.execute("BEGIN")
    for number in range(2):
        one.execute(filled(number * ROWS, "one").encode())
        other.execute(filled(100_000 + number * ROWS, "other").encode())
    other.execute("COMMIT")
    one.execute("COMMIT")
    events = events_of(taking, start)
    assert len(set(pieces)) == 2
    assert [row["name"] for _, _, row in told(events)] == ["other"] * 2 * ROWS + ["one"] * 2 * ROWS


def test_one_that_reads_again_from_the_middle_gets_all_of_it_again(database: Database, pieces):
    taking, start, *_ = sources(database)
    writer = database.connect()
    writer.execute("BEGIN")
    writer.execute(filled(0, "first").encode())
    changes = taking.changes(start)
    events: list[Event] = []
    database.run("INSERT INTO t VALUES (-1, 'beside', '')")
    wait_for(lambda: events.extend(changes.read(0.2)) or (pieces and told(events)))
    behind = position_after(events)
    taking.confirm(behind)
    changes.close()  # with half of the transaction
    pieces.clear()
    writer.execute(filled(ROWS, "second").encode())
    writer.execute("COMMIT")
    again = events_of(taking, Position(behind.at))
    assert pieces
    assert [row["name"] for _, _, row in told(again)] == ["first"] * ROWS + ["second"] * ROWS


@pytest.mark.parametrize("statements", [[], ["ALTER TABLE t ADD COLUMN w int"]], ids=["as it is", "changed"])
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
def test_a_part_that_came_and_is_rolled_back_then_leaves_nothing_behind(database, pieces, is_first, statements):
    """The server describes the table in that part, and only there."""
    taking, start, *_ = sources(database)
    changes = taking.changes(start)
    events: list[Event] = []
    writer = database.connect()
    kept = [] if is_first else [filled(40_000, "kept")]
    for statement in ("BEGIN", *kept, "SAVEPOINT a", *statements, filled(0, "dropped")):
        writer.execute(statement.encode())
    wait_for(lambda: events.extend(changes.read(0.2)) or len(set(pieces)) == 1 + len(kept))
    for statement in ("ROLLBACK TO a", filled(50_000, "kept"), "COMMIT"):
        writer.execute(statement.encode())
    wait_for(lambda: events.extend(changes.read(0.2)) or any(isinstance(event, Ended) for event in events))
    changes.close()
    firsts = [50_000] if is_first else [40_000, 50_000]
    numbers = [number for first in firsts for number in range(first, first + ROWS)]
    expected = [{"id": number, "name": "kept", "v": "x" * 100} for number in numbers]
    assert [row for _, _, row in told(events)] == expected


def test_what_a_server_cannot_send_before_the_commit_is_told_with_the_remedy(database: Database, pieces):
    """PostgreSQL fails at a table that changes again after a change of it was rolled back, if it sends pieces."""
    taking, start, whole, start_of_whole = sources(database)
    with database.transaction():
        database.run(
            "SAVEPOINT a", "ALTER TABLE t ADD COLUMN w int", filled(0, "dropped"), "ROLLBACK TO a",
            filled(50_000, "kept"), "ALTER TABLE t ADD COLUMN x int", filled(60_000, "kept"),
        )  # fmt: skip
    expected = told(events_of(whole, start_of_whole))
    assert len(expected) == 2 * ROWS
    refused = None
    try:
        assert told(events_of(taking, start)) == expected
    except DatabaseRefused as error:
        refused = error
    if refused is not None:
        assert "could not map file" in refused.reason
        assert refused.hint == "the server cannot send this transaction before its commit: go on without --in-progress"


def test_a_table_that_changes_in_the_middle_is_read_as_it_was(database: Database, pieces):
    taking, start, *_ = sources(database)
    with database.transaction():
        database.run(filled(0, "before"), "ALTER TABLE t ADD COLUMN x int", filled(60_000, "after"))
    changes = told(events_of(taking, start))
    assert pieces
    assert changes[0] == ("c", None, {"id": 0, "name": "before", "v": "x" * 100})
    assert changes[-1][2] == {"id": 60_000 + ROWS - 1, "name": "after", "v": "x" * 100, "x": None}
    assert len(changes) == 2 * ROWS


def test_a_prepared_transaction_in_pieces_is_told_when_it_is_committed(database: Database, pieces):
    taking, start, *_ = sources(database)
    name = f"of {database.schema}"
    database.run("BEGIN", filled(0, "prepared"), f"PREPARE TRANSACTION '{name}'", "INSERT INTO t VALUES (-1, 'b', '')")
    assert [row["name"] for _, _, row in told(events_of(taking, start))] == ["b"]
    database.run(f"COMMIT PREPARED '{name}'")
    assert [row["name"] for _, _, row in told(events_of(taking, start))] == ["b"] + ["prepared"] * ROWS
    assert pieces
