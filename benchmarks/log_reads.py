"""Reads and lookups of the log, all of them from the page cache or from memory."""

import os
import random
import statistics
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Figure, Measure, Options, at_least, at_most, seconds
from benchmarks.log_batches import BATCH, MIB, RECORDS_PER_BATCH, TOPIC, batch_of, first_segment, folder
from benchmarks.log_samples import Sample, Samples
from benchmarks.slices import MICROSECONDS, in_slices, megabytes_per_second, per_second
from runnel.log import LogSettings, Partition, TopicSettings, open_log

READ = MIB
LOOKUPS_PER_SLICE = 50
LOOKUPS_TO_GET_WARM = 1_000
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
    descriptor = os.open(first_segment(sample.clean), os.O_RDONLY)
    with open_log(sample.clean, settings=WITHOUT_TAIL_CACHE) as log:
        partition = log.partition(TOPIC)
        try:
            _pread_all(descriptor, size)  # into the page cache
            return in_slices(
                "read from the file, 1 MiB at a time",
                unit=megabytes_per_second(size),
                against="pread of 1 MiB",
                ours=lambda: seconds(lambda: _read_all(partition, size // BATCH * RECORDS_PER_BATCH)),
                peer=lambda: seconds(lambda: _pread_all(descriptor, size)),
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
        descriptor = os.open(first_segment(path / "log"), os.O_RDONLY)
        try:
            return in_slices(
                "read from the tail in memory, 1 MiB at a time",
                unit=megabytes_per_second(size),
                against="pread of 1 MiB",
                ours=lambda: seconds(lambda: _read_all(partition, end_offset)),
                peer=lambda: seconds(lambda: _pread_all(descriptor, size)),
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
        content = first_segment(path / "log").read_bytes()
        _decode_with_kafka_python(content)  # imports it
        return in_slices(
            f"records() of {size}",
            unit=per_second("records", count),
            against="kafka-python's decoder",
            ours=lambda: seconds(lambda: sum(1 for _ in partition.records())),
            peer=lambda: seconds(lambda: _decode_with_kafka_python(content)),
            options=options,
        )


def _lookups(options: Options, small: Sample, large: Sample, shape: str) -> list[Figure]:
    """The median of random lookups; the ratio tells how they grow with the log."""
    with open_log(small.clean) as small_log, open_log(large.clean) as large_log:
        small_partition, large_partition = small_log.partition(TOPIC), large_log.partition(TOPIC)
        return [
            in_slices(
                f"find {what} in 1 GiB, {shape}",
                unit=MICROSECONDS,
                against="in 10 MiB",
                ours=_median_of_lookups(large_partition, large, lookup),
                peer=_median_of_lookups(small_partition, small, lookup),
                target=at_most(2),
                options=options,
            )
            for what, lookup in (("an offset", _find_offset), ("a time", _find_time))
        ]


Lookup = Callable[[Partition, Sample, random.Random], Callable[[], object]]


def _find_offset(partition: Partition, sample: Sample, chance: random.Random) -> Callable[[], object]:
    offset = chance.randrange(sample.end_offset)
    return lambda: partition.read(offset, 1)


def _find_time(partition: Partition, sample: Sample, chance: random.Random) -> Callable[[], object]:
    timestamp = chance.randrange(sample.first_time, sample.last_time)
    return lambda: partition.find_time(timestamp)


def _median_of_lookups(partition: Partition, sample: Sample, lookup: Lookup) -> Measure:
    chance = random.Random(sample.batches)
    for _ in range(LOOKUPS_TO_GET_WARM):  # every segment is opened when it is first needed
        lookup(partition, sample, chance)()

    def measure() -> float:
        lookups = [lookup(partition, sample, chance) for _ in range(LOOKUPS_PER_SLICE)]
        return statistics.median(seconds(find) for find in lookups)

    return measure


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
    # Importing it warns of a deprecation, and whoever lists the benchmarks imports this module.
    from kafka.record.memory_records import MemoryRecords  # noqa: PLC0415

    batches = MemoryRecords(content)
    while (batch := batches.next_batch()) is not None:
        if not batch.validate_crc():
            raise ValueError("kafka-python finds the checksum wrong")
        for _ in batch:
            pass
