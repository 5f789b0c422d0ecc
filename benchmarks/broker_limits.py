"""How long a lone record takes until it is acknowledged, beside the least that has to be done where it is synced.

One connection, a plain socket, 500 requests of one record a second: the same client for our broker, Kafka, and a
program that writes, syncs and answers (`broker_least`). What that one takes is the limit for whoever syncs. Beside
Kafka, which does not, it tells what the sync alone costs.

And how many requests a broker in Python could answer: the peak of ours beside that of the smallest one that serves many
clients (`broker_smallest`), with the connections and the requests in flight of `broker_requests`.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from benchmarks import broker_least, broker_smallest
from benchmarks.broker_delays import RATE, ROOT
from benchmarks.broker_promises import DEFAULTS
from benchmarks.broker_requests import CONNECTIONS, IN_FLIGHT, load
from benchmarks.broker_servers import Running
from benchmarks.broker_turns import PEER, say
from benchmarks.harness import Figure, Options

LEAST = "write, fdatasync, answer"
SMALLEST = "the smallest broker in Python"
NAME = f"a lone record over a plain socket, {RATE} records/s"


@dataclass(frozen=True)
class Sample:
    """In milliseconds."""

    p50: float
    p99: float

    def __str__(self) -> str:
        return f"p50 {self.p50:.2f}, p99 {self.p99:.2f} ms"


def figures(options: Options, place: Path, ours: Running, peer: Running) -> list[Figure]:
    seconds = options.size(full=6, quick=3)
    topic = DEFAULTS.create_topic("lone", ours, peer)
    with _program(broker_least, place / "least", topic) as port:
        ports = {ours.name: ours.port, LEAST: port, PEER: peer.port}
        taken: dict[str, list[Sample]] = {name: [] for name in ports}
        for number in range(-1, options.rounds):  # the first one is thrown away
            for name in list(ports)[:: -1 if number % 2 else 1]:
                taken[name].append(_sample(ports[name], topic, seconds))
                say(f"{NAME}, round {number + 1} of {options.rounds}, {name}: {taken[name][-1]}")
    return [
        *_figures(NAME, LEAST, taken[ours.name][1:], taken[LEAST][1:]),
        *_figures(f"{NAME}, {LEAST}", PEER, taken[LEAST][1:], taken[PEER][1:]),
        _peak(options, place, topic, ours),
    ]


def _peak(options: Options, place: Path, topic: str, ours: Running) -> Figure:
    name = f"one-record requests, {CONNECTIONS} connections, {IN_FLIGHT} in flight"
    seconds = options.size(full=5, quick=3)
    rates: dict[str, list[float]] = {ours.name: [], SMALLEST: []}
    with _program(broker_smallest, place / "smallest", topic) as port:
        ports = {ours.name: ours.port, SMALLEST: port}
        for number in range(-1, options.rounds):
            for each in list(ports)[:: -1 if number % 2 else 1]:
                seen = load(ports[each], topic, CONNECTIONS, IN_FLIGHT, rate=0, seconds=seconds)
                rates[each].append(seen["per_second"])
                say(f"{name}, round {number + 1} of {options.rounds}, {each}: {rates[each][-1]:,.0f}/s")
    return Figure(name, "requests/s", SMALLEST, tuple(rates[ours.name][1:]), tuple(rates[SMALLEST][1:]))


def _figures(name: str, against: str, ours: list[Sample], peer: list[Sample]) -> Iterator[Figure]:
    for share in ("p50", "p99"):
        numbers = (tuple(getattr(sample, share) for sample in side) for side in (ours, peer))
        yield Figure(f"{name}: {share}", "ms", against, *numbers)


def _sample(port: int, topic: str, seconds: int) -> Sample:
    seen = load(port, topic, connections=1, in_flight=1, rate=RATE, seconds=seconds)
    return Sample(seen["p50"], seen["p99"])


@contextmanager
def _program(module: ModuleType, path: Path, topic: str) -> Iterator[int]:
    """Its port, while it runs."""
    command = [sys.executable, "-m", module.__name__, str(path), topic]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
