"""Rows that get another key while their table is read by chunks, against a source that knows some of them."""

import pytest

from runnel.capture.events import Began, Change, Ended, Position
from runnel.capture.incremental import to_be_read
from runnel.capture.moved import Moved
from runnel.capture.state import State, TableState
from runnel.capture.tables import UNCHANGED
from tests.unit.capture.customers import CUSTOMERS, NoSource

NAME = "public.customers"
AT = Position({"at": 5})
READING = State("x", AT, 0, {NAME: to_be_read()})
BEGAN = Began("7", 0)


class Rows(NoSource):
    """`rows` by key. `asked` are the keys, with the transactions that were to be seen."""

    def __init__(self, rows):
        self.rows = rows
        self.asked = []

    def row_now(self, table, key, transaction):
        self.asked.append((key, transaction))
        return self.rows.get(key)


def update(before, after):
    return Change(CUSTOMERS, "u", before, after, "", 0)


MOVED = update((1, "a", "e"), (2, "b", UNCHANGED))


def test_a_row_with_another_key_gets_what_the_log_left_out():
    source = Rows({(2,): {"id": 2, "name": "later", "email": "large"}})
    moved = Moved(source)
    assert moved.completed([BEGAN, MOVED], READING) == [BEGAN, MOVED._replace(after=(2, "b", "large"))]
    assert moved.completed([MOVED], READING) == [MOVED._replace(after=(2, "b", "large"))]  # the same transaction
    assert source.asked == [((2,), "7")] * 2


@pytest.mark.parametrize("rows", [{}, {(2,): {"id": 2}}])
def test_what_nobody_knows_any_more_stays_as_it_was_told(rows):
    assert Moved(Rows(rows)).completed([BEGAN, MOVED], READING) == [BEGAN, MOVED]


@pytest.mark.parametrize(
    "change",
    [
        update(None, (1, "b", UNCHANGED)),
        update((1, "a", "e"), (1, "b", UNCHANGED)),
        update((1, "a", "e"), (2, "b", "f")),
        update((1, "a", "e"), (UNCHANGED, "b", UNCHANGED)),
        Change(CUSTOMERS, "d", (1, "a", "e"), None, "", 0),
    ],
)
def test_of_a_row_that_has_not_moved_or_is_told_whole_nothing_is_asked(change):
    source = Rows({})
    assert Moved(source).completed([BEGAN, change], READING) == [BEGAN, change]
    assert not source.asked


@pytest.mark.parametrize("told", [TableState("complete"), TableState("reading"), TableState("partial", by_chunks=True)])
def test_nor_of_a_table_that_is_not_being_read_by_chunks(told):
    source = Rows({})
    assert Moved(source).completed([BEGAN, MOVED], State("x", AT, 0, {NAME: told})) == [BEGAN, MOVED]
    assert not source.asked


def test_nor_of_a_transaction_that_was_begun_before_its_table_was_to_be_read():
    source = Rows({})
    moved = Moved(source)
    moved.completed([BEGAN], State("x", AT, 0, {}))
    assert moved.completed([MOVED, Ended("7", {}, 0), MOVED], READING)
    assert not source.asked


def test_a_row_is_asked_for_also_when_its_table_has_just_come_through():
    """It may have moved twice before the first time was told: nobody had its value then."""
    moved = Moved(Rows({(2,): {"email": "large"}}))
    moved.completed([BEGAN, Ended("7", {}, 0)], READING)
    complete = State("x", AT, 0, {NAME: TableState("complete", by_chunks=True)})
    assert moved.completed([BEGAN, MOVED], complete) == [BEGAN, MOVED._replace(after=(2, "b", "large"))]


def test_a_source_whose_log_tells_all_is_not_asked():
    assert Moved(NoSource()).completed([BEGAN, MOVED], READING) == [BEGAN, MOVED]
