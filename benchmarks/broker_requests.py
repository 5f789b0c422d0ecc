"""Requests of one record each: how many a second, and how long the slowest of a hundred takes."""

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks import broker_load
from benchmarks.broker_process import cpu_seconds
from benchmarks.broker_promises import PROMISES, Promise
from benchmarks.broker_servers import Running
from benchmarks.broker_turns import Turns, say, take_turns
from benchmarks.harness import Figure, Options, at_least, at_most
from tests.interop.kafka_server import HOST

ROOT = Path(__file__).parents[1]
CONNECTIONS = 50
IN_FLIGHT = 5


@dataclass(frozen=True)
class Sample:
    per_second: float
    p50: float  # milliseconds
    p99: float
    busy: float  # the client's share of a core
    cpu: float  # the broker's seconds

    def __str__(self) -> str:
        return (
            f"{self.per_second:,.0f}/s, p50 {self.p50:.2f} ms, p99 {self.p99:.2f} ms,"
            f" client busy {self.busy:.0%}, broker CPU {self.cpu:.1f} s"
        )


def figures(options: Options, ours: Running, peer: Running) -> list[Figure]:
    return [figure for promise in PROMISES for figure in _figures_of(promise, options, ours, peer)]


def _figures_of(promise: Promise, options: Options, ours: Running, peer: Running) -> list[Figure]:
    seconds = options.size(full=5, quick=3)
    topic = promise.create_topic("requests", ours, peer)
    what = promise.figure("one-record requests")
    for broker in (ours, peer):
        say(f"{what}, warm-up, {broker.name}: {_sample(broker, topic, 0, seconds)}")
    peak = take_turns(what, options.rounds, ours, peer, lambda broker: _sample(broker, topic, 0, seconds))
    rate = _half_of_the_lower_peak(peak)
    what = promise.figure(f"{rate:,.0f} requests/s")
    half = take_turns(what, options.rounds, ours, peer, lambda broker: _sample(broker, topic, rate, seconds))
    name = promise.figure(f"one-record requests, {CONNECTIONS} connections, {IN_FLIGHT} in flight")
    at_half = promise.figure("at half of the lower peak rate")
    return [
        peak.figure(name, "requests/s", lambda sample: sample.per_second, at_least(0.5)),
        peak.figure(f"{name}: p99", "ms", lambda sample: sample.p99, at_most(2)),
        peak.figure(f"{name}: the client", "cores", lambda sample: sample.busy),
        half.figure(f"p99 {at_half}", "ms", lambda sample: sample.p99, at_most(1.5)),
        half.figure(f"p50 {at_half}", "ms", lambda sample: sample.p50),
    ]


def _half_of_the_lower_peak(peak: Turns[Sample]) -> float:
    """The same rate for both: the broker with the lower peak has more to do, for itself."""
    sides = (peak.ours, peak.peer)
    return min(statistics.median(sample.per_second for sample in side) for side in sides) / 2


def _sample(broker: Running, topic: str, rate: float, seconds: float) -> Sample:
    before = cpu_seconds(broker.pid)
    seen = load(broker.port, topic, CONNECTIONS, IN_FLIGHT, rate, seconds)
    return Sample(**seen, cpu=cpu_seconds(broker.pid) - before)


def load(port: int, topic: str, connections: int, in_flight: int, rate: float, seconds: float) -> dict[str, float]:
    """What `broker_load` sees, in a process of its own."""
    arguments = [HOST, port, topic, connections, in_flight, rate, seconds]
    command = [sys.executable, "-m", broker_load.__name__, *map(str, arguments)]
    run = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    seen: dict[str, float] = json.loads(run.stdout)
    return seen
