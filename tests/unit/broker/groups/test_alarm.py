"""An alarm rings once, when it was last set to."""

from __future__ import annotations

from runnel.broker.groups.alarm import Alarm
from runnel.testing import StoppedClock
from tests.unit.broker.groups.stage import HandTimers


class Bell:
    def __init__(self) -> None:
        self.clock = StoppedClock()
        self.timers = HandTimers(self.clock)
        self.rang_at: list[int] = []
        self.alarm = Alarm(self.timers, self.clock, lambda: self.rang_at.append(self.clock.elapsed()))

    def advance(self, milliseconds: int) -> None:
        until = self.clock.elapsed() + milliseconds
        while self.timers.due_until(until):
            pass
        self.clock.advance(until - self.clock.elapsed())


def test_it_rings_once() -> None:
    bell = Bell()
    bell.alarm.set(100)
    bell.advance(1_000)
    assert bell.rang_at == [100]
    assert not bell.alarm.is_set


def test_what_is_put_off_rings_later_and_costs_no_timer() -> None:
    bell = Bell()
    bell.alarm.set(100)
    for _ in range(50):
        bell.advance(10)
        bell.alarm.set(100)
        assert bell.timers.armed == 1
    bell.advance(1_000)
    assert bell.rang_at == [600]


def test_what_is_set_to_an_earlier_time_rings_earlier() -> None:
    bell = Bell()
    bell.alarm.set(1_000)
    bell.alarm.set(10)
    bell.advance(2_000)
    assert bell.rang_at == [10]


def test_what_is_stopped_does_not_ring_until_it_is_set_again() -> None:
    bell = Bell()
    bell.alarm.set(100)
    bell.alarm.stop()
    bell.advance(200)
    assert bell.rang_at == []
    assert bell.timers.armed == 0
    bell.alarm.set(100)
    bell.advance(200)
    assert bell.rang_at == [300]
