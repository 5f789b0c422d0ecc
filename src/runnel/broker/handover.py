"""From the log's threads to the event loop: many calls, one wake-up."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any


class Handover:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[[Any], object], Any]] = deque()
        self._under_way = False

    def call(self, function: Callable[[Any], object], argument: Any) -> None:
        """Call the function on the event loop, after all that was handed over before. From any thread."""
        self._calls.append((function, argument))
        if not self._under_way:
            self._under_way = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._run)

    def together(self) -> Handover:
        """A context on the event loop: what is handed over inside is called at its end, in the loop's same turn."""
        return self

    def __enter__(self) -> None:
        self._under_way = True

    def __exit__(self, *_: object) -> None:
        self._run()

    def _run(self) -> None:
        self._under_way = False  # first: a call that comes now may not be among those that are run
        for _ in range(len(self._calls)):
            function, argument = self._calls.popleft()
            try:
                function(argument)
            except Exception as error:  # the others wait behind it
                self._loop.call_exception_handler({"message": "a call from the log failed", "exception": error})
