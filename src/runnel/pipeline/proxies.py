"""Lets go of Java's objects that Python needs no more.

Py4J's proxy of an object and those of its methods hold each other, so only Python's collector finds out that nobody
needs them. Until then Java keeps what they stand for: all of a batch, with what Spark has sent to its tasks. By itself
the collector looks at objects of some age once a quarter of all are new, which is minutes for a process that has
imported Spark; by then Java, too, takes them for long-lived.
"""

from __future__ import annotations

import gc

EVERY = 2.0  # seconds: what is kept for five, Java takes for long-lived


def look_no_more_at_what_is_there() -> None:
    """Such as modules, so that letting go takes milliseconds. Before any batch: what is there then stays for good."""
    gc.collect()
    gc.freeze()


def let_go() -> None:
    gc.collect()
