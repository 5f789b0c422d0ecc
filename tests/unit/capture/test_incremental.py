"""Tables read by chunks, against a source that gives what a test wants."""

import json
from dataclasses import replace

import pytest

from runnel.capture import incremental
from runnel.capture import tracker as trackers
from runnel.capture.envelope import Envelope
from runnel.capture.errors import InvalidFilter, TableMissing
from runnel.capture.events import Began, Change, Ended, Gone, Mark, Position, Redefined, Truncated
from runnel.capture.incremental import Incremental, key_columns, stopped, to_be_read
from runnel.capture.outgoing import Outgoing
from runnel.capture.selection import Selection
from runnel.capture.source import Chunk
from runnel.capture.state import State, TableState
from runnel.capture.tables import UNCHANGED, Table, TableId
from tests.unit.capture.customers import CUSTOMERS, NoSource

NAME = "public.customers"
OTHER = Table(TableId("public", "other"), CUSTOMERS.columns, (0,))
AT = Position({"at": 5})
SECOND = 1_000_000


def row(key, email="e"):
    return (key, "a", email)


class Rows(NoSource):
    """Tables of rows by number. `seen` is what chunks have seen, `answers` are what they are first."""

    def __init__(self, count=10):
        self.defined = {CUSTOMERS.id: CUSTOMERS, OTHER.id: OTHER}
        self.rows = [row(number) for number in range(1, count + 1)]
        self.seen = set()
        self.asked = []
        self.settled = 0
        self.answers = []

    def tables(self):
        return list(self.defined)

    def table(self, table):
        return self.defined[table]

    def settle(self):
        self.settled += 1

    def chunk(self, table, after, limit, tag, where=None):
        self.asked.append((str(table.id), after, limit, tag, where))
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        rows = [each for each in self.rows if after is None or each[0] > after[0]]
        seen = frozenset(self.seen)
        return Chunk(self.defined[table.id], rows[:limit], len(rows) <= limit, seen.__contains__, "", 1_000, 100)


class Life:
    """A source, what reads it by chunks, and the state."""

    def __init__(self, source=None, tables=(NAME,), **options):
        self.source = source or Rows()
        self.reading = Incremental(self.source, Envelope("p", NoSource(), Selection()), **{"chunk": 4, **options})
        self.state = State("x", AT, 0, dict.fromkeys(tables, to_be_read()))
        self.out = Outgoing()
        self.now = SECOND

    def ask(self):
        self.state = self.reading.ask(self.state, self.now)
        return self.source.asked[-1][3] if self.source.asked else None

    def note(self, *events):
        for event in events:
            self.reading.note(event)

    def mark(self, tag):
        self.state = self.reading.tell(Mark(tag), self.state, AT, self.out, self.now, self.now)

    @property
    def told(self):
        return [json.loads(text)["after"]["id"] for page in self.out.pages.values() for text in page.values]

    @property
    def table(self):
        return self.state.tables[NAME]


def transaction(id, *changes):
    return [Began(id, 0), *changes, Ended(id, {}, 0)]


def updated(key, email="e"):
    return Change(CUSTOMERS, "u", None, row(key, email), "", 0)


def test_a_table_is_read_chunk_by_chunk_and_is_complete_at_the_last_mark():
    life = Life()
    for last, rows in ((4, 4), (8, 8)):
        life.mark(life.ask())
        assert life.table == TableState("reading", (last,), rows, None, True, ("id int32",), None, 100)
    life.mark(life.ask())
    assert life.table == TableState("complete", None, 10, AT.at)
    assert life.told == list(range(1, 11))
    assert not life.reading.is_active
    assert [json.loads(text)["source"]["snapshot"] for text in life.out.pages["p.public.customers"].values[:1]] == [
        "incremental"
    ]


def test_a_table_that_is_to_be_read_once_more_is_emptied_at_its_end_and_read_from_its_beginning():
    life = Life()
    life.mark(life.ask())
    life.state = life.state.with_table(NAME, replace(life.table, is_again=True, number=7))
    settled = life.source.settled
    life.mark(life.ask())
    assert (life.table.key, life.table.is_again, life.source.settled) == ((8,), True, settled)
    life.mark(life.ask())
    assert life.table == TableState("pending", by_chunks=True, number=7)
    assert life.source.settled == settled + 1
    for _ in range(3):
        life.mark(life.ask())
    assert life.table == TableState("complete", None, 10, AT.at, number=7)
    assert "".join(life.out.pages["p.public.customers"].operations) == "r" * 10 + "t" + "r" * 10


def test_that_a_table_is_to_be_read_once_more_outlives_its_reading_being_stopped_and_asked_for_again():
    told = TableState("reading", (4,), 4, by_chunks=True, is_again=True)
    assert stopped(told) == TableState("partial", None, 4, is_again=True)
    assert to_be_read(stopped(told)) == TableState("pending", by_chunks=True, is_again=True)


def test_rows_that_were_told_anew_since_are_left_out_and_the_key_goes_on_behind_them():
    life = Life()
    tag = life.ask()
    life.note(*transaction("1", updated(2), Change(CUSTOMERS, "d", row(4), None, "", 0)))
    life.mark(tag)
    assert life.told == [1, 3]
    assert life.table.key == (4,)
    assert life.table.rows == 2


def test_a_transaction_that_was_told_before_the_chunk_was_read_counts_if_the_chunk_has_not_seen_it():
    life = Life()
    life.mark(life.ask())
    life.note(*transaction("1", updated(6)), *transaction("2", updated(7)))
    life.source.seen = {"2"}
    life.mark(life.ask())
    assert life.told == [1, 2, 3, 4, 5, 7, 8]


def test_a_chunk_that_sees_a_transaction_does_not_hide_it_from_one_that_does_not():
    """The other table's chunk was read before."""
    life = Life(tables=(NAME, "public.other"))
    first = life.ask()
    life.note(*transaction("1", updated(2)))
    life.source.seen = {"1"}
    assert life.ask() != first
    life.mark(first)
    assert life.told == [1, 3, 4]


@pytest.mark.parametrize("change", [Truncated(CUSTOMERS, "", 0), updated(2, UNCHANGED)])
def test_a_chunk_of_which_nobody_can_say_what_is_newest_is_read_again_with_fewer_rows(change):
    life = Life()
    tag = life.ask()
    life.note(*transaction("1", change))
    life.mark(tag)
    assert (life.told, life.table.key) == ([], None)
    life.source.seen = {"1"}
    life.ask()
    assert life.source.asked == [life.source.asked[0]]  # not at once
    life.now += incremental.AGAIN_MICROS
    life.mark(life.ask())
    assert life.source.asked[1][1:3] == (None, 2)
    assert life.told == [1, 2]
    life.ask()
    assert life.source.asked[2][1:3] == ((2,), 4)


def test_a_chunk_with_no_unsure_row_in_it_is_told():
    life = Life()
    tag = life.ask()
    life.note(*transaction("1", updated(9, UNCHANGED)))
    life.mark(tag)
    assert life.told == [1, 2, 3, 4]


def test_a_chunk_of_a_table_that_was_redefined_since_is_read_again():
    life = Life()
    tag = life.ask()
    life.note(Redefined(replace(CUSTOMERS, columns=CUSTOMERS.columns[:2]), 0))
    life.mark(tag)
    assert (life.told, life.table.key) == ([], None)
    life.mark(life.ask())
    assert life.told == [1, 2, 3, 4]


def test_a_chunk_of_a_table_that_is_as_it_was_is_told_though_the_changes_tell_how_that_is():
    life = Life()
    tag = life.ask()
    life.note(Redefined(replace(CUSTOMERS), 0))
    life.mark(tag)
    assert life.told == [1, 2, 3, 4]


def test_a_mark_that_nobody_waits_for_is_passed_over():
    life = Life()
    life.ask()
    before = life.state
    life.mark("public.customers/of a former life/1")
    assert life.state is before


def test_several_tables_are_read_side_by_side_in_turns():
    life = Life(tables=(NAME, "public.other"))
    first, second = life.ask(), life.ask()
    assert [asked[0] for asked in life.source.asked] == [NAME, "public.other"]
    life.ask()
    assert len(life.source.asked) == 2  # each has a chunk under way
    assert life.reading.seconds(0.5, life.now) == 0.5
    life.mark(second)
    assert life.reading.seconds(0.5, life.now) == 0
    life.mark(first)
    life.ask()
    life.ask()
    assert [asked[0] for asked in life.source.asked[2:]] == [NAME, "public.other"]


def test_no_more_tables_than_some_are_under_way(monkeypatch):
    monkeypatch.setattr(incremental, "SIDE_BY_SIDE", 1)
    life = Life(tables=(NAME, "public.other"))
    life.ask()
    life.ask()
    assert len(life.source.asked) == 1


def test_a_source_that_cannot_now_is_asked_again_a_little_later():
    life = Life()
    life.source.answers = [None]
    life.ask()
    assert life.reading.seconds(0.5, life.now) == 0.05
    life.ask()
    assert len(life.source.asked) == 1
    life.now += incremental.AGAIN_MICROS
    life.mark(life.ask())
    assert life.told == [1, 2, 3, 4]


def test_rows_come_no_faster_than_the_rate():
    life = Life(rate=8)
    life.mark(life.ask())
    life.ask()
    assert len(life.source.asked) == 1
    assert life.reading.seconds(9, life.now) == 0.5
    life.now += SECOND // 2
    life.ask()
    assert len(life.source.asked) == 2


def test_what_began_in_another_life_goes_on_behind_its_key():
    life = Life()
    life.state = life.state.with_table(
        NAME, TableState("reading", (8,), 8, None, True, key_columns(CUSTOMERS), None, 10)
    )
    life.mark(life.ask())
    assert life.told == [9, 10]
    assert life.table.rows == 10


def test_a_table_with_another_key_than_before_is_read_from_its_beginning():
    life = Life()
    life.state = life.state.with_table(NAME, TableState("reading", (8,), 8, None, True, ("name string",)))
    life.mark(life.ask())
    assert life.told == [1, 2, 3, 4]
    assert life.table.rows == 4


def test_a_key_that_changes_while_it_is_read_begins_anew():
    life = Life()
    life.mark(life.ask())
    other = replace(CUSTOMERS, key=(1,))
    life.source.answers = [Chunk(other, (), False, lambda _: True)]
    life.ask()
    assert (life.table.state, life.table.key, life.table.rows) == ("pending", None, 0)
    life.source.defined[CUSTOMERS.id] = other
    life.ask()
    assert life.source.asked[-1][1] is None


def test_a_filter_that_the_database_does_not_understand_stops_its_table_alone(caplog):
    life = Life(tables=(NAME, "public.other"))
    life.state = life.state.with_table(NAME, to_be_read(None, "this is no SQL"))
    life.source.answers = [InvalidFilter(NAME, "this is no SQL", "a syntax error")]
    life.ask()
    assert life.table == TableState("partial")
    assert 'rows of "public.customers" cannot be chosen by "this is no SQL": a syntax error' in caplog.text
    assert life.state.tables["public.other"].is_left
    life.ask()
    assert life.source.asked[-1][0] == "public.other"


def test_a_table_whose_end_was_told_is_forgotten_when_it_is_not_there_again():
    life = Life()
    life.state = life.state.with_table(NAME, replace(to_be_read(), is_gone=True))
    life.source.answers = [TableMissing(NAME, "shop", [])]
    life.ask()
    assert NAME not in life.state.tables
    assert not life.reading.is_active


def test_it_is_not_forgotten_inside_of_a_transaction_in_which_it_may_have_been_told_of():
    """It was there again for a moment, and emptied: that counts for the position."""
    life = Life()
    life.source.defined = {}
    life.state = life.state.with_table(NAME, replace(to_be_read(), is_gone=True)).at(Position({"at": 5}, 1))
    life.ask()
    assert NAME in life.state.tables
    life.state = life.state.at(AT)
    life.now += 2 * SECOND
    life.ask()
    assert NAME not in life.state.tables


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_table_that_is_not_there_stays_until_the_changes_say_that_it_is_gone(is_begun):
    """Some of them may be told, and count for the position inside of a transaction."""
    life = Life()
    if is_begun:
        life.mark(life.ask())
    told = life.table
    life.source.answers = [TableMissing(NAME, "shop", [])]
    life.source.defined = {OTHER.id: OTHER}
    life.ask()
    assert life.table == told
    assert not life.reading.is_active
    life.state = life.state.with_table(NAME, replace(to_be_read(), is_gone=True))
    life.ask()
    assert NAME not in life.state.tables


@pytest.mark.parametrize("is_begun", [True, False])
def test_so_does_one_that_is_not_there_when_reading_begins_and_it_is_read_when_it_is_back(is_begun):
    life = Life()
    defined, life.source.defined = life.source.defined, {}
    if is_begun:
        life.state = life.state.with_table(
            NAME, replace(to_be_read(), state="reading", key=(4,), rows=4, columns=key_columns(CUSTOMERS))
        )
    for _ in range(3):
        life.ask()
        life.now += SECOND // 4
    assert life.table.is_left
    assert not life.reading.is_active
    assert not life.source.settled
    life.source.defined = defined
    life.now += SECOND
    while life.table.is_left:
        life.mark(life.ask())
    assert life.told == list(range(5 if is_begun else 1, 11))


def test_a_table_that_is_away_for_a_moment_is_looked_for_once_a_second():
    life = Life()
    life.source.answers = [TableMissing(NAME, "shop", [])]
    life.ask()
    assert not life.reading.is_active
    found, asked = life.source.tables, []
    life.source.tables = lambda: asked.append(life.now) or []
    for _ in range(100):
        life.ask()
        life.now += SECOND // 20
    assert len(asked) <= 7
    life.source.tables = found
    life.now += SECOND
    life.mark(life.ask())
    assert life.told == [1, 2, 3, 4]


def test_a_table_that_goes_while_a_chunk_is_under_way_is_not_told():
    life = Life()
    tag = life.ask()
    life.note(Gone(CUSTOMERS.id, 0))
    life.state = life.state.without(NAME)
    life.ask()
    life.mark(tag)
    assert life.told == []


def test_filtered_rows_do_not_make_a_table_complete():
    life = Life()
    life.state = life.state.with_table(NAME, to_be_read(None, "id > 8"))
    for _ in range(3):
        life.mark(life.ask())
    assert life.source.asked[0][4] == "id > 8"
    assert life.table == TableState("partial", None, 10)


def test_a_complete_table_that_is_read_again_by_a_filter_stays_complete_from_where_it_was():
    life = Life()
    since = {"at": 1}
    life.state = life.state.with_table(NAME, to_be_read(TableState("complete", None, 10, since), "id > 8"))
    for _ in range(3):
        life.mark(life.ask())
    assert life.table == TableState("complete", None, 10, since)


def test_while_it_is_paused_nothing_is_read_and_afterwards_it_goes_on():
    life = Life()
    life.mark(life.ask())
    tag = life.ask()
    life.state = replace(life.state, is_paused=True)
    life.ask()
    assert len(life.source.asked) == 2
    life.mark(tag)  # it was under way, and nothing is noted any more
    assert life.table.key == (4,)
    settled = life.source.settled
    life.state = replace(life.state, is_paused=False)
    life.mark(life.ask())
    assert life.source.settled == settled + 1
    assert life.told == list(range(1, 9))


def test_the_mark_of_a_chunk_that_came_while_it_was_paused_is_waited_for():
    life = Life()
    tag = life.ask()
    life.state = replace(life.state, is_paused=True)
    life.ask()
    assert life.reading.is_active
    life.state = replace(life.state, is_paused=False)
    life.ask()
    assert len(life.source.asked) == 1
    life.mark(tag)
    life.mark(life.ask())
    assert life.told == [1, 2, 3, 4]


def test_a_table_that_is_asked_for_again_begins_anew():
    life = Life()
    life.mark(life.ask())
    tag = life.ask()
    life.state = life.state.with_table(NAME, to_be_read(life.table))
    life.ask()
    life.mark(tag)
    assert life.table.key is None
    life.mark(life.ask())
    assert life.told == [1, 2, 3, 4, 1, 2, 3, 4]


def test_a_table_that_joins_makes_the_source_settle():
    life = Life()
    life.ask()
    assert life.source.settled == 1
    life.state = life.state.with_table("public.other", to_be_read())
    life.ask()
    assert life.source.settled == 2


def test_when_too_much_is_noted_all_begins_anew(monkeypatch):
    monkeypatch.setattr(trackers, "ALL_AT_MOST", 3)
    life = Life()
    tag = life.ask()
    life.note(*(event for number in range(9) for event in transaction(str(number), updated(99 + number))))
    assert life.source.settled > 1
    life.mark(tag)
    assert life.told == []
    life.mark(life.ask())
    assert life.told == [1, 2, 3, 4]


def test_the_columns_of_a_key_have_the_databases_own_types_where_those_are_known():
    columns = (replace(CUSTOMERS.columns[0], type="int4"), *CUSTOMERS.columns[1:])
    assert key_columns(CUSTOMERS) == ("id int32",)
    assert key_columns(replace(CUSTOMERS, columns=columns)) == ("id int4",)
