"""A broker, clicks on it, and runs of the app in processes of their own, which may be told where to die."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, TopicPartition

from runnel.client import Producer
from runnel.views.opening import open_store

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
    good: list[dict[str, Any]] = field(default_factory=list)
    sent: int = 0
    broken: int = 0

    def send(self, count: int, *, seed: int = 1, broken: float = 0.0, back: int = 0) -> None:
        """Clicks in their order, one every second; `back` seconds is how far a time may lie behind that order."""
        chance = random.Random(seed)
        with Producer(self.broker.bootstrap) as producer:
            for number in range(self.sent, self.sent + count):
                at = START + number - chance.randint(0, back)
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
        more = {"RUNNEL_DIE_AT": die_at, "SHOP_ROWS": str(rows), "PYTHONPATH": str(Path(__file__).parents[2])}
        views = ["--views", self.views] if self.views else []
        command = [sys.executable, "-c", PROGRAM, "run", str(APP), "--bootstrap", self.broker.bootstrap]
        command += ["--data", str(self.data), "--master", self.master, "--until-caught-up", *views]
        if by_tasks:
            place = [self.broker.bootstrap, str(self.data), self.master, *([self.views] if self.views else [])]
            command = [sys.executable, str(BY_TASKS), *place]
        done = subprocess.run(
            command, env=os.environ | more | environment, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        return Run(done)

    # --- what should be there, and what is

    def expected_counts(self) -> dict[tuple[datetime, str], int]:
        return dict(Counter((_minute(click["at"]), click["page"]) for click in self.good))

    def counts(self) -> dict[tuple[datetime, str], int]:
        with open_store(self.views or str(self.data)).reader("clicks_per_minute") as reader:
            rows = reader.rows().to_pylist()
        return {(row["window_start"], row["page"]): row["count"] for row in rows}

    def expected_stays(self) -> list[tuple[int, str, int]]:
        return sorted(
            (each["customer_id"], each["page"], each["seconds"]) for each in self.good if each["seconds"] > 50
        )

    def stays(self) -> list[tuple[int, str, int]]:
        found = [json.loads(value) for _, value in self.read("long_stays")]
        return sorted((each["customer_id"], each["page"], each["seconds"]) for each in found)

    def read(self, topic: str) -> list[tuple[bytes | None, bytes]]:
        """All committed records of a topic."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        known = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in known])
        found: list[tuple[bytes | None, bytes]] = []
        ended = 0
        while ended < len(known):
            message = consumer.poll(30)
            assert message is not None, f"{topic} cannot be read to its end"
            if message.error():
                ended += 1
            else:
                found.append((message.key(), message.value()))
        consumer.close()
        return found


def _minute(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(second=0)
