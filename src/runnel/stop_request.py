"""Somebody asks something that runs to stop: another thread, or the handler of a signal.

Python runs a handler between any two steps of the main thread, also of one that waits here or asks here. A
`threading.Event` has a lock that such a thread may hold, and then the handler waits for it for ever. A `SimpleQueue`
can be put into at any moment.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue


class StopRequest:
    """As an event that is never cleared."""

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """Whoever waits goes on. May be called at any moment, by any thread and by a signal's handler."""
        self._is_set = True
        self._wakes.put(None)

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Until it is set, for so long at most; whether it is."""
        if not self._is_set:
            try:
                self._wakes.get(timeout=max(0.0, seconds))
            except Empty:
                return self._is_set
            self._wakes.put(None)  # for the next one who waits
        return self._is_set
