"""A clock that stands still until a test moves it."""

from __future__ import annotations


class StoppedClock:
    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = now
        self._elapsed = 0

    def now(self) -> int:
        return self._now

    def elapsed(self) -> int:
        return self._elapsed

    def advance(self, milliseconds: int) -> None:
        if milliseconds < 0:
            raise ValueError(f"a clock is advanced by 0 milliseconds or more, not by {milliseconds}")
        self._now += milliseconds
        self._elapsed += milliseconds
