"""Integers are copied from topic to topic in transactions, and arrive exactly once and in order.

    python -m tests.transactions.copy [--broker runnel|kafka] [--seed N] [--count N] [--partitions N] [--generation G]

One copier a partition commits its offset with its output. Some transactions are aborted, copiers and the broker are
killed without warning, and the network is bad. Each copier goes on where its predecessor's last commit was.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from tests.transactions.brokers import BROKERS
from tests.transactions.clients import INPUT, OUTPUT, RECONNECT
from tests.transactions.history import READ_COMMITTED
from tests.transactions.proxy import Faults
from tests.transactions.workload import LIMIT, Scene, read_whole, say

FAULTS = Faults(delay=0.01, drop=0.005, lose=0.01, strand=0.005, duplicate=0.05, reorder=0)


@dataclass(frozen=True)
class Copy:
    count: int
    partitions: int = 1
    generation: str = "modern"  # "mixed" takes turns
    kills: int = 4  # of copiers and of the broker, in turn
    largest: int = 750  # records in a transaction

    def generation_of(self, partition: int) -> str:
        return ("modern", "confluent")[partition % 2] if self.generation == "mixed" else self.generation


def run(directory: Path, broker: str, seed: object, copy: Copy) -> list[str]:
    """What is wrong, one line each."""
    with Scene(directory, broker, seed, FAULTS, copy.partitions) as scene:
        expected = fill(scene.proxy.bootstrap, copy.count, copy.partitions)
        scene.proxy.faults = scene.faults
        for partition, values in enumerate(expected):
            scene.start_client(
                "copier",
                f"copier-{partition}",
                generation=copy.generation_of(partition),
                partition=partition,
                until=len(values),
                largest=copy.largest,
                aborts=0.2,
                dawdles=0,
            )
        kill_now_and_then(scene, copy)
        wait_for_copiers(scene)
        scene.wait_until_quiet()
        found = read_whole(scene.proxy.bootstrap, OUTPUT, copy.partitions, READ_COMMITTED)
        say(f"{scene.committed()} transactions committed; faults: {dict(scene.proxy.counts)}")
        complaints = scene.broker.complaints()
    for partition, values in enumerate(expected):
        complaints += differences(partition, values, [seen.value for seen in found[partition][0]])
    return complaints


def fill(bootstrap: str, count: int, partitions: int) -> list[list[str]]:
    """The input: each partition's values."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, **RECONNECT})
    values: list[list[str]] = [[] for _ in range(partitions)]
    for number in range(count):
        values[number % partitions].append(str(number))
        while True:
            try:
                producer.produce(INPUT, str(number), partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(LIMIT)
    assert left == 0, f"{left} of {count} integers could not be written"
    return values


def kill_now_and_then(scene: Scene, copy: Copy) -> None:
    """Kills that are spread over the whole copy."""
    transactions = 2 * copy.count // copy.largest  # about so many, for their mean size is half of the largest
    for kill in range(copy.kills):
        wait_for_progress(scene, scene.chance.randint(1, max(1, transactions // (copy.kills + 1))))
        if all_copied(scene):
            return
        if kill % 2:
            say("kill the broker")
            scene.restart_broker()
        else:
            name = scene.chance.choice(sorted(scene.clients))
            say(f"kill {name}")
            scene.clients[name].kill()
            scene.replace(name)


def all_copied(scene: Scene) -> bool:
    return all(client.has_ended() and client.process.returncode == 0 for client in scene.clients.values())


def wait_for_progress(scene: Scene, count: int) -> None:
    wanted = scene.committed() + count
    scene.wait_until(lambda: scene.committed() >= wanted or all_copied(scene), f"{count} more transactions")


def wait_for_copiers(scene: Scene) -> None:
    while not all_copied(scene):
        wait_for_progress(scene, 1)


def differences(partition: int, expected: Sequence[str], found: Sequence[str]) -> list[str]:
    """The first place in which a partition's output differs from its input."""
    if list(expected) == list(found):
        return []
    at = next((at for at, pair in enumerate(zip(expected, found, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        at = min(len(expected), len(found))
    missing, doubled = len(set(expected) - set(found)), len(found) - len(set(found))
    return [
        f"partition {partition}: record {at} of the output is {found[at : at + 1]}, that of the input is "
        f"{expected[at : at + 1]}; {missing} of {len(expected)} are missing, {doubled} are there twice"
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.transactions.copy", description=__doc__.split("\n")[0])
    parser.add_argument("--broker", choices=sorted(BROKERS), default="runnel")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(2**32)))
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--generation", choices=["modern", "confluent", "mixed"], default="modern")
    parser.add_argument("--kills", type=int, default=4)
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # not without ending the clients and the broker
    copy = Copy(options.count, options.partitions, options.generation, options.kills)
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        wrong = run(Path(folder), options.broker, options.seed, copy)
    for line in wrong:
        print(line)
    print(f"{len(wrong)} partitions differ, {time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
