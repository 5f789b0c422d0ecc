"""A broker, clicks on it, and runs of the app in processes of their own, which may be told where to die."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, TopicPartition

from runnel.client import Producer
from runnel.views.opening import open_store
from tests.pipeline.waiting import wait_until

APP = Path(__file__).with_name("shop.py")
BY_TASKS = Path(__file__).with_name("run_shop.py")
PROGRAM = "from runnel.cli import main; main()"
LIMIT = 300.0
START = 1_767_225_600  # the first second of 2026
PARTITIONS = 2


class Run:
    """What came of a run."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code = done.returncode
        self.log = done.stdout + done.stderr


class Live:
    """A run that goes on."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_until(self, holds: Callable[[], object], what: str) -> None:
        """While it runs."""
        wait_until(lambda: self._process.poll() is not None or holds(), lambda: f"{what}; {self.log}")
        self.assert_running()

    def assert_running(self) -> None:
        assert self._process.poll() is None, self.log

    def stop(self) -> int:
        """In peace; its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(LIMIT)


class Address(Protocol):
    """Of a broker: ours, or Apache Kafka."""

    @property
    def bootstrap(self) -> str: ...


@dataclass
class Stage:
    broker: Address
    data: Path
    views: str | None = None
    master: str = "local[2]"
    app: str = "shop"
    good: list[dict[str, Any]] = field(default_factory=list)
    sent: int = 0
    broken: int = 0

    def send(self, count: int, *, seed: int = 1, broken: float = 0.0, back: int = 0, behind: int = 0) -> None:
        """Clicks in their order, one every second; `back` seconds is how far a time may lie behind that order, and
        `behind` how far each of them does.
        """
        chance = random.Random(seed)
        with Producer(self.broker.bootstrap, timeout=LIMIT) as producer:
            for number in range(self.sent, self.sent + count):
                at = START + number - chance.randint(0, back) - behind
                click = {
                    "page": f"p{chance.randrange(5)}",
                    "customer_id": chance.randrange(20),
                    "seconds": chance.randrange(100),
                    "at": datetime.fromtimestamp(at, UTC).isoformat(),
                    "number": number,
                }
                value = json.dumps(click).encode()
                if chance.random() < broken:
                    value = b"{" + value
                    self.broken += 1
                else:
                    self.good.append(click)
                producer.submit("clicks", value, partition=number % PARTITIONS, timestamp=at * 1000)
        self.sent += count

    def run(self, *, die_at: str = "", rows: int = 100, by_tasks: bool = False, **environment: str) -> Run:
        """Until all is read, or it died."""
        command = self._command("--until-caught-up")
        if by_tasks:
            place = [self.broker.bootstrap, str(self.data), self.master, *([self.views] if self.views else [])]
            command = [sys.executable, str(BY_TASKS), *place]
        more = self._environment(rows) | {"RUNNEL_DIE_AT": die_at, **environment}
        done = subprocess.run(command, env=more, capture_output=True, text=True, timeout=LIMIT, check=False)
        return Run(done)

    @contextmanager
    def live(self, log: Path, *, rows: int = 100) -> Iterator[Live]:
        """`runnel run`, which is killed at the end if it was not stopped."""
        with log.open("wb") as said:
            process = subprocess.Popen(
                self._command(), env=self._environment(rows), stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
        try:
            yield Live(process, log)
        finally:
            process.kill()
            process.wait()

    def _command(self, *options: str) -> list[str]:
        views = ["--views", self.views] if self.views else []
        command = [sys.executable, "-c", PROGRAM, "run", str(APP), "--bootstrap", self.broker.bootstrap]
        return [*command, "--data", str(self.data), "--master", self.master, *views, *options]

    def _environment(self, rows: int) -> dict[str, str]:
        return os.environ | {"SHOP": self.app, "SHOP_ROWS": str(rows), "PYTHONPATH": os.pathsep.join(sys.path)}

    # --- what should be there, and what is

    def expected_counts(self, late: Collection[int] = ()) -> dict[tuple[datetime, str], int]:
        in_time = [click for click in self.good if click["number"] not in late]
        return dict(Counter((_minute(click["at"]), click["page"]) for click in in_time))

    def counts(self) -> dict[tuple[datetime, str], int]:
        with open_store(self.views or str(self.data)).reader("clicks_per_minute") as reader:
            rows = reader.rows().to_pylist()
        return {(row["window_start"], row["page"]): row["count"] for row in rows}

    def expected_stays(self, late: Collection[int] = ()) -> list[tuple[int, str, int]]:
        in_time = [click for click in self.good if click["number"] not in late]
        return sorted((each["customer_id"], each["page"], each["seconds"]) for each in in_time if each["seconds"] > 50)

    def stays(self) -> list[tuple[int, str, int]]:
        found = [json.loads(value) for _, value in self.read("long_stays")]
        return sorted((each["customer_id"], each["page"], each["seconds"]) for each in found)

    def late(self, output: str) -> list[int]:
        """The numbers of the clicks that were late for it."""
        return sorted(json.loads(value)["number"] for _, value in self.read(f"{output}.late"))

    def read(self, topic: str) -> list[tuple[bytes | None, bytes]]:
        """All committed records of a topic."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,  # the end of a partition is told by an empty answer
                "log_level": 0,
            }
        )
        known = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in known])
        found: list[tuple[bytes | None, bytes]] = []
        ended = 0
        while ended < len(known):
            message = consumer.poll(LIMIT)
            assert message is not None, f"{topic} cannot be read to its end"
            if (error := message.error()) is None:
                found.append((message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
        consumer.close()
        return found


def _minute(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(second=0)
