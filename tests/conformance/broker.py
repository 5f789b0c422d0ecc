"""Our broker in a process of its own, for suites that only need an address."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop.kafka_server import DEFAULTS, stop

READY = "listening on "
START_LIMIT = 60.0
RUNNEL = Path(sys.executable).with_name("runnel")


class BrokerFailed(Exception):
    """Our broker did not start, or ended by itself; the message says what it printed."""


@dataclass(frozen=True)
class RunningBroker:
    """A broker that answers."""

    bootstrap: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Complain if it is gone."""
        if self.process.poll() is not None:
            raise BrokerFailed(f"the broker ended with {self.process.returncode}:\n{self.log.read_text()[-4000:]}")


@contextmanager
def our_broker(directory: Path, settings: Mapping[str, str]) -> Iterator[RunningBroker]:
    """Run our broker with the settings that Apache Kafka gets for the same tests."""
    directory.mkdir(parents=True, exist_ok=True)
    command = [str(RUNNEL), "broker", "start", "--data", str(directory / "data"), "--listen", "127.0.0.1:0"]
    advertised = {"advertised.listeners": "PLAINTEXT://127.0.0.1:0"}  # Kafka's has it too; 0 is the port that was taken
    for name, value in (DEFAULTS | advertised | dict(settings)).items():
        command += ["--set", f"{name}={value}"]
    log = directory / "broker.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    assert process.stdout is not None
    try:
        yield RunningBroker(read_address(process, log), process, log)
    finally:
        stop(process)
        process.stdout.close()


def read_address(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.stdout is not None
    # One that never gets ready is ended, which ends its output and so the loop.
    limit = threading.Timer(START_LIMIT, process.kill)
    limit.start()
    try:
        for line in process.stdout:
            text = line.decode().strip()
            if text.startswith(READY):
                return text.removeprefix(READY)
    finally:
        limit.cancel()
    process.wait()
    raise BrokerFailed(f"the broker ended with {process.returncode} before it was ready:\n{log.read_text()[-4000:]}")
