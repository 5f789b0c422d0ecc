"""When a table is told to be gone."""

import pytest

from runnel.capture.events import Began, Ended, Gone, Passed, Redefined
from runnel.capture.postgres import vanished
from runnel.capture.postgres.vanished import Catalog, WatchedChanges
from runnel.capture.tables import Table, TableId

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


def test_a_table_is_gone_when_the_log_is_past_the_place_where_it_was_missed():
    readings = [Passed(place(9))], [Began("1", 0), Ended("1", place(10), 0)], [Passed(place(11))]
    changes = WatchedChanges(Fake(*readings), lambda: Catalog(frozenset({A}), 10, 7), [A, B])
    assert [changes.read(0) for _ in range(3)] == [
        [Passed(place(9))],
        [Began("1", 0), Ended("1", place(10), 0), Gone(B, 7)],
        [Passed(place(11))],
    ]


def test_it_is_told_between_transactions():
    events = [Ended("1", place(12), 0), Began("2", 0), Ended("2", place(13), 0)]
    changes = WatchedChanges(Fake(events), lambda: Catalog(frozenset(), 5, 7), [A])
    assert changes.read(0) == [events[0], Gone(A, 7), *events[1:]]


def test_a_table_that_came_later_can_go_too():
    events = [Redefined(Table(C, (), ()), 0), Passed(place(6))]
    changes = WatchedChanges(Fake(events), lambda: Catalog(frozenset(), 6, 7), [])
    assert changes.read(0) == [*events, Gone(C, 7)]


def test_the_catalog_is_asked_now_and_then(monkeypatch):
    monkeypatch.setattr(vanished, "LOOK_SECONDS", 3600.0)
    asked = []
    changes = WatchedChanges(Fake([], []), lambda: asked.append(1) or Catalog(frozenset(), 1, 1), [A])
    changes.read(0)
    changes.read(0)
    assert asked == []
