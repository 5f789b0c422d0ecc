"""The Java process of a session: whether it lives, and what its start may not change."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from runnel.pipeline.errors import SparkEnded


def ended(spark: SparkSession, *, patience: float = 0.0) -> SparkEnded | None:
    """What to tell if the process is gone; one that is just ending is waited for. None if it lives."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    if process is None:
        return None  # another one started it
    try:
        return SparkEnded(process.wait(patience))
    except subprocess.TimeoutExpired:
        return None


@contextmanager
def own_interrupt() -> Iterator[None]:
    """PySpark has a handler of its own for Ctrl-C, which cancels all jobs: the one that was there stays in place."""
    kept = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, kept)
