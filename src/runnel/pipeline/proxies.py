"""Lets go of Java's objects that Python needs no more.

Py4J's proxy of an object and those of its methods hold each other, so only Python's collector finds out that nobody
needs them. Until then Java keeps what they stand for: all of a batch, with what Spark has sent to its tasks. By itself
the collector looks at objects of some age once a quarter of all are new, which is minutes for a process that has
imported Spark; by then Java, too, takes them for long-lived.
"""

from __future__ import annotations

import gc

EVERY = 5.0  # seconds


class Proxies:
    """Those of a process that is there for an app."""

    def __init__(self) -> None:
        self._is_calm = False

    def let_go(self) -> None:
        """Milliseconds from the second time on: what was there the first time, such as modules, is not looked at."""
        gc.collect()
        if not self._is_calm:
            self._is_calm = True
            gc.freeze()
