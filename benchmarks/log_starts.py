"""How long a log takes to open, and the memory of an idle partition."""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from benchmarks import log_idle
from benchmarks.harness import Figure, Options, Target, at_most, seconds, side_by_side
from benchmarks.log_batches import MIB, SMALL_BATCH, TOPIC, batch_of, first_segment, folder
from benchmarks.log_samples import Sample, Samples, copy_with_linked_segments
from benchmarks.slices import MILLISECONDS, in_slices
from runnel.log import open_log

ROOT = Path(__file__).parents[1]
BYTES_PER_IDLE_PARTITION = 20_000


def figures(options: Options, place: Path, samples: Samples) -> list[Figure]:
    return [
        _clean(options, samples.small, samples.large, "one segment", at_most(1.5)),
        _clean(options, samples.small, samples.large_in_segments, "64 segments", None),
        _killed(options, place, samples.large, "one segment"),
        _killed(options, place, samples.large_in_segments, "64 segments"),
        *_idle_partitions(options, place),
    ]


def _clean(options: Options, small: Sample, large: Sample, shape: str, target: Target | None) -> Figure:
    """The size must not matter; that many segments have many names to list cannot be helped."""
    return in_slices(
        f"open 1 GiB after a clean stop, {shape}",
        unit=MILLISECONDS,
        against="10 MiB",
        ours=lambda: _time_to_open(large.clean),
        peer=lambda: _time_to_open(small.clean),
        target=target,
        options=options,
    )


def _killed(options: Options, place: Path, sample: Sample, shape: str) -> Figure:
    """The active segment is checked from the last checkpoint on, and here there was none."""
    return in_slices(
        f"open 1 GiB after a kill, {shape}",
        unit=MILLISECONDS,
        against="read all of it, pread of 1 MiB",
        ours=lambda: _time_to_open_killed(place, sample),
        peer=lambda: seconds(lambda: _read_segments(sample)),
        options=options,
    )


def _time_to_open(path: Path) -> float:
    """Until the partition's last offset is known. Closing is not counted."""
    start = time.perf_counter()
    log = open_log(path)
    end_offset = log.partition(TOPIC).end_offset
    elapsed = time.perf_counter() - start
    log.close()
    if end_offset == 0:
        raise ValueError(f"the log in {path} is empty")
    return elapsed


def _time_to_open_killed(place: Path, sample: Sample) -> float:
    with folder(place) as home:
        copy_with_linked_segments(sample.killed, home / "log")
        return _time_to_open(home / "log")


def _read_segments(sample: Sample) -> None:
    for path in sorted(first_segment(sample.clean).parent.glob("*.log")):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            position = 0
            while data := os.pread(descriptor, MIB, position):
                position += len(data)
        finally:
            os.close(descriptor)


def _idle_partitions(options: Options, place: Path) -> list[Figure]:
    """After a clean stop each partition is touched once, in a process of its own."""
    count = options.size(full=2_000, quick=100)
    batch = batch_of(SMALL_BATCH, 1)
    with folder(place) as path:
        with open_log(path / "log") as log:
            for append in [log.partition(TOPIC, number).submit(batch) for number in range(count)]:
                append.result()
        return [
            side_by_side(
                f"memory of an idle partition, {measure}",
                unit="bytes",
                against="the budget",
                ours=partial(_bytes_per_partition, path / "log", count, measure),
                peer=lambda: BYTES_PER_IDLE_PARTITION,
                target=at_most(1),
                options=options,
            )
            for measure in log_idle.MEASURES
        ]


def _bytes_per_partition(path: Path, count: int, measure: str) -> float:
    command = [sys.executable, "-m", log_idle.__name__, str(path), str(count), measure]
    return float(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
