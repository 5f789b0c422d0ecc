import pytest

from runnel.views.errors import PositionOutOfRange
from runnel.views.store import Keep
from tests.contract.views.clicks import CHECKPOINT, claimed, content, marker, seen, told

DAY_MS = 86_400_000


def test_every_change_is_told_with_the_row_before_and_after(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 2)), marker(0))
        writer.apply(seen(("b", 3), ("a", None), changes=["update_after", "delete"]), marker(1))
    assert told(store) == [
        (0, "insert", "a", None, 1),
        (1, "insert", "b", None, 2),
        (2, "update", "b", 2, 3),
        (3, "delete", "a", 1, None),
    ]


def test_an_upsert_of_equal_values_is_no_change(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", None), ("c", 3)), marker(0))
        assert writer.apply(seen(("a", 1), ("b", None), ("c", 4)), marker(1))[:3] == (0, 1, 0)
        assert writer.apply(seen(("b", 0)), marker(2))[:3] == (0, 1, 0)
        assert writer.apply(seen(("b", None)), marker(3))[:3] == (0, 1, 0)
    assert told(store, 3) == [(3, "update", "c", 3, 4), (4, "update", "b", None, 0), (5, "update", "b", 0, None)]


def test_a_batch_tells_the_difference_that_it_made_to_each_key(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 2)), marker(0))
        rows = seen(
            ("a", None), ("a", 1), ("b", 5), ("b", 6), ("c", 1), ("c", None),
            changes=["delete", "insert", "update_after", "update_after", "insert", "delete"],
        )  # fmt: skip
        writer.apply(rows, marker(1))
    assert told(store, 2) == [(2, "update", "b", 2, 6)]


def test_changes_stand_in_the_order_of_the_rows_that_made_them(store):
    with claimed(store) as writer:
        writer.apply(seen(("m", 1)), marker(0))
        writer.apply(seen(("z", 1), ("a", 1), ("m", 2), ("z", 2), ("b", 1)), marker(1))
    assert [page for _, _, page, _, _ in told(store, 1)] == ["a", "m", "z", "b"]
    assert [position for position, *_ in told(store)] == list(range(5))


def test_folding_the_changes_gives_the_view(store):
    with claimed(store) as writer:
        for batch in range(20):
            rows = [(f"page-{(batch * 7 + step * 3) % 11}", batch + step) for step in range(6)]
            kinds = ["delete" if (batch + step) % 4 == 0 else "update_after" for step in range(6)]
            writer.apply(seen(*rows, changes=kinds), marker(batch))
    view: dict[str, int] = {}
    for _, kind, page, before, after in told(store):
        assert view.get(page) == before
        assert (kind == "insert") == (page not in view)
        if kind == "delete":
            del view[page]
        else:
            view[page] = after
    assert view == content(store)
    assert view


def test_a_watcher_goes_on_where_the_snapshot_ends(store):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        with store.reader("clicks") as reader:
            snapshot = reader.snapshot()
            assert (snapshot.rows.to_pylist(), snapshot.marker) == ([{"page": "a", "seen": 1}], marker(0))
            assert list(reader.changes(snapshot.next_position)) == []
            writer.apply(seen(("a", 2)), marker(1))
            changes = reader.changes(snapshot.next_position)
            assert [(change.kind, change.after) for change in changes] == [("update", {"page": "a", "seen": 2})]
            assert list(reader.changes(changes.next_position)) == []


def test_changes_are_given_in_whole_batches(store):
    with claimed(store) as writer:
        for batch in range(4):
            writer.apply(seen(*((f"{batch}-{row}", row) for row in range(3))), marker(batch))
    with store.reader("clicks") as reader:
        for about, until in [(0, 3), (1, 3), (3, 3), (4, 6), (6, 6), (7, 9), (100, 12)]:
            changes = reader.changes(0, about=about)
            assert (len(list(changes)), changes.next_position) == (until, until)
        assert reader.changes(5, about=1).next_position == 6


def test_changes_are_given_up_to_a_position_however_many_came_since(store):
    with claimed(store) as writer:
        for batch in range(4):
            writer.apply(seen(*((f"{batch}-{row}", row) for row in range(3))), marker(batch))
    with store.reader("clicks") as reader:
        changes = reader.changes(3, about=1, until=9)
        assert ([change.position for change in changes], changes.next_position) == ([3, 4, 5, 6, 7, 8], 9)
        assert (list(reader.changes(9, until=9)), reader.changes(9, until=9).next_position) == ([], 9)
        with pytest.raises(PositionOutOfRange, match="13 was asked for"):
            reader.changes(9, until=13)


def test_a_watcher_can_ask_how_far_it_could_go(open_at):
    store = open_at(keep=Keep(rows=6))
    with claimed(store) as writer:
        with store.reader("clicks") as reader:
            assert reader.ahead(0) == (0, 0, None, "")
        for batch in range(2):
            writer.apply(seen(*((f"{batch}-{row}", row) for row in range(3))), marker(batch))
        with store.reader("clicks") as reader:
            assert reader.ahead(0, about=1) == (3, 6, marker(1), CHECKPOINT)
            assert reader.ahead(0) == (6, 6, marker(1), CHECKPOINT)
            assert reader.ahead(6) == (6, 6, marker(1), CHECKPOINT)
            writer.apply(seen(("a", 1)), marker(2))
            writer.trim()
            with pytest.raises(PositionOutOfRange, match="trimmed"):
                reader.ahead(0)
            assert reader.ahead(3) == (7, 7, marker(2), CHECKPOINT)


def test_the_log_is_trimmed_by_its_size_in_whole_batches(open_at):
    store = open_at(keep=Keep(rows=5))
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 1)), marker(0))
        writer.apply(seen(("c", 1), ("d", 1)), marker(1))
        assert writer.trim() == 0
        writer.apply(seen(("a", 2)), marker(2))
        assert writer.trim() == 2
        assert writer.trim() == 0
    assert told(store, 2) == [(2, "insert", "c", None, 1), (3, "insert", "d", None, 1), (4, "update", "a", 1, 2)]


def test_the_log_is_trimmed_by_its_age(open_at, clock):
    store = open_at(keep=Keep(age_ms=DAY_MS))
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        clock.advance(DAY_MS)
        writer.apply(seen(("a", 2)), marker(1))
        assert writer.trim() == 0
        clock.advance(1)
        assert writer.trim() == 1
        assert told(store, 1) == [(1, "update", "a", 1, 2)]
        clock.advance(DAY_MS)
        assert writer.trim() == 2
        assert told(store, 2) == []
        writer.apply(seen(("a", 3)), marker(2))
    assert told(store, 2) == [(2, "update", "a", 2, 3)]
    assert content(store) == {"a": 3}


def test_a_watcher_who_comes_too_late_is_told_where_the_log_begins(open_at):
    store = open_at(keep=Keep(rows=1))
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        writer.apply(seen(("b", 1)), marker(1))
        writer.trim()
    with store.reader("clicks") as reader:
        with pytest.raises(PositionOutOfRange) as caught:
            reader.changes(0)
        assert (caught.value.first, caught.value.following) == (1, 2)
        assert "trimmed" in str(caught.value)
        with pytest.raises(PositionOutOfRange, match="made anew"):
            reader.changes(3)


def test_a_batch_that_is_more_than_the_log_keeps_stays_whole_until_as_much_has_come_behind_it(open_at):
    store = open_at(keep=Keep(rows=2))
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        writer.apply(seen(("b", 1), ("c", 1), ("d", 1)), marker(1))
        assert writer.trim() == 1
        large = [(1, "insert", "b", None, 1), (2, "insert", "c", None, 1), (3, "insert", "d", None, 1)]
        assert told(store, 1) == large
        writer.apply(seen(("a", 2)), marker(2))
        assert writer.trim() == 0
        assert told(store, 1) == [*large, (4, "update", "a", 1, 2)]
        writer.apply(seen(("e", 1)), marker(3))
        assert writer.trim() == 3 + 2
        with store.reader("clicks") as reader, pytest.raises(PositionOutOfRange) as caught:
            reader.changes(1)
        assert caught.value.first == 5
    assert told(store, 5) == [(5, "insert", "e", None, 1)]
    assert content(store) == {"a": 2, "b": 1, "c": 1, "d": 1, "e": 1}


def test_of_large_batches_one_after_the_other_the_last_one_stays(open_at):
    store = open_at(keep=Keep(rows=2))
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 1), ("c", 1)), marker(0))
        writer.apply(seen(("d", 1), ("e", 1), ("f", 1)), marker(1))
        assert writer.trim() == 3
    assert [page for _, _, page, *_ in told(store, 3)] == ["d", "e", "f"]


def test_a_large_batch_goes_when_it_is_too_old(open_at, clock):
    store = open_at(keep=Keep(rows=1, age_ms=DAY_MS))
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 1)), marker(0))
        clock.advance(DAY_MS + 1)
        assert writer.trim() == 2
    assert told(store, 2) == []


def test_a_view_that_keeps_no_changes_logs_none(open_at):
    store = open_at(keep=Keep(rows=0))
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        with store.reader("clicks") as reader, pytest.raises(PositionOutOfRange):
            reader.changes(0)
        assert told(store, 1) == []
        assert writer.trim() == 0


def test_a_view_that_keeps_no_changes_any_more_trims_all_of_them(open_at):
    with claimed(open_at()) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        writer.apply(seen(("b", 1), ("c", 1)), marker(1))
    store = open_at(keep=Keep(rows=0))
    with claimed(store) as writer:
        assert writer.trim() == 3
    assert told(store, 3) == []


def test_other_tools_can_read_the_log(store, place):
    with claimed(store) as writer:
        writer.apply(seen(("a", 1)), marker(0))
        writer.apply(seen(("a", 2)), marker(1))
    rows = place.query("SELECT _position, _change, page, seen FROM runnel_changes_1 ORDER BY _position, _change DESC")
    assert rows == [(0, "insert", "a", 1), (1, "update_before", "a", 1), (1, "update_after", "a", 2)]
