"""Which keys were touched by transactions that a chunk has not seen."""

import pytest

from runnel.capture import tracker as trackers
from runnel.capture.events import Began, Change, Ended, Redefined, Truncated
from runnel.capture.tables import UNCHANGED, UNKNOWN
from runnel.capture.tracker import Tracker
from tests.unit.capture.customers import CUSTOMERS

TABLES = {CUSTOMERS.id}


def noted(*events, tables=TABLES):
    tracker = Tracker()
    for event in events:
        tracker.note(event, tables)
    return tracker


def changed(op, before, after):
    return Change(CUSTOMERS, op, before, after, "", 0)


def row(key, email="e"):
    return (key, "a", email)


def transaction(id, *changes):
    return [Began(id, 0), *changes, Ended(id, {}, 0)]


def keys(tracker, seen=()):
    return tracker.touched(CUSTOMERS.id, set(seen).__contains__).keys


def test_keys_before_and_after_a_change_are_touched():
    tracker = noted(
        *transaction(
            "1",
            changed("c", None, row(1)),
            changed("u", row(2), row(3)),
            changed("u", None, row(4)),
            changed("d", (5, UNKNOWN, UNKNOWN), None),
        )
    )
    assert keys(tracker) == {(1,), (2,), (3,), (4,), (5,)}


def test_a_row_from_before_that_does_not_tell_its_key_has_the_one_of_after():
    assert keys(noted(*transaction("1", changed("u", (UNKNOWN, "a", "e"), row(7))))) == {(7,)}


def test_what_a_chunk_has_seen_does_not_count():
    tracker = noted(*transaction("1", changed("c", None, row(1))), *transaction("2", changed("c", None, row(2))))
    assert keys(tracker, seen=["1"]) == {(2,)}
    assert keys(tracker, seen=["1", "2"]) == set()


def test_a_transaction_is_forgotten_when_all_chunks_have_seen_it():
    tracker = noted(*transaction("1", changed("c", None, row(1))), *transaction("2", changed("c", None, row(2))))
    tracker.forget([{"1", "2"}.__contains__, {"1"}.__contains__])
    assert keys(tracker) == {(2,)}


def test_other_tables_are_not_noted():
    assert keys(noted(*transaction("1", changed("c", None, row(1))), tables=set())) == set()


def test_a_truncated_table_is_touched_as_a_whole():
    assert noted(*transaction("1", Truncated(CUSTOMERS, "", 0))).touched(CUSTOMERS.id, lambda _: False).is_all


def test_a_key_that_nobody_knows_is_any():
    tracker = noted(*transaction("1", changed("d", (UNKNOWN,) * 3, None)))
    assert tracker.touched(CUSTOMERS.id, lambda _: False).is_all


def test_many_keys_of_a_transaction_are_all(monkeypatch):
    monkeypatch.setattr(trackers, "KEYS_AT_MOST", 3)
    tracker = noted(Began("1", 0), *(changed("c", None, row(number)) for number in range(3)))
    assert not tracker.touched(CUSTOMERS.id, lambda _: False).is_all
    tracker.note(changed("c", None, row(9)), TABLES)
    touched = tracker.touched(CUSTOMERS.id, lambda _: False)
    assert touched.is_all
    assert touched.keys == set()


@pytest.mark.parametrize("change", [changed("u", None, row(1, UNCHANGED)), changed("c", None, (None, "a", "e"))])
def test_of_a_key_whose_row_was_not_told_whole_nobody_is_sure(change):
    touched = noted(*transaction("1", change)).touched(CUSTOMERS.id, lambda _: False)
    assert touched.unsure == touched.keys != set()


def test_a_transaction_that_was_being_told_when_noting_began_is_not_noted():
    tracker = noted(changed("c", None, row(1)), Ended("1", {}, 0), *transaction("2", changed("c", None, row(2))))
    assert keys(tracker) == {(2,)}


def test_it_is_full_at_some_time_and_empty_when_it_was_cleared(monkeypatch):
    monkeypatch.setattr(trackers, "ALL_AT_MOST", 5)
    tracker = Tracker()
    for number in range(3):
        assert not tracker.is_full
        for event in transaction(str(number), changed("u", None, row(1))):
            tracker.note(event, TABLES)
    assert tracker.is_full
    tracker.clear()
    assert not tracker.is_full
    assert keys(tracker) == set()


def test_what_is_no_change_of_a_row_touches_nothing():
    assert keys(noted(*transaction("1", Redefined(CUSTOMERS, 0)))) == set()
