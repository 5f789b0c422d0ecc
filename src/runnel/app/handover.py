"""What a running app does when one of its views is rebuilt by another process.

When it is asked to, it lets the view's query finish its batch, and lets go. When the copy has taken the view's place,
or has been given up, the query begins again: at once, if the code is still the same; otherwise with the next start of
the app, since this process has loaded the code of before. The other queries go on all the while.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from runnel.app.code import last_code
from runnel.app.rebuilds import Rebuilds
from runnel.errors import RunnelError, Transient
from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.errors import NoLongerFits
from runnel.pipeline.query import Query

logger = logging.getLogger(__name__)

LOOK_FOR_OLD_EVERY = 3600.0  # seconds, whether the time of a copy that is kept is over


class Handover:
    """Of one query, which runs this `code`. `again` makes another one of the same output, and starts it."""

    def __init__(
        self, query: Query, code: str, again: Callable[[], Query], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.query = query
        self._code = code
        self._again = again
        self._clock = clock
        self._looked_for_old = clock()  # at the start of the app it is looked for
        self._rebuilds = Rebuilds(query.place, query.name)
        self._let_go: str | None = None  # the id of the checkpoint that it had
        self.waits_for_a_start = False  # of the app

    @property
    def is_away(self) -> bool:
        """Whether the query is not ours to look at."""
        return self._let_go is not None or self.waits_for_a_start

    def look(self) -> bool:
        """Whether the query has changed: let go, or begun again."""
        if self._let_go is None:
            self._remove_what_is_old()
            return self._let_go_if_asked()
        try:
            is_settled = self._rebuilds.settle()
        except Transient as error:
            logger.debug("%s waits for the copy that takes its place: %s", self.query.name, error)
            return False
        if not is_settled and self._rebuilds.is_asked and not self._rebuilds.is_released:
            self._rebuilds.release()  # the one that asked first has died, and another asks
        return is_settled and self._begin_again()

    def _let_go_if_asked(self) -> bool:
        if not self._rebuilds.is_asked:
            return False
        self._let_go, self.waits_for_a_start = _id(self.query), False
        self.query.stop()
        logger.info("%s has stopped: a copy of it is about to take its place", self.query.name)
        if self._rebuilds.is_asked:  # who asked may have given up: a batch takes its time
            self._rebuilds.release()
        return True

    def _remove_what_is_old(self) -> None:
        """The copy that was kept, when its time is over: an app may run for long."""
        if self._clock() - self._looked_for_old < LOOK_FOR_OLD_EVERY:
            return
        self._looked_for_old = self._clock()
        try:
            self._rebuilds.remove_when_old()
        except (RunnelError, OSError) as error:  # it is in nobody's way
            logger.warning("%s: the copy that was kept cannot be removed now: %s", self.query.name, error)

    def _begin_again(self) -> bool:
        is_another = _id(self.query) != self._let_go
        if is_another and last_code(self.query.place.directory_of(self.query.name)) != self._code:
            self._wait("a new copy, of other code than this process has loaded, has taken its place")
            return False
        self._rebuilds.take_over()
        try:
            self.query = self._again()
        except NoLongerFits as error:
            self._wait(error.what)
            return False
        except Transient as error:
            logger.debug("%s cannot begin again yet: %s", self.query.name, error)
            return False
        self._let_go = None
        logger.info("%s goes on%s", self.query.name, ", with the new copy" if is_another else "")
        return True

    def _wait(self, why: str) -> None:
        self._let_go, self.waits_for_a_start = None, True
        logger.warning("%s stands still: %s (start the app again, and it goes on)", self.query.name, why)


def _id(query: Query) -> str:
    checkpoint = Checkpoint(query.place.checkpoint_of(query.name))
    return checkpoint.id if checkpoint.is_begun else ""
