"""Events as records, over restarts in the middle of a transaction."""

import json

import pytest

from runnel.capture.envelope import Envelope
from runnel.capture.events import (
    Began,
    Came,
    Change,
    Ended,
    Gone,
    Message,
    Passed,
    Position,
    Redefined,
    Truncated,
    Unchosen,
)
from runnel.capture.outgoing import Outgoing
from runnel.capture.selection import Selection
from runnel.capture.stream import Stream
from tests.unit.capture.customers import CUSTOMERS, LOOSE, NoSource


def row(number, table=CUSTOMERS):
    return Change(table, "c", None, (number, "a", None), "", 0)


EVENTS = [
    Began("7", 0),
    row(1),
    Redefined(CUSTOMERS, 0),
    row(2, LOOSE),
    Truncated(CUSTOMERS, "", 0),
    Message("p", b"", True, "", 0),
    row(3),
    Ended("7", {"at": 7}, 0),
]


def stream(position, **options):
    return Stream(Envelope("p", NoSource(), Selection()), position, transactions=True, **options)


def values(out):
    return {topic: [json.loads(text) for text in page.values] for topic, page in out.pages.items()}


def test_a_position_counts_the_events_of_an_open_transaction():
    reading, out = stream(Position({"at": 6})), Outgoing()
    found = [reading.tell([event], out, 0) for event in EVENTS]
    assert [(each.at["at"], each.index) for each in found] == [
        (6, 0), (6, 1), (6, 1), (6, 2), (6, 3), (6, 4), (6, 5), (7, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("index", range(6))
def test_whatever_was_told_before_a_restart_the_whole_is_the_same(index):
    """What a first life told up to an index, and what a second one tells from there, is what one life tells."""
    whole = Outgoing()
    stream(Position({"at": 6})).tell(EVENTS, whole, 0)
    first, out = stream(Position({"at": 6})), Outgoing()
    position = Position({"at": 6})
    for event in EVENTS:
        if position.index == index:
            break
        position = first.tell([event], out, 0)
    assert stream(position).tell(EVENTS, out, 0) == Position({"at": 7})
    assert values(out) == values(whole)


def test_a_beginning_that_moves_no_position_is_not_told_twice():
    first, out = stream(Position({"at": 6})), Outgoing()
    position = first.tell([Began("7", 0), Redefined(CUSTOMERS, 0)], out, 0)
    stream(position).tell(EVENTS, out, 0)
    assert [value["status"] for value in values(out)["p.transaction"]] == ["BEGIN", "END"]


def test_a_transaction_that_needs_more_to_be_known_again_says_so_when_it_begins():
    reading = stream(Position({"at": 6}))
    assert reading.tell([Began("7", 0, {"at": 6, "until": 7}), row(1)], Outgoing(), 0) == Position(
        {"at": 6, "until": 7}, 1
    )


def test_what_has_nothing_for_us_moves_the_position():
    assert stream(Position({"at": 6})).tell([Passed({"at": 9})], Outgoing(), 0) == Position({"at": 9})


def test_of_tables_that_are_left_out_is_told_that_they_were_emptied_and_nothing_else():
    out = Outgoing()
    position = stream(Position({"at": 6}), left_out={"public.customers"}).tell(EVENTS[:-1], out, 0)
    assert position.index == 5
    assert set(out.pages) == {"p.public.customers", "p.public.loose", "p.message", "p.transaction"}
    assert out.pages["p.public.customers"].operations == ["t"]


def test_a_transaction_without_events_is_not_the_one_whose_events_are_in_the_topics():
    """Nor is what the log passed: the place inside of the one that comes stays."""
    reading, out = stream(Position({"at": 6}, 2)), Outgoing()
    other = [Began("6", 0), Redefined(CUSTOMERS, 0), Ended("6", {"at": 6.5}, 0)]
    assert reading.tell(other, out, 0) == Position({"at": 6.5}, 2)
    assert reading.tell([Passed({"at": 6.7})], out, 0) == Position({"at": 6.7}, 2)
    assert reading.tell(EVENTS, out, 0) == Position({"at": 7})
    assert [each["op"] for each in values(out)["p.public.customers"]] == ["t", "c"]
    assert [each["status"] for each in values(out)["p.transaction"]] == ["END"]


def test_what_is_not_chosen_any_more_counts_and_is_not_told():
    """So that another choice in the middle of a transaction neither loses nor repeats what is behind it."""
    events = [EVENTS[0], row(1), Unchosen(), row(3), EVENTS[-1]]
    out = Outgoing()
    assert stream(Position({"at": 6})).tell(events[:3], out, 0).index == 2
    assert stream(Position({"at": 6}, 2)).tell(events, out, 0) == Position({"at": 7})
    assert [each["after"]["id"] for each in values(out)["p.public.customers"]] == [1, 3]


def test_the_topic_of_a_table_that_is_gone_is_emptied_once():
    """Another one may come under its name."""
    events = [Began("7", 0), Gone(CUSTOMERS.id, 5, '"lsn":7'), Came(CUSTOMERS.id, 5), Ended("7", {"at": 7}, 0)]
    out = Outgoing()
    stream(Position({"at": 6}), captured=["public.customers"]).tell(events, out, 0)
    stream(Position({"at": 6})).tell(events, out, 0)
    (emptied,) = values(out)["p.public.customers"]
    assert (emptied["op"], emptied["before"], emptied["after"]) == ("t", None, None)
    assert (emptied["source"]["table"], emptied["source"]["lsn"], emptied["transaction"]) == ("customers", 7, None)


def test_a_table_of_which_nothing_is_told_leaves_no_word_when_it_goes():
    out, gone = Outgoing(), [Gone(CUSTOMERS.id, 0, '"lsn":7'), Gone(LOOSE.id, 0, '"lsn":7')]
    stream(Position({"at": 6}), left_out={"public.customers"}, captured=["public.customers"]).tell(gone, out, 0)
    assert not out.pages
    first = stream(Position({"at": 6}))
    first.tell([Began("7", 0), Redefined(LOOSE, 0), row(1, LOOSE), Ended("7", {"at": 7}, 0), *gone], out, 0)
    assert [each["op"] for each in values(out)["p.public.loose"]] == ["c", "t"]


def test_a_table_whose_end_the_log_does_not_tell_leaves_its_topic_to_whoever_noticed():
    out = Outgoing()
    stream(Position({"at": 6}), captured=["public.customers"]).tell([Gone(CUSTOMERS.id, 0)], out, 0)
    assert not out.pages
