"""How long one record takes at a low rate: until it is acknowledged, and until a reader has it."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks import broker_latency
from benchmarks.broker_promises import PROMISES, Promise
from benchmarks.broker_servers import Running
from benchmarks.broker_turns import say, take_turns
from benchmarks.harness import Figure, Options, at_most

ROOT = Path(__file__).parents[1]
RATE = 500  # records a second


@dataclass(frozen=True)
class Sample:
    """In milliseconds."""

    ack_p50: float
    ack_p99: float
    end_to_end_p50: float
    end_to_end_p99: float

    def __str__(self) -> str:
        return (
            f"ack p50 {self.ack_p50:.2f}, p99 {self.ack_p99:.2f} ms,"
            f" end to end p50 {self.end_to_end_p50:.2f}, p99 {self.end_to_end_p99:.2f} ms"
        )


def figures(options: Options, ours: Running, peer: Running) -> list[Figure]:
    return [figure for promise in PROMISES for figure in _figures_of(promise, options, ours, peer)]


def _figures_of(promise: Promise, options: Options, ours: Running, peer: Running) -> list[Figure]:
    seconds = options.size(full=6, quick=4)
    topic = promise.create_topic("delays", ours, peer)
    what = promise.figure("latency")
    for broker in (ours, peer):
        say(f"{what}, warm-up, {broker.name}: {_sample(broker, topic, seconds)}")
    turns = take_turns(what, options.rounds, ours, peer, lambda broker: _sample(broker, topic, seconds))
    ack, end_to_end = (promise.figure(f"{each} at {RATE} records/s") for each in ("ack", "end to end"))
    target = at_most(1)
    return [
        turns.figure(f"{ack}: p50", "ms", lambda sample: sample.ack_p50, target),
        turns.figure(f"{ack}: p99", "ms", lambda sample: sample.ack_p99, target),
        turns.figure(f"{end_to_end}: p50", "ms", lambda sample: sample.end_to_end_p50, target),
        turns.figure(f"{end_to_end}: p99", "ms", lambda sample: sample.end_to_end_p99, target),
    ]


def _sample(broker: Running, topic: str, seconds: int) -> Sample:
    command = [sys.executable, "-m", broker_latency.__name__, broker.bootstrap, topic, str(RATE), str(seconds)]
    run = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return Sample(**json.loads(run.stdout))
