"""Producers are slowed while the disk is nearly full, before they are refused: retention may still make room.

Nobody waits while there is more than four times the log's low-disk mark free. From there on the wait grows with what is
missing, up to a second at the mark, where the log refuses appends.
"""

from __future__ import annotations

from runnel.clock import Clock
from runnel.log import Log
from runnel.settings import SECOND

MARKS_OF_ROOM = 4
LONGEST_WAIT = SECOND
BETWEEN_LOOKS = SECOND


class DiskRoom:
    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._looked_at = -BETWEEN_LOOKS
        self._wait = 0

    def throttle_ms(self, size: int) -> int:
        """How long whoever wrote so many bytes is to wait."""
        now = self._clock.elapsed()
        if now - self._looked_at >= BETWEEN_LOOKS:
            self._looked_at = now
            free = self._log.free_space()
            if free is not None:
                self._wait = self._wait_for(free)
        return self._wait if size else 0

    def _wait_for(self, free: int) -> int:
        mark = self._log.low_disk_bytes
        missing = MARKS_OF_ROOM * mark - free
        if missing <= 0:
            return 0
        return min(LONGEST_WAIT, LONGEST_WAIT * missing // ((MARKS_OF_ROOM - 1) * mark))
