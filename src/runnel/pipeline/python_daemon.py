"""Spark's Python daemon, as `python -m`: a worker that nobody waits for any more ends in silence.

Its task was cancelled, or there was none for a minute. Spark's own daemon prints the traceback of the last write, in
the midst of what matters. For the processes that plan, Spark always takes its own: they `hush` themselves.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from pyspark import daemon

Worker = Callable[[socket.socket, bool], int]


def quiet(worker: Worker) -> Worker:
    def quiet_worker(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return quiet_worker


def hush() -> None:
    """Let this process end in silence, if Spark's daemon has forked it. It calls its worker again for each task."""
    main: Any = sys.modules["__main__"]
    if _is_daemon(main) and main.worker.__name__ != "quiet_worker":
        main.worker = quiet(main.worker)


def _is_daemon(module: ModuleType) -> bool:
    return module.__spec__ is not None and module.__spec__.name == daemon.__name__


if __name__ == "__main__":
    daemon.worker = quiet(daemon.worker)  # type: ignore[assignment]
    daemon.manager()
