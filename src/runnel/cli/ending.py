"""How SIGTERM and Ctrl-C end a program that runs an app.

The first lets the batches under way finish; while nothing runs yet, it ends the start. The second does not wait any
longer: a batch that is cut off takes no effect, and is repeated by the next run.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

SIGNALS = (signal.SIGTERM, signal.SIGINT)
BY_SIGNAL = 128  # an exit code is this and the number of the signal


class Asked(SystemExit):
    """By a signal, while nothing ran yet."""


class Ending:
    """The first signal raises SystemExit where the program is, until there is something that can be called instead."""

    def __init__(self, *, is_whole: bool) -> None:
        """Whether to be ended is an end as good as any: then the exit code is 0."""
        self._is_whole = is_whole
        self._stop: Callable[[], object] | None = None
        self._asked: int | None = None

    @property
    def is_asked(self) -> bool:
        return self._asked is not None

    @property
    def code(self) -> int:
        return 0 if self._asked is None or self._is_whole else BY_SIGNAL + self._asked

    def ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._asked is not None:
            os._exit(BY_SIGNAL + number)
        self._asked = number
        if self._stop is None:
            raise Asked(self.code)
        self._stop()

    def call(self, stop: Callable[[], object]) -> None:
        """This, from now on; and at once, if somebody has asked before and the program came here all the same: where
        Python calls something of its own accord, as to collect garbage or to fork, SystemExit ends nothing.
        """
        self._stop = stop
        if self._asked is not None:
            stop()


@contextmanager
def ending(*, is_whole: bool) -> Iterator[Ending]:
    """Signals are taken inside of the block, and behind it if one came: the program ends then, and a second one does
    not wait for what is still to be done. To be entered by the main thread.
    """
    asked = Ending(is_whole=is_whole)
    told = sys.unraisablehook

    def tell(raised: UnraisableHookArgs) -> None:
        if not isinstance(raised.exc_value, Asked):
            told(raised)

    kept = {number: signal.signal(number, asked.ask) for number in SIGNALS}
    sys.unraisablehook = tell
    try:
        yield asked
    finally:
        sys.unraisablehook = told
        if not asked.is_asked:
            for number, handler in kept.items():
                signal.signal(number, handler)


def end_at_once() -> None:
    """SIGTERM and Ctrl-C end a start with exit code 0, whatever it is at, until something else takes them. For what
    keeps its promises also if it is killed: it has begun nothing yet that would have to be finished.
    """
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(0))


class Stoppable(Protocol):
    def stop(self) -> object: ...


@contextmanager
def stopped_by_signals(reading: Stoppable) -> Iterator[list[int]]:
    """Let Ctrl-C and SIGTERM end it after what it is at, so that it is known what was printed; gives what came.

    A second Ctrl-C interrupts whatever it is at.
    """
    caught: list[int] = []

    def end(number: int, _frame: object) -> None:
        caught.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        reading.stop()

    before = {number: signal.signal(number, end) for number in SIGNALS}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
