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

from benchmarks.harness import Figure, Options, Target, at_least, per_second, side_by_side
from benchmarks.log_batches import BATCH, MEGABYTE, RECORDS_PER_BATCH, SMALL_BATCH, batch_of, folder
from runnel.log import Log, LogSettings, Partition, TopicSettings, open_log

IN_FLIGHT = 64
RELAXED = TopicSettings(flush_ms=60_000)
SYNC_WORKERS = LogSettings().sync_workers
ACTIVE_PARTITIONS = (4, 100, 1_000)
# A durable round of so many partitions costs so many syncs on either side; the bytes between them hardly count.
TARGETS_BY_PARTITIONS: dict[int, Target | None] = {4: None, 100: None, 1_000: None}

Work = Callable[[], object]


def figures(options: Options, place: Path) -> list[Figure]:
    batch = batch_of(BATCH, RECORDS_PER_BATCH)
    return [
        *_one_partition(options, place, batch),
        *(_durable_partitions(options, place, batch, count) for count in ACTIVE_PARTITIONS),
        *_relaxed(options, place, batch),
        *(_relaxed_partitions(options, place, batch, count) for count in ACTIVE_PARTITIONS),
    ]


class Raw:
    """The peer: as many files as there are partitions, with descriptors that stay open."""

    def __init__(self, path: Path, count: int) -> None:
        _allow_open_files(count + 1_024)
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        self._descriptors = [os.open(path / f"raw-{number}", flags) for number in range(count)]
        self._slices = [self._descriptors[number::SYNC_WORKERS] for number in range(min(count, SYNC_WORKERS))]
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
            list(self._pool.map(_sync_each, self._slices))

    def close(self) -> None:
        self._pool.shutdown()
        for descriptor in self._descriptors:
            os.close(descriptor)


def _sync_each(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.fdatasync(descriptor)


def _allow_open_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


@contextmanager
def _both(place: Path, count: int, settings: TopicSettings) -> Iterator[tuple[Log, list[Partition], Raw]]:
    """A new log with `count` partitions, and the peer beside it, on the same disk."""
    with ExitStack() as stack:
        path = stack.enter_context(folder(place))
        raw = Raw(path, count)
        stack.callback(raw.close)
        log = stack.enter_context(open_log(path / "log"))
        yield log, [log.partition("bench", number, settings) for number in range(count)], raw


def _one_partition(options: Options, place: Path, batch: bytes) -> list[Figure]:
    count = options.size(full=2_000, quick=50)
    groups = options.size(full=128, quick=2)
    small = batch_of(SMALL_BATCH, 1)
    with _both(place, 1, TopicSettings()) as (_, (partition,), raw):
        return [
            side_by_side(
                "append durably, one at a time",
                unit="MB/s",
                against="write + fdatasync",
                ours=_rate(count * BATCH, _repeat(count, lambda: partition.append_batch(batch))),
                peer=_rate(count * BATCH, _repeat(count, lambda: _write_and_sync(raw, batch))),
                target=at_least(0.7),
                options=options,
            ),
            side_by_side(
                f"append durably, {IN_FLIGHT} in flight",
                unit="MB/s",
                against=f"writev of {IN_FLIGHT} + fdatasync",
                ours=_rate(groups * IN_FLIGHT * BATCH, _in_flight(partition, batch, groups * IN_FLIGHT)),
                peer=_rate(groups * IN_FLIGHT * BATCH, _repeat(groups, _group_write(raw, batch))),
                target=at_least(0.7),
                options=options,
            ),
            side_by_side(
                f"append durably, {IN_FLIGHT} in flight, batches of {SMALL_BATCH} B",
                unit="batches/s",
                against=f"writev of {IN_FLIGHT} + fdatasync",
                ours=lambda: per_second(groups * IN_FLIGHT, _in_flight(partition, small, groups * IN_FLIGHT)),
                peer=lambda: per_second(groups * IN_FLIGHT, _repeat(groups, _group_write(raw, small))),
                options=options,
            ),
        ]


def _durable_partitions(options: Options, place: Path, batch: bytes, count: int) -> Figure:
    """Every partition has one batch waiting. Of 1,000 files the log holds 512 open (LogSettings.open_files), and the
    peer all."""
    waves = max(1, options.size(full=4_000, quick=count) // count)
    with _both(place, count, TopicSettings()) as (_, partitions, raw):
        return side_by_side(
            f"append durably, {count:,} partitions",
            unit="MB/s",
            against=f"write each, fdatasync each in {SYNC_WORKERS} threads",
            ours=_rate(waves * count * BATCH, _repeat(waves, lambda: _wave(partitions, batch))),
            peer=_rate(waves * count * BATCH, _repeat(waves, lambda: _write_and_sync(raw, batch))),
            target=TARGETS_BY_PARTITIONS[count],
            options=options,
        )


def _relaxed(options: Options, place: Path, batch: bytes) -> list[Figure]:
    count = options.size(full=4_000, quick=100)
    with _both(place, 1, RELAXED) as (log, (partition,), raw):
        ours = _rate(count * BATCH, _repeat(count, lambda: partition.append_batch(batch)), after=log.checkpoint)
        return [
            side_by_side(
                "append relaxed, one at a time",
                unit="MB/s",
                against="write",
                ours=ours,
                peer=_rate(count * BATCH, _repeat(count, lambda: raw.write(batch)), after=raw.sync),
                options=options,
            ),
            side_by_side(
                "append relaxed, one at a time",
                unit="MB/s",
                against="write + fdatasync",
                ours=ours,
                peer=_rate(count * BATCH, _repeat(count, lambda: _write_and_sync(raw, batch))),
                options=options,
            ),
        ]


def _relaxed_partitions(options: Options, place: Path, batch: bytes, count: int) -> Figure:
    waves = max(1, options.size(full=4_000, quick=count) // count)
    with _both(place, count, RELAXED) as (log, partitions, raw):
        return side_by_side(
            f"append relaxed, {count:,} partitions",
            unit="MB/s",
            against="write each",
            ours=_rate(waves * count * BATCH, _repeat(waves, lambda: _wave(partitions, batch)), after=log.checkpoint),
            peer=_rate(waves * count * BATCH, _repeat(waves, lambda: raw.write(batch)), after=raw.sync),
            options=options,
        )


def _rate(size: int, work: Work, after: Work = lambda: None) -> Callable[[], float]:
    """MB/s; `after` the clock has stopped, what is not synced is, or the next measurement would pay for it."""

    def measure() -> float:
        rate = per_second(size, work) / MEGABYTE
        after()
        return rate

    return measure


def _repeat(count: int, work: Work) -> Work:
    def repeated() -> None:
        for _ in range(count):
            work()

    return repeated


def _write_and_sync(raw: Raw, batch: bytes) -> None:
    raw.write(batch)
    raw.sync()


def _group_write(raw: Raw, batch: bytes) -> Work:
    group = [batch] * IN_FLIGHT

    def write_group() -> None:
        raw.write_group(group)
        raw.sync()

    return write_group


def _in_flight(partition: Partition, batch: bytes, count: int) -> Work:
    """Always as many batches waiting as allowed: when the oldest is answered, the next one is sent."""

    def work() -> None:
        waiting = deque(partition.submit(batch) for _ in range(IN_FLIGHT))
        for _ in range(count - IN_FLIGHT):
            waiting.popleft().result()
            waiting.append(partition.submit(batch))
        for append in waiting:
            append.result()

    return work


def _wave(partitions: Sequence[Partition], batch: bytes) -> None:
    for append in [partition.submit(batch) for partition in partitions]:
        append.result()
