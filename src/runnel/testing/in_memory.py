"""Where the files of a test lie: in memory, where there is a file system for that. They are thrown away with the test,
and a disk would be waited for at each sync.
"""

from __future__ import annotations

import os
import shutil

MEMORY = "/dev/shm"  # of Linux
ROOM = 2**30  # bytes; a container has 64 MiB there if nobody asked for more
CHOSEN = ("TMPDIR", "TEMP", "TMP")  # where somebody wants temporary files to be


def memory_for_files(memory: str = MEMORY) -> str | None:
    """A directory; None where there is none with room, or another was chosen: then it is the usual one."""
    if any(os.environ.get(name) for name in CHOSEN):
        return None
    try:
        has_room = shutil.disk_usage(memory).free >= ROOM
    except OSError:
        return None
    return memory if has_room and os.access(memory, os.W_OK | os.X_OK) else None
