"""The Java process of a session: how it starts, whether it lives, and what its start may not change."""

from __future__ import annotations

import atexit
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark import SparkContext
from pyspark.core import context
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from runnel.pipeline import start_script
from runnel.pipeline.errors import SparkEnded
from runnel.pipeline.start_script import Start

LOOK_EVERY = 0.02  # seconds
# Where Java writes how to reach it, and how PySpark is told to reach one that is there.
WHERE, PORT, SECRET = "_PYSPARK_DRIVER_CONN_INFO_PATH", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


class StartingJava:
    """A Java on its way, as PySpark starts it, without waiting for it.

    In a group of its own: a signal to ours, as a terminal, `timeout` and many supervisors send it, is for us alone, who
    finish the batch first. When we are gone, its standard input ends, and so does it.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._asked = _asked(settings)
        self._kept = start_script.kept_for(self._asked)
        command, environment = self._kept or self._asked
        self._directory = tempfile.TemporaryDirectory(prefix="runnel-java-")
        self._info = Path(self._directory.name, "reached-by")
        self.process = subprocess.Popen(
            command,
            env={**environment, "SPARK_CONNECT_MODE": "0", WHERE: str(self._info)},
            stdin=subprocess.PIPE,
            process_group=0,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # as PySpark does it
        )
        atexit.register(self.end)

    def fits(self, settings: Mapping[str, str]) -> bool:
        """Whether it is the one that would be started now."""
        return self._asked == _asked(settings)

    def gateway(self) -> Any:
        """The way to it, when it is there. PySpark's own error if it ends instead."""
        try:
            while self.process.poll() is None and not self._info.exists():
                time.sleep(LOOK_EVERY)
            if not self._info.exists():
                start_script.forget(self._asked)
                raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
            with self._info.open("rb") as info:
                port: int = read_int(info)  # type: ignore[no-untyped-call]
                secret: str = UTF8Deserializer().loads(info)  # type: ignore[no-untyped-call]
        except BaseException:
            self.end()
            raise
        self._clean_up()
        if self._kept is None:
            start_script.keep(self._asked, self.process.pid)
        os.environ |= {PORT: str(port), SECRET: secret}
        try:
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ[PORT], os.environ[SECRET]
        gateway.proc = self.process
        return gateway

    def end(self) -> None:
        """With the processes of the script that starts it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        self._clean_up()

    def _clean_up(self) -> None:
        self._directory.cleanup()
        atexit.unregister(self.end)


_ahead: list[StartingJava] = []  # at most one


def start_ahead(settings: Mapping[str, str]) -> None:
    """Let one start now, for whoever asks for it next with the same settings and in the same environment."""
    if SparkContext._gateway is None and PORT not in os.environ and not _ahead:
        with suppress(OSError):
            _ahead.append(StartingJava(settings))


def start_java(settings: Mapping[str, str]) -> None:
    """Unless there is one."""
    if SparkContext._gateway is not None:
        return
    if PORT in os.environ:
        SparkContext._ensure_initialized()
        return
    starting = _ahead.pop() if _ahead else None
    if starting is not None and not starting.fits(settings):
        starting.end()
        starting = None
    SparkContext._ensure_initialized(gateway=(starting or StartingJava(settings)).gateway())


def _asked(settings: Mapping[str, str]) -> Start:
    """The script of Spark's."""
    chosen = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    arguments = shlex.split(os.environ.get(start_script.ARGUMENTS, "pyspark-shell"))
    return Start([f"{os.environ['SPARK_HOME']}/bin/spark-submit", *chosen, *arguments], dict(os.environ))


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
    """PySpark would set a handler of its own for Ctrl-C, which asks Java to cancel all jobs, also while an answer of
    Java's is being read: the one that is there stays.
    """
    handled = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: None)
    context.signal = handled  # type: ignore[attr-defined, assignment]
    try:
        yield
    finally:
        context.signal = signal  # type: ignore[attr-defined]
