"""Spares a worker of Spark's most of its garbage collection.

A worker collects all garbage after each task, and looks at every object of every imported module for that: 35 ms, which
is more than a small task takes. What is there after the first task, mostly modules, is not looked at any more.
"""

from __future__ import annotations

import gc

_done = False


def set_aside() -> None:
    """Once for each process."""
    global _done
    if not _done:
        _done = True
        gc.freeze()
