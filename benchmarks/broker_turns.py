"""Takes samples of two brokers in turns, where one sample gives several numbers at once.

A load of a broker tells its rate, its latency and the processor time that it took. Loading it once for each figure
would take three times as long, and the figures of one line would not belong together.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.console import Console

from benchmarks.harness import Figure, Target

PEER = "Apache Kafka 4.3.0"
NAMES = ("Runnel", PEER)

Side = TypeVar("Side")
Sample = TypeVar("Sample")

_console = Console(stderr=True, highlight=False)
_start = time.monotonic()


@dataclass(frozen=True)
class Turns(Generic[Sample]):
    """The samples of both sides, round by round; `against` names the peer."""

    ours: tuple[Sample, ...]
    peer: tuple[Sample, ...]
    against: str = PEER

    def figure(self, name: str, unit: str, number: Callable[[Sample], float], target: Target | None = None) -> Figure:
        ours, peer = tuple(map(number, self.ours)), tuple(map(number, self.peer))
        return Figure(name, unit, self.against, ours, peer, target)


def take_turns(
    what: str,
    rounds: int,
    ours: Side,
    peer: Side,
    sample: Callable[[Side], Sample],
    names: tuple[str, str] = NAMES,
) -> Turns[Sample]:
    """Sample both sides once a round; every second round begins with the peer."""
    taken: dict[int, list[Sample]] = {0: [], 1: []}
    for number in range(rounds):
        for index in (1, 0) if number % 2 else (0, 1):
            value = sample((ours, peer)[index])
            taken[index].append(value)
            say(f"{what}, round {number + 1} of {rounds}, {names[index]}: {value}")
    return Turns(tuple(taken[0]), tuple(taken[1]), names[1])


def percentile(values: Iterable[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values, so no percentile of them")
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def say(text: str) -> None:
    """One line of progress, on stderr: the table on stdout stays alone."""
    _console.print(f"[dim]{time.monotonic() - _start:4.0f} s  {text}[/dim]", soft_wrap=True)
