"""One Java for many drivers: Spark is started once, and every run of the app is a process that is forked and joins it.

    with engine(directory) as spark:
        spark.run(life)                                     # until all is read
        spark.die(life, "publish.commit:after:1")           # until it has died there

Spark goes through the few rows of a batch without writing Java for its plans first: what dies here is Python.

What is not covered: Java's own death, and that of the machine. Runs whose
Java dies with them are in test_faults and test_shop.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from runnel.durable import VARIABLE
from tests.pipeline.crash_driver import Java, Life, live

FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(["tests.pipeline.crash_driver"])
LIMIT = 600.0  # for a broken test, as that of `waiting`
HOST = """
import json, sys
from runnel.pipeline.session import spark_session
from runnel.testing.spark import SETTINGS
spark = spark_session("crash", master="local[2]", settings=SETTINGS, brief=True)
java = spark.sparkContext._gateway.gateway_parameters
print(json.dumps([java.port, java.auth_token, spark.sparkContext.pythonExec]), flush=True)
sys.stdin.read()
spark.stop()
"""


class Engine:
    def __init__(self, java: Java, directory: Path) -> None:
        self._java = java
        self._deaths = directory / "deaths"
        self._log = directory / "log"
        self._running: list[BaseProcess] = []

    def run(self, life: Life) -> None:
        """Until all is read, or the AssertionError says why not."""
        running = self.start(life)
        running.join(LIMIT)
        assert running.exitcode == 0, f"the run ended with {running.exitcode}:\n{self.log()}"

    def fail(self, life: Life) -> str:
        """Until it says that it cannot go on; what it says."""
        running = self.start(life)
        running.join(LIMIT)
        assert running.exitcode == 1, f"the run ended with {running.exitcode}:\n{self.log()}"
        return self.log()

    def die(self, life: Life, *points: str) -> None:
        """Until it has died at all of them. Several of Spark's processes may die in one run: the driver gets over it,
        as long as it thinks that this makes sense.
        """
        running = self.start(life, *points)
        running.join(LIMIT)
        assert running.exitcode is not None, f"it did not come to {points}, and not to an end:\n{self.log()}"
        left = os.listdir(self._deaths)
        assert not left, f"it ended with {running.exitcode} before {left}:\n{self.log()}"

    def pause(self, life: Life, point: str) -> BaseProcess:
        """Until it is there; then it stands still, as on a machine that sleeps. SIGCONT lets it go on."""
        running = self.start(life, point, by=signal.SIGSTOP)
        wait_until(lambda: running.exitcode is not None or _state(running) == "T", f"{point}:\n{self.log()}")
        assert running.exitcode is None, f"it ended with {running.exitcode}, and not at {point}:\n{self.log()}"
        return running

    def start(self, life: Life, *points: str, by: signal.Signals = signal.SIGKILL) -> BaseProcess:
        """A point is a place and which time, such as publish.commit:after:2."""
        self.kill()
        for left in self._deaths.iterdir():
            left.unlink()
        for point in points:
            self.put(point, by)
        running = FORKS.Process(target=live, args=(life, self._java, self._deaths, self._log), daemon=True)
        running.start()
        self._running.append(running)
        return running

    def kill(self) -> None:
        """Whoever still runs, or stands still."""
        for running in self._running:
            running.kill()
            running.join()
        self._running.clear()

    def put(self, point: str, by: signal.Signals = signal.SIGKILL) -> None:
        place, _, count = point.rpartition(":")
        for number in range(1, int(count)):
            (self._deaths / f"{place}:{number}").touch()
        (self._deaths / point).write_text(str(int(by)))

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""


@contextmanager
def engine(directory: Path) -> Iterator[Engine]:
    (directory / "deaths").mkdir(parents=True)
    environment = os.environ | {VARIABLE: str(directory / "deaths")}
    with (directory / "log").open("a") as log:
        command = [sys.executable, "-c", HOST]
        host = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    with host:
        assert host.stdout is not None
        line = host.stdout.readline()
        assert line, f"Spark did not start:\n{(directory / 'log').read_text()}"
        spark = Engine(Java(*json.loads(line)), directory)
        try:
            yield spark
        finally:
            spark.kill()
            host.communicate()


def wait_until(condition, what: str) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"not in {LIMIT:.0f} s: {what}"
        time.sleep(0.02)


def _state(process: BaseProcess) -> str:
    """As Linux tells it: T is one that was stopped."""
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
    except FileNotFoundError:
        return ""
    return stat.rpartition(")")[2].split()[0]
