"""Gives the space of large files back in small pieces.

When the last name and the last holder of a file are gone, the file system frees its blocks in one go, and whoever syncs
something else meanwhile waits for that: 30 ms for 128 MiB on ext4. So such a file is made shorter bit by bit, in a
thread of its own, before it is let go.

Only a file without a name, which nobody else has open, may be made shorter. That is known by asking for a lease on it:
the system refuses one to whoever is not alone, in this process or in another. Where there are no leases, files are
freed as ever.
"""

from __future__ import annotations

import _thread
import fcntl
import os
import queue
import threading
import time
from collections.abc import Callable

LARGE = 8 * 1024 * 1024
PIECE = 2 * 1024 * 1024
SECONDS_BETWEEN = 0.005  # 400 MiB a second


class Freeing:
    """The thread is there while there is something to free, and a while longer."""

    def __init__(self, pause: Callable[[float], object] = time.sleep, patience: float = 1.0) -> None:
        self._pause = pause
        self._patience = patience
        self._waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._process: int | None = None  # whose thread is there: one that is forked has none

    def let_go(self, descriptor: int) -> None:
        """Close it: now, or later if it is the last hold of a large file that was removed."""
        if not _is_last_of_large(descriptor) or not self._leave(descriptor):
            os.close(descriptor)

    def _leave(self, descriptor: int) -> bool:
        # Called when an object is forgotten, which may be in the midst of this very function, of `threading`, or of the
        # interpreter's end: it must not wait for anything, as `Thread.start` does for the thread.
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._process != os.getpid():
                _thread.start_new_thread(self._free, ())
                self._process = os.getpid()
            self._waiting.put(descriptor)
        except RuntimeError:  # the interpreter is ending
            return False
        finally:
            self._lock.release()
        return True

    def _free(self) -> None:
        while True:
            try:
                descriptor = self._waiting.get(timeout=self._patience)
            except queue.Empty:
                with self._lock:
                    if self._waiting.empty():
                        self._process = None
                        return
                continue
            try:
                shorten(descriptor, self._pause)
            finally:
                os.close(descriptor)


def shorten(descriptor: int, pause: Callable[[float], object]) -> None:
    """To nothing, piece by piece. If the disk refuses, the rest is freed when it is closed."""
    try:
        size = os.fstat(descriptor).st_size
        while size > PIECE:
            size -= PIECE
            os.ftruncate(descriptor, size)
            pause(SECONDS_BETWEEN)
    except OSError:
        pass


def _is_last_of_large(descriptor: int) -> bool:
    facts = os.fstat(descriptor)
    return facts.st_nlink == 0 and facts.st_size >= LARGE and _is_alone(descriptor)


def _is_alone(descriptor: int) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except (OSError, AttributeError):  # somebody else has it open; there are no leases
        return False
    return True


FREEING = Freeing()
