"""How long one record takes at a low rate: until it is acknowledged, and until a reader has it."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks import broker_latency
from benchmarks.broker_servers import Running
from benchmarks.broker_turns import say, take_turns
from benchmarks.harness import Figure, Options, at_most

ROOT = Path(__file__).parents[1]
TOPIC = "delays"
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
    seconds = options.size(full=6, quick=4)
    for broker in (ours, peer):
        broker.create_topic(TOPIC, 1)
        say(f"latency, warm-up, {broker.name}: {_sample(broker, seconds)}")
    turns = take_turns("latency", options.rounds, ours, peer, lambda broker: _sample(broker, seconds))
    target = at_most(1)
    return [
        turns.figure(f"ack at {RATE} records/s: p50", "ms", lambda sample: sample.ack_p50, target),
        turns.figure(f"ack at {RATE} records/s: p99", "ms", lambda sample: sample.ack_p99, target),
        turns.figure(f"end to end at {RATE} records/s: p50", "ms", lambda sample: sample.end_to_end_p50, target),
        turns.figure(f"end to end at {RATE} records/s: p99", "ms", lambda sample: sample.end_to_end_p99, target),
    ]


def _sample(broker: Running, seconds: int) -> Sample:
    command = [sys.executable, "-m", broker_latency.__name__, broker.bootstrap, TOPIC, str(RATE), str(seconds)]
    run = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return Sample(**json.loads(run.stdout))
