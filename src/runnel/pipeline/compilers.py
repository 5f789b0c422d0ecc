"""Lets Java's second compiler wait for the batches, and not the batches for it.

Java compiles for minutes, method after method, the best code for what is called often. Until then there is code of the
first compiler, which does. On few processors the second one takes its time from the batches: a row waited up to twice
as long, in the first two minutes of an app. So its threads get what is left over.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

SECOND = "C2 CompilerThre"  # as the kernel tells the names of its threads
POLITENESS = 10  # as of `nice`


def let_batches_go_first(java: int) -> None:
    """By the number of its process. Nothing depends on it: elsewhere than on Linux, threads have no such number."""
    if sys.platform != "linux":
        return
    for thread in Path("/proc").glob(f"{java}/task/*"):
        with suppress(OSError):  # others end at any time
            if (thread / "comm").read_text().strip() == SECOND:
                os.setpriority(os.PRIO_PROCESS, int(thread.name), POLITENESS)
