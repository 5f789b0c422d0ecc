"""Three client libraries write to one broker and a consumer group reads, while the broker is killed again and again.

The clients are processes of their own, see persistent_clients.py. What they tell is checked against what is there.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runnel.protocol.versions import Api
from runnel.records import batches_of, records_of
from tests.abuse.broker_process import BrokerProcess, wait_until
from tests.abuse.wire import Client, fetched, make_topics, request

ROOT = Path(__file__).parents[2]
TOPIC = "kills"
PARTITIONS = 2
GROUP = "readers"
END_LIMIT = 120.0
WRITERS = ("confluent", "aiokafka", "kafka-python")


@dataclass
class ClientProcess:
    """One of them, and what it has told so far."""

    name: str
    log: Path  # of what its library complains
    acknowledged: dict[int, int] = field(default_factory=dict)  # a record's number: its offset
    committed: dict[int, int] = field(default_factory=dict)  # a partition: the offset that the group has for sure
    errors: list[str] = field(default_factory=list)
    sent: int | None = None
    told: threading.Event = field(default_factory=threading.Event)  # set by each line
    _process: subprocess.Popen[str] | None = None
    _thread: threading.Thread | None = None

    def start(self, bootstrap: str) -> None:
        command = [sys.executable, "-m", "tests.crash.persistent_clients", self.name, bootstrap]
        with self.log.open("w") as said:  # no pipe: one that nobody empties would stop them
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
            )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._note(line)
            self.told.set()

    def _note(self, line: str) -> None:
        match line.split():
            case ["acknowledged", number, offset]:
                self.acknowledged[int(number)] = int(offset)
            case ["committed", partition, offset]:
                self.committed[int(partition)] = int(offset)
            case ["sent", number]:
                self.sent = int(number)
            case _:
                self.errors.append(line.strip())

    @property
    def progress(self) -> int:
        return len(self.acknowledged) + sum(self.committed.values())

    def stop(self) -> None:
        """Let it end by itself; what it told as an error, or on the way out, is in `errors` then."""
        if self._process is None or self._thread is None:
            return
        process, self._process = self._process, None
        limit = threading.Timer(END_LIMIT, process.kill)
        limit.start()
        assert process.stdin is not None
        process.stdin.close()
        self._thread.join()
        assert process.stdout is not None
        process.stdout.close()
        limit.cancel()
        if process.wait() != 0:
            self.errors.append(f"ended with {process.returncode}: {self.log.read_text()[-2000:]}")


class Scene:
    """A broker, three writers and a reader."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.chance = chance
        self.broker = BrokerProcess(directory, {"group.min.session.timeout.ms": 1000})
        self.writers = [ClientProcess(name, directory / f"{name}.log") for name in WRITERS]
        self.reader = ClientProcess("group", directory / "group.log")

    @property
    def clients(self) -> list[ClientProcess]:
        return [*self.writers, self.reader]

    def __enter__(self) -> Scene:
        self.broker.start()
        make_topics(self.broker.address, TOPIC, partitions=PARTITIONS)
        for client in self.clients:
            client.start(self.broker.bootstrap)
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.clients:
            client.stop()
        if self.broker._process is not None:
            self.broker.kill()

    def kill_once(self) -> list[str]:
        """Let all get on, kill at some moment, start again; the answer is what is wrong with the group's offsets."""
        before = {client.name: client.progress for client in self.clients}

        def stuck() -> list[str]:
            return [client.name for client in self.clients if client.progress == before[client.name]]

        wait_until(lambda: not stuck() or any(client.errors for client in self.clients), lambda: f"{stuck()} got on")
        more = sum(client.progress for client in self.writers) + self.chance.randrange(120)
        wait_until(lambda: sum(client.progress for client in self.writers) >= more, "some more was written")
        # The moment after an answer is the one in which it may turn out to have been given too early.
        client = self.chance.choice(self.clients)
        client.told.clear()
        client.told.wait(1)
        self.broker.kill()
        committed = dict(self.reader.committed)  # whatever it tells later was answered by the next broker, or before
        self.broker.start()
        return list(self._lost_commits(committed))

    def _lost_commits(self, committed: Mapping[int, int]) -> Iterator[str]:
        found = committed_offsets(self.broker.address)
        for partition, offset in committed.items():
            if found[partition] < offset:
                yield f"offset {offset} of partition {partition} was committed, and {found[partition]} is there"

    def end(self) -> list[str]:
        """Let the clients end, and check all that was written."""
        for client in self.clients:
            client.stop()
        told = {client.name: client.acknowledged for client in self.writers}
        complaints = [f"{client.name}: {error}" for client in self.clients for error in client.errors]
        complaints += [
            f"{writer.name} sent {writer.sent} and has {len(writer.acknowledged)} acknowledged"
            for writer in self.writers
            if writer.sent != len(writer.acknowledged)
        ]
        complaints += self._lost_commits(self.reader.committed)
        complaints += check({number: read_all(self.broker.address, number) for number in range(PARTITIONS)}, told)
        self.broker.check()
        return complaints


def committed_offsets(address: tuple[str, int]) -> dict[int, int]:
    partitions = list(range(PARTITIONS))
    with Client(address) as client:
        answer = client.ask(
            Api.OFFSET_FETCH, 5, {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": partitions}]}
        )
    return {each["partition_index"]: each["committed_offset"] for each in answer["topics"][0]["partitions"]}


def read_all(address: tuple[str, int], partition: int) -> list[str]:
    """The values of a partition; a value's place is its offset."""
    values: list[str] = []
    with Client(address) as client:
        while True:
            asked = {"partition": partition, "fetch_offset": len(values), "partition_max_bytes": 1 << 20}
            body = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "forgotten_topics_data": []}
            client.send(request(Api.FETCH, 11, body | {"topics": [{"topic": TOPIC, "partitions": [asked]}]}))
            code, data = fetched(client.read(Api.FETCH, 11))
            assert code == 0
            if not data:
                return values
            for position, header in batches_of(data):
                records = records_of(data, position)
                skipped = len(values) - header.base_offset
                values += [(record.value or b"").decode() for record in records[skipped:]]


def check(found: Mapping[int, list[str]], acknowledged: Mapping[str, Mapping[int, int]]) -> list[str]:
    """What is wrong: each writer's numbers must stand in each partition without gap, once and in order, all that was
    acknowledged among them, and at the offset that its writer was told."""
    complaints = []
    for partition, values in found.items():
        expected = dict.fromkeys(acknowledged, partition)
        for offset, value in enumerate(values):
            writer, _, number = value.partition("/")
            if int(number) != expected[writer]:
                complaints.append(f"{value} at {partition}/{offset}, where {writer}/{expected[writer]} belongs")
            expected[writer] = int(number) + PARTITIONS
            told = acknowledged[writer].get(int(number), offset)
            if told != offset:
                complaints.append(f"{value} at {partition}/{offset}, acknowledged at {told}")
        for writer, numbers in acknowledged.items():
            last = max((number for number in numbers if number % PARTITIONS == partition), default=-1)
            if last >= expected[writer]:
                complaints.append(f"{writer}/{last} was acknowledged, and partition {partition} ends before it")
    return complaints
