"""Compaction beside Apache Kafka 4.3.0: both cleaners get the same records, on the same disk, turn by turn.

It needs Java 17 and Maven, which fetches Kafka once. TMPDIR chooses the disk. What is measured:

- Records a second, from when a cleaner begins with a partition until it says that it is done: 5 million records over
  500,000 keys, all of them dirty, in segments of 128 MiB. Each cleaner has one thread and its own default for the
  memory of its keys. Kafka's knows no limit of processor time, so ours is measured without its limit beside it, and
  with its default once more. Both look for work every half second instead of every 15, and nothing else runs.
- The share of a core that ours takes with its default: of the ten seconds in which it took most.
- The memory of our worker for a million keys: its largest resident size, less that of a worker with a few keys.
- The p99 of a producer's acknowledgements, 500 records a second to another topic, while a cleaner is at work, beside
  the p99 just before it began: each broker against itself.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from benchmarks import compaction_latency
from benchmarks.broker_environment import users_program
from benchmarks.broker_servers import CRITICAL, Kafka, Runnel, Running, running, wait_until
from benchmarks.broker_turns import NAMES, PEER, Turns, percentile, say, take_turns
from benchmarks.compaction_cleaners import KAFKA_LOGGING, KafkaCleaner, OurCleaner, Watch, Watched, busiest_share
from benchmarks.compaction_records import keyed_batches, read_batches, send
from benchmarks.harness import Figure, Options, at_least, at_most
from tests.interop.kafka_distribution import KafkaUnavailable, kafka_classpath

ROOT = Path(__file__).parents[1]
MB = 1e6
MIB = 1024 * 1024
SEGMENT = 128 * MIB
SMALLEST_SEGMENT = MIB  # of Kafka's
FEW_RECORDS, FEW_KEYS = 20_000, 2_000  # of what warms up a cleaner, and shows a worker's memory without keys
LOOK = {"log.cleaner.backoff.ms": "500"}
UNLIMITED = {"runnel.cleaner.cpu.percent": "100"}
ROUNDS = 3  # one takes its time, most of all with a quarter of a core
CPU_LIMIT = 0.25  # of a core, over CPU_WINDOW
CPU_WINDOW = 10.0  # seconds
MEMORY_LIMIT = 120 * MB  # for a million keys of 16 bytes
RATE = 500  # records a second of the producer beside a cleaner
ACKS = "acks"
PATIENCE = 300.0

_numbers = count()


def run(options: Options) -> list[Figure]:
    try:
        kafka_classpath()
    except KafkaUnavailable as missing:
        raise SystemExit(str(missing)) from None
    program = users_program()
    with tempfile.TemporaryDirectory(prefix="runnel-bench-") as folder:
        place = Path(folder)
        work = Work.prepared(place, options)
        unlimited = Runnel(place / "unlimited", program, settings={**LOOK, **UNLIMITED})
        limited = Runnel(place / "runnel", program, settings=LOOK)
        kafka = Kafka(place / "kafka", settings=LOOK, logging=KAFKA_LOGGING)
        with running(kafka) as peer:
            with running(unlimited) as ours:
                figures = _rates(options, work, ours, peer)
            with running(limited) as ours:
                return [*figures, *_beside_a_producer(options, work, ours, peer)]


@dataclass(frozen=True)
class Work:
    """The batches that are compacted, in a file, and a few that warm up."""

    records: int
    keys: int
    batches: Path
    few: Path

    @classmethod
    def prepared(cls, place: Path, options: Options) -> "Work":
        records, keys = options.size(full=5_000_000, quick=200_000), options.size(full=500_000, quick=20_000)
        work = cls(records, keys, place / "batches", place / "few")
        say(f"making {records:,} records over {keys:,} keys")
        _write(work.batches, keyed_batches(records, keys))
        _write(work.few, keyed_batches(FEW_RECORDS, FEW_KEYS))
        return work

    def __str__(self) -> str:
        return f"{self.records / 1e6:g} million records over {self.keys:,} keys"


def _write(path: Path, batches: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(batches)


# --- how fast


def _rates(options: Options, work: Work, ours: Running, peer: Running) -> list[Figure]:
    for broker in (ours, peer):
        for batches in (work.few, work.batches):
            say(f"compaction, warm-up, {broker.name}: {_sample(broker, batches)}")
    rounds = min(options.rounds, ROUNDS)
    turns = take_turns("compaction", rounds, ours, peer, lambda broker: _sample(broker, work.batches))
    what = f"{work}, no CPU limit"
    return [
        turns.figure(what, "records/s", Sample.per_second, at_least(0.5)),
        turns.figure(f"{what}: CPU of the server", "s", lambda sample: sample.watched.cpu),
        turns.figure(f"{what}: memory of the server", "MB", lambda sample: sample.watched.memory / MB),
    ]


@dataclass(frozen=True)
class Sample:
    watched: Watched

    def per_second(self) -> float:
        return self.watched.cleaning.records_before / self.watched.cleaning.seconds

    def __str__(self) -> str:
        done = self.watched.cleaning
        return (
            f"{done.records_after:,} of {done.records_before:,} records left after {done.seconds:.1f} s,"
            f" {self.per_second():,.0f} records/s, {self.watched.cpu:.1f} s CPU, {self.watched.memory / MB:.0f} MB"
        )


def _sample(broker: Running, batches: Path) -> Sample:
    with _dirty_topic(broker, batches) as begin:
        return Sample(begin().result())


# --- at what cost for others


@dataclass(frozen=True)
class Beside(Sample):
    """A cleaning, and the acknowledgements of a producer before and meanwhile, in milliseconds."""

    quiet: float
    meanwhile: float
    share: float  # of a core, in the busiest ten seconds of our worker; 0 of Kafka, which has none
    worker_memory: int  # bytes; the same

    def __str__(self) -> str:
        ours = f", {self.share:.3f} of a core, worker {self.worker_memory / MB:.0f} MB" if self.share else ""
        return f"ack p99 quiet {self.quiet:.2f}, meanwhile {self.meanwhile:.2f} ms{ours}; {super().__str__()}"


def _beside_a_producer(options: Options, work: Work, ours: Running, peer: Running) -> list[Figure]:
    rounds = min(options.rounds, ROUNDS)
    quiet = options.size(full=10, quick=3)
    for broker in (ours, peer):
        broker.create_topic(ACKS, 1)
    few = _beside(ours, work.few, quiet).worker_memory
    say(f"a worker with {FEW_KEYS:,} keys has {few / MB:.1f} MB")
    turns = take_turns("beside a producer", rounds, ours, peer, lambda broker: _beside(broker, work.batches, quiet))
    what = f"{work}, default CPU limit"
    per_million = [(sample.worker_memory - few) / (work.keys - FEW_KEYS) * 1e6 / MB for sample in turns.ours]
    return [
        turns.figure(what, "records/s", Beside.per_second),
        _against(f"{what}: busiest 10 s", "cores", "the limit", [sample.share for sample in turns.ours], CPU_LIMIT),
        _against("memory of the worker for a million keys", "MB", "the limit", per_million, MEMORY_LIMIT / MB),
        *_latencies(turns),
    ]


def _against(name: str, unit: str, against: str, ours: list[float], limit: float) -> Figure:
    return Figure(name, unit, against, tuple(ours), (limit,) * len(ours), at_most(1))


def _latencies(turns: Turns[Beside]) -> list[Figure]:
    figures = []
    for name, samples, target in ((NAMES[0], turns.ours, at_most(2)), (PEER, turns.peer, None)):
        meanwhile, quiet = zip(*[(sample.meanwhile, sample.quiet) for sample in samples], strict=True)
        what = f"ack p99 at {RATE} records/s during compaction, {name}"
        figures.append(Figure(what, "ms", "its own quiet p99", meanwhile, quiet, target))
    return figures


def _beside(broker: Running, batches: Path, quiet: int) -> Beside:
    with _dirty_topic(broker, batches) as begin, _producer(broker) as ended:
        time.sleep(quiet + 1)
        triggered = time.time()
        watch = begin()
        watched = watch.result()
        taken = ended()
    cleaning = watched.cleaning
    before = [latency for sent, latency in taken if triggered - quiet <= sent < triggered]
    during = [latency for sent, latency in taken if cleaning.began <= sent < cleaning.ended]
    share, memory = 0.0, 0
    if isinstance(watch.cleaner, OurCleaner):
        (worker,) = watch.cleaner.workers
        share, memory = busiest_share(worker.used, CPU_WINDOW), worker.peak
    return Beside(watched, percentile(before, 0.99), percentile(during, 0.99), share, memory)


@contextmanager
def _producer(broker: Running) -> Iterator[Callable[[], list[tuple[float, float]]]]:
    """Its function ends it, and answers with when each record was sent and how long its acknowledgement took."""
    command = [sys.executable, "-m", compaction_latency.__name__, broker.bootstrap, ACKS, str(RATE)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ended() -> list[tuple[float, float]]:
        told, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"the producer of {broker.name} ended with {process.returncode}")
        taken: list[tuple[float, float]] = json.loads(told)
        return taken

    try:
        yield ended
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


# --- a topic that is to be compacted


@contextmanager
def _dirty_topic(broker: Running, batches: Path) -> Iterator[Callable[[], Watch]]:
    """A topic with these batches in sealed segments. Its function tells the cleaner to begin, and watches it."""
    topic = f"compacted-{next(_numbers)}"
    broker.create_topic(topic, 1)
    _configure(broker, topic, {"segment.bytes": SEGMENT})
    with broker.connect() as connection:
        send(connection, topic, read_batches(batches))
        end = broker.end_offsets(topic, 1)[0]
        # Neither cleaner touches the segment that is written to, and a small one is full with the next record.
        _configure(broker, topic, {"segment.bytes": SMALLEST_SEGMENT})

        def is_sealed() -> bool:
            send(connection, topic, keyed_batches(1, 1))
            return int(broker.segments(topic)[-1].stem) >= end

        wait_until(is_sealed, f"a new segment of {topic}")
    os.sync()

    def begin() -> Watch:
        cleaner = (KafkaCleaner if broker.name == PEER else OurCleaner)(broker, f"{topic}-0")
        watch = Watch(broker, cleaner, PATIENCE)
        _configure(
            broker, topic, {"cleanup.policy": "compact", "segment.bytes": SEGMENT, "min.cleanable.dirty.ratio": 0}
        )
        return watch

    yield begin
    broker.delete_topic(topic)


def _configure(broker: Running, topic: str, configs: dict[str, object]) -> None:
    entries = [
        ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": CRITICAL})
    admin.incremental_alter_configs([resource], request_timeout=60)[resource].result()
