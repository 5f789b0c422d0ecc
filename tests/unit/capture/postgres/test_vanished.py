"""When a table is told to be gone, when another one has its name, and when nothing is told of it any more."""

import pytest

from runnel.capture.events import Began, Came, Ended, Gone, Passed, Position, Redefined
from runnel.capture.postgres import vanished
from runnel.capture.postgres.errors import TableReplaced, TablesUnpublished
from runnel.capture.postgres.vanished import Catalog, WatchedChanges, source_at
from runnel.capture.tables import FORGOTTEN, Table, TableId

A, B, C = (TableId("public", name) for name in "abc")


class Fake:
    def __init__(self, *readings):
        self._readings = list(readings)

    def read(self, seconds):
        return self._readings.pop(0)

    def close(self): ...


@pytest.fixture(autouse=True)
def _look_always(monkeypatch):
    monkeypatch.setattr(vanished, "LOOK_SECONDS", 0.0)


def place(lsn):
    return {"lsn": lsn}


def described(table):
    """As if it were made again a moment ago, but for the first."""
    return Table(table, (), (), 1 if table == A else 9)


def watched(readings, looks, known, *, lsn=0, index=0, put_back=lambda _: None):
    """`looks` are what the catalog shows, one after the other; the last one for ever."""

    def look():
        return looks.pop(0) if len(looks) > 1 else looks[0]

    return WatchedChanges(Fake(*readings), look, described, known, Position(place(lsn), index), "shop", put_back)


def test_a_table_is_gone_when_the_log_is_past_the_place_where_it_was_missed():
    readings = [Passed(place(9))], [Began("1", 0), Ended("1", place(10), 0)], [Passed(place(11))]
    changes = watched(readings, [Catalog({A: 1}, 10, 7)], {A: 1, B: 2})
    assert [changes.read(0) for _ in range(3)] == [
        [Passed(place(9))],
        [Began("1", 0), Ended("1", place(10), 0), Gone(B, 7, source_at(10))],
        [Passed(place(11))],
    ]


def test_it_is_told_between_transactions():
    events = [Ended("1", place(12), 0), Began("2", 0), Ended("2", place(13), 0)]
    changes = watched([events], [Catalog({}, 5, 7)], {A: 1}, index=1)
    assert changes.read(0) == [events[0], Gone(A, 7, source_at(5)), *events[1:]]


def test_it_is_told_at_once_where_the_log_has_nothing_left():
    changes = watched([[], [Passed(place(6))]], [Catalog({A: 1}, 5, 7), Catalog({}, 6, 8)], {A: 1}, lsn=6)
    assert [changes.read(0), changes.read(0)] == [[Gone(A, 8, source_at(6))], [Passed(place(6))]]


def test_a_table_that_came_later_can_go_too():
    events = [Redefined(Table(C, (), (), 3), 0), Passed(place(6))]
    changes = watched([events], [Catalog({}, 6, 7)], {})
    assert changes.read(0) == [*events, Gone(C, 7, source_at(6))]


def test_another_table_of_the_same_name_begins_empty_and_there_the_changes_end():
    events = [Began("1", 0), Ended("1", place(12), 0), Began("2", 0), Ended("2", place(13), 0)]
    changes = watched([events], [Catalog({A: 1, B: 2}, 5, 6), Catalog({A: 1, B: 9}, 12, 7)], {A: 1, B: 2})
    assert changes.read(0) == [*events[:2], Gone(B, 7, source_at(12))]
    with pytest.raises(TableReplaced, match=r'table "public\.b" of shop is another one than before'):
        changes.read(0)


def test_one_that_comes_back_is_another_one():
    looks = [Catalog({A: 1}, 0, 1), Catalog({}, 5, 2), Catalog({A: 9}, 6, 3)]
    changes = watched([[Passed(place(5))], [Passed(place(6))]], looks, {A: 1})
    assert changes.read(0) == [Passed(place(5)), Gone(A, 2, source_at(5))]
    assert changes.read(0) == [Passed(place(6)), Gone(A, 3, source_at(6))]


def test_one_that_is_in_no_state_any_more_is_gone_and_then_another_one():
    looks = [Catalog({}, 0, 1), Catalog({A: 9}, 5, 2, {A})]
    changes = watched([[Passed(place(4))], [Passed(place(5))]], looks, {A: FORGOTTEN})
    assert changes.read(0) == [Gone(A, 1, source_at(0)), Passed(place(4))]
    assert changes.read(0) == [Passed(place(5)), Gone(A, 2, source_at(5))]


def test_a_number_that_is_not_known_is_taken_from_the_catalog():
    looks = [Catalog({A: 1}, 0, 1), Catalog({A: 2}, 5, 2)]
    changes = watched([[Passed(place(5))]], looks, {A: None})
    assert changes.read(0) == [Passed(place(5)), Gone(A, 2, source_at(5))]


def test_what_tables_are_like_is_told_where_the_log_ended_when_it_was_opened():
    looks = [Catalog({A: 1, B: 2}, 5, 7), Catalog({A: 1, B: 2}, 9, 8)]
    changes = watched([[Passed(place(4))], [Passed(place(5))], [Passed(place(9))]], looks, {A: 1, B: 2, C: 3})
    changes.describe([A, B, C])
    assert [changes.read(0) for _ in range(3)] == [
        [Passed(place(4))],
        [Passed(place(5)), Gone(C, 7, source_at(5)), Redefined(described(A), 7, source_at(5))],
        [Passed(place(9))],
    ]


def test_nor_is_it_told_behind_a_transaction_that_has_redefined_them_since():
    """Readers would take the older columns for the last word."""
    altered = Redefined(Table(A, (), (0,), 1), 3)
    readings = [[Began("1", 0), altered], [Ended("1", place(6), 0)], [Passed(place(9))]]
    changes = watched(readings, [Catalog({A: 1}, 5, 7)], {A: 1})
    changes.describe([A])
    assert [changes.read(0) for _ in range(3)] == readings


@pytest.mark.parametrize("end", [4, 5])
def test_behind_one_that_redefined_them_before_it_is_told(end):
    altered, told = Redefined(Table(A, (), (0,), 1), 3), Redefined(described(A), 7, source_at(5))
    first, second = [Began("1", 0), altered, Ended("1", place(end), 0)], [Began("2", 0), Ended("2", place(6), 0)]
    changes = watched([[*first, *second]], [Catalog({A: 1}, 5, 7)], {A: 1})
    changes.describe([A])
    assert changes.read(0) == ([*first, *second, told] if end == 4 else [*first, told, *second])


def test_another_table_of_the_same_name_is_not_told_as_if_it_were_the_old_one():
    changes = watched([[Passed(place(5))]], [Catalog({B: 9}, 5, 7)], {B: 2})
    changes.describe([B])
    assert changes.read(0) == [Passed(place(5)), Gone(B, 7, source_at(5))]


def test_one_that_the_log_tells_as_gone_is_another_one_if_the_catalog_has_it():
    away, looks = Gone(A, 3, "in the log"), [Catalog({A: 1}, 5, 7), Catalog({A: 1}, 9, 8)]
    changes = watched([[away, Passed(place(5))], [Passed(place(9))]], looks, {A: 1})
    changes.describe([A])
    assert changes.read(0) == [away, Passed(place(5))]
    assert changes.read(0) == [Passed(place(9)), Gone(A, 8, source_at(9))]
    with pytest.raises(TableReplaced):
        changes.read(0)


def test_the_catalog_is_asked_at_first_and_now_and_then(monkeypatch):
    monkeypatch.setattr(vanished, "LOOK_SECONDS", 3600.0)
    looks = [Catalog({A: 1}, 0, 1), Catalog({A: 1}, 0, 2)]
    changes = watched([[], []], looks, {A: 1})
    changes.read(0)
    changes.read(0)
    assert len(looks) == 1


def test_tables_that_are_not_published_are_told_once_and_put_back_where_nobody_reads_them_anew():
    events = [Began("1", 0), Ended("1", place(12), 0), Began("2", 0), Ended("2", place(13), 0)]
    looks = [Catalog({A: 1, B: 2}, 5, 6), Catalog({A: 1, B: 2, C: 3}, 9, 7, {A, B, C})]
    put_back = set()
    changes = watched([[Passed(place(8))], events], looks, {A: 1, B: 2}, put_back=put_back.update)
    assert changes.read(0) == [Passed(place(8))]
    came = [Came(table, 7, source_at(9), is_part=True) for table in (A, B)]
    assert changes.read(0) == [*events[:2], *came]
    assert not put_back  # it is not known yet whether somebody reads them
    with pytest.raises(TablesUnpublished, match=r"shop does not tell of public\.a, public\.b: somebody took"):
        changes.read(0)
    assert put_back == {A, B}


def test_another_table_of_the_same_name_is_not_said_to_be_taken_out_though_it_is_not_published_yet():
    looks = [Catalog({A: 1}, 0, 1), Catalog({A: 9}, 5, 2), Catalog({A: 9}, 6, 3, {A})]
    changes = watched([[], [], [Passed(place(7))]], looks, {A: 1})
    assert [changes.read(0) for _ in range(3)] == [[], [], [Passed(place(7)), Gone(A, 2, source_at(5))]]
    with pytest.raises(TableReplaced):
        changes.read(0)


def test_the_rest_of_a_transaction_is_told_before_anybody_looks_for_what_is_not_published():
    changes = watched([[Ended("1", place(12), 0)]], [Catalog({A: 1}, 5, 6, {A})], {A: 1}, index=1)
    assert changes.read(0) == [Ended("1", place(12), 0)]
