"""Our broker in a process of its own: it can be killed, stopped and started again, and its memory can be watched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.ports import HOST, free_port

READY = "listening on "
START_LIMIT = 60.0
STOP_LIMIT = 60.0
DEFAULTS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}


class BrokerProcess:
    """Use it with `with`. Each start is at the same port."""

    def __init__(self, directory: Path, settings: Mapping[str, str | int] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.data = directory / "data"
        self.log = directory / "broker.log"
        self.address = (HOST, free_port())
        self._settings = DEFAULTS | {name: str(value) for name, value in (settings or {}).items()}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the broker is not running"
        return self._process

    def start(self) -> None:
        command = [sys.executable, "-c", "from runnel.cli import main; main()", "broker", "start"]
        command += ["--data", str(self.data), "--listen", self.bootstrap]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        with self.log.open("ab") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        self.address = (self.address[0], self._read_port())

    def _read_port(self) -> int:
        output = self.process.stdout
        assert output is not None
        limit = threading.Timer(START_LIMIT, self.process.kill)  # the end of the process ends the loop
        limit.start()
        try:
            for line in output:
                if line.startswith(READY.encode()):
                    return int(line.decode().strip().rpartition(":")[2])
        finally:
            limit.cancel()
        code = self.process.wait()
        raise AssertionError(f"the broker ended with {code} before it was ready:\n{self.log.read_text()[-4000:]}")

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """Stop it in good order; the answer is its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process = self.process
        process.send_signal(number)
        try:
            code = process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the broker still ran {STOP_LIMIT} s after {number.name}") from None
        finally:
            assert process.stdout is not None
            process.stdout.close()
            self._process = None
        return code

    # --- looking at it

    def check(self) -> None:
        """It runs, and none of its own code failed."""
        code = self.process.poll()
        assert code is None, f"the broker ended with {code}:\n{self.log.read_text()[-4000:]}"
        said = self.log.read_text()
        at = said.find("Traceback")
        assert at < 0, (
            f"{said.count('Traceback')} errors in the broker's log; the first:\n{said[max(0, at - 500) : at + 3000]}"
        )

    def resident_mib(self) -> int:
        """Its memory now."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) // 1024
        raise AssertionError("the system does not tell the memory of a process")

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def wait_until(holds: Callable[[], object], what: str | Callable[[], str], limit: float = 60.0) -> None:
    """`what` says what does not hold when the time is over."""
    deadline = time.monotonic() + limit
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {limit} s still not: {what if isinstance(what, str) else what()}")
        time.sleep(0.01)
