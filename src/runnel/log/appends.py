"""An append on its way, and what became of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from runnel.errors import RunnelError
from runnel.files import Buffer
from runnel.records import BatchHeader, Marker

logger = logging.getLogger(__name__)

_waiting = threading.Lock()  # guards the rare moments in which somebody waits for an append


class Appended(NamedTuple):
    """Where a batch stands. A duplicate stands where it was written the first time."""

    base_offset: int
    last_offset: int
    timestamp: int
    leader_epoch: int
    duplicate: bool = False


class Append:
    """Given out when a batch is accepted; answered when it is durable, or as the topic's flush setting says, or lost.

    `data` is the batch as it is written, in parts. It is None for a duplicate: nothing is written, but its answer waits
    for the first one's sync.
    """

    __slots__ = ("_callbacks", "_event", "appended", "data", "done", "error", "header", "marker", "position", "size")

    def __init__(
        self, header: BatchHeader, data: tuple[Buffer, ...] | None, appended: Appended, marker: Marker | None = None
    ) -> None:
        self.header = header
        self.marker = marker
        self.data = data
        self.size = header.size if data is not None else 0  # bytes that are written
        self.appended = appended
        self.position = -1
        self.done = False
        self.error: RunnelError | None = None
        self._event: threading.Event | None = None
        self._callbacks: list[Callable[[Append], None]] | None = None

    def result(self, timeout: float | None = None) -> Appended:
        """Wait for the answer; raises the error if the batch was lost, TimeoutError if it is not known yet."""
        if not self.done and not self._awaited(timeout):
            raise TimeoutError(f"no answer within {timeout} seconds")
        if self.error is not None:
            raise self.error
        return self.appended

    def _awaited(self, timeout: float | None) -> bool:
        with _waiting:
            if self.done:
                return True
            self._event = self._event or threading.Event()
        return self._event.wait(timeout)

    def when_done(self, callback: Callable[[Append], None]) -> None:
        """Call back once, from whichever thread answers; at once if the answer is there already."""
        with _waiting:
            if not self.done:
                if self._callbacks is None:
                    self._callbacks = [callback]
                else:
                    self._callbacks.append(callback)
                return
        callback(self)

    def answer(self, error: RunnelError | None = None) -> None:
        with _waiting:
            self.error = error
            self.done = True
            callbacks, self._callbacks = self._callbacks, None
            if self._event is not None:
                self._event.set()
        for callback in callbacks or ():
            try:
                callback(self)
            except Exception:  # others wait for their answers behind it
                logger.exception("a callback of an append failed")
