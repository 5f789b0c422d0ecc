"""The rest of a transaction does not change with what is chosen."""

from runnel.capture.events import Began, Came, Change, Ended, Gone, Mark, Message, Passed, Redefined, Truncated
from runnel.capture.narrowed import Narrowed
from tests.unit.capture.customers import CUSTOMERS, LOOSE


class Given:
    def __init__(self, *events):
        self.events = list(events)
        self.is_closed = False

    def read(self, seconds):
        """A few at a time."""
        found, self.events = self.events[:2], self.events[2:]
        return found

    def close(self):
        self.is_closed = True


def row(table):
    return Change(table, "c", None, (1, "a", None), "", 0)


def transaction(number, *events):
    return [Began(str(number), 0), *events, Ended(str(number), {"at": number}, 0)]


def narrowed(*events, index=1, is_read=True):
    changes = Narrowed(Given(*events), index, {str(CUSTOMERS.id)}, lambda _table: is_read)
    return [event for _ in events for event in changes.read(0.0)]


def test_events_of_tables_that_are_chosen_since_are_left_out():
    message = Message("p", b"", True, "", 0)
    whole = [Redefined(LOOSE, 0), row(LOOSE), Truncated(LOOSE, "", 0), row(CUSTOMERS), Gone(LOOSE.id, 0), message]
    assert narrowed(*transaction(7, *whole)) == transaction(7, row(CUSTOMERS), message)


def test_a_transaction_that_had_nothing_before_is_not_taken_for_the_one_that_goes_on():
    ours = transaction(8, row(CUSTOMERS))
    assert narrowed(*transaction(7, row(LOOSE)), Passed({"at": 7}), Mark("x"), *ours) == ours


def test_one_in_which_nothing_counts_is_not_the_one_that_goes_on():
    other, ours = transaction(7, Gone(CUSTOMERS.id, 0)), transaction(8, row(CUSTOMERS))
    assert narrowed(*other, *ours, *transaction(9, row(CUSTOMERS))) == [*other, *ours]


def test_a_table_that_was_not_said_to_have_come_before_does_not_come_before_the_transaction_is_through():
    """As where a version from before told nothing of the statement: the table's rows count as they did then."""
    ours = transaction(8, row(CUSTOMERS))
    assert narrowed(*transaction(7, Came(CUSTOMERS.id, 0, is_part=True)), *ours) == ours


def test_a_table_whose_first_rows_are_behind_the_place_is_new_and_told_if_nothing_reads_it():
    new = [Redefined(LOOSE, 0), row(LOOSE), Truncated(LOOSE, "", 0)]
    whole = transaction(7, row(CUSTOMERS), *new, row(CUSTOMERS), row(LOOSE))
    assert narrowed(*whole, is_read=False) == whole
    assert narrowed(*whole, is_read=True) == transaction(7, row(CUSTOMERS), row(CUSTOMERS))


def test_one_that_has_rows_before_the_place_was_not_chosen_then_and_is_not_told():
    """Its rows do not count: in another life after this they would have to be left out again."""
    rest = [row(CUSTOMERS), Redefined(LOOSE, 0), row(LOOSE), row(CUSTOMERS), row(LOOSE)]
    told = transaction(8, row(CUSTOMERS), row(CUSTOMERS))
    assert narrowed(*transaction(8, *rest), index=2, is_read=False) == told
    before = transaction(7, Redefined(LOOSE, 0), row(LOOSE))
    assert narrowed(*before, *transaction(8, *rest), index=1, is_read=False) == told


def test_it_ends_with_the_transaction():
    ours = transaction(7, row(CUSTOMERS))
    assert narrowed(*ours, *transaction(8, row(CUSTOMERS))) == ours
    changes = Given()
    Narrowed(changes, 1, (), bool).close()
    assert changes.is_closed
