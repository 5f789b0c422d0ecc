"""Where is kept what is made once for all that run on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "runnel"
