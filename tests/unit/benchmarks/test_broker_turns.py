"""Samples with several numbers are taken in turns, and become figures."""

import pytest

from benchmarks.broker_turns import Turns, percentile, take_turns
from benchmarks.harness import at_most


def test_both_sides_are_sampled_in_every_round_and_take_turns_to_be_first():
    calls = []

    def sample(side):
        calls.append(side)
        return side, len(calls)

    turns = take_turns("load", 3, "ours", "peer", sample)
    assert calls == ["ours", "peer", "peer", "ours", "ours", "peer"]
    assert turns == Turns(ours=(("ours", 1), ("ours", 4), ("ours", 5)), peer=(("peer", 2), ("peer", 3), ("peer", 6)))


def test_a_figure_takes_one_number_of_each_sample():
    turns = Turns(ours=({"rate": 3.0, "p99": 1.0}, {"rate": 4.0, "p99": 2.0}), peer=({"p99": 4.0}, {"p99": 5.0}))
    figure = turns.figure("latency", "ms", lambda sample: sample["p99"], at_most(1))
    assert figure.ours == (1.0, 2.0)
    assert figure.peer == (4.0, 5.0)
    assert figure.target == at_most(1)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([7.0], 0.99, 7.0),
        ([3.0, 1.0, 2.0], 0.50, 2.0),
        ([3.0, 1.0, 2.0], 1.00, 3.0),
        ([float(number) for number in range(1, 101)], 0.99, 99.0),
        ([float(number) for number in range(1, 102)], 0.99, 100.0),
        ([1.0, 2.0], 0.00, 1.0),
    ],
)
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(values, share, expected):
    assert percentile(values, share) == expected


def test_nothing_has_no_percentile():
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_figure_is_against_whoever_the_turns_were_taken_with():
    turns = take_turns("load", 1, 1.0, 2.0, lambda side: side, ("Runnel", "another"))
    assert turns.figure("rate", "records/s", lambda sample: sample).against == "another"
