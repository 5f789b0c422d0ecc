"""How long until a broker answers, and the memory it takes when it has nothing to do.

Each sample is the first start in a new directory; Kafka's is formatted before the clock starts.
"""

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from benchmarks import broker_wire as wire
from benchmarks.broker_environment import DEVELOPMENT_PROGRAM
from benchmarks.broker_process import PAGE, resident
from benchmarks.broker_servers import Installation, Runnel, Running, running
from benchmarks.broker_turns import take_turns
from benchmarks.harness import Figure, Options, at_most
from runnel.protocol.versions import Api

TOPIC = "idle"
SETTLE = 2.0  # seconds until the memory is read: a start leaves work behind


@dataclass(frozen=True)
class Sample:
    ready: float  # seconds
    ready_in_development: float
    idle: int  # bytes
    per_connection: float
    per_partition: float

    def __str__(self) -> str:
        return (
            f"ready after {self.ready * 1e3:,.0f} ms ({self.ready_in_development * 1e3:,.0f} ms in the environment of"
            f" the tests), idle {self.idle / 1e6:.0f} MB, per connection {self.per_connection / 1e3:.1f} kB, per"
            f" partition {self.per_partition / 1e3:.1f} kB"
        )


def figures(options: Options, ours: Installation, peer: Installation) -> list[Figure]:
    connections = options.size(full=500, quick=100)  # fewer than the files that a process may open by default
    partitions = options.size(full=1_000, quick=100)
    sample = partial(_sample, connections=connections, partitions=partitions)
    turns = take_turns("start", options.rounds, ours, peer, sample)
    environment = "ready after start, environment of the tests"
    return [
        turns.figure("ready after start", "ms", lambda sample: sample.ready * 1e3, at_most(0.1)),
        turns.figure(environment, "ms", lambda sample: sample.ready_in_development * 1e3),
        turns.figure("memory idle", "MB", lambda sample: sample.idle / 1e6, at_most(0.15)),
        turns.figure("memory per idle connection", "kB", lambda sample: sample.per_connection / 1e3),
        turns.figure("memory per partition", "kB", lambda sample: sample.per_partition / 1e3),
    ]


def _sample(installation: Installation, *, connections: int, partitions: int) -> Sample:
    in_development = _ready_in_development(installation)
    with fresh(installation) as broker:
        time.sleep(SETTLE)
        idle = resident(broker.pid)
        return Sample(
            ready=broker.seconds_to_ready,
            ready_in_development=in_development or broker.seconds_to_ready,
            idle=idle,
            per_connection=_growth_with_connections(broker, connections),
            per_partition=_growth_with_partitions(broker, partitions),
        )


def _ready_in_development(installation: Installation) -> float | None:
    """Kafka knows no such difference."""
    if not isinstance(installation, Runnel):
        return None
    with fresh(replace(installation, program=DEVELOPMENT_PROGRAM)) as broker:
        return broker.seconds_to_ready


@contextmanager
def fresh(installation: Installation) -> Iterator[Running]:
    try:
        with running(installation) as broker:
            yield broker
    finally:
        shutil.rmtree(installation.directory)


def _growth_with_connections(broker: Running, count: int) -> float:
    """Each has asked one thing, as a client does, and is silent then."""
    before = resident(broker.pid)
    connections: list[socket.socket] = []
    try:
        for _ in range(count):
            connections.append(broker.connect())
            wire.ask(connections[-1], Api.API_VERSIONS, 0, {})
        time.sleep(SETTLE)
        return _share_of_growth(broker, before, count)
    finally:
        for connection in connections:
            connection.close()


def _growth_with_partitions(broker: Running, count: int) -> float:
    before = resident(broker.pid)
    broker.create_topic(TOPIC, count)
    time.sleep(SETTLE)
    return _share_of_growth(broker, before, count)


def _share_of_growth(broker: Running, before: int, count: int) -> float:
    """A heap that had room already does not grow: then it is a page for all of them, because a ratio needs a number."""
    return max(resident(broker.pid) - before, PAGE) / count
