"""Transactions beside Apache Kafka 4.3.0: the same clients on the same disk, turn by turn.

It needs Java 17 and Maven, which fetches Kafka once. TMPDIR chooses the disk.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import transactions_delay, transactions_load
from benchmarks.broker_environment import users_program
from benchmarks.broker_servers import Kafka, Runnel, Running, running
from benchmarks.broker_turns import say, take_turns
from benchmarks.harness import Figure, Options, at_least, at_most, seconds
from tests.interop.kafka_distribution import KafkaUnavailable, kafka_classpath

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0
COMMITS, DELAYS, READ = "commits", "delays", "read"
DELAY_RATE = 50  # transactions a second
RECORDS_OF_A_TRANSACTION = 1_000
ABORTED_SHARE = 10  # one in so many
VALUE = b"x" * 100


def run(options: Options) -> list[Figure]:
    try:
        kafka_classpath()
    except KafkaUnavailable as missing:
        raise SystemExit(str(missing)) from None
    program = users_program()
    with tempfile.TemporaryDirectory(prefix="runnel-bench-") as folder:
        place = Path(folder)
        with running(Runnel(place / "runnel", program)) as ours, running(Kafka(place / "kafka")) as peer:
            return [*_commits(options, ours, peer), *_delays(options, ours, peer), *_reads(options, ours, peer)]


# --- commits


@dataclass(frozen=True)
class Commits:
    per_second: float
    p50: float  # milliseconds
    p99: float

    def __str__(self) -> str:
        return f"{self.per_second:,.0f} transactions/s, commit p50 {self.p50:.2f}, p99 {self.p99:.2f} ms"


def _commits(options: Options, ours: Running, peer: Running) -> list[Figure]:
    duration, warm_up = options.size(full=5, quick=2), options.size(full=30, quick=2)
    figures = []
    for broker in (ours, peer):
        broker.create_topic(COMMITS, transactions_load.PARTITIONS)
    for producers in (1, 50):
        what = f"transactions of 100 records, {producers} {'producer' if producers == 1 else 'producers'}"
        for broker in (ours, peer):
            say(f"{what}, warm-up, {broker.name}: {_commit(broker, producers, warm_up)}")
        turns = take_turns(what, options.rounds, ours, peer, lambda broker, n=producers: _commit(broker, n, duration))
        figures += [
            turns.figure(what, "transactions/s", lambda sample: sample.per_second, at_least(1)),
            turns.figure(f"{what}: commit p99", "ms", lambda sample: sample.p99, at_most(1.5)),
            turns.figure(f"{what}: commit p50", "ms", lambda sample: sample.p50),
        ]
    return figures


def _commit(broker: Running, producers: int, duration: int) -> Commits:
    os.sync()  # nobody pays for what another left in the page cache
    return Commits(**_told(transactions_load.__name__, broker.bootstrap, COMMITS, producers, duration))


# --- how long a committed record is on its way


@dataclass(frozen=True)
class Delays:
    p50: float  # milliseconds
    p99: float

    def __str__(self) -> str:
        return f"p50 {self.p50:.2f}, p99 {self.p99:.2f} ms"


def _delays(options: Options, ours: Running, peer: Running) -> list[Figure]:
    duration = options.size(full=8, quick=3)
    for broker in (ours, peer):
        broker.create_topic(DELAYS, 1)
        say(f"committed records, warm-up, {broker.name}: {_delay(broker, duration)}")
    turns = take_turns("committed records", options.rounds, ours, peer, lambda broker: _delay(broker, duration))
    what = f"from the commit to a reader of committed records, {DELAY_RATE}/s"
    return [
        turns.figure(f"{what}: p99", "ms", lambda sample: sample.p99, at_most(1)),
        turns.figure(f"{what}: p50", "ms", lambda sample: sample.p50),
    ]


def _delay(broker: Running, duration: int) -> Delays:
    return Delays(**_told(transactions_delay.__name__, broker.bootstrap, DELAYS, DELAY_RATE, duration))


# --- reading what is committed


def _reads(options: Options, ours: Running, peer: Running) -> list[Figure]:
    transactions = options.size(full=1_000, quick=50)
    for broker in (ours, peer):
        broker.create_topic(READ, 1)
        _fill(broker, transactions)
        say(f"read_committed, warm-up, {broker.name}: {_read(broker, transactions):,.0f} records/s")
    turns = take_turns("read_committed", options.rounds, ours, peer, lambda broker: _read(broker, transactions))
    what = f"read_committed, one transaction in {ABORTED_SHARE} aborted"
    return [turns.figure(what, "records/s", lambda rate: rate, at_least(1))]


def _fill(broker: Running, transactions: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": str(uuid4())})
    producer.init_transactions(PATIENCE)
    for number in range(transactions):
        producer.begin_transaction()
        for _ in range(RECORDS_OF_A_TRANSACTION):
            producer.produce(READ, VALUE, partition=0)
        if number % ABORTED_SHARE:
            producer.commit_transaction(PATIENCE)
        else:
            producer.flush(PATIENCE)  # or nothing would be written
            producer.abort_transaction(PATIENCE)


def _read(broker: Running, transactions: int) -> float:
    aborted = -(-transactions // ABORTED_SHARE)
    expected = (transactions - aborted) * RECORDS_OF_A_TRANSACTION
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": str(uuid4()),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            # A client whose queue is full asks again after a second, and the whole reading takes less than one: how
            # often it happened to be full would be all that is measured.
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(READ, 0, 0)])
    count = 0

    def read() -> None:
        nonlocal count
        while count < expected:
            messages = consumer.consume(min(500, expected - count), PATIENCE)
            if not messages:
                raise RuntimeError(f"{broker.name} gave {count:,} of {expected:,} records")
            count += sum(message.error() is None for message in messages)

    elapsed = seconds(read)
    consumer.close()
    if count != expected:
        raise RuntimeError(f"{broker.name} gave {count:,} records, and {expected:,} are committed")
    return count / elapsed


def _told(module: str, *arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    run = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    told: dict[str, float] = json.loads(run.stdout)
    return told
