"""Tables that come and go while a capture is at work."""

from dataclasses import replace

import pytest

from runnel.app.capturing import WatchedSource
from runnel.capture.chosen import (
    Mode,
    is_read_anew,
    once_more,
    remembered,
    streaming_from,
    tables_of,
    until_one_came,
    with_new,
    with_tables_of,
    without_parts,
    without_replaced,
    without_unchosen,
)
from runnel.capture.envelope import Envelope
from runnel.capture.errors import NoKey, TableMissing
from runnel.capture.events import Again, Began, Came, Ended, Gone, Passed, Position, Redefined
from runnel.capture.outgoing import Outgoing
from runnel.capture.selection import Selection
from runnel.capture.state import State, TableState
from runnel.capture.tables import FORGOTTEN, NOT_THERE, TableId
from tests.unit.capture.customers import CUSTOMERS, LOOSE, NoSource

AT = Position({"id": 7})
A = replace(CUSTOMERS, id=TableId("public", "a"), number=2)
MADE_AGAIN = [Gone(CUSTOMERS.id, 0), Redefined(CUSTOMERS, 0)]


def after(told, **options):
    state = State("mariadb", AT, 0, {str(CUSTOMERS.id): told})
    return with_tables_of(MADE_AGAIN, state, AT, **options).tables.get(str(CUSTOMERS.id))


def test_a_table_that_is_made_again_is_complete_from_its_first_row_on():
    assert after(TableState("complete", None, 9, {"id": 1})) == TableState("complete", None, 0, AT.at)


def test_one_that_a_snapshot_is_about_to_read_is_still_to_be_read():
    assert after(TableState(), awaited={str(CUSTOMERS.id)}) == TableState()


def test_one_that_is_read_by_chunks_is_read_from_its_beginning():
    told = TableState("reading", (4,), 4, None, by_chunks=True, number=3)
    assert after(told) == TableState("pending", None, 0, None, by_chunks=True)


def test_one_that_is_gone_stays_to_be_looked_for_until_it_is_there_again():
    told = TableState("pending", by_chunks=True)
    state = with_tables_of(MADE_AGAIN[:1], State("mariadb", AT, 0, {str(CUSTOMERS.id): told}), AT)
    assert state.table(CUSTOMERS.id) == replace(told, is_gone=True)
    assert with_tables_of(MADE_AGAIN[1:], state, AT).table(CUSTOMERS.id) == told


def test_one_that_came_with_rows_is_forgotten_until_it_is_read_as_one_that_is_chosen_later():
    state = State("mariadb", AT, 0, {str(CUSTOMERS.id): TableState("complete", None, 9, {"id": 1})})
    assert with_tables_of([Came(CUSTOMERS.id, 0)], state, AT).tables == {}


def test_an_outbox_that_came_with_rows_is_not_read_they_may_have_been_sent(caplog):
    state = State("mariadb", AT, 0, {str(LOOSE.id): TableState("complete", None, 9, {"id": 1})})
    swapped = [Gone(LOOSE.id, 0), Came(LOOSE.id, 0)]
    found = with_tables_of(swapped, state, AT, is_outbox=lambda table: table == LOOSE.id)
    assert found.tables == {str(LOOSE.id): TableState("complete", None, 0, AT.at)}
    assert [record.message for record in caplog.records] == [
        "of outbox public.loose only what is inserted from now on is sent: it may have come with rows"
    ]
    awaited = with_tables_of(swapped, state, AT, {str(LOOSE.id)}, lambda _: True)
    assert awaited is state


@pytest.mark.parametrize("mode", Mode)
def test_nor_is_an_outbox_that_is_found_later_read_with_or_without_a_key(mode):
    source = Tables(CUSTOMERS, replace(LOOSE, number=5))
    state = with_new(State("postgresql", AT), source, mode, lambda _: True)
    complete = TableState("complete", None, 0, AT.at)
    assert state.tables == {str(CUSTOMERS.id): complete, str(LOOSE.id): replace(complete, number=5)}


def test_a_table_without_a_key_that_comes_beside_those_that_are_read_by_chunks_is_said_once_and_told(caplog):
    source = Tables(CUSTOMERS, LOOSE)
    state = with_new(State("mariadb", AT), source, Mode.INCREMENTAL)
    assert state.tables[str(LOOSE.id)] == TableState("partial")
    assert state.tables[str(CUSTOMERS.id)].by_chunks
    (said,) = [record.message for record in caplog.records]
    assert said.startswith("of public.loose only changes are told from now on, and not the rows that it has: ")
    assert 'table "public.loose" cannot be read by chunks: it has no primary key' in said
    assert with_new(state, source, Mode.INCREMENTAL) is state
    with pytest.raises(NoKey, match="leave it out with --without-tables, or read the tables with --snapshot initial"):
        streaming_from(AT, "mariadb", [CUSTOMERS, LOOSE], Mode.INCREMENTAL)


def test_what_is_behind_a_table_that_came_waits_until_it_is_to_be_read():
    came = [Began("8", 0), Came(CUSTOMERS.id, 0), Ended("8", {"id": 8}, 0)]
    events = [Ended("7", {"id": 7}, 0), *came, Began("9", 0), Redefined(CUSTOMERS, 0)]
    assert until_one_came(events) == (events[:4], True)
    assert until_one_came(events, {str(CUSTOMERS.id)}) == (events, False)
    assert until_one_came([Passed({"id": 7})]) == ([Passed({"id": 7})], False)


PART = [Began("8", 0), Came(CUSTOMERS.id, 0, is_part=True), Ended("8", {"id": 8}, 0)]


def test_a_table_of_which_a_partition_went_is_told_as_one_that_came():
    state = State("mariadb", AT, 0, {str(CUSTOMERS.id): TableState("complete", None, 9, {"id": 1})})
    assert without_parts(PART, state, lambda _: True) is PART


@pytest.mark.parametrize(
    "told", [TableState("complete", None, 9, {"id": 1}), TableState("pending", by_chunks=True, where="a")]
)
def test_one_that_nothing_would_read_anew_keeps_its_topic_and_that_is_said(told, caplog):
    state = State("mariadb", AT, 0, {str(CUSTOMERS.id): told})
    came = Came(LOOSE.id, 0)
    assert without_parts([*PART, came], state, lambda _: False) == [PART[0], PART[2], came]
    assert caplog.messages == ["the topic of public.customers stays as it is: nothing reads the table anew"]


@pytest.mark.parametrize("has_reader", [True, False])
def test_one_that_is_being_read_by_chunks_is_read_to_its_end_and_once_more(has_reader):
    told = TableState("reading", (4,), 4, {"id": 1}, by_chunks=True, number=3)
    state = State("mariadb", AT, 0, {str(CUSTOMERS.id): told})
    events = without_parts(PART, state, lambda _: has_reader)
    assert events == [PART[0], Again(CUSTOMERS.id), PART[2]]
    assert once_more(events, state).table(CUSTOMERS.id) == replace(told, since=None, is_again=True)
    through = state.with_table(CUSTOMERS.id, TableState("complete", None, 9, {"id": 2}))
    expected = TableState("pending", by_chunks=True, number=3, is_again=True)
    assert once_more(events, through).table(CUSTOMERS.id) == expected


def test_what_is_read_anew_is_what_the_mode_reads():
    source = Tables(CUSTOMERS, LOOSE)
    for mode, found in ((Mode.INITIAL, [True, True]), (Mode.INCREMENTAL, [True, False]), (Mode.NONE, [False, False])):
        assert [is_read_anew(source, each.id, mode) for each in (CUSTOMERS, LOOSE)] == found
    assert not is_read_anew(Tables(), CUSTOMERS.id, Mode.INCREMENTAL)


class Tables(NoSource):
    """A source that has these."""

    def __init__(self, *tables):
        self._tables = {table.id: table for table in tables}

    def tables(self):
        return list(self._tables)

    def table(self, table):
        if table not in self._tables:
            raise TableMissing(str(table), "here", [])
        return self._tables[table]


class Ready(Tables):
    """Of these, so many are ready as have the numbers that are given."""

    def __init__(self, numbers, *tables):
        super().__init__(*tables)
        self._numbers = numbers

    def ready(self):
        return self._numbers


@pytest.mark.parametrize("mode", Mode)
def test_a_table_that_came_after_prepare_or_took_a_name_since_is_not_captured(mode):
    """Nothing tells its changes until the next start."""
    source = Ready({CUSTOMERS.id: 1, A.id: 2}, replace(CUSTOMERS, number=3), A, LOOSE)
    assert list(tables_of(source)) == [A]
    assert list(with_new(State("postgresql", AT), WatchedSource(source), mode).tables) == [str(A.id)]
    assert list(tables_of(Tables(CUSTOMERS, LOOSE))) == [CUSTOMERS, LOOSE]


@pytest.mark.parametrize("mode", Mode)
def test_nor_is_one_that_is_dropped_before_it_is_looked_at(mode):
    source = Ready({CUSTOMERS.id: 1, A.id: 2, LOOSE.id: 3}, A)
    assert list(tables_of(source)) == [A]
    before = State("postgresql", AT, 0, {str(LOOSE.id): TableState(number=3)})
    after = with_new(before, source, mode)
    assert after.tables.keys() == {str(LOOSE.id), str(A.id)}
    assert after.table(LOOSE.id) == before.table(LOOSE.id)


class Numbers(NoSource):
    """A source that has numbers of these tables, and has chosen some of them."""

    def __init__(self, numbers, chosen=()):
        self._numbers = numbers
        self._chosen = chosen
        self.remembered = None

    def tables(self):
        return self._chosen

    def numbers(self):
        return self._numbers

    def remember(self, tables, *, describe):
        self.remembered, self.describe = tables, describe


def state_of(**tables):
    return State("postgresql", AT, 0, {f"public.{name}": told for name, told in tables.items()})


def test_tables_that_are_not_chosen_any_more_are_forgotten_and_those_that_are_not_there_stay():
    state = state_of(customers=TableState("complete", number=1), unchosen=TableState("complete"))
    chosen = Selection(tables=[r".*\.customers"])
    assert list(without_unchosen(state, Envelope("p", NoSource(), chosen).has).tables) == ["public.customers"]


def test_a_source_that_hands_on_what_it_is_asked_has_the_numbers_of_the_other():
    source = Numbers({CUSTOMERS.id: 1})
    watched = WatchedSource(source)
    found = remembered(state_of(customers=TableState("complete")), watched, Envelope("p", NoSource(), Selection()))
    assert found.tables["public.customers"].number == 1
    assert source.remembered == {CUSTOMERS.id: 1}


def test_tables_without_a_number_get_that_of_what_has_their_name():
    state = state_of(customers=TableState("complete"), loose=TableState("complete", number=5), gone=TableState())
    source = Numbers({CUSTOMERS.id: 1, LOOSE.id: 6})
    found = remembered(state, source, Envelope("p", NoSource(), Selection(), schema_changes=True))
    assert {name: told.number for name, told in found.tables.items()} == {
        "public.customers": 1, "public.loose": 5, "public.gone": None
    }  # fmt: skip
    assert source.remembered == {CUSTOMERS.id: 1, LOOSE.id: 5, TableId("public", "gone"): None}
    assert source.describe


@pytest.mark.parametrize("made_ready", [{}, {LOOSE.id: 5}])
def test_one_that_came_after_the_source_was_prepared_stays_gone_until_the_changes_find_it(made_ready):
    """Nothing would tell its changes."""
    source = Numbers({CUSTOMERS.id: 1, LOOSE.id: 6})
    source.ready = lambda: {CUSTOMERS.id: 1, **made_ready}
    state = state_of(customers=TableState("complete"), loose=TableState(by_chunks=True, is_gone=True))
    found = remembered(state, source, Envelope("p", NoSource(), Selection()), is_prepared=True)
    assert found.table(LOOSE.id) == state.table(LOOSE.id)
    assert source.remembered == {CUSTOMERS.id: 1, LOOSE.id: NOT_THERE}


def test_the_end_of_one_that_was_told_of_and_is_in_no_state_any_more_is_to_be_told_if_it_is_not_there():
    """It was to be read anew: somebody took it out of a publication, and dropped it then."""
    source = Numbers({CUSTOMERS.id: 1})
    chosen = Selection(without_tables=[r"public\.a"])
    envelope = Envelope("p", NoSource(), chosen, schema_changes=True)
    for table in (CUSTOMERS, LOOSE, A):
        envelope.introduce(table, 0, "", Outgoing(), 0)
    remembered(State("postgresql", AT), source, envelope)
    assert source.remembered == {LOOSE.id: FORGOTTEN}
    remembered(state_of(loose=TableState("complete", number=5)), source, envelope)
    assert source.remembered == {LOOSE.id: 5}


def test_inside_of_a_transaction_numbers_stay_as_they_were_when_it_was_begun():
    state = state_of(customers=TableState("complete"), loose=TableState(by_chunks=True, is_gone=True))
    inside = state.at(Position(AT.at, 3))
    source = Numbers({CUSTOMERS.id: 1, LOOSE.id: 6})
    assert remembered(inside, source, Envelope("p", NoSource(), Selection())) is inside
    assert source.remembered == {CUSTOMERS.id: None, LOOSE.id: NOT_THERE}
    found = remembered(state, source, Envelope("p", NoSource(), Selection()))
    assert source.remembered == {CUSTOMERS.id: 1, LOOSE.id: 6}
    assert found.table(LOOSE.id) == TableState(by_chunks=True, number=6)


def test_a_source_whose_log_tells_what_is_gone_has_no_numbers():
    state = state_of(customers=TableState("complete"))
    assert remembered(state, NoSource(), Envelope("p", NoSource(), Selection())) is state


class Snapshot:
    position, source, micros = AT, '"lsn":7', 5_000

    def tables(self):
        return [replace(CUSTOMERS, number=9), replace(LOOSE, number=8)]


@pytest.mark.parametrize(
    ("told", "is_left"),
    [
        (TableState("reading", (4,), 4, number=1), False),
        (TableState("reading", (4,), 4, number=9), True),
        (TableState("reading", (4,), 4), True),
        (TableState("reading", (4,), 4, by_chunks=True, number=1), True),
        (TableState("complete", None, 4, {}, number=1), True),
    ],
)
def test_what_a_snapshot_has_read_of_a_table_counts_if_no_other_has_its_name(told, is_left):
    state, out = state_of(customers=told), Outgoing()
    found = without_replaced(state, Snapshot(), Envelope("p", NoSource(), Selection()), out, 0)
    if is_left:
        assert found is state
        assert not out.records
    else:
        assert found.tables == {"public.customers": TableState(number=9)}
        assert out.pages["p.public.customers"].operations == ["t"]
