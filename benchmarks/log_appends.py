"""Appends to the log against the same bytes written by hand.

The peer only moves bytes: it checks no checksum, gives no offsets, keeps no index, remembers no producers, keeps
nothing in memory for readers and tells nobody. The log does all of that inside of the clock.
"""

import os
import resource
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import Figure, Measure, Options, at_least, seconds
from benchmarks.log_batches import BATCH, RECORDS_PER_BATCH, SMALL_BATCH, TOPIC, batch_of, first_segment, folder
from benchmarks.slices import in_slices, megabytes_per_second, per_second
from runnel.log import LogSettings, Partition, TopicSettings, open_log

IN_FLIGHT = 64
RELAXED = TopicSettings(flush_ms=60_000)
SYNC_WORKERS = LogSettings().sync_workers
ACTIVE_PARTITIONS = (4, 100, 1_000)
BATCHES_PER_SLICE = 50

Work = Callable[[], object]


def figures(options: Options, place: Path) -> list[Figure]:
    batch = batch_of(BATCH, RECORDS_PER_BATCH)
    return [
        *_one_partition(options, place, batch),
        *(_durable_partitions(options, place, batch, count) for count in ACTIVE_PARTITIONS),
        *_relaxed(options, place, batch),
        *(_relaxed_partitions(options, place, batch, count) for count in ACTIVE_PARTITIONS),
    ]


class RawFiles:
    """Files used by hand, their descriptors open all the time."""

    def __init__(self, paths: Sequence[Path]) -> None:
        _allow_open_files(4 * len(paths) + 1_024)
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        self._descriptors = [os.open(path, flags) for path in paths]
        self._shares = [self._descriptors[number::SYNC_WORKERS] for number in range(min(len(paths), SYNC_WORKERS))]
        self._pool = ThreadPoolExecutor(SYNC_WORKERS)

    def write(self, batch: bytes) -> None:
        for descriptor in self._descriptors:
            os.write(descriptor, batch)

    def write_group(self, batches: Sequence[bytes]) -> None:
        os.writev(self._descriptors[0], batches)

    def sync(self) -> None:
        if len(self._descriptors) == 1:
            os.fdatasync(self._descriptors[0])
        else:
            list(self._pool.map(_sync_each, self._shares))

    def close(self) -> None:
        self._pool.shutdown()
        for descriptor in self._descriptors:
            os.close(descriptor)


class Sides(NamedTuple):
    """A new log with some partitions, and the peer beside it on the same disk. Both have been written to."""

    partitions: list[Partition]
    segments: RawFiles  # those of the partitions, for syncing what a relaxed log has not
    raw: RawFiles


def _sync_each(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.fdatasync(descriptor)


def _allow_open_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        count = min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


@contextmanager
def _both(place: Path, count: int, settings: TopicSettings, batch: bytes) -> Iterator[Sides]:
    with ExitStack() as stack:
        path = stack.enter_context(folder(place))
        raw = RawFiles([path / f"raw-{number}" for number in range(count)])
        stack.callback(raw.close)
        log = stack.enter_context(open_log(path / "log"))
        partitions = [log.partition(TOPIC, number, settings) for number in range(count)]
        segments = RawFiles([first_segment(path / "log", number) for number in range(count)])
        stack.callback(segments.close)
        _wave(partitions, batch)
        _write_and_sync(raw, batch)
        yield Sides(partitions, segments, raw)


def _one_partition(options: Options, place: Path, batch: bytes) -> list[Figure]:
    small, flights = batch_of(SMALL_BATCH, 1), 4 * IN_FLIGHT
    with _both(place, 1, TopicSettings(), batch) as ((partition,), _, raw):
        return [
            in_slices(
                "append durably, one at a time",
                unit=megabytes_per_second(BATCHES_PER_SLICE * BATCH),
                against="write + fdatasync",
                ours=_timed(_repeat(BATCHES_PER_SLICE, lambda: partition.append_batch(batch))),
                peer=_timed(_repeat(BATCHES_PER_SLICE, lambda: _write_and_sync(raw, batch))),
                target=at_least(0.7),
                options=options,
            ),
            in_slices(
                f"append durably, {IN_FLIGHT} in flight",
                unit=megabytes_per_second(flights * BATCH),
                against="write + fdatasync of each",
                ours=_timed(lambda: _keep_in_flight(partition, batch, flights)),
                peer=_timed(_repeat(flights, lambda: _write_and_sync(raw, batch))),
                target=at_least(0.7),
                options=options,
            ),
            in_slices(
                f"append durably, {IN_FLIGHT} in flight",
                unit=megabytes_per_second(flights * BATCH),
                against=f"writev of {IN_FLIGHT} + one fdatasync",
                ours=_timed(lambda: _keep_in_flight(partition, batch, flights)),
                peer=_timed(_repeat(flights // IN_FLIGHT, lambda: _write_group_and_sync(raw, batch))),
                options=options,
            ),
            in_slices(
                f"append durably, {IN_FLIGHT} in flight, batches of {SMALL_BATCH} B",
                unit=per_second("batches", flights),
                against=f"writev of {IN_FLIGHT} + fdatasync",
                ours=_timed(lambda: _keep_in_flight(partition, small, flights)),
                peer=_timed(_repeat(flights // IN_FLIGHT, lambda: _write_group_and_sync(raw, small))),
                options=options,
            ),
        ]


def _durable_partitions(options: Options, place: Path, batch: bytes, count: int) -> Figure:
    """Every partition has one batch waiting. Of 1,000 files the log holds 512 open (`LogSettings.open_files`), the peer
    all. Each thread has its share of the files, on both sides."""
    waves = max(1, BATCHES_PER_SLICE // count)
    with _both(place, count, TopicSettings(), batch) as (partitions, _, raw):
        return in_slices(
            f"append durably, {count:,} partitions",
            unit=megabytes_per_second(waves * count * BATCH),
            against=f"write each, fdatasync each in {SYNC_WORKERS} threads",
            ours=_timed(_repeat(waves, lambda: _wave(partitions, batch))),
            peer=_timed(_repeat(waves, lambda: _write_and_sync(raw, batch))),
            options=options,
        )


def _relaxed(options: Options, place: Path, batch: bytes) -> list[Figure]:
    with _both(place, 1, RELAXED, batch) as ((partition,), segments, raw):
        ours = _timed(_repeat(BATCHES_PER_SLICE, lambda: partition.append_batch(batch)), after=segments.sync)
        return [
            in_slices(
                "append relaxed, one at a time",
                unit=megabytes_per_second(BATCHES_PER_SLICE * BATCH),
                against="write",
                ours=ours,
                peer=_timed(_repeat(BATCHES_PER_SLICE, lambda: raw.write(batch)), after=raw.sync),
                options=options,
            ),
            in_slices(
                "append relaxed, one at a time",
                unit=megabytes_per_second(BATCHES_PER_SLICE * BATCH),
                against="write + fdatasync",
                ours=ours,
                peer=_timed(_repeat(BATCHES_PER_SLICE, lambda: _write_and_sync(raw, batch))),
                options=options,
            ),
        ]


def _relaxed_partitions(options: Options, place: Path, batch: bytes, count: int) -> Figure:
    waves = max(1, BATCHES_PER_SLICE // count)
    with _both(place, count, RELAXED, batch) as (partitions, segments, raw):
        return in_slices(
            f"append relaxed, {count:,} partitions",
            unit=megabytes_per_second(waves * count * BATCH),
            against="write each",
            ours=_timed(_repeat(waves, lambda: _wave(partitions, batch)), after=segments.sync),
            peer=_timed(_repeat(waves, lambda: raw.write(batch)), after=raw.sync),
            options=options,
        )


def _timed(work: Work, after: Work = lambda: None) -> Measure:
    """`after` the clock has stopped, what is not synced is, or the next slice would pay for it."""

    def measure() -> float:
        elapsed = seconds(work)
        after()
        return elapsed

    return measure


def _repeat(count: int, work: Work) -> Work:
    def repeated() -> None:
        for _ in range(count):
            work()

    return repeated


def _write_and_sync(raw: RawFiles, batch: bytes) -> None:
    raw.write(batch)
    raw.sync()


def _write_group_and_sync(raw: RawFiles, batch: bytes) -> None:
    raw.write_group([batch] * IN_FLIGHT)
    raw.sync()


def _keep_in_flight(partition: Partition, batch: bytes, count: int) -> None:
    """When the oldest of those in flight is answered, the next one is sent."""
    waiting = deque(partition.submit(batch) for _ in range(IN_FLIGHT))
    for _ in range(count - IN_FLIGHT):
        waiting.popleft().result()
        waiting.append(partition.submit(batch))
    for append in waiting:
        append.result()


def _wave(partitions: Sequence[Partition], batch: bytes) -> None:
    for append in [partition.submit(batch) for partition in partitions]:
        append.result()
