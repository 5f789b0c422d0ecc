"""Requests of one record each: how many a second, and how long the slowest of a hundred takes."""

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks import broker_load
from benchmarks.broker_process import cpu_seconds
from benchmarks.broker_servers import Running
from benchmarks.broker_turns import Turns, say, take_turns
from benchmarks.harness import Figure, Options, at_least, at_most
from tests.interop.kafka_server import HOST

ROOT = Path(__file__).parents[1]
TOPIC = "requests"
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
    seconds = options.size(full=5, quick=3)
    for broker in (ours, peer):
        broker.create_topic(TOPIC, 1)
        say(f"one-record requests, warm-up, {broker.name}: {_sample(broker, 0, seconds)}")
    peak = take_turns("one-record requests", options.rounds, ours, peer, lambda broker: _sample(broker, 0, seconds))
    rate = _half_of_the_lower_peak(peak)
    half = take_turns(
        f"{rate:,.0f} requests/s", options.rounds, ours, peer, lambda broker: _sample(broker, rate, seconds)
    )
    name = f"one-record requests, {CONNECTIONS} connections, {IN_FLIGHT} in flight"
    return [
        peak.figure(name, "requests/s", lambda sample: sample.per_second, at_least(0.5)),
        peak.figure(f"{name}: p99", "ms", lambda sample: sample.p99, at_most(2)),
        peak.figure(f"{name}: the client", "cores", lambda sample: sample.busy),
        half.figure("p99 at half of the lower peak rate", "ms", lambda sample: sample.p99, at_most(1.5)),
        half.figure("p50 at half of the lower peak rate", "ms", lambda sample: sample.p50),
    ]


def _half_of_the_lower_peak(peak: Turns[Sample]) -> float:
    """The same rate for both: the broker with the lower peak has more to do, for itself."""
    sides = (peak.ours, peak.peer)
    return min(statistics.median(sample.per_second for sample in side) for side in sides) / 2


def _sample(broker: Running, rate: float, seconds: float) -> Sample:
    arguments = [HOST, broker.port, TOPIC, CONNECTIONS, IN_FLIGHT, rate, seconds]
    command = [sys.executable, "-m", broker_load.__name__, *map(str, arguments)]
    before = cpu_seconds(broker.pid)
    run = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return Sample(**json.loads(run.stdout), cpu=cpu_seconds(broker.pid) - before)
