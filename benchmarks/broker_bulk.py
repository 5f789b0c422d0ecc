"""Many small records in and out again with kcat, and the processor time and memory that the broker takes for it.

kcat is a C program over librdkafka with its defaults: acks=all, batches of up to 1 MB, 5 ms of linger. Our broker
acknowledges when a batch is synced to the disk; Kafka never syncs. What lies unwritten in the page cache is written
before each sample, so that nobody pays for what another left.
"""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.broker_process import cpu_seconds, resident
from benchmarks.broker_servers import Running
from benchmarks.broker_turns import say, take_turns
from benchmarks.harness import Figure, Options, at_least, at_most, seconds

LINE = 100  # bytes of a record
_numbers = itertools.count()


@dataclass(frozen=True)
class Sample:
    records: int
    produce: float  # seconds
    consume: float
    cpu: float
    memory: int

    def __str__(self) -> str:
        return (
            f"in {self.records / self.produce:,.0f}/s, out {self.records / self.consume:,.0f}/s,"
            f" broker CPU {self.cpu:.2f} s, memory {self.memory / 1e6:.0f} MB"
        )


def figures(options: Options, place: Path, ours: Running, peer: Running) -> list[Figure]:
    records = number_of_records(options)
    found: list[Figure] = []
    with lines(place, records) as file:
        for broker in (ours, peer):
            say(f"bulk, warm-up, {broker.name}: {_sample(broker, file=file, records=records, partitions=1)}")
        for partitions in (1, 4):
            shape = f"{records / 1e6:g} million x {LINE} B, {partitions} partition{'s' if partitions > 1 else ''}"
            sample = partial(_sample, file=file, records=records, partitions=partitions)
            turns = take_turns(shape, options.rounds, ours, peer, sample)
            found += [
                turns.figure(f"produce {shape}", "records/s", lambda sample: records / sample.produce, at_least(1)),
                turns.figure(f"consume {shape}", "records/s", lambda sample: records / sample.consume, at_least(1)),
                turns.figure(f"broker CPU for both, {partitions}p", "s", lambda sample: sample.cpu, at_most(0.5)),
            ]
    found.append(turns.figure("memory after load", "MB", lambda sample: sample.memory / 1e6, at_most(0.25)))
    return found


def number_of_records(options: Options) -> int:
    return options.size(full=3_000_000, quick=600_000)


@contextmanager
def lines(place: Path, records: int) -> Iterator[Path]:
    """A file of so many lines, each one record."""
    file = place / "lines.txt"
    text = b"".join(b"%0*d\n" % (LINE, number) for number in range(10_000))
    with file.open("wb") as output:
        for first in range(0, records, 10_000):
            output.write(text[: (records - first) * (LINE + 1)])
    try:
        yield file
    finally:
        file.unlink()


def fill(broker: Running, topic: str, file: Path, records: int, partitions: int) -> float:
    """Create a topic and write the lines of a file to it; the seconds that the writing took."""
    broker.create_topic(topic, partitions)
    os.sync()
    command = [kcat(), "-P", "-q", "-b", broker.bootstrap, "-t", topic, "-l", str(file)]
    elapsed = seconds(lambda: subprocess.run(command, check=True, stdin=subprocess.DEVNULL))
    written = sum(broker.end_offsets(topic, partitions).values())
    if written != records:
        raise RuntimeError(f"{broker.name} holds {written:,} records of {records:,} in {topic}")
    return elapsed


def kcat() -> str:
    program = shutil.which("kcat")
    if program is None:
        raise SystemExit("kcat is missing: it loads both brokers. On Debian and Ubuntu: apt-get install kcat")
    return program


def _sample(broker: Running, *, file: Path, records: int, partitions: int) -> Sample:
    topic = f"bulk{next(_numbers)}"
    before = cpu_seconds(broker.pid)
    produce = fill(broker, topic, file, records, partitions)
    # It ends by itself after so many records, and only then.
    command = [kcat(), "-C", "-q", "-b", broker.bootstrap, "-t", topic, "-o", "beginning", "-c", str(records)]
    consume = seconds(lambda: subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
    cpu, memory = cpu_seconds(broker.pid) - before, resident(broker.pid)
    broker.delete_topic(topic)
    return Sample(records, produce, consume, cpu, memory)
