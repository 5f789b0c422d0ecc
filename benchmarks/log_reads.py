"""Reads and lookups of the log, all of them from the page cache or from memory."""

import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from kafka.record.memory_records import MemoryRecords

from benchmarks.harness import Figure, Options, at_least, at_most, per_second, side_by_side
from benchmarks.log_batches import BATCH, MEGABYTE, MIB, RECORDS_PER_BATCH, batch_of, folder
from benchmarks.log_samples import TOPIC, Sample, Samples
from runnel.log import LogSettings, Partition, TopicSettings, open_log

READ = MIB
SMALL_RECORDS_PER_BATCH = 160  # of about 100 bytes
WITHOUT_TAIL_CACHE = LogSettings(tail_cache_bytes=0)


def figures(options: Options, place: Path, samples: Samples) -> list[Figure]:
    return [
        _from_the_file(options, samples.large),
        _from_the_tail(options, place),
        _records(options, place, RECORDS_PER_BATCH, "1 KB"),
        _records(options, place, SMALL_RECORDS_PER_BATCH, "100 B"),
        *_lookups(options, samples.small, samples.large, "one segment"),
        *_lookups(options, samples.small, samples.large_in_segments, "64 segments"),
    ]


def _from_the_file(options: Options, sample: Sample) -> Figure:
    size = min(options.size(full=256 * MIB, quick=8 * MIB), sample.size)
    descriptor = os.open(sample.first_segment, os.O_RDONLY)
    with open_log(sample.clean, settings=WITHOUT_TAIL_CACHE) as log:
        partition = log.partition(TOPIC)
        try:
            _pread_all(descriptor, size)  # into the page cache
            return side_by_side(
                "read from the file, 1 MiB at a time",
                unit="MB/s",
                against="pread of 1 MiB",
                ours=lambda: (
                    per_second(size, lambda: _read_all(partition, size // BATCH * RECORDS_PER_BATCH)) / MEGABYTE
                ),
                peer=lambda: per_second(size, lambda: _pread_all(descriptor, size)) / MEGABYTE,
                target=at_least(0.7),
                options=options,
            )
        finally:
            os.close(descriptor)


def _from_the_tail(options: Options, place: Path) -> Figure:
    """What was appended last and is in memory, against the same bytes from the page cache."""
    batches = options.size(full=32 * MIB, quick=MIB) // BATCH
    size, end_offset = batches * BATCH, batches * RECORDS_PER_BATCH
    with folder(place) as path, open_log(path / "log") as log:
        partition = _filled(log.partition(TOPIC, 0, TopicSettings(flush_ms=60_000)), batches, RECORDS_PER_BATCH)
        descriptor = os.open(path / "log" / f"{TOPIC}-0" / f"{0:020d}.log", os.O_RDONLY)
        try:
            return side_by_side(
                "read from the tail in memory, 1 MiB at a time",
                unit="MB/s",
                against="pread of 1 MiB",
                ours=lambda: per_second(size, lambda: _read_all(partition, end_offset)) / MEGABYTE,
                peer=lambda: per_second(size, lambda: _pread_all(descriptor, size)) / MEGABYTE,
                options=options,
            )
        finally:
            os.close(descriptor)


def _records(options: Options, place: Path, records_per_batch: int, size: str) -> Figure:
    """Everything from the offset to the decoded record, checksums checked; the peer is given the bytes."""
    batches = options.size(full=8_000, quick=800) // records_per_batch
    count = batches * records_per_batch
    with folder(place) as path, open_log(path / "log", settings=WITHOUT_TAIL_CACHE) as log:
        partition = _filled(log.partition(TOPIC, 0, TopicSettings(flush_ms=60_000)), batches, records_per_batch)
        content = (path / "log" / f"{TOPIC}-0" / f"{0:020d}.log").read_bytes()
        return side_by_side(
            f"records() of {size}",
            unit="records/s",
            against="kafka-python's decoder",
            ours=lambda: per_second(count, lambda: sum(1 for _ in partition.records())),
            peer=lambda: per_second(count, lambda: _decode_with_kafka_python(content)),
            options=options,
        )


def _lookups(options: Options, small: Sample, large: Sample, shape: str) -> list[Figure]:
    """The median of random lookups; the ratio tells how they grow with the log."""
    count = options.size(full=2_000, quick=50)
    with open_log(small.clean) as small_log, open_log(large.clean) as large_log:
        small_partition, large_partition = small_log.partition(TOPIC), large_log.partition(TOPIC)
        return [
            side_by_side(
                f"find an offset in 1 GiB, {shape}",
                unit="µs",
                against="in 10 MiB",
                ours=lambda: _median_of_lookups(large_partition, large, count, _find_offset),
                peer=lambda: _median_of_lookups(small_partition, small, count, _find_offset),
                target=at_most(2),
                options=options,
            ),
            side_by_side(
                f"find a time in 1 GiB, {shape}",
                unit="µs",
                against="in 10 MiB",
                ours=lambda: _median_of_lookups(large_partition, large, count, _find_time),
                peer=lambda: _median_of_lookups(small_partition, small, count, _find_time),
                target=at_most(2),
                options=options,
            ),
        ]


Lookup = Callable[[Partition, Sample, random.Random], Callable[[], object]]


def _find_offset(partition: Partition, sample: Sample, chance: random.Random) -> Callable[[], object]:
    offset = chance.randrange(sample.end_offset)
    return lambda: partition.read(offset, 1)


def _find_time(partition: Partition, sample: Sample, chance: random.Random) -> Callable[[], object]:
    time_wanted = chance.randrange(sample.first_time, sample.last_time)
    return lambda: partition.find_time(time_wanted)


def _median_of_lookups(partition: Partition, sample: Sample, count: int, lookup: Lookup) -> float:
    chance = random.Random(count)
    lookups = [lookup(partition, sample, chance) for _ in range(count)]
    for find in lookups:  # into the page cache, and each segment into memory
        find()
    times = []
    for find in lookups:
        start = time.perf_counter()
        find()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def _filled(partition: Partition, batches: int, records_per_batch: int) -> Partition:
    batch = batch_of(BATCH, records_per_batch)
    for _ in range(batches):
        partition.append_batch(batch)
    return partition


def _read_all(partition: Partition, end_offset: int) -> None:
    offset = 0
    while offset < end_offset:
        offset = partition.read(offset, READ).next_offset


def _pread_all(descriptor: int, size: int) -> None:
    position = 0
    while position < size:
        position += len(os.pread(descriptor, READ, position))


def _decode_with_kafka_python(content: bytes) -> None:
    batches = MemoryRecords(content)
    while (batch := batches.next_batch()) is not None:
        if not batch.validate_crc():
            raise ValueError("kafka-python finds the checksum wrong")
        for _ in batch:
            pass
