"""Lines of the log that a client can cause again and again: so many in a while, and then how many were left out."""

from __future__ import annotations

import logging

from runnel.clock import Clock
from runnel.settings import SECOND

LINES_PER_PERIOD = 20
PERIOD = 10 * SECOND


class RareLines:
    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._lines = 0
        self._period_ends = 0

    def tell(self, message: str, *arguments: object, error: BaseException | None = None) -> None:
        now = self._clock.elapsed()
        if now >= self._period_ends:
            if self._lines > LINES_PER_PERIOD:
                self._logger.warning("%d more lines like these were left out", self._lines - LINES_PER_PERIOD)
            self._lines, self._period_ends = 0, now + PERIOD
        self._lines += 1
        if self._lines <= LINES_PER_PERIOD:
            self._logger.log(logging.ERROR if error else logging.WARNING, message, *arguments, exc_info=error)
