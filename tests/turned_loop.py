"""An event loop for tests, which turns when it is told to, in the test's own thread."""

from collections.abc import Callable
from typing import Any

MOST_TURNS = 100_000  # callbacks that plan themselves again do so for a limited time


class TurnedLoop:
    def __init__(self) -> None:
        self.planned: list[Callable[[], object]] = []
        self.readers: dict[int, Callable[[], object]] = {}

    def call_soon(self, callback: Callable[[], object], /) -> None:
        self.planned.append(callback)

    call_soon_threadsafe = call_soon

    def add_reader(self, descriptor: int, callback: Callable[[], object], /) -> Any:
        self.readers[descriptor] = callback

    def remove_reader(self, descriptor: int, /) -> Any:
        del self.readers[descriptor]

    def is_running(self) -> bool:
        return True

    def turn(self) -> None:
        """Call back what is planned now."""
        planned, self.planned = self.planned, []
        for callback in planned:
            callback()

    def turn_until_idle(self) -> None:
        """Call back until nothing more is planned, and those who wait for a descriptor as well."""
        for _ in range(MOST_TURNS):
            if not self.planned:
                for reader in tuple(self.readers.values()):
                    reader()
            if not self.planned:
                return
            self.turn()
        raise AssertionError("the loop has always something to do")
