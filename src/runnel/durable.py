"""The places where a process may die: every step whose effect outlives the process has a name.

    with durable("view.commit"):
        connection.commit()

costs nothing in daily use. A test dies there by choice: with `RUNNEL_DIE_AT=view.commit:before:3` in its environment
the process kills itself just before it does the step for the third time, with `after` when it has just done it. So no
step can be added whose interruption nobody has tried: a test compares the names in the source with those of the tests.

`RUNNEL_DIE_AT=/a/directory` is for processes that are there already, such as Spark's workers: whoever comes to a place
takes a file away that has the name of the place, `view.commit:before:1` first, `view.commit:before:2` next. A file that
is not empty holds the number of a signal, which the one who took it sends to itself.

A test that must go on living does it inside of `watched`: there a place is told to whoever watches, who may raise.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

VARIABLE = "RUNNEL_DIE_AT"

_reached: Counter[str] = Counter()
_watching: Callable[[str], object] | None = None


@contextmanager
def durable(name: str) -> Iterator[None]:
    _reach(name, "before")
    yield
    _reach(name, "after")


@contextmanager
def watched(by: Callable[[str], object]) -> Iterator[None]:
    """`by` is called with each place that this process comes to, such as `view.commit:before`. If it raises, the step
    is not done (`before`), or nobody knows that it is done (`after`): as when the process dies there.
    """
    global _watching  # a place is reached in threads of Spark's, which inherit nothing of ours
    outer, _watching = _watching, by
    try:
        yield
    finally:
        _watching = outer


def _reach(name: str, side: str) -> None:
    if _watching is not None:
        _watching(f"{name}:{side}")
    chosen = os.environ.get(VARIABLE)
    if not chosen:
        return
    place = f"{name}:{side}"
    if os.path.isabs(chosen):
        _take(chosen, place)
        return
    _reached[place] += 1
    if chosen == f"{place}:{_reached[place]}":
        os.kill(os.getpid(), signal.SIGKILL)


def _take(directory: str, place: str) -> None:
    for name in sorted(os.listdir(directory)):
        if name.rpartition(":")[0] != place:
            continue
        path = os.path.join(directory, name)
        try:
            with open(path) as file:
                told = file.read()
            os.unlink(path)
        except FileNotFoundError:
            continue  # another process was quicker
        if told:
            # To this very thread, which goes on for a while if another one takes a signal to the process.
            signal.pthread_kill(threading.get_ident(), int(told))
        return
