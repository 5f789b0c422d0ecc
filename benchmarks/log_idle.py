"""Prints how many bytes an idle partition takes: python -m benchmarks.log_idle LOG COUNT MEASURE.

A process of its own for each measurement, because memory that was used once is seldom given back.
"""

import gc
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from benchmarks.log_batches import TOPIC
from runnel.log import open_log


def resident() -> int:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def allocated() -> int:
    """What Python's objects take."""
    return tracemalloc.get_traced_memory()[0]


MEASURES: dict[str, Callable[[], int]] = {"resident": resident, "Python objects": allocated}


def bytes_per_partition(path: str, count: int, measure: str) -> float:
    """The growth from the first partition to the last one, so that what all share is not counted."""
    if MEASURES[measure] is allocated:
        tracemalloc.start()
    with open_log(path, background=False) as log:
        partitions = [log.partition(TOPIC, 0)]
        gc.collect()
        before = MEASURES[measure]()
        partitions += [log.partition(TOPIC, number) for number in range(1, count)]
        gc.collect()
        return (MEASURES[measure]() - before) / (count - 1)


if __name__ == "__main__":
    print(bytes_per_partition(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
