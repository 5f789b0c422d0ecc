"""A Kafka Connect worker on our broker: a file's lines go into a topic, and from there into another file.

The worker keeps its connectors, positions and states in compacted topics that it makes itself. It reads with
`exactly.once.source.support`: after kills every line is in the topic once. The connector that writes the file repeats
what it had not committed, so of its file only the order and that nothing is missing can be asked.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.broker_wire import LATEST, Wire, offset_at
from tests.interop.committed import LIMIT, committed
from tests.interop.java_programs import Program, Restarted, broker_of
from tests.interop.kafka_distribution import kafka_classpath
from tests.ports import free_port

FIRST, FEW, MANY = 500, 50, 5_000
KILLS = ("worker", "broker", "worker")
BAD_REQUEST = 400  # other refusals pass, such as that of a worker in a rebalance
CONNECTORS = "org.apache.kafka.connect.file"
OWN_TOPICS = ("connect-configs", "connect-offsets", "connect-states")
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "1",
}
# A killed worker is given up soon, and its tasks do not wait for it to return.
WORKER = {
    "group.id": "connect",
    "config.storage.topic": OWN_TOPICS[0],
    "offset.storage.topic": OWN_TOPICS[1],
    "status.storage.topic": OWN_TOPICS[2],
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "3",
    "status.storage.partitions": "3",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "exactly.once.source.support": "enabled",
    "plugin.discovery": "service_load",
    "offset.flush.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
    "session.timeout.ms": "4000",
    "heartbeat.interval.ms": "1000",
    # Many small requests make a transaction that lasts long enough to be killed in it.
    "producer.batch.size": "500",
    # A new worker waits at its start for what the killed one had begun to write to the topic of positions.
    "producer.transaction.timeout.ms": "5000",
    "consumer.isolation.level": "read_committed",
    "consumer.session.timeout.ms": "4000",
    "consumer.heartbeat.interval.ms": "1000",
}


class Worker(Program):
    """A worker in distributed mode, and what its REST interface answers."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        port = free_port()
        self._url = f"http://127.0.0.1:{port}"
        folder.mkdir(parents=True)
        properties = folder / "worker.properties"
        settings = WORKER | {"bootstrap.servers": bootstrap, "listeners": self._url}
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        main_class = "org.apache.kafka.connect.cli.ConnectDistributed"
        super().__init__(folder, kafka_classpath("connect"), main_class, [str(properties)])

    def ask(self, path: str, body: Any = None) -> Any:
        """The answer to a GET, or to a PUT of a body; None while there is none."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path, data, {"Content-Type": "application/json"}, method="GET" if data is None else "PUT"
        )
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                if refusal.code == BAD_REQUEST:
                    raise AssertionError(refusal.read().decode()) from refusal
            return None
        except OSError:
            return None

    def states(self, connector: str) -> list[str]:
        """Of the connector and its tasks."""
        status = self.ask(f"/connectors/{connector}/status") or {"connector": {"state": "UNKNOWN"}, "tasks": []}
        return [each["state"] for each in (status["connector"], *status["tasks"])]


def lines_of(file: Path) -> list[str]:
    """Without the one that is still being written."""
    return file.read_text().split("\n")[:-1] if file.exists() else []


class Growing:
    """A file that gets one line after the other, no two alike."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lines: list[str] = []

    def grow(self, count: int) -> None:
        new = [f"line {number}" for number in range(len(self.lines), len(self.lines) + count)]
        with self.file.open("a") as end:
            end.writelines(f"{line}\n" for line in new)
        self.lines += new


def repeated_order(found: Sequence[str], expected: Sequence[str]) -> list[str]:
    """What is wrong with lines in order, of which some in a row may come again."""
    places = {line: place for place, line in enumerate(expected)}
    previous = reached = -1
    for number, line in enumerate(found):
        place = places.get(line)
        if place is None:
            return [f"line {number} is {line!r}, which nobody wrote"]
        if place > previous + 1:
            return [f"line {number} is {line!r}, and {found[number - 1 : number]} came before it"]
        previous, reached = place, max(reached, place)
    return [] if reached == len(expected) - 1 else [f"the last lines are missing, from {expected[reached + 1]!r}"]


def end_of(bootstrap: str, topic: str) -> int:
    """Where the next record will be, whether the transactions before it are ended or not."""
    with Wire(bootstrap) as wire:
        return offset_at(wire, topic, LATEST)


def cleanup_policies(bootstrap: str, topics: Sequence[str]) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    return {
        resource.name: told.result(LIMIT)["cleanup.policy"].value
        for resource, told in admin.describe_configs(asked).items()
    }


def wait_until(holds: Callable[[], object], what: str, worker: Worker, broker: Restarted) -> None:
    deadline = time.monotonic() + LIMIT
    while not holds():
        worker.check()
        broker.check()
        assert time.monotonic() < deadline, f"after {LIMIT:.0f} s still not: {what}; {worker.said()}"
        time.sleep(0.01)


def configurations(source: Path, sink: Path) -> dict[str, dict[str, str]]:
    """By the connectors' names."""
    reading = {"connector.class": f"{CONNECTORS}.FileStreamSourceConnector", "file": str(source), "topic": "lines"}
    reading |= {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    # It keeps what is beyond a full batch until the file grows: so no batch is ever full.
    reading |= {"batch.size": "1000000", "exactly.once.support": "required", "tasks.max": "1"}
    writing = {"connector.class": f"{CONNECTORS}.FileStreamSinkConnector", "file": str(sink), "topics": "lines"}
    return {"reading": reading, "writing": writing | {"tasks.max": "1"}}


def run(folder: Path, kind: str) -> None:
    source, sink = Growing(folder / "source.txt"), folder / "sink.txt"
    source.grow(FIRST)
    with (
        broker_of(kind, folder / "broker", SETTINGS) as broker,
        Worker(folder / "worker", broker.bootstrap) as worker,
    ):

        def wait(holds: Callable[[], object], what: str) -> None:
            wait_until(holds, what, worker, broker)

        for name, body in configurations(source.file, sink).items():
            wait(lambda path=f"/connectors/{name}/config", body=body: worker.ask(path, body), f"{name} is accepted")
        wait(lambda: len(lines_of(sink)) >= FIRST, "the first lines have arrived")
        assert lines_of(sink) == source.lines

        for victim in KILLS:
            end = end_of(broker.bootstrap, "lines")
            source.grow(MANY)
            # They all go into one transaction, and it has begun.
            wait(lambda end=end: end_of(broker.bootstrap, "lines") > end, "more lines are on their way")
            killed = worker if victim == "worker" else broker
            killed.kill()
            source.grow(FEW)
            killed.start()
            wait(lambda: source.lines[-1] in lines_of(sink), "the last line has arrived")
        for name in ("reading", "writing"):
            wait(lambda name=name: worker.states(name) == ["RUNNING", "RUNNING"], f"{name} is running")
        worker.stop()
        assert repeated_order(lines_of(sink), source.lines) == []
        assert [json.loads(value) for _, value in committed(broker.bootstrap, "lines")] == source.lines
        assert cleanup_policies(broker.bootstrap, OWN_TOPICS) == dict.fromkeys(OWN_TOPICS, "compact")
        broker.check()


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        pytest.param("abcd", None, id="the same"),
        pytest.param("abcbcd", None, id="some again"),
        pytest.param("abd", "line 2 is 'd', and ['b'] came before it", id="lost"),
        pytest.param("abcabd", "line 5 is 'd', and ['b'] came before it", id="lost when repeated"),
        pytest.param("abdc", "line 2 is 'd'", id="out of order"),
        pytest.param("abc", "the last lines are missing, from 'd'", id="cut off"),
        pytest.param("abxcd", "line 2 is 'x', which nobody wrote", id="not written"),
    ],
)
def test_a_file_that_lacks_lines_is_noticed(found, complaint):
    told = repeated_order(list(found), list("abcd"))
    assert told == [] if complaint is None else complaint in told[0]


@pytest.mark.parametrize(
    "kind", [pytest.param("runnel", marks=pytest.mark.servers), pytest.param("kafka", marks=pytest.mark.soak)]
)
def test_connect_carries_lines_from_file_to_file_whatever_is_killed(tmp_path, kind):
    run(tmp_path, kind)
