"""The process that compacts: `python -m runnel.log.compaction.worker`. The log starts it; it is of no use by hand.

It reads its job as one line from the standard input and writes its answers as lines to the standard output. It has the
lowest priority, and it ends when the standard input does: a log that dies takes its worker along.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TextIO

from runnel.files import DISK
from runnel.log.compaction.cleaning import clean
from runnel.log.compaction.job import Job, answer_to_json
from runnel.log.compaction.pace import Pace

LOWEST = 19
ORPHANED = 3


def main() -> None:
    _stand_back()
    job = Job.from_json(sys.stdin.readline())
    threading.Thread(target=_end_with, args=[sys.stdin], daemon=True).start()
    for answer in clean(job, DISK, Pace(job.cpu_percent)):
        print(answer_to_json(answer), flush=True)


def _stand_back() -> None:
    """Whoever else wants the processor gets it, at once where the system knows such a policy."""
    os.nice(LOWEST)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):  # a container may forbid it
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _end_with(owner: TextIO) -> None:
    owner.read()
    os._exit(ORPHANED)


if __name__ == "__main__":
    main()
