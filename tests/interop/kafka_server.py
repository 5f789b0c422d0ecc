"""A real Apache Kafka on this machine: the yardstick of the tests and the benchmarks.

    with kafka_server(directory, {"num.partitions": "4"}) as kafka:
        Producer({"bootstrap.servers": kafka.bootstrap})

One node, broker and controller in one process, on free ports of the loopback interface. It answers when the block
begins and is gone when the block ends. A directory that was used before keeps its topics. What the server says is in
`server.log` of the directory. `kafka_cluster` runs several nodes; its first one is the controller, too.

For people: `python -m tests.interop.kafka_server --port 9092 --data DIR --set num.partitions=4` until Ctrl-C.
"""

import argparse
import base64
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop.kafka_distribution import (
    JVM_OPTIONS,
    KafkaUnavailable,
    archive_options,
    java_command,
    java_environment,
)
from tests.ports import free_port

HOST = "127.0.0.1"
NODE_ID = "1"
# What the distribution's own scripts give the server, without the heap's first size: its memory is measured.
SERVER_OPTIONS = (
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# A server that lives for a test is ready after less than half of the work if it does not prepare for a long life.
SHORT_LIVED_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
START_LIMIT = 120.0
STOP_LIMIT = 60.0
ANSWER_LIMIT = 5.0

# One node can hold one replica; and a test that makes a group should not wait for other members.
DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

LOGGING = """\
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %-5p %c{1}: %m%n
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
"""

# Size of the rest, ApiVersions (18), version 0, correlation id, no client id.
API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)
# Size of the rest, correlation id, error code.
API_VERSIONS_ANSWER = struct.Struct(">iih")


@dataclass(frozen=True)
class KafkaServer:
    """A running Apache Kafka."""

    bootstrap: str
    directory: Path
    process: subprocess.Popen[bytes]
    node: int = int(NODE_ID)

    @property
    def pid(self) -> int:
        return self.process.pid


@contextmanager
def kafka_server(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    *,
    port: int = 0,
    listeners: Mapping[str, int] | None = None,
    formatting: Sequence[str] = (),
    jvm_options: Sequence[str] | None = None,
) -> Iterator[KafkaServer]:
    """Run Apache Kafka in a directory; `settings` go into its server.properties and win over ours.

    `listeners` are further ones, by their protocol, with their ports; `formatting` goes to the tool that makes the
    storage, such as the names of users. Without `jvm_options` it is started for a short life.
    """
    port, controller_port = port or free_port(), free_port()
    properties = server_properties(directory / "data", port, controller_port, settings or {}, listeners or {})
    prepare(directory, properties, formatting=formatting)
    server = launch(directory, port, int(properties["node.id"]), jvm_options)
    try:
        wait_until_ready(server, port)
        yield server
    finally:
        stop(server.process)


@contextmanager
def kafka_cluster(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    *,
    nodes: int = 3,
    jvm_options: Sequence[str] | None = None,
) -> Iterator[dict[int, KafkaServer]]:
    """Run several nodes, by their numbers from 1 on; every one is a broker, and the first is the controller, too."""
    controller_port, cluster = free_port(), new_cluster_id()
    servers: dict[int, KafkaServer] = {}
    try:
        for node in range(1, nodes + 1):
            port, place = free_port(), directory / f"node-{node}"
            own = {"node.id": str(node), "controller.quorum.voters": f"1@{HOST}:{controller_port}"}
            if node > 1:
                own |= {"process.roles": "broker", "listeners": f"PLAINTEXT://{HOST}:{port}"}
            properties = server_properties(place / "data", port, controller_port, own | dict(settings or {}))
            prepare(place, properties, cluster)
            servers[node] = launch(place, port, node, jvm_options)
        for server in servers.values():
            wait_until_ready(server, int(server.bootstrap.rpartition(":")[2]))
        yield servers
    finally:
        for server in reversed(servers.values()):
            stop(server.process)


def server_properties(
    data: Path,
    port: int,
    controller_port: int,
    settings: Mapping[str, str],
    listeners: Mapping[str, int] | None = None,
) -> dict[str, str]:
    node = settings.get("node.id", NODE_ID)
    further = listeners or {}
    brokers = [f"{name}://{HOST}:{number}" for name, number in {"PLAINTEXT": port, **further}.items()]
    properties = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": f"{node}@{HOST}:{controller_port}",
        "listeners": ",".join([*brokers, f"CONTROLLER://{HOST}:{controller_port}"]),
        "advertised.listeners": ",".join(brokers),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(
            ["CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", *(f"{name}:{name}" for name in further)]
        ),
        "log.dirs": str(data.absolute()),
    }
    return {**DEFAULTS, **properties, **settings}


def prepare(directory: Path, properties: Mapping[str, str], cluster: str = "", formatting: Sequence[str] = ()) -> None:
    """What a node needs before it starts: its configuration, and a storage of its cluster."""
    directory.mkdir(parents=True, exist_ok=True)
    configuration = directory / "server.properties"
    configuration.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    (directory / "log4j2.properties").write_text(LOGGING)
    if not (directory / "data" / "meta.properties").exists():
        format_storage(configuration, directory / "log4j2.properties", cluster, formatting)


def launch(directory: Path, port: int, node: int, jvm_options: Sequence[str] | None = None) -> KafkaServer:
    if jvm_options is None:
        jvm_options = [*SHORT_LIVED_OPTIONS, *archive_options()]
    logging = logging_option(directory / "log4j2.properties")
    command = java_command("kafka.Kafka", str(directory / "server.properties"), options=[*jvm_options, logging])
    with (directory / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, env=java_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    return KafkaServer(f"{HOST}:{port}", directory, process, node)


def new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def format_storage(configuration: Path, logging: Path, cluster: str = "", formatting: Sequence[str] = ()) -> None:
    """Make the data directory the cluster's, or a new one's, as an operator does before the first start."""
    cluster = cluster or new_cluster_id()
    options = [*JVM_OPTIONS, *archive_options(), logging_option(logging)]
    tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "--config", str(configuration), *formatting]
    run = subprocess.run(
        java_command(*tool, options=options),
        env=java_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        raise KafkaUnavailable(f"Apache Kafka's storage could not be formatted with {configuration}:\n{run.stdout}")


def logging_option(configuration: Path) -> str:
    return f"-Dlog4j2.configurationFile={configuration.absolute()}"


def wait_until_ready(server: KafkaServer, port: int) -> None:
    log = server.directory / "server.log"
    deadline = time.monotonic() + START_LIMIT
    while not answers(HOST, port):
        if server.process.poll() is not None:
            end = log.read_text(errors="replace")[-4000:]
            raise KafkaUnavailable(f"Apache Kafka ended with {server.process.returncode}; {log} ends with:\n{end}")
        if time.monotonic() > deadline:
            raise KafkaUnavailable(f"Apache Kafka gave no answer in {START_LIMIT:.0f} s; see {log}")
        time.sleep(0.05)


def answers(host: str, port: int) -> bool:
    """Whether a broker at this address answers ApiVersions."""
    try:
        with socket.create_connection((host, port), timeout=ANSWER_LIMIT) as connection:
            connection.sendall(API_VERSIONS_REQUEST)
            answer = connection.recv(API_VERSIONS_ANSWER.size, socket.MSG_WAITALL)
    except OSError:
        return False
    if len(answer) < API_VERSIONS_ANSWER.size:
        return False
    _, correlation, error = API_VERSIONS_ANSWER.unpack(answer)
    return bool(correlation == 1 and error == 0)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server in peace if it can, and in any case."""
    process.terminate()
    try:
        process.wait(STOP_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.kafka_server", description="Run Apache Kafka.")
    parser.add_argument("--port", type=int, default=0, help="where to listen (default: a free port)")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="where it keeps its files")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the server")
    options = parser.parse_args()
    if malformed := [setting for setting in options.set if "=" not in setting]:
        parser.error(f"--set {malformed[0]}: expected NAME=VALUE")
    settings = dict(setting.split("=", 1) for setting in options.set)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with kafka_server(options.data, settings, port=options.port, jvm_options=SERVER_OPTIONS) as server:
            print(f"listening on {server.bootstrap}", flush=True)
            server.process.wait()
            sys.exit(f"Apache Kafka ended by itself; see {options.data / 'server.log'}")
    except KeyboardInterrupt:
        pass
    except KafkaUnavailable as missing:
        sys.exit(str(missing))


if __name__ == "__main__":
    main()
