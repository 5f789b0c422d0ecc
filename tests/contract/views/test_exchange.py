"""A view and its copy change places: at one moment, for whoever reads, watches or writes."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pyarrow as pa
import pytest

from runnel.durable import VARIABLE
from runnel.views.errors import Fenced, PositionOutOfRange, UnknownView
from runnel.views.exchange import copy_of
from runnel.views.store import Declared, Keep
from tests.contract.views.clicks import CLICKS, QUERY, SCHEMA, claimed, content, marker, seen, told

STEPS = ("view.exchange", "view.drop")
OTHER_KEY = Declared("clicks", ("page", "day"), SCHEMA.append(pa.field("day", pa.int32())))
NEW = "checkpoint-2"
PROGRAM = """
import sys
from runnel.views.opening import open_store
store = open_store(sys.argv[1])
getattr(store, sys.argv[2])("clicks")
"""


@pytest.fixture
def shown(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 2), ("c", 3)), marker(0, clicks=3))
    return store


def copied(store, rows, declared=CLICKS):
    with store.copy_writer(declared, QUERY) as writer:
        writer.claim()
        writer.apply(rows, marker(7, NEW, clicks=3))


def of_days(*rows):
    pages, counts, days = zip(*rows, strict=True)
    return pa.table({"page": pages, "seen": counts, "day": days}, schema=OTHER_KEY.schema)


def shown_marker(store):
    with store.reader("clicks") as reader:
        return reader.marker()


def test_a_copy_is_not_seen_before_and_takes_the_place_of_the_view_with_its_marker(shown):
    copied(shown, seen(("a", 1), ("b", 5), ("d", 4)))
    assert content(shown) == {"a": 1, "b": 2, "c": 3}
    assert shown.names() == ["clicks"]
    assert shown.copy_marker("clicks") == marker(7, NEW, clicks=3)
    shown.exchange("clicks")
    assert content(shown) == {"a": 1, "b": 5, "d": 4}
    assert shown_marker(shown) == marker(7, NEW, clicks=3)
    assert shown.copy_marker("clicks") == marker(0, clicks=3)


def test_whoever_watches_is_told_the_difference_and_goes_on(shown):
    copied(shown, seen(("a", 1), ("b", 5), ("d", 4)))
    shown.exchange("clicks")
    assert told(shown, 3) == [
        (3, "update", "b", 2, 5),
        (4, "insert", "d", None, 4),
        (5, "delete", "c", 3, None),
    ]
    with claimed(shown) as writer:
        writer.apply(seen(("e", 1)), marker(8, NEW, clicks=4))
    assert told(shown, 6) == [(6, "insert", "e", None, 1)]


def test_columns_in_another_order_are_the_same_columns(shown):
    """One that came later stands at the end of the view's table, and where it is declared in that of a copy."""
    wider = Declared("clicks", ("page",), pa.schema([("city", pa.string()), *SCHEMA]))
    with claimed(shown, wider):
        pass
    copied(shown, seen(("a", 1), ("b", 5), ("c", 3)).add_column(0, "city", pa.array(["Graz"] * 3)), wider)
    shown.exchange("clicks")
    with shown.reader("clicks") as reader:
        assert [change.kind for change in reader.changes(3)] == ["update"] * 3
        assert reader.rows().to_pylist() == [
            {"page": p, "seen": n, "city": "Graz"} for p, n in zip("abc", (1, 5, 3), strict=True)
        ]
    shown.exchange("clicks")
    with shown.reader("clicks") as reader:
        assert reader.rows().to_pylist() == [
            {"page": p, "seen": n, "city": None} for p, n in zip("abc", (1, 2, 3), strict=True)
        ]


def test_exchanged_twice_it_is_as_it_was(shown):
    copied(shown, seen(("a", 9), ("d", 4)))
    shown.exchange("clicks")
    shown.exchange("clicks")
    assert content(shown) == {"a": 1, "b": 2, "c": 3}
    assert shown_marker(shown) == marker(0, clicks=3)
    assert shown.drop_copy("clicks")
    assert not shown.drop_copy("clicks")
    assert shown.copy_marker("clicks") is None


def test_a_difference_larger_than_the_change_log_keeps_is_told_whole(open_at):
    store = open_at(keep=Keep(rows=3))
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    copied(store, seen(*((f"p{number}", number) for number in range(5))))
    store.exchange("clicks")
    inserted = [(position, "insert", f"p{position - 1}", None, position - 1) for position in range(1, 6)]
    assert told(store, 1) == [*inserted, (6, "delete", "a", 1, None)]
    with claimed(store) as writer:
        assert writer.trim() == 1
        assert told(store, 1) == [*inserted, (6, "delete", "a", 1, None)]


def test_where_no_changes_are_kept_the_log_begins_behind_the_difference(open_at):
    store = open_at(keep=Keep(rows=0))
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    copied(store, seen(("b", 1)))
    store.exchange("clicks")
    with pytest.raises(PositionOutOfRange), store.reader("clicks") as reader:
        reader.changes(1)
    with store.reader("clicks") as reader:
        assert reader.changes(reader.snapshot().next_position).rows.num_rows == 0


def test_a_copy_with_other_columns_and_another_key_takes_the_place_and_gives_it_back(shown):
    copied(shown, of_days(("a", 1, 1), ("a", 2, 2)), OTHER_KEY)
    shown.exchange("clicks")
    with shown.reader("clicks") as reader:
        assert reader.key() == ("page", "day")
        assert reader.rows().to_pylist() == [{"page": "a", "seen": 1, "day": 1}, {"page": "a", "seen": 2, "day": 2}]
        for position in range(4):
            with pytest.raises(PositionOutOfRange):
                reader.changes(position)
        following = reader.snapshot().next_position
    with claimed(shown, OTHER_KEY) as writer:
        writer.apply(of_days(("b", 1, 1)), marker(8, NEW))
    assert [position for position, *_ in told(shown, following)] == [following]
    shown.exchange("clicks")
    assert content(shown) == {"a": 1, "b": 2, "c": 3}
    with shown.reader("clicks") as reader, pytest.raises(PositionOutOfRange):
        reader.changes(following)


def test_a_table_that_others_use_is_left_and_told_once_and_is_in_nobodys_way(shown, place, caplog):
    place.query("CREATE VIEW top AS SELECT page FROM clicks WHERE seen > 1")
    copied(shown, of_days(("d", 5, 1)), OTHER_KEY)
    shown.exchange("clicks")
    assert shown.drop_copy("clicks")
    assert not shown.drop_copy("clicks")
    assert shown.copy_marker("clicks") is None
    if place.kind == "sqlite":  # where a view goes by the name
        assert place.query("SELECT page FROM top") == [("d",)]
        assert caplog.messages == []
    else:
        assert sorted(place.query("SELECT page FROM top")) == [("b",), ("c",)]
        ((schema,),) = place.query("SELECT current_schema()")
        assert caplog.messages == [
            "clicks: the old table stays, as runnel_left_1, and is no longer written: others use it (view top depends "
            f'on table {copy_of("clicks")}); let them use clicks, and then DROP TABLE "{schema}"."runnel_left_1"'
        ]
        place.query("DROP VIEW top")
        place.query('DROP TABLE "runnel_left_1"')
    with shown.reader("clicks") as reader:
        assert reader.rows().to_pylist() == [{"page": "d", "seen": 5, "day": 1}]


def test_tables_that_others_use_are_left_side_by_side(shown, place, caplog):
    place.query("CREATE VIEW first AS SELECT page FROM clicks")
    copied(shown, of_days(("d", 5, 1)), OTHER_KEY)
    shown.exchange("clicks")
    shown.drop_copy("clicks")
    place.query("CREATE VIEW second AS SELECT page FROM clicks")
    copied(shown, seen(("e", 1)))
    shown.exchange("clicks")
    shown.drop_copy("clicks")
    assert content(shown) == {"e": 1}
    left = [] if place.kind == "sqlite" else ["runnel_left_1", "runnel_left_2"]
    assert [message.split(", ")[1].removeprefix("as ") for message in caplog.messages] == left


def test_a_view_of_others_over_one_does_not_hinder_the_next(shown, place):
    """SQLite looks through all views of others when a table gets another name."""
    place.query("CREATE VIEW top AS SELECT page FROM clicks WHERE seen > 1")
    copied(shown, of_days(("d", 5, 1)), OTHER_KEY)
    shown.exchange("clicks")
    shown.drop_copy("clicks")
    pages, by_day = replace(CLICKS, name="pages"), replace(OTHER_KEY, name="pages")
    with claimed(shown, pages) as writer:
        writer.apply(seen(("a", 1)), marker(0))
    copied(shown, of_days(("a", 1, 1)), by_day)
    shown.exchange("pages")
    assert shown.drop_copy("pages")
    with shown.reader("pages") as reader:
        assert reader.key() == ("page", "day")


def test_who_wrote_the_view_or_the_copy_before_is_fenced(shown):
    with claimed(shown) as writer, shown.copy_writer(CLICKS, QUERY) as copier:
        copier.claim()
        copier.apply(seen(("d", 4)), marker(7, NEW))
        shown.exchange("clicks")
        for each in (writer, copier):
            with pytest.raises(Fenced):
                each.apply(seen(("z", 1)), marker(9, NEW))


def test_without_a_copy_there_is_nothing_to_exchange(shown):
    with pytest.raises(UnknownView):
        shown.exchange("clicks")


@pytest.mark.parametrize("declared", [CLICKS, OTHER_KEY], ids=["the same columns", "other columns"])
def test_whoever_reads_all_the_while_sees_one_or_the_other(shown, place, declared):
    rows = seen(("x", 7), ("y", 8)) if declared is CLICKS else of_days(("x", 7, 1), ("y", 8, 1))
    copied(shown, rows, declared)
    pages = {marker(0).checkpoint: ["a", "b", "c"], NEW: ["x", "y"]}
    ended, found = threading.Event(), []

    def read():
        with place.store().reader("clicks") as reader:
            while not ended.is_set():
                snapshot = reader.snapshot()
                found.append((snapshot.marker.checkpoint, snapshot.rows["page"].to_pylist()))

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(30):
        shown.exchange("clicks")
    ended.set()
    thread.join()
    assert found
    assert [each for each in found if pages[each[0]] != each[1]] == []


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(("step", "call"), [("view.exchange", "exchange"), ("view.drop", "drop_copy")])
def test_killed_at_a_step_it_is_as_before_it_or_as_after_it(shown, place, step, call, side):
    copied(shown, seen(("d", 4)))
    dying = os.environ | {VARIABLE: f"{step}:{side}:1"}
    ended = subprocess.run([sys.executable, "-c", PROGRAM, place.address, call], env=dying, check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    is_done = side == "after"
    if call == "exchange":
        assert content(shown) == ({"d": 4} if is_done else {"a": 1, "b": 2, "c": 3})
        assert shown_marker(shown).checkpoint == (NEW if is_done else marker(0).checkpoint)
    else:
        assert (shown.copy_marker("clicks") is None) == is_done
