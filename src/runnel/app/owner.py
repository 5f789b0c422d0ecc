"""Who has a directory: the lock in it tells, which its owner holds as long as it lives."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

LOCK = "lock"  # in the data directory of an app


def owner_of(lock: Path) -> str | None:
    """The process that has the directory; None if nobody does."""
    with suppress(FileNotFoundError, NotADirectoryError):
        descriptor = os.open(lock, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "of another"
        finally:
            os.close(descriptor)
    return None
