"""What a capture looks at before it goes on."""

import pytest

from runnel.capture.capture import Capture
from runnel.capture.envelope import Envelope
from runnel.capture.errors import ChosenOtherwise
from runnel.capture.events import Position
from runnel.capture.selection import Selection
from runnel.capture.state import State, TableState
from tests.unit.capture.customers import NoSource


class GoesOn(Exception):
    pass


class Source(NoSource):
    def __init__(self, *, counts_unchosen: bool) -> None:
        self.counts_unchosen = counts_unchosen

    def tables(self):
        raise GoesOn


class Publisher:
    def __init__(self, index: int) -> None:
        tables = {name: TableState("complete") for name in ("public.customers", "public.loose")}
        self.state = State("postgresql", Position({"lsn": 1}, index), 0, tables)

    def open(self) -> State:
        return self.state

    def written(self, _topic):
        return []

    def publish(self, _outgoing, _state):
        raise GoesOn


def start(index: int, *, counts_unchosen: bool = False) -> None:
    source = Source(counts_unchosen=counts_unchosen)
    envelope = Envelope("shop", source, Selection(tables=[r"public\.customers"]))
    Capture("shop", source, Publisher(index), envelope).start()


def test_fewer_tables_in_the_middle_of_a_transaction_are_refused():
    with pytest.raises(ChosenOtherwise) as refused:
        start(3)
    assert "public.loose is not chosen any more" in str(refused.value)
    assert "run it with the tables as they were until it is through" in str(refused.value)


@pytest.mark.parametrize(("index", "counts_unchosen"), [(0, False), (3, True)])
def test_between_transactions_or_where_all_are_counted_they_are_not(index, counts_unchosen):
    with pytest.raises(GoesOn):
        start(index, counts_unchosen=counts_unchosen)
