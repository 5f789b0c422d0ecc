"""Rebalances of ten members beside Apache Kafka 4.3.0: the same members, with the same heartbeats, turn by turn.

It needs Java 17 and Maven, which fetches Kafka once. TMPDIR chooses the disk. A topic has 30 partitions, and a group
nine members; then a tenth joins, and later leaves. Two figures for each:

- *Until settled*: from the first request of the one who joins or leaves until every member is in the same generation
  (or has the same epoch), each partition has exactly one owner, and nobody has two more than another. Most of it is
  waiting: that there is something new a member learns with its next heartbeat only, and the last one of the nine sends
  it 0.85 intervals later. A broker that needs another round of heartbeats shows here.
- *Beyond the heartbeats*: that time without the part in which all that could happen next was that somebody's heartbeat
  is due (groups_clock.py has the exact rule). What is left is what the broker takes for its answers.

The members are our own and speak the protocol over plain sockets. Real clients send their heartbeats at times that
nobody chooses: with confluent-kafka the same rebalance takes from a third of an interval to more than a whole one, and
a few milliseconds of the broker's cannot be seen in that. The members' own work, in Python, is in the figure: the same
for both brokers, a few tenths of a millisecond for a request.

Heartbeats come every half second on both brokers, in both protocols; all else is as it is by default. Our broker
syncs a group's changes to the disk before it answers, Kafka does not.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from benchmarks import broker_wire as wire
from benchmarks import groups_rebalances
from benchmarks.broker_environment import users_program
from benchmarks.broker_servers import Kafka, Runnel, Running, running, wait_until
from benchmarks.broker_turns import say, take_turns
from benchmarks.groups_clock import Rebalance
from benchmarks.groups_members import CONSUMER, COOPERATIVE, EAGER, HEARTBEAT_VERSION
from benchmarks.harness import Figure, Options, at_most
from runnel.protocol.versions import Api
from tests.interop.kafka_distribution import KafkaUnavailable, kafka_classpath
from tests.interop.kafka_server import HOST

ROOT = Path(__file__).parents[1]
TOPIC = "rebalanced"
PARTITIONS = 30
INTERVAL = 0.5  # seconds
WARM_UP_INTERVAL = 0.02  # many requests make a JVM warm
COORDINATOR_VERSION = 4
GROUP = 0  # what a coordinator is asked for
UNKNOWN_MEMBER_ID = 25
HEARTBEATS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": f"{INTERVAL * 1000:.0f}",
}


def run(options: Options) -> list[Figure]:
    try:
        kafka_classpath()
    except KafkaUnavailable as missing:
        raise SystemExit(str(missing)) from None
    program = users_program()
    cycles = options.size(full=3, quick=1)
    with tempfile.TemporaryDirectory(prefix="runnel-bench-") as folder:
        ours = Runnel(Path(folder) / "runnel", program, settings=HEARTBEATS)
        kafka = Kafka(Path(folder) / "kafka", settings=HEARTBEATS)
        with running(ours) as broker, running(kafka) as peer:
            for each in (broker, peer):
                each.create_topic(TOPIC, PARTITIONS)
                _wait_for_groups(each)
            return [
                figure
                for protocol in (EAGER, COOPERATIVE, CONSUMER)
                for figure in _figures(protocol, options.rounds, cycles, broker, peer)
            ]


def _wait_for_groups(broker: Running) -> None:
    """Kafka makes its topic of groups when the first client asks for a coordinator, and then loads it."""
    group = str(uuid4())
    asked = {"key_type": GROUP, "coordinator_keys": [group]}
    stranger = {"group_id": group, "generation_id": 1, "member_id": "stranger"}
    with broker.connect() as connection:

        def is_ready() -> bool:
            wire.ask(connection, Api.FIND_COORDINATOR, COORDINATOR_VERSION, asked)
            answer = wire.ask(connection, Api.HEARTBEAT, HEARTBEAT_VERSION, stranger)
            return bool(answer["error_code"] == UNKNOWN_MEMBER_ID)

        wait_until(is_ready, f"the groups of {broker.name}")


@dataclass(frozen=True)
class Sample:
    """In milliseconds: the medians of a few rebalances."""

    join: Rebalance
    leave: Rebalance

    def __str__(self) -> str:
        return "; ".join(
            f"{name} settled after {each.total:.0f} ms, {each.beyond:.1f} of them beyond the heartbeats"
            for name, each in (("join", self.join), ("leave", self.leave))
        )


def _figures(protocol: str, rounds: int, cycles: int, ours: Running, peer: Running) -> list[Figure]:
    for broker in (ours, peer):
        say(f"{protocol}, warm-up, {broker.name}: {_sample(broker, protocol, WARM_UP_INTERVAL, cycles)}")
    turns = take_turns(protocol, rounds, ours, peer, lambda broker: _sample(broker, protocol, INTERVAL, cycles))
    return [
        turns.figure(f"{protocol}: join, beyond the heartbeats", "ms", lambda sample: sample.join.beyond, at_most(1)),
        turns.figure(f"{protocol}: join, until settled", "ms", lambda sample: sample.join.total),
        turns.figure(f"{protocol}: leave, beyond the heartbeats", "ms", lambda sample: sample.leave.beyond, at_most(1)),
        turns.figure(f"{protocol}: leave, until settled", "ms", lambda sample: sample.leave.total),
    ]


def _sample(broker: Running, protocol: str, interval: float, cycles: int) -> Sample:
    load = [HOST, broker.port, TOPIC, protocol, interval, cycles]
    command = [sys.executable, "-m", groups_rebalances.__name__, *map(str, load)]
    run = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    told = json.loads(run.stdout)
    return Sample(_median(told["joins"]), _median(told["leaves"]))


def _median(rebalances: list[tuple[float, float]]) -> Rebalance:
    return Rebalance(*(statistics.median(parts) for parts in zip(*rebalances, strict=True)))
