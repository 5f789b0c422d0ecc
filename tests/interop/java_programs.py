"""Java programs that are killed and started again, and the brokers that they run on.

    with broker_of("runnel", folder, {}) as broker, Program(folder, classpath, "Main", [broker.bootstrap]) as program:
        program.kill()
        program.start()

A broker is ours or Apache Kafka. Both keep their port and their data from start to start.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, Self

from tests.abuse.broker_process import BrokerProcess
from tests.interop.kafka_distribution import JVM_OPTIONS, java_command, java_environment
from tests.interop.kafka_server import HOST, LOGGING, kafka_server, logging_option
from tests.ports import free_port

STOP_LIMIT = 60.0
MEMORY = "-Xmx256m"
# A broker that was killed may come back when Kafka's controller has given up the former one.
SOON_BACK = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}


class Program:
    """Use it with `with`. What the program says of its starts is in one file."""

    def __init__(
        self,
        folder: Path,
        classpath: str,
        main_class: str,
        arguments: Sequence[str],
        options: Sequence[str] = (*JVM_OPTIONS, MEMORY),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "program.log"
        logging = folder / "log4j2.properties"
        logging.write_text(LOGGING)
        given = [*options, logging_option(logging)]
        self._command = java_command(main_class, *arguments, options=given, classpath=classpath)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=java_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """End it at once, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Let it end in good order."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(STOP_LIMIT)
        self._process = None

    def check(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"the program ended with {self._process.returncode}; {self.said()}")

    def said(self) -> str:
        return f"{self.log} ends with:\n{self.log.read_text(errors='replace')[-6000:]}"


class Restarted(Protocol):
    @property
    def bootstrap(self) -> str: ...

    def __enter__(self) -> Restarted: ...

    def __exit__(self, *_: object) -> None: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def check(self) -> None:
        """It runs, and none of its own code failed."""


class KafkaProcess:
    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self._directory = directory
        self._settings = {**SOON_BACK, **settings}
        self._port = free_port()
        self._running = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self._port}"

    def __enter__(self) -> KafkaProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        server = self._running.enter_context(kafka_server(self._directory, self._settings, port=self._port))
        self._process = server.process

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._running.close()
            self._process = None

    def check(self) -> None:
        running = self._process is not None and self._process.poll() is None
        assert running, "Apache Kafka is not running"


def broker_of(kind: str, directory: Path, settings: Mapping[str, str]) -> Restarted:
    return {"runnel": BrokerProcess, "kafka": KafkaProcess}[kind](directory, settings)
