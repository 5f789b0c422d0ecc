"""How long the steps of a batch take. A step inside of another one is counted for itself: the sum is the whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopwatch:
    """Of one batch, in one thread. `seconds` is by the name of the step, in the order of their beginnings."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._names: list[str] = []  # the steps that are under way, the innermost last
        self._since = clock()
        self.began = self._since
        self.seconds: dict[str, float] = {}

    @property
    def total(self) -> float:
        """Since the beginning, with what belongs to no step."""
        return self._clock() - self.began

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self._count()
        self._names.append(name)
        self.seconds.setdefault(name, 0.0)
        try:
            yield
        finally:
            self._count()
            self._names.pop()

    def _count(self) -> None:
        now = self._clock()
        if self._names:
            self.seconds[self._names[-1]] += now - self._since
        self._since = now
