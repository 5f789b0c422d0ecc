"""A broker, streams on it with stragglers and broken values, and runs of small apps in a Spark session that is there.

Everything that was sent is known, and everything that a query told of it can be read: what it counted, what it put
aside, and, out of Spark's checkpoint, where each batch ended and what its watermark was.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pyarrow as pa

from runnel import App, Broker
from runnel.app.runner import Runner, Running
from runnel.client import Producer, Token, positions
from runnel.client.batches import each_batch
from runnel.client.cluster import Cluster
from runnel.client.columns import Origin, decode
from runnel.client.fetch import Fetcher
from runnel.views.opening import open_store
from tests.pipeline.waiting import wait_until

START = 1_767_225_600_000  # milliseconds: the first one of 2026
SECOND = 1_000
HOUR = 3_600_000
CLOSER = -1  # the k of a record that only brings the time forward
FAR_AHEAD = "2999-01-01T00:00:00Z"
COLUMNS = ("key", "value", "offset", "timestamp", "headers")

Place = tuple[str, int, int]  # topic, partition, offset


class Event(NamedTuple):
    """A record. `at` is its event time in milliseconds since START; None: its value is broken."""

    topic: str
    place: Place
    id: int
    k: int
    n: int
    at: int | None


@dataclass
class Sending:
    """How records are drawn: one every `step` milliseconds, their event times up to `back` behind that."""

    seed: int
    partitions: int = 2
    step: int = SECOND
    back: int = 20
    broken: float = 0.05
    repeated: float = 0.0


class Told(NamedTuple):
    """What one run of a query said of itself."""

    batches: int
    in_time: int
    late: int
    rejected: int
    dropped: int  # by Spark, in silence


@dataclass
class Scene:
    broker: Broker
    spark: Any
    data: Path
    sent: list[Event] = field(default_factory=list)
    _clock: int = 0
    _ids: int = 0

    # --- records

    def make(self, *topics: str, partitions: int) -> None:
        for topic in topics:
            self.broker.create_topic(topic, partitions, configs={"retention.ms": "-1"})

    def send(self, count: int, how: Sending, topics: Iterable[str] = ("clicks",)) -> None:
        """`count` records in all; each with a chance of being broken, or the same as one before."""
        chance = random.Random(how.seed)
        names = list(topics)
        known: dict[str, list[tuple[int, dict[str, Any]]]] = {name: [] for name in names}
        with self._sending() as give:
            for _ in range(count):
                self._clock += how.step
                topic = chance.choice(names)
                at = max(0, self._clock - chance.randint(0, how.back) * SECOND)
                self._ids += 1
                row = {"id": self._ids, "k": chance.randrange(4), "n": chance.randrange(100), "at": moment(at)}
                if known[topic] and chance.random() < how.repeated:
                    at, row = chance.choice(known[topic])
                known[topic].append((at, row))
                is_broken = chance.random() < how.broken
                value = broken(row, chance) if is_broken else json.dumps(row).encode()
                give(topic, chance.randrange(how.partitions), value, row, None if is_broken else at)

    def send_one(self, topic: str, at: int, *, k: int = 0, n: int = 0, partition: int = 0) -> Event:
        self._ids += 1
        self._clock = max(self._clock, at)
        row = {"id": self._ids, "k": k, "n": n, "at": moment(at)}
        with self._sending() as give:
            give(topic, partition, json.dumps(row).encode(), row, at)
        return self.sent[-1]

    def send_each(self, topic: str, places: Iterable[tuple[int, int]]) -> None:
        """One record for each: its time, and its partition."""
        with self._sending() as give:
            for at, partition in places:
                self._ids += 1
                self._clock = max(self._clock, at)
                row = {"id": self._ids, "k": 0, "n": 0, "at": moment(at)}
                give(topic, partition, json.dumps(row).encode(), row, at)

    def send_many(self, topic: str, times: Iterable[int]) -> None:
        """In one transaction, so that one batch reads them all."""
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.broker.bootstrap, "transactional.id": f"{topic}-{self._ids}"}
        )
        producer.init_transactions()
        producer.begin_transaction()
        for at in times:
            self._ids += 1
            self._clock = max(self._clock, at)
            row = {"id": self._ids, "k": 0, "n": 0, "at": moment(at)}

            def delivered(error: Any, message: Any, row: dict[str, Any] = row, at: int = at) -> None:
                assert error is None
                self.sent.append(Event(topic, (topic, 0, message.offset()), row["id"], row["k"], row["n"], at))

            producer.produce(topic, json.dumps(row).encode(), partition=0, on_delivery=delivered)
        producer.commit_transaction()

    def send_broken(self, topic: str) -> Event:
        self._ids += 1
        with self._sending() as give:
            give(topic, 0, b"{", {"id": self._ids, "k": 0, "n": 0}, None)
        return self.sent[-1]

    def close_windows(self, topics: Iterable[str]) -> None:
        """Bring the time forward, by a record for each topic that belongs to no answer."""
        at = self._clock + HOUR
        for topic in topics:
            self.send_one(topic, at, k=CLOSER)

    @contextmanager
    def _sending(self) -> Iterator[Callable[..., None]]:
        under_way: list[tuple[Future[Token], str, int, dict[str, Any], int | None]] = []

        def give(topic: str, partition: int, value: bytes | None, row: dict[str, Any], at: int | None) -> None:
            token = producer.submit(topic, value, partition=partition, timestamp=START + self._clock)
            under_way.append((token, topic, partition, row, at))

        with Producer(self.broker.bootstrap) as producer:
            yield give
        for token, topic, partition, row, at in under_way:
            place = topic, partition, token.result().offset
            self.sent.append(Event(topic, place, row["id"], row["k"], row["n"], at))

    # --- running

    def run(self, app: App, **more: Any) -> dict[str, Told]:
        """Until all is read. What each query said, by its name."""
        runner = Runner(app, self.running(until_caught_up=True, **more))
        runner.run()
        return {query.name: told(query) for query in runner.queries}

    @contextmanager
    def live(self, app: App, **more: Any) -> Iterator[dict[str, Any]]:
        """The queries of an app that runs, by name."""
        runner = Runner(app, self.running(**more))
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(runner.run)
            try:
                wait_until(
                    lambda: running.done() or (runner.queries and all(query.is_active for query in runner.queries))
                )
                yield {query.name: query for query in runner.queries}
            finally:
                runner.stop()
            running.result()

    def running(self, **more: Any) -> Running:
        return Running(self.broker.bootstrap, self.data, spark=self.spark, **more)

    # --- what came of it

    def records(self, topic: str) -> list[dict[str, Any]]:
        """All committed ones."""
        found: list[dict[str, Any]] = []
        with Cluster(self.broker.bootstrap) as cluster:
            places = cluster.topic(topic, fresh=True).places
            starts, ends = positions.earliest(cluster, places), positions.latest(cluster, places)
            for place in places:
                for fetched in Fetcher(cluster).read(*place, starts[place], ends[place]):
                    origin = Origin(*place, fetched.start, fetched.end)
                    batches = [each for part in fetched.parts for each in each_batch(part)]
                    found += pa.Table.from_batches(decode(batches, COLUMNS, origin)).to_pylist()
        return found

    def values(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(record["value"]) for record in self.records(topic)]

    def aside(self, topic: str, query: str) -> dict[Place, dict[str, str]]:
        """The headers of what a query put aside, by where it came from. Each record once."""
        found: dict[Place, dict[str, str]] = {}
        for record in self.records(topic):
            headers = {header["key"]: header["value"].decode() for header in record["headers"]}
            if headers["runnel.query"] != query:
                continue
            place = headers["runnel.topic"], int(headers["runnel.partition"]), int(headers["runnel.offset"])
            assert place not in found, f"{place} was put aside twice"
            found[place] = headers
        return found

    def rows(self, view: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = open_store(str(self.data)).reader(view).rows().to_pylist()
        return found


def told(query: Any) -> Told:
    totals = query.totals
    return Told(totals.batches, totals.in_time, totals.late, totals.rejected, sum(dropped(query).values()))


def dropped(query: Any) -> dict[int, int]:
    """How many rows Spark says to have dropped by its watermark, by batch."""
    reports = [json.loads(progress.json) for progress in query._started.recentProgress]
    return {
        report["batchId"]: sum(operator["numRowsDroppedByWatermark"] for operator in report["stateOperators"])
        for report in reports
    }


def moment(at: int) -> str:
    return datetime.fromtimestamp((START + at) / SECOND, UTC).isoformat(timespec="milliseconds")


def broken(row: dict[str, Any], chance: random.Random) -> bytes | None:
    """A value that does not fit, one way or another."""
    whole = json.dumps(row).encode()
    ways: list[Callable[[], bytes | None]] = [
        lambda: b"{" + whole,
        lambda: whole + whole,
        lambda: whole[:-5],
        lambda: b"",
        lambda: b"\xff\xfe" + whole,
        lambda: None,
        lambda: json.dumps({**row, "k": "many"}).encode(),
        lambda: json.dumps({**row, "at": None}).encode(),
        lambda: json.dumps({**row, "at": FAR_AHEAD}).encode(),
        lambda: json.dumps({name: value for name, value in row.items() if name != "at"}).encode(),
    ]
    return chance.choice(ways)()
