"""When a view has seen what was written: directly, and through the outputs that it reads."""

from __future__ import annotations

import time

import pytest

from runnel.client import Token, Unreachable
from runnel.views.errors import NotSeen
from runnel.views.waiting import Waiting, wait

CLICK = Token("clicks", 0, 9)


class Outputs:
    """`read` is what the writers of each output have read, `at` where it ends."""

    def __init__(self, read=None, at=None) -> None:
        self.read = read or {}
        self.at = at or {}
        self.looks = 0

    def look(self) -> None:
        self.looks += 1

    def read_by_writers_of(self, name):
        return self.read.get(name, [])

    def ends(self, name):
        return self.at[name]


def lacks(positions, *tokens, outputs=None):
    return Waiting("pages", tokens or (CLICK,), outputs or Outputs()).lacks(positions)


# --- directly


def test_a_record_is_seen_when_its_offset_was_read():
    assert lacks({"clicks": {"0": 10}}) == []
    assert lacks({"clicks": {"0": 9}}) == ["pages has read clicks-0 up to 9, and 10 is waited for"]


def test_a_view_before_its_first_batch_has_seen_nothing():
    assert lacks(None) == ["pages has not finished a batch yet"]


def test_of_several_records_all_are_waited_for():
    tokens = [Token("clicks", 0, 3), Token("clicks", 1, 5), Token("clicks", 0, 1), Token("orders", 0, 0)]
    assert lacks({"clicks": {"0": 4, "1": 6}, "orders": {"0": 1}}, *tokens) == []
    assert lacks({"clicks": {"0": 4}, "orders": {"0": 0}}, *tokens) == [
        "pages has read clicks-1 up to 0, and 6 is waited for",
        "pages has read orders-0 up to 0, and 1 is waited for",
    ]


def test_a_topic_that_the_view_has_read_nothing_of_is_named():
    assert lacks({"orders": {"0": 5}, "payments": {"0": 5}}) == [
        "pages has read nothing of clicks, only orders, payments"
    ]


# --- through a derived stream


def test_a_derived_stream_must_have_read_it_first():
    outputs = Outputs({"long": [{"clicks": {"0": 9}}]}, {"long": {"0": 3}})
    assert lacks({"long": {"0": 3}}, outputs=outputs) == ["long has read clicks-0 up to 9, and 10 is waited for"]


def test_then_the_view_must_have_read_all_that_the_stream_had_written_by_then():
    outputs = Outputs({"long": [{"clicks": {"0": 10}}]}, {"long": {"0": 3, "1": 7}})
    assert lacks({"long": {"0": 3, "1": 6}}, outputs=outputs) == ["pages has read long-1 up to 6, and 7 is waited for"]
    assert lacks({"long": {"0": 3, "1": 7}}, outputs=outputs) == []


def test_a_row_that_the_stream_left_out_is_seen_though_nothing_came_of_it():
    outputs = Outputs({"long": [{"clicks": {"0": 10}}]}, {"long": {"0": 0, "1": 0}})
    assert lacks({"long": {}}, outputs=outputs) == []


def test_what_the_stream_writes_later_is_not_waited_for():
    outputs = Outputs({"long": [{"clicks": {"0": 10}}]}, {"long": {"0": 3}})
    waiting = Waiting("pages", [CLICK], outputs)
    assert waiting.lacks({"long": {"0": 2}}) != []
    outputs.at["long"] = {"0": 100}
    assert waiting.lacks({"long": {"0": 3}}) == []


def test_the_end_of_the_stream_counts_only_from_when_it_has_read_it():
    outputs = Outputs({"long": [{"clicks": {"0": 9}}]}, {"long": {"0": 3}})
    waiting = Waiting("pages", [CLICK], outputs)
    assert waiting.lacks({"long": {"0": 3}}) != []
    outputs.read["long"], outputs.at["long"] = [{"clicks": {"0": 10}}], {"0": 5}
    assert waiting.lacks({"long": {"0": 3}}) == ["pages has read long-0 up to 3, and 5 is waited for"]
    assert waiting.lacks({"long": {"0": 5}}) == []


def test_a_view_that_reads_the_topic_and_a_stream_of_it_has_seen_it_by_both_ways():
    outputs = Outputs({"long": [{"clicks": {"0": 10}}]}, {"long": {"0": 3}})
    assert lacks({"clicks": {"0": 10}, "long": {"0": 2}}, outputs=outputs) != []
    assert lacks({"clicks": {"0": 9}, "long": {"0": 3}}, outputs=outputs) != []
    assert lacks({"clicks": {"0": 10}, "long": {"0": 3}}, outputs=outputs) == []


def test_two_streams_into_one_view_are_both_waited_for():
    outputs = Outputs(
        {"long": [{"clicks": {"0": 10}}], "short": [{"clicks": {"0": 4}}]}, {"long": {"0": 3}, "short": {"0": 1}}
    )
    read = {"long": {"0": 3}, "short": {"0": 1}}
    assert lacks(read, outputs=outputs) == ["short has read clicks-0 up to 4, and 10 is waited for"]


def test_a_stream_of_something_else_is_not_waited_for():
    outputs = Outputs({"paid": [{"orders": {"0": 1}}]}, {"paid": {"0": 50}})
    assert lacks({"clicks": {"0": 10}, "paid": {"0": 2}}, outputs=outputs) == []


def test_a_stream_that_has_told_nothing_yet_may_be_one_of_the_ways():
    outputs = Outputs({"long": [None]})
    assert lacks({"clicks": {"0": 10}, "long": {"0": 0}}, outputs=outputs) == ["long has not finished a batch yet"]
    assert lacks({"long": {"0": 0}}, outputs=outputs) == ["long has not finished a batch yet"]


def test_a_chain_is_followed_to_its_end():
    outputs = Outputs(
        {"long": [{"good": {"0": 4}}], "good": [{"clicks": {"0": 10}}]}, {"long": {"0": 3}, "good": {"0": 5}}
    )
    waiting = Waiting("pages", [CLICK], outputs)
    assert waiting.lacks({"long": {"0": 3}}) == ["long has read good-0 up to 4, and 5 is waited for"]
    outputs.read["long"], outputs.at["long"] = [{"good": {"0": 5}}], {"0": 4}
    assert waiting.lacks({"long": {"0": 3}}) == ["pages has read long-0 up to 3, and 4 is waited for"]
    assert waiting.lacks({"long": {"0": 4}}) == []


def test_a_view_of_a_view_is_a_chain_as_well():
    outputs = Outputs({"view:counts": [{"clicks": {"0": 10}}]}, {"view:counts": {"0": 8}})
    assert lacks({"view:counts": {"0": 7}}, outputs=outputs) == ["pages has read counts up to 7, and 8 is waited for"]
    assert lacks({"view:counts": {"0": 8}}, outputs=outputs) == []


def test_a_record_of_a_derived_stream_itself_is_waited_for_in_its_topic():
    outputs = Outputs({"long": [{"clicks": {"0": 2}}]}, {"long": {"0": 30}})
    assert lacks({"long": {"0": 9}}, Token("long", 0, 9), outputs=outputs) != []
    assert lacks({"long": {"0": 10}}, Token("long", 0, 9), outputs=outputs) == []


def test_of_two_apps_that_write_one_topic_the_one_that_runs_counts():
    outputs = Outputs({"long": [{"clicks": {"0": 1}}, {"clicks": {"0": 10}}]}, {"long": {"0": 3}})
    assert lacks({"long": {"0": 3}}, outputs=outputs) == []


def test_of_two_apps_that_write_one_topic_of_different_topics_each_has_to_read_its_own():
    outputs = Outputs({"events": [{"clicks": {"0": 10}}, {"orders": {"0": 4}}]}, {"events": {"0": 3}})
    waiting = Waiting("pages", [CLICK, Token("orders", 0, 4)], outputs)
    assert waiting.lacks({"events": {"0": 3}}) == ["events has read orders-0 up to 4, and 5 is waited for"]
    outputs.read["events"], outputs.at["events"] = [{"clicks": {"0": 10}}, {"orders": {"0": 5}}], {"0": 6}
    assert waiting.lacks({"events": {"0": 3}}) == ["pages has read events-0 up to 3, and 6 is waited for"]
    assert waiting.lacks({"events": {"0": 6}}) == []


def test_the_same_further_up_the_chain():
    outputs = Outputs(
        {"events": [{"good": {"0": 2}}], "good": [{"clicks": {"0": 10}}, {"orders": {"0": 4}}]},
        {"events": {"0": 3}, "good": {"0": 2}},
    )
    waiting = Waiting("pages", [CLICK, Token("orders", 0, 4)], outputs)
    assert waiting.lacks({"events": {"0": 3}}) == ["good has read orders-0 up to 4, and 5 is waited for"]
    outputs.read["good"] = [{"clicks": {"0": 10}}, {"orders": {"0": 5}}]
    assert waiting.lacks({"events": {"0": 3}}) == []


def test_an_app_that_has_told_nothing_yet_may_be_the_way_of_what_the_others_do_not_read():
    outputs = Outputs({"events": [{"clicks": {"0": 10}}, None]}, {"events": {"0": 3}})
    assert lacks({"events": {"0": 3}}, outputs=outputs) == []
    tokens = CLICK, Token("orders", 0, 4)
    assert lacks({"events": {"0": 3}}, *tokens, outputs=outputs) == ["events has not finished a batch yet"]


def test_what_several_records_lack_is_told_once():
    tokens = CLICK, Token("orders", 0, 4)
    assert lacks({"events": {"0": 0}}, *tokens, outputs=Outputs({"events": [None]})) == [
        "events has not finished a batch yet"
    ]


def test_apps_that_feed_each_other_do_not_keep_it_busy_for_ever():
    outputs = Outputs(
        {"long": [{"clicks": {"0": 10}, "good": {"0": 5}}], "good": [{"long": {"0": 3}}]},
        {"long": {"0": 3}, "good": {"0": 5}},
    )
    assert lacks({"long": {"0": 3}}, outputs=outputs) == []


# --- waiting


def test_who_waits_in_vain_is_told_how_far_it_is():
    with pytest.raises(NotSeen) as told:
        wait("pages", Waiting("pages", [CLICK], Outputs()), lambda: {"clicks": {"0": 4}}, 0.01, hint="see to it")
    assert str(told.value) == (
        "after 0.01 s view 'pages' has not seen it all: pages has read clicks-0 up to 4, and 10 is waited for "
        "(see to it)"
    )
    assert told.value.lacks == ("pages has read clicks-0 up to 4, and 10 is waited for",)


def test_it_looks_again_until_it_is_there_and_what_passes_by_itself_does_not_end_it():
    answers = [None, Unreachable("127.0.0.1:9092", "refused"), {"clicks": {"0": 4}}, {"clicks": {"0": 10}}]

    def positions():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    wait("pages", Waiting("pages", [CLICK], Outputs()), positions, 60, hint="")
    assert answers == []


def test_what_is_there_is_not_waited_for():
    began = time.monotonic()
    wait("pages", Waiting("pages", [CLICK], Outputs()), lambda: {"clicks": {"0": 10}}, 0, hint="")
    assert time.monotonic() - began < 60
