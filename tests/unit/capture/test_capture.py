"""What a capture looks at before it goes on."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from runnel.capture.capture import Capture
from runnel.capture.envelope import Envelope
from runnel.capture.errors import ChosenOtherwise
from runnel.capture.events import Began, Change, Ended, Passed, Position
from runnel.capture.selection import Selection
from runnel.capture.state import State, TableState
from runnel.capture.tables import TableId
from tests.unit.capture.customers import CUSTOMERS, NoSource


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

    def lacks(self, _topics):
        return set()

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


T, A = replace(CUSTOMERS, number=100), replace(CUSTOMERS, id=TableId("public", "a"), number=1)


def changes_of(table, *numbers):
    return [Change(table, "c", None, (number, "a", None), "", 0) for number in numbers]


class Log(NoSource):
    """A log of two transactions, one of customers alone and one of them and a. Of a table it tells those changes whose
    number is remembered. In the catalog customers are another one by now, or none.
    """

    counts_unchosen = False

    def __init__(self, there, *, forgets_numbers=False, at_once=100, unready=()):
        self._there = there
        self._forgets = forgets_numbers
        self._at_once = at_once
        self._unready = unready

    def tables(self):
        return [table.id for table in self._there]

    def table(self, table):
        return next(each for each in self._there if each.id == table)

    def numbers(self):
        return {table.id: table.number for table in self._there}

    def remember(self, tables, *, describe):
        self._known = tables

    def prepare(self):
        return Position({"at": 9})

    def confirm(self, position): ...

    @contextmanager
    def snapshot(self):
        yield SnapshotOf([table for table in self._there if table.id not in self._unready])

    def changes(self, after, until=None):
        transactions = [("7", changes_of(T, 1)), ("8", [*changes_of(T, 1, 2, 3), *changes_of(A, 1, 2, 3, 4)])]
        events = []
        for name, told in transactions[max(0, after.at["at"] - 6) :]:
            kept = [each for each in told if self._forgets or self._known.get(each.table.id) == each.table.number]
            if kept:
                events += [Began(name, 0), *kept, Ended(name, {"at": int(name)}, 0)]
        return Given([*events, Passed({"at": 9})], self._at_once)


class Given:
    def __init__(self, events, at_once):
        self._events = events
        self._at_once = at_once

    def read(self, _seconds):
        if not self._events:
            raise GoesOn
        found, self._events = self._events[: self._at_once], self._events[self._at_once :]
        return found

    def close(self): ...


class SnapshotOf:
    position, source, micros = Position({"at": 9}), "", 0

    def __init__(self, there):
        self._there = there

    def tables(self):
        return self._there

    def estimate(self, _table):
        return 0

    def rows(self, _table, _after=None):
        return iter(())


class Kept(Publisher):
    """It keeps what is published."""

    def __init__(self, state):
        self.state = state
        self.states = []
        self.told = []
        self.when_inside = lambda: None  # called when the place is inside of a transaction

    def publish(self, out, state):
        self.states.append(state)
        if state.position.index:
            self.when_inside()
        for topic, page in out.pages.items():
            for value in page.values:
                told = json.loads(value)
                self.told.append((topic, told["op"], told["after"] and told["after"]["id"]))
        return state

    @property
    def signals(self):
        return self

    def behind(self, offset):
        return [], offset


def lived(source, state):
    publisher = Kept(state)
    capture = Capture("shop", source, publisher, Envelope("shop", source, Selection()))
    with pytest.raises(GoesOn):
        capture.run()
    return publisher


def test_the_rest_of_a_transaction_is_told_before_another_table_takes_the_name_of_one_that_it_changed():
    """Both tables' events count for the place inside of it, also those that a snapshot was to read."""
    tables = {
        "public.customers": TableState("reading", (2,), 2, number=100),
        "public.a": TableState("complete", number=1),
    }
    state = State("postgresql", Position({"at": 7}, 5), 0, tables)
    kept = lived(Log([replace(T, number=200), A]), state)
    assert [each for each in kept.told if each[0] == "shop.public.a"] == [
        ("shop.public.a", "c", number) for number in (3, 4)
    ]
    assert [each for each in kept.told if each[0] == "shop.public.customers"] == [("shop.public.customers", "t", None)]
    assert {each.table(T.id).number for each in kept.states if each.position.index} <= {100}
    assert kept.states[-1].table(T.id) == TableState("complete", None, 0, {"at": 9}, number=200)


def test_a_transaction_of_a_table_that_is_forgotten_is_not_taken_for_the_one_that_goes_on():
    state = State("postgresql", Position({"at": 6}, 2), 0, {"public.a": TableState("complete", number=1)})
    kept = lived(Log([A], forgets_numbers=True), state)
    assert kept.told == [("shop.public.a", "c", number) for number in (3, 4)]


def test_whoever_stops_before_a_snapshot_is_read_does_not_forget_the_tables_that_it_does_not_have():
    """They may have counted for the place inside of a transaction."""
    tables = {"public.customers": TableState(number=100), "public.a": TableState("complete", number=1)}
    first = Kept(State("postgresql", Position({"at": 7}), 0, tables))
    source = Log([A], forgets_numbers=True, at_once=5)
    capture = Capture("shop", source, first, Envelope("shop", source, Selection()))
    first.when_inside = capture.stop
    capture.run()
    assert first.states[-1].position == Position({"at": 7}, 4)
    second = lived(source, first.states[-1])
    assert first.told + second.told == [("shop.public.a", "c", number) for number in (1, 2, 3, 4)]
    assert str(T.id) not in second.states[-1].tables


@pytest.mark.parametrize(("there", "names"), [([T, A], {"public.customers", "public.a"}), ([A], {"public.a"})])
def test_a_table_that_took_a_name_after_prepare_is_left_to_the_changes_and_one_that_is_gone_is_forgotten(there, names):
    """They say that it is another one: it is made ready then, and read."""
    tables = {"public.customers": TableState(number=99), "public.a": TableState("complete", number=1)}
    kept = lived(Log(there, unready=[T.id]), State("postgresql", Position({"at": 9}), 0, tables))
    last = [kept.state, *kept.states][-1]
    assert last.tables.keys() == names
    assert last.table(T.id).number == (99 if T in there else None)
