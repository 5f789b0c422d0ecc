"""A query that fails: what passes is waited for, what does not ends it, and the log tells each trouble twice."""

import logging

import pytest

from runnel.app.trouble import LONGEST_PAUSE, MOST_FAILURES, Kept, QueryFailed
from runnel.client.errors import Fenced, Overdue, Unreachable
from runnel.errors import Permanent
from runnel.pipeline.errors import ProcessDied, Stopped

AWAY = Unreachable("127.0.0.1:9092", "connection refused")
DIED = ProcessDied("Python worker exited unexpectedly (crashed)")


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Query:
    """One that does as it is told."""

    name = "clicks_per_minute"

    def __init__(self):
        self.done = 0
        self.is_active = self.is_well = True
        self.failure = None
        self.on_restart = []  # an error, or None, for each
        self.restarts = 0

    def fail(self, error):
        self.is_active, self.failure = False, error

    def restart(self, *, until_caught_up):
        self.restarts += 1
        error = self.on_restart.pop(0) if self.on_restart else None
        if error is not None:
            raise error
        self.is_active, self.is_well, self.failure = True, False, None

    def do_a_batch(self):
        self.done += 1
        self.is_well = True


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def query():
    return Query()


@pytest.fixture
def kept(query, clock, caplog):
    caplog.set_level(logging.INFO)
    return Kept(query, clock=clock)


def wait(kept, clock, seconds):
    """Look as often as a runner does."""
    for _ in range(round(seconds * 5)):
        clock.now += 0.2
        kept.look()


def test_a_query_that_runs_is_left_alone(kept, query, caplog):
    assert kept.look()
    assert (query.restarts, caplog.messages) == (0, [])


def test_a_query_that_has_come_to_its_end_is_over(kept, query):
    query.is_active = False
    assert not kept.look()


def test_what_passes_is_waited_for(kept, query, clock, caplog):
    query.fail(AWAY)
    assert kept.look()
    assert kept.is_troubled
    assert query.restarts == 0
    wait(kept, clock, 1)
    assert query.restarts == 1
    assert kept.is_troubled
    query.do_a_batch()
    kept.look()
    assert not kept.is_troubled
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "clicks_per_minute waits, and goes on by itself",
        "clicks_per_minute goes on, after 1 s",
    ]


def test_a_trouble_is_told_twice_however_long_it_lasts(kept, query, clock, caplog):
    query.on_restart = [AWAY] * 10
    query.fail(AWAY)
    wait(kept, clock, 600)
    assert query.restarts == 11
    query.is_well = True
    kept.look()
    assert len(caplog.messages) == 2


def test_pauses_grow(kept, query, clock):
    query.on_restart = [AWAY] * 1_000
    query.fail(AWAY)
    wait(kept, clock, 3_600)
    assert 3_600 / LONGEST_PAUSE <= query.restarts <= 3_600 / LONGEST_PAUSE + 10


def test_a_query_that_fails_again_at_once_is_in_the_same_trouble(kept, query, clock, caplog):
    for _ in range(5):
        query.fail(AWAY)
        wait(kept, clock, 10)
    assert len(caplog.messages) == 1


def test_one_that_ends_after_its_trouble_is_over(kept, query, clock, caplog):
    query.fail(AWAY)
    wait(kept, clock, 1)
    query.is_active = False
    assert not kept.look()
    assert len(caplog.messages) == 2


@pytest.mark.parametrize("error", [Fenced("runnel.shop.long_stays"), Permanent("no"), ValueError("the body's own")])
def test_what_does_not_pass_ends_it(kept, query, error):
    query.fail(error)
    with pytest.raises(QueryFailed, match="clicks_per_minute has stopped"):
        kept.look()


def test_what_does_not_pass_ends_it_also_when_it_is_found_by_a_restart(kept, query, clock):
    query.on_restart = [Fenced("runnel.shop.long_stays")]
    query.fail(AWAY)
    with pytest.raises(QueryFailed, match="another one has taken over"):
        wait(kept, clock, 1)


@pytest.mark.parametrize(
    "failure", [DIED, Overdue("runnel.shop.long_stays", "its coordinator", "it was open too long")]
)
def test_what_the_body_may_cause_is_done_again_but_not_for_ever(kept, query, clock, failure):
    for _ in range(MOST_FAILURES - 1):
        query.fail(failure)
        wait(kept, clock, 5)
    query.fail(failure)
    with pytest.raises(QueryFailed, match="3 times in the same batch"):
        kept.look()


def test_deaths_in_different_batches_are_many_accidents(kept, query, clock):
    for _ in range(3 * MOST_FAILURES):
        query.fail(DIED)
        wait(kept, clock, 60)
        query.do_a_batch()
        kept.look()
    assert query.restarts == 3 * MOST_FAILURES


def test_deaths_while_there_is_nothing_to_do_are_many_accidents(kept, query, clock):
    for _ in range(3 * MOST_FAILURES):
        query.fail(DIED)
        wait(kept, clock, 60)
        query.is_well = True
        kept.look()
    assert query.restarts == 3 * MOST_FAILURES


def test_another_trouble_between_two_deaths_changes_nothing(kept, query, clock):
    for error in (DIED, AWAY, DIED, AWAY):
        query.fail(error)
        wait(kept, clock, 60)
    query.fail(DIED)
    with pytest.raises(QueryFailed):
        kept.look()


def test_a_stop_is_no_failure_that_ends_anything(kept, query):
    query.fail(Stopped(query.name))
    assert kept.look()
