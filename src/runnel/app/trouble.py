"""A query that is kept running: when it fails for a reason that passes, it is begun anew, for as long as it takes.

A broker that is away or starts again, a leader that moves, a store that cannot be reached, a lost transaction, a full
disk: the query waits, in growing pauses, and goes on by itself. The log tells it twice, when the trouble begins and
when it is over. Everything else ends the app. A process of Spark's that dies is replaced, and a transaction that took
too long is done again, but the body may be what kills the one and delays the other: after three times without a
finished batch in between, that is told instead.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from runnel.client.errors import Overdue
from runnel.errors import Permanent, RunnelError, Transient
from runnel.pipeline.errors import DiskFull, ProcessDied, SparkSaid, Unexplained
from runnel.pipeline.failure import told

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.5  # seconds
LONGEST_PAUSE = 30.0
MOST_FAILURES = 3  # of one batch, by what the body may cause
FULL = (errno.ENOSPC, errno.EDQUOT)


class QueryFailed(Permanent):
    def __init__(self, query: str, what: str, *, hint: str) -> None:
        super().__init__(f"{query} has stopped: {what}", hint=hint)
        self.query = query


@contextmanager
def told_if_full(directory: Path) -> Iterator[None]:
    """A disk that is full before any query runs ends the program: nobody waits for it yet."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise DiskFull(f"{error.strerror}: {error.filename or directory}") from None


class Restartable(Protocol):
    """As much of a query as is needed here."""

    name: str
    done: int

    @property
    def is_active(self) -> bool: ...

    @property
    def is_well(self) -> bool:
        """Since it was begun, it has done all there was to do at least once."""
        ...

    @property
    def failure(self) -> BaseException | None: ...

    def restart(self, *, until_caught_up: bool) -> None: ...


class Kept:
    """One query. To be looked at again and again, by one thread."""

    def __init__(
        self, query: Restartable, *, until_caught_up: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._query = query
        self._until_caught_up = until_caught_up
        self._clock = clock
        self._since: float | None = None  # when the trouble began
        self._pause = FIRST_PAUSE
        self._again_at: float | None = None
        self._done = 0  # batches, when it last failed
        self._failures = 0  # of the same batch

    @property
    def is_troubled(self) -> bool:
        return self._since is not None

    def look(self) -> bool:
        """Do what is to be done now; False when the query has come to its end. QueryFailed if it cannot go on."""
        if self._again_at is not None:
            if self._clock() >= self._again_at:
                self._begin_again()
            return True
        is_active = self._query.is_active  # before the failure, which may come in between
        failure = self._query.failure
        if failure is not None:
            self._fail(told(failure))
            return True
        self._see_whether_it_is_over(is_active)
        return is_active

    def _begin_again(self) -> None:
        self._again_at = None
        try:
            self._query.restart(until_caught_up=self._until_caught_up)
        except Exception as error:  # of ours, or of Spark's
            self._fail(told(error))

    def _fail(self, error: RunnelError) -> None:
        if isinstance(error, Unexplained):
            logger.error("%s failed", self._query.name, exc_info=SparkSaid(error.text))
        if not isinstance(error, Transient):
            raise QueryFailed(self._query.name, error.what, hint=error.hint)
        if self._query.done > self._done:
            self._failures = 0
        if isinstance(error, ProcessDied | Overdue):
            self._failures += 1
            if self._failures == MOST_FAILURES:
                what = f"{error.what}; {MOST_FAILURES} times in the same batch"
                raise QueryFailed(self._query.name, what, hint=error.hint)
        if self._since is None:
            self._since = self._clock()
            logger.warning("%s waits, and goes on by itself: %s", self._query.name, error)
        else:
            logger.debug("%s still waits: %s", self._query.name, error)
        self._done = self._query.done
        self._again_at = self._clock() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _see_whether_it_is_over(self, is_active: bool) -> None:
        if self._since is not None and (self._query.is_well or not is_active):
            logger.info("%s goes on, after %.0f s", self._query.name, self._clock() - self._since)
            self._since = None
            self._pause = FIRST_PAUSE
            self._failures = 0
