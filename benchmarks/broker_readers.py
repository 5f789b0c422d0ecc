"""Readers that do nothing but read: ten at once of one topic, and one of a topic that no memory holds.

They ask as librdkafka does and look at nothing but the ends of the batches, so that the broker is what is measured.
"""

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks import broker_wire as wire
from benchmarks.broker_bulk import fill, lines, number_of_records
from benchmarks.broker_process import cpu_seconds, read_from_disk
from benchmarks.broker_servers import Running
from benchmarks.broker_turns import say, take_turns
from benchmarks.harness import Figure, Options, at_least, seconds
from runnel.protocol.versions import Api

TOPIC = "readers"
PARTITIONS = 4
READERS = 10
NEWER_TOPIC = "newer"  # written after the other: our broker holds the newest 64 MiB of all topics in its own memory
COLD_SHARE = 0.8  # of a cold read that must come from the disk; an index or a last batch may not


@dataclass(frozen=True)
class Sample:
    size: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        return self.size / 1e6 / self.seconds

    def __str__(self) -> str:
        return f"{self.rate:,.0f} MB/s, broker CPU {self.cpu:.2f} s"


def figures(options: Options, place: Path, ours: Running, peer: Running) -> list[Figure]:
    records = number_of_records(options)
    with lines(place, records) as file:
        for broker in (ours, peer):
            fill(broker, TOPIC, file, records, PARTITIONS)
            say(f"readers, warm-up, {broker.name}: {_together(broker)}")
        together = take_turns(f"{READERS} readers", options.rounds, ours, peer, _together)
        for broker in (ours, peer):
            fill(broker, NEWER_TOPIC, file, records, PARTITIONS)
    cold = take_turns("cold read", options.rounds, ours, peer, _cold)
    for broker in (ours, peer):
        broker.delete_topic(TOPIC)
        broker.delete_topic(NEWER_TOPIC)
    return [
        together.figure(f"{READERS} readers of one topic", "MB/s", lambda sample: sample.rate, at_least(0.5)),
        cold.figure("cold read of one topic", "MB/s", lambda sample: sample.rate, at_least(0.5)),
    ]


def _together(broker: Running) -> Sample:
    ends = broker.end_offsets(TOPIC, PARTITIONS)
    sizes: list[int] = []
    readers = [threading.Thread(target=lambda: sizes.append(read(broker, TOPIC, ends))) for _ in range(READERS)]
    before = cpu_seconds(broker.pid)

    def run() -> None:
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()

    elapsed = seconds(run)
    if len(sizes) < READERS:
        raise RuntimeError(f"{READERS - len(sizes)} readers of {broker.name} failed")
    return Sample(sum(sizes), elapsed, cpu_seconds(broker.pid) - before)


def _cold(broker: Running) -> Sample:
    ends = broker.end_offsets(TOPIC, PARTITIONS)
    for segment in broker.segments(TOPIC):
        forget(segment)
    before, read_before = cpu_seconds(broker.pid), read_from_disk(broker.pid)
    sizes: list[int] = []
    elapsed = seconds(lambda: sizes.append(read(broker, TOPIC, ends)))
    from_disk = read_from_disk(broker.pid) - read_before
    if from_disk < COLD_SHARE * sizes[0]:
        raise RuntimeError(
            f"only {from_disk / 1e6:.0f} of {sizes[0] / 1e6:.0f} MB came from the disk of {broker.name}: a cold read"
            " needs a disk; TMPDIR chooses one"
        )
    return Sample(sizes[0], elapsed, cpu_seconds(broker.pid) - before)


def forget(file: Path) -> None:
    """Have the system drop a file from its page cache; only what is written to the disk can be dropped."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def read(broker: Running, topic: str, ends: dict[int, int]) -> int:
    """Read all partitions from their beginnings to these ends; the bytes of their batches, each counted once."""
    offsets = dict.fromkeys(ends, 0)
    size, buffer = 0, bytearray()
    with broker.connect() as connection:
        while offsets:
            connection.sendall(wire.fetch_frame(topic, offsets))
            wire.receive(connection, buffer)
            # Not copied: a Fetch answer that names its topics holds nothing that must be bytes.
            answer = wire.decoded(Api.FETCH, wire.FETCH_VERSION, cast(bytes, buffer))
            size += sum(_advance(partition, offsets) for partition in answer["responses"][0]["partitions"])
            offsets = {number: offset for number, offset in offsets.items() if offset < ends[number]}
            del answer  # it looks into the buffer, which can grow only when nobody does
    return size


def _advance(partition: dict[str, Any], offsets: dict[int, int]) -> int:
    if partition["error_code"]:
        raise wire.BrokerRefused(f"a fetch was refused with error {partition['error_code']}")
    size, offset = wire.whole_batches(partition["records"])
    if offset is not None:
        offsets[partition["partition_index"]] = offset
    return size
