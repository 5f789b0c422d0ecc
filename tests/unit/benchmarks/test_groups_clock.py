"""The time of a rebalance that is not spent waiting for heartbeats."""

import pytest

from benchmarks.groups_clock import GroupClock, Rebalance, State


class Group:
    """A clock that is moved by hand, and what members do meanwhile."""

    def __init__(self, **states):
        self.time = 100.0
        self.clock = GroupClock(lambda: self.time)
        for member, state in states.items():
            self.clock.set(member, state)
        self.clock.start()

    def passes(self, seconds):
        self.time += seconds

    def now(self, member, state):
        self.clock.set(member, state)


def test_time_in_which_all_rest_is_not_beyond_the_heartbeats():
    group = Group(a=State.RESTING, b=State.RESTING)
    group.passes(3)
    assert group.clock.stop() == Rebalance(total=3, beyond=0)


def test_time_in_which_somebody_asks_is_beyond_the_heartbeats():
    group = Group(a=State.RESTING, b=State.RESTING)
    group.passes(3)
    group.now("a", State.ASKING)
    group.passes(2)
    group.now("a", State.RESTING)
    group.passes(1)
    assert group.clock.stop() == Rebalance(total=6, beyond=2)


def test_two_who_ask_at_the_same_time_count_once():
    group = Group(a=State.ASKING, b=State.RESTING)
    group.passes(1)
    group.now("b", State.ASKING)
    group.passes(1)
    group.now("a", State.RESTING)
    group.passes(1)
    assert group.clock.stop() == Rebalance(total=3, beyond=3)


def test_who_joins_waits_for_the_heartbeats_of_those_who_rest():
    group = Group(a=State.JOINING, b=State.RESTING)
    group.passes(5)
    assert group.clock.stop() == Rebalance(total=5, beyond=0)


def test_when_all_have_joined_the_broker_is_waited_for():
    group = Group(a=State.JOINING, b=State.RESTING)
    group.passes(5)
    group.now("b", State.JOINING)
    group.passes(2)
    assert group.clock.stop() == Rebalance(total=7, beyond=2)


def test_who_has_left_is_not_waited_for():
    group = Group(a=State.JOINING, b=State.RESTING)
    group.clock.remove("b")
    group.passes(2)
    assert group.clock.stop() == Rebalance(total=2, beyond=2)


def test_a_second_rebalance_begins_at_nothing():
    group = Group(a=State.ASKING)
    group.passes(4)
    group.clock.stop()
    group.clock.start()
    group.passes(1)
    assert group.clock.stop() == Rebalance(total=1, beyond=pytest.approx(1))
