"""Who commits: the event loop itself while the disk is quick, and the log's own thread while it is not.

A good disk syncs a small write in a tenth of a millisecond, and two turns between Python threads cost as much: so the
loop writes and syncs what the requests of one pass have brought, and answers them. A disk that takes longer must not
keep everybody waiting: after one slow sync the log's thread takes over, until the disk was quick for a while.
"""

from __future__ import annotations

import asyncio
import threading

from runnel.broker.handover import Handover
from runnel.clock import Clock
from runnel.log import Log

QUICK_SECONDS = 0.002
QUICK_FOR = 100  # milliseconds


class Committing:
    """Lives on the event loop, and is asked from any thread."""

    def __init__(self, log: Log, loop: asyncio.AbstractEventLoop, handover: Handover, clock: Clock) -> None:
        self._commits = log.commits
        self._loop = loop
        self._handover = handover
        self._clock = clock
        self._thread = threading.get_ident()
        self._planned = False
        self._slow_until = 0

    def begin(self) -> None:
        """From now on the loop may run rounds. Nothing that runs on it may block until an append is answered."""
        self._commits.start_with(self._start)

    def _start(self) -> None:
        if threading.get_ident() != self._thread or not self._loop.is_running():
            self._commits.start_in_background()
        elif not self._planned:
            self._planned = True
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        self._planned = False
        now = self._clock.elapsed()
        if self._commits.last_sync_seconds > QUICK_SECONDS:
            self._commits.last_sync_seconds = 0.0
            self._slow_until = now + QUICK_FOR
        if now < self._slow_until:
            self._commits.start_in_background()
            return
        with self._handover.gathered():
            done = self._commits.try_round()
        if not done:
            self._commits.start_in_background()
