"""What a fork needs: locks that are free in the new process, moments in which no process is forked, and what the new
one must not have.

Of the threads of its parent a forked process has the one that forked it. A lock that another thread had would be held
there for ever. And SQLite counts its locks on a file for each process: who is forked beside an open connection believes
that it has the locks which only its parent has. In the middle of a read its reads would be torn by whoever writes; and
at any time the files that it reads could be taken away from below it, and it would see the same for ever.

    with whole():  # another thread that forks waits until this is done
        ...
    never_forked(connection)  # is let go of before a fork, outside of any `whole` but the forking thread's own
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Held(Protocol):
    def let_go(self) -> None:
        """A process is about to be forked: this one takes it again when it needs it."""
        ...


class OwnLock:
    """A lock of one process. What it guards has to be fit for a fork: such as connections that are made anew."""

    __slots__ = ("__weakref__", "_lock", "_owner")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        _locks.add(self)

    def acquire(self) -> None:
        self._lock.acquire()
        self._owner = threading.get_ident()

    def acquire_if_free(self) -> bool:
        """Without waiting, as the handler of a signal must: the thread that it interrupts may have the lock."""
        is_acquired = self._lock.acquire(blocking=False)
        if is_acquired:
            self._owner = threading.get_ident()
        return is_acquired

    def release(self) -> None:
        self._owner = None
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def free(self) -> None:
        """In a forked process, unless it is its own thread that has it."""
        if self._owner != threading.get_ident():
            self._lock, self._owner = threading.Lock(), None


_locks: weakref.WeakSet[OwnLock] = weakref.WeakSet()
_gate = threading.Condition()
_inside: dict[int, int] = {}  # how deep each thread is in `whole`
_forking: set[int] = set()  # threads that are about to
_held: weakref.WeakSet[Held] = weakref.WeakSet()


def never_forked(held: Held) -> None:
    _held.add(held)


@contextmanager
def whole() -> Iterator[None]:
    me = threading.get_ident()
    with _gate:
        # Whoever forks may come here as well, by what is forgotten meanwhile: it would wait for itself.
        while _forking and me not in _forking and me not in _inside:
            _gate.wait()
        _inside[me] = _inside.get(me, 0) + 1
    try:
        yield
    finally:
        with _gate:
            _inside[me] -= 1
            if not _inside[me]:
                del _inside[me]
                _gate.notify_all()


def _before() -> None:
    me = threading.get_ident()
    _gate.acquire()  # until the fork is done: nobody begins meanwhile
    _forking.add(me)
    while len(_inside) > (me in _inside):
        _gate.wait()
    for held in tuple(_held):
        held.let_go()


def _after_in_parent() -> None:
    _forking.discard(threading.get_ident())
    _gate.notify_all()
    _gate.release()


def _after_in_child() -> None:
    global _forking, _gate, _inside
    _forking, _gate = set(), threading.Condition()
    me = threading.get_ident()
    # Python forks also where an interrupt ended the wait for the other threads, which are not there any more.
    _inside = {me: _inside[me]} if me in _inside else {}
    for lock in _locks:
        lock.free()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
