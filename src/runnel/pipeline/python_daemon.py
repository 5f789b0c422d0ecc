"""Spark's Python daemon, as `python -m`: a worker that nobody waits for any more ends in silence.

Its task was cancelled, or there was none for a minute. Spark's own daemon prints the traceback of the last write, in
the midst of what matters. For the processes that plan, Spark always takes its own: they `hush` themselves.

Its workers are forks, and need not import anything: `prepare` has done it. A worker ends whenever its function raises,
so that rows on which one does are found in tenths of seconds instead of seconds.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from importlib import import_module
from types import ModuleType
from typing import Any

from pyspark import daemon

Worker = Callable[[socket.socket, bool], int]

# A second of a processor for each worker. They start no thread that a fork would miss: Arrow's allocator, which has one
# of its own, sees to its forks itself.
NEEDED = ("pyspark.worker", "pandas", "runnel.pipeline.source.reader", "runnel.pipeline.view_inputs.source")


def prepare() -> None:
    """Import what workers need, and let each draw its own random numbers all the same: Python's module sees to that by
    itself, NumPy's was seeded when it was imported. What is there now no worker looks at when it collects its garbage.

    Ctrl-C in a terminal is not for this process: Spark's daemon says so as well, but later. On the standard output Java
    is told where to find it, and nothing else may stand there. What cannot be imported, the worker that needs it tells.
    """
    os.setpgid(0, 0)
    with redirect_stdout(sys.stderr), suppress(ImportError):
        for name in NEEDED:
            import_module(name)
        os.register_at_fork(after_in_child=import_module("numpy.random").seed)
    gc.freeze()


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
    if sys.platform == "linux":  # others may not fork once their own libraries are loaded
        prepare()
    daemon.manager()
