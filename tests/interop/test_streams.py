"""A Kafka Streams application with `exactly_once_v2` on our broker: whatever is killed, its results are exact."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.committed import LIMIT, CommittedReader, committed
from tests.interop.java_programs import Program, Restarted, broker_of
from tests.interop.kafka_distribution import compiled

SOURCE = Path(__file__).parent / "streams" / "Totals.java"
PARTITIONS = 3
RECORDS = 40_000
# What is killed and started again, one after the other, while the application works. A moved application finds no state
# and has another transactional id: nobody ends the transaction of the killed one but the broker, when its time is over.
KILLS = ("application", "broker", "moved application", "application")
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "1",
}

Pairs = dict[str, list[str]]


def totals(numbers: Sequence[int]) -> Pairs:
    """What the application must write for each key: the count and the sum so far, after each number."""
    found: Pairs = {}
    count = dict.fromkeys("0123456789", 0)
    sums = dict.fromkeys("0123456789", 0)
    for number in numbers:
        digit = str(number)[-1]
        count[digit] += 1
        sums[digit] += number
        found.setdefault(digit, []).append(f"{count[digit]} {sums[digit]}")
    return found


def differences(expected: Mapping[str, Sequence[str]], found: Mapping[str, Sequence[str]]) -> list[str]:
    """One line for each key whose pairs are others, with the first that differs."""
    told = []
    for key in sorted(expected.keys() | found.keys()):
        wanted, got = list(expected.get(key, ())), list(found.get(key, ()))
        if wanted != got:
            same = next((at for at, (one, other) in enumerate(zip(wanted, got, strict=False)) if one != other), None)
            at = min(len(wanted), len(got)) if same is None else same
            first = f"pair {at} is {got[at : at + 1]}, not {wanted[at : at + 1]}"
            told.append(f"key {key}: {len(got)} pairs of {len(wanted)}; {first}")
    return told


def make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("numbers", "totals")]).values():
        made.result(LIMIT)


def feed(bootstrap: str, numbers: Sequence[int]) -> None:
    """A key's numbers all go to one partition, so that their order is known."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    for number in numbers:
        producer.produce("numbers", str(number).encode(), partition=number % 10 % PARTITIONS)
        producer.poll(0)
    assert producer.flush(LIMIT) == 0


def pairs_in(bootstrap: str, topic: str) -> Pairs:
    """All there is, by key."""
    found: Pairs = {}
    for key, pair in committed(bootstrap, topic, PARTITIONS):
        assert key is not None
        assert pair is not None
        found.setdefault(key.decode(), []).append(pair.decode())
    return found


class Work:
    """The application at work on a broker, until the block ends."""

    def __init__(self, folder: Path, broker: Restarted, guarantee: str) -> None:
        classpath = compiled(SOURCE, folder / "classes", "streams")
        self._state = folder / "state"
        arguments = [broker.bootstrap, str(self._state), guarantee]
        self._program = Program(folder / "application", classpath, "Totals", arguments)
        self._broker = broker
        self._results = CommittedReader(broker.bootstrap, "totals", PARTITIONS)
        self._count = 0

    def __enter__(self) -> Work:
        self._program.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._program.kill()
        self._results.__exit__()

    def wait_for_results(self, count: int) -> None:
        deadline = time.monotonic() + LIMIT
        while self._count < count:
            self._count += len(list(self._results.arrived()))
            self._program.check()
            self._broker.check()
            assert time.monotonic() < deadline, f"{self._count} results of {count} came; {self._program.said()}"

    def kill(self, victim: str) -> None:
        killed = self._broker if victim == "broker" else self._program
        killed.kill()
        if victim == "moved application":
            shutil.rmtree(self._state)
        killed.start()

    def stop(self) -> None:
        self._program.stop()


def run(folder: Path, kind: str, seed: int, guarantee: str = "exactly_once_v2") -> list[str]:
    """What is wrong with the application's results after all kills."""
    chance = random.Random(seed)
    numbers = [chance.randrange(1_000_000) for _ in range(RECORDS)]
    stretch = RECORDS // (len(KILLS) + 1)
    moments = [number * stretch + chance.randrange(1, stretch) for number in range(len(KILLS))]
    with broker_of(kind, folder / "broker", SETTINGS) as broker:
        make_topics(broker.bootstrap)
        feed(broker.bootstrap, numbers)
        with Work(folder, broker, guarantee) as work:
            for moment, victim in zip(moments, KILLS, strict=True):
                work.wait_for_results(moment)
                work.kill(victim)
            work.wait_for_results(RECORDS)
            work.stop()
        expected = totals(numbers)
        last = {key: pairs[-1:] for key, pairs in expected.items()}
        state = {key: pairs[-1:] for key, pairs in pairs_in(broker.bootstrap, "app-pairs-changelog").items()}
        return differences(expected, pairs_in(broker.bootstrap, "totals")) + differences(last, state)


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        pytest.param(["1 5", "2 7", "3 8"], None, id="the same"),
        pytest.param(["1 5", "2 7"], "key 5: 2 pairs of 3; pair 2 is [], not ['3 8']", id="lost"),
        pytest.param(["1 5", "2 7", "2 7", "3 8"], "key 5: 4 pairs of 3; pair 2 is ['2 7'], not ['3 8']", id="doubled"),
        pytest.param(["1 5", "3 8", "2 7"], "pair 1 is ['3 8'], not ['2 7']", id="out of order"),
        pytest.param(["1 5", "2 9", "3 10"], "pair 1 is ['2 9'], not ['2 7']", id="another sum"),
    ],
)
def test_results_that_are_not_exact_are_noticed(found, complaint):
    told = differences({"5": ["1 5", "2 7", "3 8"]}, {"5": found})
    assert told == [] if complaint is None else complaint in told[0]


@pytest.mark.parametrize(
    "kind", [pytest.param("runnel", marks=pytest.mark.servers), pytest.param("kafka", marks=pytest.mark.soak)]
)
def test_a_streams_application_counts_every_number_exactly_once_whatever_is_killed(tmp_path, seed, kind):
    assert run(tmp_path, kind, seed) == []
