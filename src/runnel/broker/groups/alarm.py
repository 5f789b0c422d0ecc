"""A time-out that is moved often and rings rarely: a heartbeat moves it, and costs no timer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from runnel.clock import Clock


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    """What of an event loop the groups need. All but `call_soon_threadsafe` is called in its thread."""

    def call_later(self, delay: float, callback: Callable[..., object], /, *arguments: Any) -> Timer: ...

    def call_soon_threadsafe(self, callback: Callable[..., object], /, *arguments: Any) -> object: ...


class Alarm:
    def __init__(self, timers: Timers, clock: Clock, ring: Callable[[], object]) -> None:
        self._timers = timers
        self._clock = clock
        self._ring = ring
        self._due: int | None = None
        self._wakes_at = 0
        self._timer: Timer | None = None

    @property
    def is_set(self) -> bool:
        return self._due is not None

    def set(self, milliseconds: int) -> None:
        """Ring once, so long after now, instead of when it was set to ring."""
        self._due = self._clock.elapsed() + milliseconds
        if self._timer is not None and self._wakes_at > self._due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._sleep(milliseconds)

    def stop(self) -> None:
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sleep(self, milliseconds: int) -> None:
        self._wakes_at = self._clock.elapsed() + milliseconds
        self._timer = self._timers.call_later(milliseconds / 1000, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._due is None:
            return
        left = self._due - self._clock.elapsed()
        if left > 0:
            self._sleep(left)
        else:
            self._due = None
            self._ring()
