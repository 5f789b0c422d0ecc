"""The Java process of a session: whether it lives, and what its start may not change."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from runnel.pipeline.errors import SparkEnded


def start_java(settings: Mapping[str, str]) -> None:
    """Unless there is one. In a group of its own: a signal to ours, as a terminal, `timeout` and many supervisors send
    it, is for us alone, who finish the batch first. When we are gone, its standard input ends, and so does it.
    """
    if SparkContext._gateway is None:
        conf = SparkConf(loadDefaults=False)
        for name, value in settings.items():
            conf.set(name, value)
        gateway = launch_gateway(conf, {"process_group": 0})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


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
