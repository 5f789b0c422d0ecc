"""Time and order in the hands of a test: where an app is held, a query plans a batch when it is let go, and the idle
time of its inputs is what the test says has passed.

A query that is held finds nothing new. Its very first batch is waited for: Spark would run one of nothing at all.

It is a directory, because the process that plans is another one than the test. An app in daily use has none: its
queries plan whenever there is something to read, by the machine's own clock.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

CLOCK = "clock"
LET_GO = "let-go-"  # a query's name follows
LOOK_EVERY = 0.002  # seconds


class Hold(Protocol):
    """As much as a planner needs."""

    def is_let_go(self) -> bool: ...

    def clock(self) -> float:
        """Seconds, for measuring how long something takes."""
        ...


class Free:
    def is_let_go(self) -> bool:
        return True

    def clock(self) -> float:
        return time.monotonic()


class Held:
    """One query of an app that is held, as its planner sees it."""

    def __init__(self, directory: Path, query: str, checkpoint: Path) -> None:
        self._clock = directory / CLOCK
        self._let_go = directory / f"{LET_GO}{query}"
        self._planned = checkpoint / "offsets" / "0"

    def is_let_go(self) -> bool:
        while not self._let_go.exists():
            if self._planned.exists() or not self._let_go.parent.exists():  # the test is over
                return False
            time.sleep(LOOK_EVERY)
        return True

    def clock(self) -> float:
        with suppress(FileNotFoundError):  # nothing has passed yet
            return int(self._clock.read_text()) / 1000
        return 0.0


class Holder:
    """The hand that holds: a test's."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._passed = 0

    def pass_time(self, milliseconds: int) -> None:
        self._passed += milliseconds
        written = self.directory / f"{CLOCK}.new"
        written.write_text(str(self._passed))
        written.replace(self.directory / CLOCK)

    def let_go(self, query: str) -> None:
        (self.directory / f"{LET_GO}{query}").touch()

    def hold(self, query: str) -> None:
        """A batch that is being planned at this moment is not stopped by it."""
        (self.directory / f"{LET_GO}{query}").unlink(missing_ok=True)


FREE = Free()


def hold_of(directory: str, query: str, checkpoint: Path) -> Hold:
    """`directory` is empty where nobody holds the app. The checkpoint is the query's."""
    return Held(Path(directory), query, checkpoint) if directory else FREE
