"""How long the steps of a batch take."""

import pytest

from runnel.pipeline.stopwatch import Stopwatch


class Hand:
    """A clock that is moved by hand, in seconds."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def hand():
    return Hand()


@pytest.fixture
def watch(hand):
    return Stopwatch(hand)


def test_a_step_takes_what_passes_inside_of_it(hand, watch):
    hand.now += 1
    with watch.step("body"):
        hand.now += 2
    hand.now += 4
    assert watch.seconds == {"body": 2}
    assert watch.total == 7


def test_a_step_inside_of_another_is_counted_once(hand, watch):
    with watch.step("publish"):
        hand.now += 1
        with watch.step("disk"):
            hand.now += 10
        hand.now += 2
    assert watch.seconds == {"publish": 3, "disk": 10}


def test_a_step_that_comes_again_is_added(hand, watch):
    for _ in range(3):
        with watch.step("disk"):
            hand.now += 1
    assert watch.seconds == {"disk": 3}


def test_a_step_that_fails_is_counted(hand, watch):
    def fail():
        with watch.step("body"):
            hand.now += 5
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with watch.step("account"):
        hand.now += 1
    assert watch.seconds == {"body": 5, "account": 1}
