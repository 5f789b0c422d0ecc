"""Tables that come and go while a capture is at work."""

from runnel.capture.chosen import until_one_came, with_tables_of
from runnel.capture.events import Began, Came, Ended, Gone, Passed, Position, Redefined
from runnel.capture.state import State, TableState
from tests.unit.capture.customers import CUSTOMERS

AT = Position({"id": 7})
MADE_AGAIN = [Gone(CUSTOMERS.id, 0), Redefined(CUSTOMERS, 0)]


def after(told, **options):
    state = State("mariadb", AT, 0, {str(CUSTOMERS.id): told})
    return with_tables_of(MADE_AGAIN, state, AT, **options).tables.get(str(CUSTOMERS.id))


def test_a_table_that_is_made_again_is_complete_from_its_first_row_on():
    assert after(TableState("complete", None, 9, {"id": 1})) == TableState("complete", None, 0, AT.at)


def test_one_that_a_snapshot_is_about_to_read_is_still_to_be_read():
    assert after(TableState(), awaited={str(CUSTOMERS.id)}) == TableState()


def test_one_that_is_read_by_chunks_is_read_from_its_beginning():
    told = TableState("reading", (4,), 4, None, by_chunks=True)
    assert after(told) == TableState("pending", None, 0, None, by_chunks=True)


def test_one_that_came_with_rows_is_forgotten_until_it_is_read_as_one_that_is_chosen_later():
    state = State("mariadb", AT, 0, {str(CUSTOMERS.id): TableState("complete", None, 9, {"id": 1})})
    assert with_tables_of([Came(CUSTOMERS.id, 0)], state, AT).tables == {}


def test_what_is_behind_a_table_that_came_waits_until_it_is_to_be_read():
    came = [Began("8", 0), Came(CUSTOMERS.id, 0), Ended("8", {"id": 8}, 0)]
    events = [Ended("7", {"id": 7}, 0), *came, Began("9", 0), Redefined(CUSTOMERS, 0)]
    assert until_one_came(events) == (events[:4], True)
    assert until_one_came(events, {str(CUSTOMERS.id)}) == (events, False)
    assert until_one_came([Passed({"id": 7})]) == ([Passed({"id": 7})], False)
