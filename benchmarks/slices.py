"""Measures two sides in small slices, turn by turn: for figures that share a disk with whoever else uses it.

A disk has moods that last for seconds: the same sync may take ten times as long a moment later. Two sides that are
measured one after the other then tell of the disk alone. Here a round is many slices, each too short for a mood to
change in, and the number of a round is that of its median slice.
"""

import statistics
import time
from collections.abc import Callable

from benchmarks.harness import Figure, Measure, Options, Target, measure_round

SLICES = 40
LEAST_SLICES = 5
SECONDS_PER_ROUND = 2.0

Unit = Callable[[float], float]  # from the seconds of a slice to the number that the table shows


def in_slices(
    name: str,
    *,
    unit: tuple[str, Unit],
    against: str,
    ours: Measure,
    peer: Measure,
    options: Options,
    target: Target | None = None,
) -> Figure:
    """`ours` and `peer` do one slice of the same work and return the seconds that it took."""
    unit_name, as_number = unit
    rounds = [_round(ours, peer, options) for _ in range(options.rounds)]
    our_numbers = tuple(as_number(our_seconds) for our_seconds, _ in rounds)
    peer_numbers = tuple(as_number(peer_seconds) for _, peer_seconds in rounds)
    return Figure(name, unit_name, against, our_numbers, peer_numbers, target)


def _round(ours: Measure, peer: Measure, options: Options) -> tuple[float, float]:
    """The seconds of the median slice of both; a slow disk gets fewer slices."""
    slices: list[tuple[float, float]] = []
    end = time.perf_counter() + SECONDS_PER_ROUND
    least, most = options.size(full=LEAST_SLICES, quick=1), options.size(full=SLICES, quick=2)
    while len(slices) < least or (len(slices) < most and time.perf_counter() < end):
        slices.append(measure_round(ours, peer, peer_first=len(slices) % 2 == 1))
    our_seconds, peer_seconds = zip(*slices, strict=True)
    return statistics.median(our_seconds), statistics.median(peer_seconds)


def megabytes_per_second(size: int) -> tuple[str, Unit]:
    """For slices that move `size` bytes."""
    return "MB/s", lambda seconds: size / 1e6 / seconds


def per_second(things: str, count: int) -> tuple[str, Unit]:
    """For slices that handle `count` things."""
    return f"{things}/s", lambda seconds: count / seconds


MILLISECONDS: tuple[str, Unit] = ("ms", lambda seconds: seconds * 1e3)
MICROSECONDS: tuple[str, Unit] = ("µs", lambda seconds: seconds * 1e6)
