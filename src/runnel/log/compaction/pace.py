"""How much of a core a compaction takes: it works a little, measures what that has cost, and rests.

After every piece of work it rests until its time on the processor is at most its share of the time that has passed
since it began the piece. So the share holds over any ten seconds, not only over the whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_WORK = 0.003  # seconds between two rests: long enough not to be all waking up, too short to be noticed
MARGIN = 0.92  # the pieces of work are not infinitely small


class Pace:
    def __init__(
        self,
        percent: int,
        worked: Callable[[], float] = time.process_time,
        now: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._share = percent / 100 * MARGIN if percent < 100 else 1.0
        self._worked = worked
        self._now = now
        self._rest = rest
        self._work_done = 0.0  # when it last rested: the start of the interpreter counts as work
        self._began = now() - worked()

    def __call__(self) -> None:
        work = self._worked() - self._work_done
        if work < LEAST_WORK:
            return
        left = self._began + work / self._share - self._now()
        if self._share < 1 and left > 0:
            self._rest(left)
        self._work_done += work
        self._began = self._now()
