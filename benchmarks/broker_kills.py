"""How long until a killed broker answers again, with 1 GiB in 1,000 partitions.

Each broker is filled and killed once. A sample starts it on a copy of what it left. The copy shares the segments of the
topic, which a start reads and does not change; the page cache holds them, for both.
"""

import errno
import math
import os
import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import broker_wire as wire
from benchmarks.broker_servers import Installation, start, wait_until
from benchmarks.broker_turns import say, take_turns
from benchmarks.harness import Figure, Options, at_most
from benchmarks.log_batches import GIB, KIB, MIB, batch_of
from runnel.protocol.versions import Api

TOPIC = "killed"
MOST_ROUNDS = 3
BATCH = 64 * KIB
RECORDS = 64
PARTITIONS_PER_REQUEST = 25
REQUESTS_IN_FLIGHT = 4


@dataclass(frozen=True)
class Sample:
    """In seconds, from the start of the process."""

    answered: float
    knows_all: float

    def __str__(self) -> str:
        return f"answers after {self.answered:.2f} s, knows the ends of all partitions after {self.knows_all:.2f} s"


def figures(options: Options, ours: Installation, peer: Installation) -> list[Figure]:
    partitions = options.size(full=1_000, quick=100)
    size = options.size(full=GIB, quick=100 * MIB)
    for installation in (ours, peer):
        _fill_and_kill(installation, partitions, size)
    rounds = min(options.rounds, MOST_ROUNDS)
    turns = take_turns("after kill -9", rounds, ours, peer, lambda installation: _sample(installation, partitions))
    for installation in (ours, peer):
        shutil.rmtree(installation.directory)
    name = f"after kill -9, {size / GIB:.1g} GiB in {partitions:,} partitions"
    return [
        turns.figure(f"ready {name}", "ms", lambda sample: sample.answered * 1e3, at_most(0.5)),
        turns.figure(f"all ends known {name}", "ms", lambda sample: sample.knows_all * 1e3, at_most(0.5)),
    ]


def _fill_and_kill(installation: Installation, partitions: int, size: int) -> None:
    broker = start(installation)
    try:
        broker.create_topic(TOPIC, partitions)
        begin = time.perf_counter()
        with broker.connect() as connection:
            _fill(connection, partitions, size)
        say(f"{size / MIB:,.0f} MiB written in {time.perf_counter() - begin:.1f} s, {broker.name}")
    finally:
        broker.kill()
    os.sync()


def _fill(connection: socket.socket, partitions: int, size: int) -> None:
    batch = batch_of(BATCH, RECORDS)
    frames = [
        wire.produce_frame(TOPIC, dict.fromkeys(range(first, min(first + PARTITIONS_PER_REQUEST, partitions)), batch))
        for first in range(0, partitions, PARTITIONS_PER_REQUEST)
    ]
    under_way = 0
    for _ in range(math.ceil(size / (BATCH * partitions))):
        for request in frames:
            connection.sendall(request)
            under_way += 1
            if under_way == REQUESTS_IN_FLIGHT:
                _check_answer(connection)
                under_way -= 1
    for _ in range(under_way):
        _check_answer(connection)


def _check_answer(connection: socket.socket) -> None:
    answer = wire.answer_of(connection, Api.PRODUCE, wire.PRODUCE_VERSION)
    results = answer["responses"][0]["partition_responses"]
    if refused := [result["error_code"] for result in results if result["error_code"]]:
        raise wire.BrokerRefused(f"batches were refused with errors {refused[:3]}")


def _sample(installation: Installation, partitions: int) -> Sample:
    copied = installation.at(installation.directory.with_name(f"{installation.directory.name}-again"))
    copy_as_left(installation.data, copied.data)
    broker = start(copied)
    try:
        with broker.connect() as connection:
            wait_until(lambda: wire.is_led(wire.metadata(connection, [TOPIC]), partitions), f"leaders of {TOPIC}")
            answered = time.perf_counter() - broker.started_at
            ends = wait_until(lambda: wire.end_offsets(connection, TOPIC, partitions), f"the ends of {TOPIC}")
            knows_all = time.perf_counter() - broker.started_at
        _check_ends(broker.name, ends)
        return Sample(answered, knows_all)
    finally:
        broker.kill()
        shutil.rmtree(copied.directory)


def _check_ends(name: str, ends: Mapping[int, int]) -> None:
    if len(set(ends.values())) != 1 or 0 in ends.values():
        raise RuntimeError(f"{name} lost records: its partitions end at {sorted(set(ends.values()))}")


def copy_as_left(source: Path, target: Path) -> None:
    """Copy a data directory; the segments of the topic are the same files in both."""
    shutil.copytree(source, target, copy_function=_link_or_copy, ignore=shutil.ignore_patterns(".lock"))


def _link_or_copy(source: str, target: str) -> None:
    path = Path(source)
    if path.suffix == ".log" and path.parent.name.startswith(f"{TOPIC}-"):
        os.link(source, target)
    else:
        copy_with_holes(path, Path(target))


def copy_with_holes(source: Path, target: Path) -> None:
    """Kafka gives each index file 10 MiB, nearly all of it a hole: written out they would be 20 GB."""
    with source.open("rb") as reader, target.open("wb") as writer:
        size = os.fstat(reader.fileno()).st_size
        writer.truncate(size)
        position = 0
        while (begin := _next_data(reader.fileno(), position)) is not None:
            position = os.lseek(reader.fileno(), begin, os.SEEK_HOLE)
            os.pwrite(writer.fileno(), os.pread(reader.fileno(), position - begin, begin), begin)


def _next_data(descriptor: int, position: int) -> int | None:
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # no data from there on
            return None
        raise
