"""Tables that come and go while a capture is at work."""

from runnel.capture.chosen import with_tables_of
from runnel.capture.events import Gone, Position, Redefined
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
