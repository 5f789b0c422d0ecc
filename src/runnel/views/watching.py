"""Watches a view: first what is there, then every change, in whole batches.

A watcher is told steps. The first one is the view as it is, each row an insert, unless the watcher goes on from a
position; what it knew before counts no more then. Every other step has the changes of one or more whole batches of the
view. Whoever has dealt with a step keeps its position, and goes on from there in another process, at another time:
nothing is left out and nothing is told twice, whatever became of the reader, the writer or the store in between.

With a filter, the steps tell of the rows that fit it: one that comes to fit it is inserted, one that ceases to is
deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from runnel.errors import Transient
from runnel.forking import OwnLock
from runnel.stop_request import StopRequest
from runnel.views.changes import INSERT, Change, Changes
from runnel.views.errors import InvalidPosition, PositionOutOfRange, ViewReplaced
from runnel.views.store import Snapshot, ViewReader, Where

logger = logging.getLogger(__name__)

ROWS = 10_000  # of the change log in a step, about
INTERVAL = 0.05  # seconds between two looks
PATIENCE = 60.0  # seconds that a store which is away is waited for
LONGEST_PAUSE = 2.0
AT = "@"
DIGITS = 19  # of a number of 64 bits

Answer = TypeVar("Answer")


class Position(NamedTuple):
    """A place in a change log, and which one: a view that is made anew has another. Before the first batch none is
    named: who knows of nothing yet goes on with any.
    """

    number: int
    log: str

    def __str__(self) -> str:
        return f"{self.number}{AT}{self.log}"

    @classmethod
    def parse(cls, text: object, view: str) -> Position:
        number, at, log = text.partition(AT) if isinstance(text, str) else ("", "", "")
        if not at or not (number.isascii() and number.isdigit() and len(number) <= DIGITS):
            raise InvalidPosition(view, text)
        return cls(int(number), log)


@dataclass(frozen=True)
class Step:
    """What a watcher is told at once. `position` is where it goes on when it has dealt with all of it."""

    changes: tuple[Change, ...]
    position: str
    is_snapshot: bool = False

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def after(self, change: Change) -> str | None:
        """Where to go on for who has dealt with the changes up to this one; None inside of a snapshot."""
        if change is self.changes[-1]:
            return self.position
        if self.is_snapshot:
            return None
        return f"{change.position + 1}{AT}{self.position.partition(AT)[2]}"


class Watch:
    """An iterator over the steps, with a connection of its own. It ends when it is stopped, or when nothing has changed
    for `timeout` seconds.
    """

    def __init__(
        self,
        connect: Callable[[], ViewReader],
        view: str,
        *,
        where: Where = (),
        from_position: str | None = None,
        timeout: float | None = None,
        interval: float = INTERVAL,
    ) -> None:
        self._view = view
        self._where = where
        self._at = None if from_position is None else Position.parse(from_position, view)
        self._timeout = timeout
        self._interval = interval
        self._stopping = StopRequest()
        self._looking = OwnLock()
        self._reader = connect()

    @property
    def position(self) -> str | None:
        """Up to where all has been told, also where nothing of it fitted the filter."""
        return None if self._at is None else str(self._at)

    def stop(self) -> None:
        """End after the step that was told last. May be called from any thread, and from a signal's handler."""
        self._stopping.set()

    def close(self) -> None:
        """The same, and let go of the connection: at once, or when the look of another thread is done with it."""
        self.stop()
        self._let_go()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Step:
        quiet_since = time.monotonic()
        while not self._stopping.is_set():
            try:
                with self._looking:
                    step, has_moved = self._look()
            finally:
                if self._stopping.is_set():  # and perhaps closed, by one who did not wait for this look
                    self._let_go()
            if step is not None:
                return step
            if has_moved:
                continue
            waited = time.monotonic() - quiet_since
            if self._timeout is not None and waited >= self._timeout:
                break
            left = self._interval if self._timeout is None else min(self._interval, self._timeout - waited)
            self._stopping.wait(left)
        self.close()
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self._reader.close()

    # --- inside

    def _let_go(self) -> None:
        if self._looking.acquire_if_free():
            try:
                self._reader.close()
            finally:
                self._looking.release()

    def _look(self) -> tuple[Step | None, bool]:
        """The next step, if there is one, and whether the position has moved on."""
        if self._at is None:
            return self._first(self._patiently(lambda: self._reader.snapshot(self._where))), True
        at = self._at
        found = self._patiently(lambda: self._changes(at))
        self._at = Position(found.next_position, found.log)
        changes = tuple(found)
        return Step(changes, str(self._at)) if changes else None, self._at.number > at.number

    def _changes(self, at: Position) -> Changes:
        try:
            found = self._reader.changes(at.number, about=ROWS, where=self._where)
        except PositionOutOfRange as error:
            self._check(at, self._reader.progress().log, error)
            raise
        self._check(at, found.log)
        return found

    def _check(self, at: Position, log: str, error: PositionOutOfRange | None = None) -> None:
        if at.log and log != at.log:
            raise ViewReplaced(self._view, str(at)) from error

    def _first(self, found: Snapshot) -> Step:
        last = found.next_position - 1
        changes = tuple(
            Change(last, INSERT, {name: row[name] for name in found.key}, None, row) for row in found.rows.to_pylist()
        )
        self._at = Position(found.next_position, found.log)
        return Step(changes, str(self._at), is_snapshot=True)

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        """The answer of the store, which may be away for a while. A stop raises what is wrong with it."""
        first = pause = max(self._interval, INTERVAL)
        since = time.monotonic()
        while True:
            try:
                return ask()
            except Transient as error:
                if time.monotonic() - since > PATIENCE or self._stopping.wait(pause):
                    raise
                if pause == first:
                    logger.warning("the watcher of %s waits, and goes on by itself: %s", self._view, error)
                pause = min(2 * pause, LONGEST_PAUSE)
