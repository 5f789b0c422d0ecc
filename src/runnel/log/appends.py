"""An append on its way, and what became of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from runnel.errors import RunnelError
from runnel.files import Buffer
from runnel.records import BatchHeader, Marker
from runnel.records.batch import LENGTH_PREFIX

logger = logging.getLogger(__name__)

_waiting = threading.Lock()  # two threads that begin to wait for one append wait for one event


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

    __slots__ = (
        *("_callbacks", "_event"),
        *("appended", "data", "done", "error", "header", "marker", "position", "size"),
    )

    def __init__(
        self,
        header: BatchHeader,
        data: tuple[Buffer, ...] | None,
        appended: Appended,
        marker: Marker | None = None,
        told: Callable[[Append], None] | None = None,
    ) -> None:
        self.header = header
        self.marker = marker
        self.data = data
        self.size = header.length + LENGTH_PREFIX if data is not None else 0  # bytes that are written
        self.appended = appended
        self.position = -1
        self.done = False
        self.error: RunnelError | None = None
        self._event: threading.Event | None = None
        # Each is called by the thread that takes it out.
        self._callbacks: list[Callable[[Append], None]] = [] if told is None else [told]

    def result(self, timeout: float | None = None) -> Appended:
        """Wait for the answer; raises the error if the batch was lost, TimeoutError if it is not known yet."""
        if not self.done and not self._awaited(timeout):
            raise TimeoutError(f"no answer within {timeout} seconds")
        if self.error is not None:
            raise self.error
        return self.appended

    def _awaited(self, timeout: float | None) -> bool:
        with _waiting:
            self._event = event = self._event or threading.Event()
        return self.done or event.wait(timeout)  # in this order: `answer` looks for the event after it is done

    def when_done(self, callback: Callable[[Append], None]) -> None:
        """Call back once, from whichever thread answers; at once if the answer is there already."""
        self._callbacks.append(callback)
        if self.done:  # whoever answered may have looked before
            self._call_back()

    def answer(self, error: RunnelError | None = None) -> None:
        self.error = error
        self.done = True  # before it looks who waits: whoever comes after that finds it done
        if self._event is not None:
            self._event.set()
        self._call_back()

    def _call_back(self) -> None:
        callbacks = self._callbacks
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:  # another thread took it
                return
            try:
                callback(self)
            except Exception:  # others wait for their answers behind it
                logger.exception("a callback of an append failed")
