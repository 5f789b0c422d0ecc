"""kcat, the command-line client of librdkafka, on our broker."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from runnel import Broker
from runnel.records import Codec, Record, batches_of, build_batch
from tests.broker_wire import Wire, fetch, produce

pytestmark = pytest.mark.servers

LIMIT = 60  # seconds
NOW = 1_700_000_000_000
ASSIGNED = re.compile(r"% Group .* rebalanced \(.*\): assigned: (.*)")

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    # The records are old, and must stay.
    with Broker(settings={"node.id": 7, "log.retention.ms": -1}) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"topic-{next(numbers)}"
    broker.create_topic(name)
    return name


@pytest.fixture
def wide(broker: Broker) -> str:
    """A topic with four partitions."""
    name = f"topic-{next(numbers)}"
    broker.create_topic(name, 4)
    return name


@pytest.fixture
def timed(broker: Broker, topic: str) -> str:
    """A topic with ten records, each in a batch of its own, a second apart."""
    with Wire(broker.bootstrap) as wire:
        for number in range(10):
            produce(wire, topic, build_batch([Record(b"%d" % number, b"key", NOW + 1_000 * number)]))
    return topic


def command(broker: Broker, *arguments: str) -> list[str]:
    program = shutil.which("kcat")
    if program is None:
        pytest.fail("kcat is missing: install it ('apt-get install kcat' on Debian and Ubuntu, 'brew install kcat')")
    return [program, "-b", broker.bootstrap, "-m", str(LIMIT), *arguments]


def kcat(broker: Broker, *arguments: str, stdin: bytes = b"") -> str:
    """What it prints; it must end well, and in silence."""
    ended = subprocess.run(
        command(broker, "-q", *arguments), input=stdin, capture_output=True, timeout=LIMIT, check=False
    )
    assert (ended.returncode, ended.stderr.decode()) == (0, ""), ended.stdout.decode()
    return ended.stdout.decode()


def write(broker: Broker, topic: str, values: Sequence[str], *arguments: str) -> None:
    kcat(broker, "-P", "-t", topic, *arguments, stdin="".join(f"{value}\n" for value in values).encode())


def read(broker: Broker, topic: str, *arguments: str) -> list[str]:
    return kcat(broker, "-C", "-e", "-t", topic, *arguments).splitlines()


# --- produce and consume


def test_what_is_written_is_read(broker: Broker, topic: str) -> None:
    write(broker, topic, ["one", "two", "three"])

    assert read(broker, topic) == ["one", "two", "three"]


def test_keys_headers_and_null_values_are_kept(broker: Broker, topic: str) -> None:
    write(broker, topic, ["key=value", "gone="], "-K", "=", "-Z", "-H", "trace=abc", "-H", "flag=")

    first, second = (json.loads(line) for line in read(broker, topic, "-J"))
    assert (first["key"], first["payload"], second["key"], second["payload"]) == ("key", "value", "gone", None)
    assert first["headers"] == second["headers"] == ["trace", "abc", "flag", ""]
    assert (first["partition"], first["offset"], second["offset"], first["tstype"]) == (0, 0, 1, "create")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_compressed_is_kept_so_and_read(broker: Broker, topic: str, codec: str) -> None:
    values = [f"value {number} " + "long " * 20 for number in range(500)]
    write(broker, topic, values, "-z", codec)

    with Wire(broker.bootstrap) as wire:
        data = bytes(fetch(wire, topic)["records"])
    # librdkafka does not compress when the versions of Produce look too new to it.
    assert {header.codec for _, header in batches_of(data)} == {Codec[codec.upper()]}
    assert read(broker, topic) == values


def test_a_file_is_one_record(broker: Broker, topic: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"several\nlines\n")
    kcat(broker, "-P", "-t", topic, str(tmp_path / "file"))

    assert kcat(broker, "-C", "-e", "-t", topic, "-f", "%S:%s") == "14:several\nlines\n"


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_is_given(broker: Broker, topic: str, acks: str) -> None:
    write(broker, topic, ["one", "two"], "-X", f"acks={acks}")

    # Without an acknowledgement it ends before the record is there, so that it is waited for.
    assert kcat(broker, "-C", "-t", topic, "-c", "2", "-o", "beginning").splitlines() == ["one", "two"]


def test_an_idempotent_producer_writes_once(broker: Broker, topic: str) -> None:
    values = [str(number) for number in range(1_000)]
    write(broker, topic, values, "-X", "enable.idempotence=true", "-X", "batch.num.messages=10")

    assert read(broker, topic) == values


def test_records_are_spread_by_key(broker: Broker, wide: str) -> None:
    write(broker, wide, [f"{number % 20}={number}" for number in range(100)], "-K", "=")

    partitions: dict[str, set[str]] = {}
    for line in read(broker, wide, "-f", "%k %p\n"):
        key, partition = line.split()
        partitions.setdefault(key, set()).add(partition)
    assert len(partitions) == 20
    assert all(len(found) == 1 for found in partitions.values())
    assert len(set.union(*partitions.values())) > 1


def test_a_topic_is_made_by_writing_to_it(broker: Broker) -> None:
    name = f"made-{next(numbers)}"
    write(broker, name, ["value"])

    assert read(broker, name) == ["value"]


# --- where to begin


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        pytest.param("beginning", range(10), id="beginning"),
        pytest.param("end", range(0), id="end"),
        pytest.param("4", range(4, 10), id="absolute"),
        pytest.param("-3", range(7, 10), id="relative to the end"),
        pytest.param(f"s@{NOW + 2_500}", range(3, 10), id="from a time"),
        pytest.param(f"s@{NOW}", range(10), id="from the first time"),
    ],
)
def test_it_reads_from_where_it_is_told(broker: Broker, timed: str, offset: str, expected: range) -> None:
    assert read(broker, timed, "-o", offset) == [str(number) for number in expected]


def test_it_reads_between_two_times(broker: Broker, timed: str) -> None:
    between = read(broker, timed, "-o", f"s@{NOW + 2_000}", "-o", f"e@{NOW + 5_000}")

    assert between == ["2", "3", "4"]


def test_it_tells_times_keys_and_offsets(broker: Broker, timed: str) -> None:
    told = read(broker, timed, "-o", "8", "-f", "%t %p %o %k %T %s\n")

    assert told == [f"{timed} 0 {number} key {NOW + 1_000 * number} {number}" for number in (8, 9)]


def test_it_finds_offsets_by_time(broker: Broker, timed: str) -> None:
    for timestamp, offset in ((NOW - 1, 0), (NOW + 1, 1), (NOW + 9_000, 9), (NOW + 9_001, -1), (-2, 0), (-1, 10)):
        assert kcat(broker, "-Q", "-t", f"{timed}:0:{timestamp}").strip() == f"{timed} [0] offset {offset}"


# --- metadata


def test_it_lists_brokers_and_topics(broker: Broker, wide: str) -> None:
    told = json.loads(kcat(broker, "-L", "-J", "-t", wide))

    assert told["brokers"] == [{"id": 7, "name": broker.bootstrap}]
    assert told["controllerid"] == 7
    (listed,) = told["topics"]
    assert listed["topic"] == wide
    assert listed["partitions"] == [
        {"partition": number, "leader": 7, "replicas": [{"id": 7}], "isrs": [{"id": 7}]} for number in range(4)
    ]


def test_it_lists_all_topics(broker: Broker, topic: str, wide: str) -> None:
    listed = {each["topic"] for each in json.loads(kcat(broker, "-L", "-J"))["topics"]}

    assert {topic, wide} <= listed


def test_it_says_that_a_topic_is_unknown(broker: Broker) -> None:
    ended = subprocess.run(
        command(broker, "-C", "-e", "-t", "unknown", "-X", "allow.auto.create.topics=false"),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )

    assert ended.returncode == 1
    assert "Unknown topic or partition" in ended.stderr


# --- groups


@contextmanager
def group_member(broker: Broker, group: str, topic: str) -> Iterator[subprocess.Popen[str]]:
    """A member that reads until the block ends, and then leaves."""
    arguments = ("-G", group, "-u", "-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=100", topic)
    with subprocess.Popen(
        command(broker, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        watchdog = threading.Timer(LIMIT, process.kill)  # whoever waits for its next line does not wait for ever
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.terminate()


def wait_for_partitions(member: subprocess.Popen[str], count: int) -> set[str]:
    """What the member is given, as soon as it is so many partitions."""
    assert member.stderr is not None
    for line in member.stderr:
        assigned = ASSIGNED.match(line)
        if assigned is not None and len(assigned[1].split(", ")) == count:
            return set(assigned[1].split(", "))
    raise AssertionError(f"kcat ended with {member.wait()} before it was given {count} partitions")


def test_a_group_goes_on_where_it_was(broker: Broker, topic: str) -> None:
    group = ("-G", f"group-{next(numbers)}", "-e", "-X", "auto.offset.reset=earliest", topic)
    write(broker, topic, ["one", "two"])
    assert kcat(broker, *group).splitlines() == ["one", "two"]

    write(broker, topic, ["three"])
    assert kcat(broker, *group).splitlines() == ["three"]


def test_members_of_a_group_share_the_partitions_and_take_over(broker: Broker, wide: str) -> None:
    group = f"group-{next(numbers)}"
    everything = {f"{wide} [{number}]" for number in range(4)}
    with ExitStack() as stack:
        stays = stack.enter_context(group_member(broker, group, wide))
        assert wait_for_partitions(stays, 4) == everything
        with group_member(broker, group, wide) as leaves:
            assert wait_for_partitions(leaves, 2) | wait_for_partitions(stays, 2) == everything
        assert wait_for_partitions(stays, 4) == everything

        values = {str(number) for number in range(40)}
        for partition in range(4):
            write(broker, wide, [str(partition * 10 + number) for number in range(10)], "-p", str(partition))
        assert stays.stdout is not None
        assert {stays.stdout.readline().strip() for _ in range(40)} == values


def test_a_group_subscribes_by_pattern(broker: Broker) -> None:
    prefix = f"pattern-{next(numbers)}"
    for name in ("one", "two"):
        broker.create_topic(f"{prefix}-{name}")
        write(broker, f"{prefix}-{name}", [name])

    told = kcat(broker, "-G", prefix, "-e", "-X", "auto.offset.reset=earliest", f"^{prefix}-.*")
    assert set(told.splitlines()) == {"one", "two"}
