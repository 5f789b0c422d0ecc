"""The logs that the benchmarks of reading and of opening share: 10 MiB and 1 GiB, as a clean stop leaves them and as a
killed process does.

A batch whose records have the log's time can be stamped anew without being built anew, so writing 1 GiB in which each
batch has a time of its own takes seconds.
"""

import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Options
from benchmarks.log_batches import BATCH, GIB, MIB, RECORDS_PER_BATCH, TOPIC, batch_of, folder
from runnel.log import Append, Partition, TopicSettings, open_log
from runnel.records import with_append_time

IN_FLIGHT = 256
HOUR = 60 * 60 * 1_000
TIME_STEP = 10  # milliseconds from batch to batch
RELAXED = 60_000


@dataclass(frozen=True)
class Sample:
    """A log with one partition; its batches have consecutive times, TIME_STEP apart."""

    clean: Path
    killed: Path
    batches: int
    first_time: int

    @property
    def size(self) -> int:
        return self.batches * BATCH

    @property
    def end_offset(self) -> int:
        return self.batches * RECORDS_PER_BATCH

    @property
    def last_time(self) -> int:
        return self.first_time + (self.batches - 1) * TIME_STEP


@dataclass(frozen=True)
class Samples:
    small: Sample
    large: Sample
    large_in_segments: Sample


@contextmanager
def prepared(options: Options, place: Path) -> Iterator[Samples]:
    large = options.size(full=GIB, quick=20 * MIB)
    segment = options.size(full=16 * MIB, quick=MIB)
    with folder(place) as home:
        yield Samples(
            small=_written(home / "small", 10 * MIB, segment_bytes=GIB),
            large=_written(home / "large", large, segment_bytes=GIB),
            large_in_segments=_written(home / "segments", large, segment_bytes=segment),
        )


def copy_with_linked_segments(source: Path, target: Path) -> None:
    """The state of a log's folder at this moment, as a kill would leave it. Segment files are the same files: whoever
    opens the copy must not append."""
    shutil.copytree(source, target, copy_function=_link_or_copy, ignore=shutil.ignore_patterns(".lock"))


def _link_or_copy(source: str, target: str) -> None:
    if source.endswith(".log"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _written(path: Path, size: int, segment_bytes: int) -> Sample:
    path.mkdir()
    sample = Sample(path / "clean", path / "killed", size // BATCH, time.time_ns() // 1_000_000 - HOUR)
    with open_log(sample.clean) as log:
        _fill(log.partition(TOPIC, 0, TopicSettings(flush_ms=RELAXED, segment_bytes=segment_bytes)), sample)
        copy_with_linked_segments(sample.clean, sample.killed)
    return sample


def _fill(partition: Partition, sample: Sample) -> None:
    batch = batch_of(BATCH, RECORDS_PER_BATCH)
    waiting: deque[Append] = deque()
    for number in range(sample.batches):
        waiting.append(partition.submit(with_append_time(batch, sample.first_time + number * TIME_STEP)))
        if len(waiting) > IN_FLIGHT:
            waiting.popleft().result()
    for append in waiting:
        append.result()
