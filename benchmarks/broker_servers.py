"""The two brokers: how each is started, stopped and killed, and where it keeps its files.

Both run with their defaults on the same disk and listen on the loopback interface. Kafka gets the heap of its own
start script (1 GiB), replication factors that one node can keep, and no delay before a group's first rebalance. What a
benchmark sets besides stands in `settings`.
"""

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks import broker_wire as wire
from benchmarks.broker_environment import users_variables
from benchmarks.broker_turns import PEER
from tests.interop.kafka_distribution import java_command, java_environment
from tests.interop.kafka_server import (
    HOST,
    LOGGING,
    SERVER_OPTIONS,
    format_storage,
    free_port,
    logging_option,
    server_properties,
)

START_LIMIT = 120.0
STOP_LIMIT = 60.0
PAUSE = 0.002  # between two attempts to get an answer
CRITICAL = 2  # of syslog
Value = TypeVar("Value")

NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}


class Installation(Protocol):
    """A broker that can be started in its directory, again and again."""

    @property
    def name(self) -> str: ...

    @property
    def directory(self) -> Path: ...

    @property
    def data(self) -> Path: ...

    def at(self, directory: Path) -> "Installation":
        """The same broker in another directory."""

    def command(self, port: int) -> Sequence[str]:
        """What starts it; makes whatever has to be there before."""

    def variables(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Runnel:
    directory: Path
    program: Path
    name: str = "Runnel"
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def at(self, directory: Path) -> "Runnel":
        return replace(self, directory=directory)

    def command(self, port: int) -> Sequence[str]:
        given = {**NO_DELAY, **self.settings}
        settings = [argument for name, value in given.items() for argument in ("--set", f"{name}={value}")]
        listen = ["--data", str(self.data), "--listen", f"{HOST}:{port}"]
        return [str(self.program), "broker", "start", *listen, *settings]

    def variables(self) -> Mapping[str, str]:
        return users_variables()


@dataclass(frozen=True)
class Kafka:
    directory: Path
    name: str = PEER
    settings: Mapping[str, str] = field(default_factory=dict)
    logging: str = LOGGING

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def _configuration(self) -> Path:
        return self.directory / "server.properties"

    @property
    def _logging(self) -> Path:
        return self.directory / "log4j2.properties"

    def at(self, directory: Path) -> "Kafka":
        return replace(self, directory=directory)

    def command(self, port: int) -> Sequence[str]:
        properties = server_properties(self.data, port, free_port(), {**NO_DELAY, **self.settings})
        self._configuration.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._logging.write_text(self.logging)
        if not (self.data / "meta.properties").exists():
            format_storage(self._configuration, self._logging)
        options = [*SERVER_OPTIONS, logging_option(self._logging)]
        return java_command("kafka.Kafka", str(self._configuration), options=options)

    def variables(self) -> Mapping[str, str]:
        return java_environment()


@dataclass(frozen=True)
class Running:
    """A broker that answered."""

    name: str
    port: int
    data: Path
    process: subprocess.Popen[bytes]
    seconds_to_ready: float  # from the start of the process to its first Metadata answer that names a broker
    started_at: float  # time.perf_counter()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def connect(self) -> socket.socket:
        return wire.connect(HOST, self.port)

    # --- topics

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """Return when every partition is led: Kafka tells of a leader a moment before it is one."""
        admin = self._admin()
        new = NewTopic(topic, partitions, 1, config=dict(configs or {}))
        admin.create_topics([new], operation_timeout=60)[topic].result()
        with self.connect() as connection:
            wait_until(lambda: wire.is_led(wire.metadata(connection, [topic]), partitions), f"topic {topic}")
            wait_until(lambda: wire.end_offsets(connection, topic, partitions), f"the leaders of topic {topic}")

    def delete_topic(self, topic: str) -> None:
        admin = self._admin()
        admin.delete_topics([topic], operation_timeout=60)[topic].result()

    def _admin(self) -> AdminClient:
        """It must be kept for as long as its answer is awaited, and complains about a broker that is gone later."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": CRITICAL})

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        with self.connect() as connection:
            return wait_until(lambda: wire.end_offsets(connection, topic, partitions), f"offsets of {topic}")

    def segments(self, topic: str) -> list[Path]:
        return sorted(path for path in self.data.rglob(f"{topic}-*/*.log") if path.is_file())

    # --- its end

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def running(installation: Installation) -> Iterator[Running]:
    """Started when the block begins, stopped when it ends."""
    broker = start(installation)
    try:
        yield broker
    finally:
        if broker.process.poll() is None:
            broker.stop()


def start(installation: Installation) -> Running:
    installation.directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command, variables = installation.command(port), installation.variables()
    log = installation.directory / "server.log"
    with log.open("ab") as output:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _wait_for_metadata(process, port, log)
    except BaseException:
        process.kill()
        process.wait()
        raise
    ready = time.perf_counter() - begin
    return Running(installation.name, port, installation.data, process, ready, begin)


def _wait_for_metadata(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT
    while not _answers(port):
        if process.poll() is not None:
            end = log.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"a broker ended with {process.returncode} at its start; {log} ends with:\n{end}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"a broker gave no answer in {START_LIMIT:.0f} s; see {log}")
        time.sleep(PAUSE)


def _answers(port: int) -> bool:
    try:
        with wire.connect(HOST, port) as connection:
            return wire.is_led(wire.metadata(connection, []), 0)
    except OSError:
        return False


def wait_until(condition: Callable[[], Value | None], what: str, limit: float = START_LIMIT) -> Value:
    """The first value of a condition that is true."""
    deadline = time.monotonic() + limit
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {limit:.0f} s in vain: {what}")
        time.sleep(PAUSE)
    return value
