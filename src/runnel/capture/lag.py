"""How far the topics are behind the database in time, and how fast something goes on.

A capture that has read all there is for it is not behind, however long ago the last change was.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

SECOND = 1_000_000  # microseconds
QUIET_MICROS = 2 * SECOND  # between two readings of a source that has nothing
PACE_SECONDS = 60.0


class Lag:
    """Of what was read last. Times are microseconds since 1970."""

    def __init__(self) -> None:
        self.transactions = 0  # of the database, that were told to their end
        self.told = 0  # when the last of them was committed
        self._committed = 0  # the same, or of what was passed
        self._read = 0
        self._is_current = True

    def ended(self, committed: int) -> None:
        self.transactions += 1
        self.told = self._committed = committed

    def passed(self, committed: int) -> None:
        """Something that is not for us, and was committed then."""
        self._committed = committed

    def read(self, now: int, *, is_current: bool) -> None:
        """A reading was told; `is_current` if there was nothing more for us."""
        self._read = now
        self._is_current = is_current

    def seconds(self, now: int) -> float:
        """Since the last transaction that was told or passed was committed; 0 where none is missing. Without readings
        nobody knows, and it grows from the last one on.
        """
        if not self._is_current and self._committed:
            return max(0.0, (now - self._committed) / SECOND)
        silent = now - self._read if self._read else 0
        return silent / SECOND if silent > QUIET_MICROS else 0.0


class Pace:
    """How fast a count grows, over the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def see(self, count: int) -> None:
        now = self._clock()
        self._seen.append((now, count))
        while len(self._seen) > 2 and self._seen[1][0] < now - PACE_SECONDS:
            self._seen.popleft()

    def seconds_left(self, count: int) -> float | None:
        """Until it has grown by so much more; None if nobody can tell."""
        if len(self._seen) < 2:
            return None
        (start, first), (end, last) = self._seen[0], self._seen[-1]
        if end <= start or last <= first:
            return None
        return max(0, count) * (end - start) / (last - first)


def pace_of(seen: Iterable[tuple[float, int]]) -> Pace:
    """Of counts that were seen before, each with when that was, in seconds."""
    clock = [0.0]
    pace = Pace(lambda: clock[0])
    for clock[0], count in seen:
        pace.see(count)
    return pace
