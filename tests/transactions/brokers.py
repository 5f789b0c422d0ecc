"""The broker under test: ours or Apache Kafka, as a process that is killed and started again on the same data.

Both tell clients to connect to the port that is given as `advertised`, where the proxy listens.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from tests.interop.kafka_server import KafkaServer, kafka_server
from tests.ports import free_port

HOST = "127.0.0.1"
READY = b"listening on "
START_LIMIT = 60.0
ROOT = Path(__file__).parents[2]
# Ended transactions and lost brokers are noticed soon, or a test would wait for them most of its time.
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}
APACHE_SETTINGS = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}


class Broker(Protocol):
    address: tuple[str, int]

    def start(self) -> None: ...

    def kill(self) -> None:
        """End it at once, if it runs."""
        ...

    def complaints(self) -> list[str]:
        """What it says of itself that no broker should have to say."""
        ...


class Runnel:
    def __init__(self, directory: Path, advertised: int, settings: Mapping[str, str] = SETTINGS) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.address = (HOST, free_port())
        self._log = directory / "broker.log"
        self._command = ["broker", "start", "--data", str(directory / "data")]
        settings = {
            **settings,
            "listeners": f"PLAINTEXT://{HOST}:{self.address[1]}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{advertised}",
        }
        for name, value in settings.items():
            self._command += ["--set", f"{name}={value}"]
        self._process: subprocess.Popen[bytes] | None = None
        self._syncs_by_threads = False

    def start(self) -> None:
        """In its first life, its third, and so on it commits by threads; in the others by its event loop, too."""
        self._syncs_by_threads = not self._syncs_by_threads
        command = [sys.executable, "-m", "tests.transactions.forgetful_disk"]
        command += [*(["threads"] if self._syncs_by_threads else []), *self._command]
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        self._process = process
        limit = threading.Timer(START_LIMIT, process.kill)  # the end of the process ends the loop
        limit.start()
        assert process.stdout is not None
        ready = any(line.startswith(READY) for line in iter(process.stdout.readline, b""))
        limit.cancel()
        if not ready:
            self.kill()
            raise AssertionError(f"the broker did not start; {self._log} ends with:\n{self._log.read_text()[-4000:]}")

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def complaints(self) -> list[str]:
        found = []
        if self._process is None or self._process.poll() is not None:
            found.append("the broker is not running")
        said = self._log.read_text()
        at = said.find("Traceback")
        if at >= 0:
            raised = next((line for line in said[at:].splitlines()[1:] if not line.startswith(" ")), "")
            found.append(f"an error of the broker's own code: {raised}\n{said[max(0, at - 300) : at + 3000]}")
        return found


class ApacheKafka:
    def __init__(self, directory: Path, advertised: int, settings: Mapping[str, str] = SETTINGS) -> None:
        self.address = (HOST, free_port())
        self._directory = directory
        self._settings = {**settings, **APACHE_SETTINGS, **listeners(self.address[1], advertised)}
        self._running = ExitStack()
        self._server: KafkaServer | None = None

    def start(self) -> None:
        running = kafka_server(self._directory, self._settings, port=self.address[1])
        self._server = self._running.enter_context(running)

    def kill(self) -> None:
        if self._server is not None:
            self._server.process.kill()
            self._running.close()
            self._server = None

    def complaints(self) -> list[str]:
        return [] if self._server is not None and self._server.process.poll() is None else ["Kafka is not running"]


def listeners(port: int, advertised: int) -> dict[str, str]:
    """Kafka asks itself over the network, too; that goes past the proxy."""
    internal, controller = (f"{HOST}:{free_port()}" for _ in range(2))
    return {
        "listeners": f"PLAINTEXT://{HOST}:{port},INTERNAL://{internal},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{advertised},INTERNAL://{internal}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "controller.quorum.voters": f"1@{controller}",
    }


BROKERS = {"runnel": Runnel, "kafka": ApacheKafka}
