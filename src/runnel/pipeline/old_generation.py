"""Has Java collect what it takes for long-lived, before there is much more of it.

Each batch leaves some: the classes that Spark writes for its watermark, and what holds them. By itself Java looks at
them when its heap has to grow, which is after a quarter of an hour of small batches: until then it touches more and
more memory, and keeps each of those classes with the code that was compiled for it.

    old = OldGeneration(spark)
    old.look()  # every few seconds
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

MEGABYTE = 1024 * 1024
GROWN = 8 * MEGABYTE
PAUSE = 60.0  # seconds at least between two collections: under load it is Java that knows when it needs memory
# All stands still while it is collected: two tenths of a second for 100 MB. Who keeps more in the heap, such as tables
# of his own, would wait too long.
MOST = 256 * MEGABYTE


class OldGeneration:
    def __init__(self, spark: SparkSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._java: Any = spark._jvm
        self._clock = clock
        self._asked = clock()  # it is grown by all that a start makes, so not at once
        self._pools = [pool for pool in self._beans().getMemoryPoolMXBeans() if _is_old(pool)]

    def look(self) -> None:
        if self._clock() - self._asked >= PAUSE and self._has_grown():
            self._asked = self._clock()
            self._java.java.lang.System.gc()

    def _has_grown(self) -> bool:
        used = sum(int(pool.getUsage().getUsed()) for pool in self._pools)
        left = sum(int(pool.getCollectionUsage().getUsed()) for pool in self._pools)
        return used <= MOST and used - left >= GROWN

    def _beans(self) -> Any:
        return self._java.java.lang.management.ManagementFactory


def _is_old(pool: Any) -> bool:
    """Java collects what is in it and can tell when it has too much: not so the places of what is new, nor of code."""
    return bool(pool.isUsageThresholdSupported()) and pool.getCollectionUsage() is not None
