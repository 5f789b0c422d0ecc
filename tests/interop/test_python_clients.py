"""confluent-kafka, aiokafka and kafka-python on our broker: each alone, and what one writes read by another."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from runnel import Broker
from runnel.records import BatchHeader, Codec, Record, batches_of, build_batch
from tests.broker_wire import Wire, fetch, produce
from tests.interop.python_clients import (
    LIBRARIES,
    LIMIT,
    Fenced,
    Library,
    Member,
    Membership,
    Read,
    members,
    poll_until,
)

ROOT = Path(__file__).parents[2]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW = 1_700_000_000_000
SHORT_SESSION = "1000"  # milliseconds

EVERY_KIND = [
    Record(b"plain", None, NOW),
    Record(b"keyed", b"key", NOW + 1),
    Record(b"", b"", NOW + 1),
    Record(None, b"tombstone", NOW + 70_000),
    Record(b"headed", b"key", NOW + 3, (("a", b"1"), ("a", b"2"), ("b", b""), ("\N{SNOWMAN}", bytes(range(256))))),
    Record(b"earlier than those before", None, NOW - 1_000),
    Record(b"long " * 1_000, "k\N{LATIN SMALL LETTER E WITH ACUTE}y".encode() * 50, NOW),
    *(Record(b"%d" % number, b"%d" % (number % 3), NOW + number) for number in range(50)),
]

each_library = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES.keys())
each_writer = pytest.mark.parametrize("writer", LIBRARIES.values(), ids=LIBRARIES.keys())
each_reader = pytest.mark.parametrize("reader", LIBRARIES.values(), ids=LIBRARIES.keys())
each_codec = pytest.mark.parametrize("codec", CODECS)
each_assignor = pytest.mark.parametrize(
    ("library", "assignor"),
    [
        pytest.param(library, assignor, id=f"{library.name}-{assignor}")
        for library in LIBRARIES.values()
        for assignor in library.assignors
    ],
)

MakeTopic = Callable[..., str]
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    # The records are old, and must stay.
    settings = {"group.min.session.timeout.ms": 500, "auto.create.topics.enable": False, "log.retention.ms": -1}
    with Broker(settings=settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


@pytest.fixture(scope="module")
def make_topic(broker: Broker) -> MakeTopic:
    def make_topic(partitions: int = 1, **configs: str | int) -> str:
        name = f"topic-{next(numbers)}"
        broker.create_topic(name, partitions, {config.replace("_", "."): value for config, value in configs.items()})
        return name

    return make_topic


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic()


@pytest.fixture
def wide(make_topic: MakeTopic) -> str:
    """A topic with four partitions."""
    return make_topic(4)


@pytest.fixture
def group() -> str:
    return f"group-{next(numbers)}"


def batches(bootstrap: str, topic: str) -> list[BatchHeader]:
    """The batches of the first partition as they stand in the log."""
    with Wire(bootstrap) as wire:
        data = bytes(fetch(wire, topic, partition_max_bytes=2**24)["records"])
    return [header for _, header in batches_of(data)]


def without_offsets(records: list[Record]) -> list[Record]:
    return [record._replace(offset=-1) for record in records]


def numbered(count: int, start: int = 0) -> list[Record]:
    return [Record(b"%d" % number, None, NOW + number) for number in range(start, start + count)]


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


# --- every pair


@pytest.fixture(scope="module")
def written(bootstrap: str, make_topic: MakeTopic) -> Callable[[Library, str], str]:
    """A topic with records of every kind, once for each library and codec."""
    topics: dict[tuple[str, str], str] = {}

    def written(writer: Library, codec: str) -> str:
        if (writer.name, codec) not in topics:
            topics[writer.name, codec] = topic = make_topic()
            offsets = writer.write(bootstrap, topic, EVERY_KIND, compression=codec)
            assert offsets == list(range(len(EVERY_KIND)))
        return topics[writer.name, codec]

    return written


@each_codec
@each_reader
@each_writer
def test_what_one_writes_another_reads(
    bootstrap: str, written: Callable[[Library, str], str], writer: Library, reader: Library, codec: str
) -> None:
    read = reader.read(bootstrap, written(writer, codec), len(EVERY_KIND))

    assert without_offsets(read) == EVERY_KIND
    assert [record.offset for record in read] == list(range(len(EVERY_KIND)))


@each_codec
@each_writer
def test_a_batch_is_kept_as_it_was_compressed(
    bootstrap: str, written: Callable[[Library, str], str], writer: Library, codec: str
) -> None:
    assert {batch.codec for batch in batches(bootstrap, written(writer, codec))} == {Codec[codec.upper()]}


def test_a_header_without_a_value_is_read_by_all(bootstrap: str, topic: str) -> None:
    records = [Record(b"value", None, NOW, (("empty", b""), ("none", None)))]
    LIBRARIES["confluent"].write(bootstrap, topic, records)

    for reader in LIBRARIES.values():
        assert without_offsets(reader.read(bootstrap, topic, 1)) == records


@each_reader
@each_writer
def test_large_batches_pass(bootstrap: str, topic: str, seed: int, writer: Library, reader: Library) -> None:
    chance = random.Random(seed)
    records = [Record(chance.randbytes(400), None, NOW + number) for number in range(2_000)]
    writer.write(bootstrap, topic, records, compression="lz4", largest=900_000)

    assert max(batch.size for batch in batches(bootstrap, topic)) > 500_000
    assert without_offsets(reader.read(bootstrap, topic, len(records))) == records


@each_reader
@each_writer
def test_a_record_that_is_larger_than_a_reader_asks_for_passes(
    bootstrap: str, make_topic: MakeTopic, writer: Library, reader: Library
) -> None:
    topic = make_topic(max_message_bytes=4_000_000)
    records = [Record(bytes(3_000_000), b"large", NOW), Record(b"small", None, NOW)]
    writer.write(bootstrap, topic, records, largest=3_500_000)

    assert without_offsets(reader.read(bootstrap, topic, 2)) == records


# --- idempotent producers


@each_library
def test_an_idempotent_producer_numbers_what_it_writes(bootstrap: str, topic: str, library: Library) -> None:
    offsets = library.write(bootstrap, topic, numbered(500), idempotent=True, largest=1_000)

    assert offsets == list(range(500))
    assert values(library.read(bootstrap, topic, 500)) == values(numbered(500))
    found = batches(bootstrap, topic)
    assert {batch.producer_id for batch in found} == {found[0].producer_id}
    assert found[0].producer_id >= 0
    assert len(found) > 1
    assert [batch.base_sequence for batch in found] == [batch.base_offset for batch in found]


@each_library
def test_an_idempotent_producer_of_its_own_follows_another(bootstrap: str, topic: str, library: Library) -> None:
    for start in (0, 10):
        library.write(bootstrap, topic, numbered(10, start), idempotent=True)

    assert values(library.read(bootstrap, topic, 20)) == values(numbered(20))
    assert len({batch.producer_id for batch in batches(bootstrap, topic)}) == 2


# --- groups


def write_to_each(bootstrap: str, topic: str, partitions: int = 4, start: int = 0) -> set[bytes | None]:
    """Ten records to each partition, and their values."""
    with Wire(bootstrap) as wire:
        for partition in range(partitions):
            batch = build_batch(numbered(10, start + 10 * partition))
            assert produce(wire, topic, batch, partition)["error_code"] == 0
    return {b"%d" % number for number in range(start, start + 10 * partitions)}


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for added in admin.create_partitions([NewPartitions(topic, total)]).values():
        added.result(LIMIT)


def poll_for(wanted: set[bytes | None], *readers: Member) -> list[Read]:
    """Until each value was read. A rebalance has some read again, for nothing was committed: to count would not do."""
    return poll_until(lambda read: wanted <= {found.record.value for found in read}, *readers)


def partitions_of(topic: str, count: int = 4) -> set[tuple[str, int]]:
    return {(topic, number) for number in range(count)}


@each_assignor
def test_two_members_share_the_work(bootstrap: str, wide: str, group: str, library: Library, assignor: str) -> None:
    membership = Membership(group, (wide,), assignor=assignor)
    with members(bootstrap, (library, membership), (library, membership)) as (one, other):
        poll_until(lambda _: len(one.assignment()) == len(other.assignment()) == 2, one, other)
        assert one.assignment() | other.assignment() == partitions_of(wide)

        wanted = write_to_each(bootstrap, wide)
        read = poll_for(wanted, one, other)

    assert len(read) == 40
    assert {found.record.value for found in read} == wanted


@each_assignor
def test_who_stays_takes_over_from_who_leaves(
    bootstrap: str, wide: str, group: str, library: Library, assignor: str
) -> None:
    membership = Membership(group, (wide,), assignor=assignor)
    with library.member(bootstrap, membership) as stays:
        with library.member(bootstrap, membership) as leaves:
            poll_until(lambda _: len(stays.assignment()) == len(leaves.assignment()) == 2, stays, leaves)
        poll_until(lambda _: stays.assignment() == partitions_of(wide), stays)

        wanted = write_to_each(bootstrap, wide)
        assert {found.record.value for found in poll_for(wanted, stays)} == wanted


@each_library
def test_who_stays_takes_over_from_who_is_killed(bootstrap: str, wide: str, group: str, library: Library) -> None:
    module = "tests.interop.python_clients"
    command = [sys.executable, "-m", module, library.name, bootstrap, group, wide, SHORT_SESSION]
    with library.member(bootstrap, Membership(group, (wide,))) as stays:
        poll_until(lambda _: stays.assignment() == partitions_of(wide), stays)
        with subprocess.Popen(command, cwd=ROOT) as killed:
            try:
                poll_until(lambda _: len(stays.assignment()) == 2, stays)
            finally:
                killed.kill()
        poll_until(lambda _: stays.assignment() == partitions_of(wide), stays)

        wanted = write_to_each(bootstrap, wide)
        assert {found.record.value for found in poll_for(wanted, stays)} == wanted


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_members_of_three_libraries_share_the_work(
    bootstrap: str, make_topic: MakeTopic, group: str, assignor: str
) -> None:
    topic = make_topic(6)
    membership = Membership(group, (topic,), assignor=assignor)
    with members(bootstrap, *((library, membership) for library in LIBRARIES.values())) as all_of_them:
        poll_until(lambda _: {len(member.assignment()) for member in all_of_them} == {2}, *all_of_them)
        assigned = [member.assignment() for member in all_of_them]
        assert set().union(*assigned) == partitions_of(topic, 6)

        wanted = write_to_each(bootstrap, topic, 6)
        read = poll_for(wanted, *all_of_them)

    assert len(read) == 60
    assert {found.record.value for found in read} == wanted


def test_groups_of_three_libraries_read_everything_each(bootstrap: str, wide: str, group: str) -> None:
    wanted = write_to_each(bootstrap, wide)
    memberships = [(library, Membership(f"{group}-{name}", (wide,))) for name, library in LIBRARIES.items()]
    with members(bootstrap, *memberships) as all_of_them:
        for member in all_of_them:
            read = poll_for(wanted, member)
            assert len(read) == 40
            assert {found.record.value for found in read} == wanted


@each_reader
@each_writer
def test_where_one_has_committed_another_goes_on(
    bootstrap: str, wide: str, group: str, writer: Library, reader: Library
) -> None:
    write_to_each(bootstrap, wide)
    membership = Membership(group, (wide,))
    with writer.member(bootstrap, membership) as first:
        poll_until(lambda read: len(read) == 40, first)
        first.commit({(wide, 0): 10, (wide, 1): 7, (wide, 2): 0})

    with reader.member(bootstrap, membership) as second:
        assert [second.committed((wide, number)) for number in range(4)] == [10, 7, 0, None]
        read = poll_until(lambda read: len(read) >= 23, second)

    assert sorted((found.partition, found.offset) for found in read) == [
        *((1, offset) for offset in range(7, 10)),
        *((partition, offset) for partition in (2, 3) for offset in range(10)),
    ]


@each_library
def test_a_member_with_a_name_comes_back_without_a_rebalance(
    bootstrap: str, wide: str, group: str, library: Library
) -> None:
    named = [Membership(group, (wide,), instance=name, session=60_000) for name in ("one", "two")]
    with library.member(bootstrap, named[0]) as stays:
        with library.member(bootstrap, named[1]) as leaves:
            poll_until(lambda _: len(stays.assignment()) == len(leaves.assignment()) == 2, stays, leaves)
            held, left = stays.assignment(), leaves.assignment()
        with library.member(bootstrap, named[1]) as back:

            def came_back(_: object) -> bool:
                # A rebalance would take them from the one who stays, or give it more.
                assert stays.assignment() == held
                return back.assignment() == left

            poll_until(came_back, stays, back)
            wanted = write_to_each(bootstrap, wide)
            read = poll_for(wanted, stays, back)

    assert {found.record.value for found in read} == wanted


# aiokafka sends no name with its heartbeats and commits, so that no broker can tell it: it joins again.
@pytest.mark.parametrize(
    "library", [LIBRARIES["confluent"], LIBRARIES["kafka-python"]], ids=["confluent", "kafka-python"]
)
def test_a_name_that_is_taken_fences_its_former_holder(bootstrap: str, wide: str, group: str, library: Library) -> None:
    named = Membership(group, (wide,), instance="one")
    with library.member(bootstrap, named) as former:
        poll_until(lambda _: former.assignment() == partitions_of(wide), former)
        with library.member(bootstrap, named) as latter:
            poll_until(lambda _: latter.assignment() == partitions_of(wide), latter)

            with pytest.raises(Fenced):
                former.commit({(wide, 0): 0})


# --- positions


@each_library
def test_a_position_is_found_by_time(bootstrap: str, topic: str, library: Library) -> None:
    library.write(bootstrap, topic, [Record(b"%d" % number, None, NOW + 1_000 * number) for number in range(20)])
    with library.member(bootstrap) as reader:
        reader.assign((topic, 0))
        found = [reader.offset_at((topic, 0), NOW + later) for later in (-5_000, 0, 1, 5_000, 18_999, 19_000, 19_001)]
        assert found == [0, 0, 1, 5, 19, 19, None]
        assert reader.ends((topic, 0)) == (0, 20)

        poll_until(lambda read: len(read) >= 20, reader)
        reader.seek((topic, 0), 15)
        read = poll_until(lambda read: len(read) >= 5, reader)

    assert [each.offset for each in read] == [15, 16, 17, 18, 19]


@each_library
def test_a_position_is_sought_backwards(bootstrap: str, topic: str, library: Library) -> None:
    library.write(bootstrap, topic, numbered(10))
    with library.member(bootstrap) as reader:
        reader.assign((topic, 0))
        poll_until(lambda read: len(read) == 10, reader)
        reader.seek((topic, 0), 3)

        assert [found.offset for found in poll_until(lambda read: len(read) >= 7, reader)] == [3, 4, 5, 6, 7, 8, 9]


@each_library
def test_a_partition_rests_and_goes_on(bootstrap: str, make_topic: MakeTopic, library: Library) -> None:
    topic = make_topic(2)
    with library.member(bootstrap) as reader:
        reader.assign((topic, 0), (topic, 1))
        reader.pause((topic, 0))
        for partition in (0, 1):
            library.write(bootstrap, topic, numbered(10), partition=partition)

        awake = poll_until(lambda read: len(read) >= 10, reader)
        assert {found.partition for found in awake} == {1}
        reader.resume((topic, 0))
        rested = poll_until(lambda read: len(read) >= 10, reader)
        assert [(found.partition, found.offset) for found in rested] == [(0, offset) for offset in range(10)]


# --- topics that change under a reader


@each_library
def test_a_pattern_finds_topics_that_come_later(broker: Broker, group: str, library: Library) -> None:
    prefix = f"pattern-{next(numbers)}"
    broker.create_topic(f"{prefix}-1")
    broker.create_topic(f"not-{prefix}-1")
    with library.member(broker.bootstrap, Membership(group, pattern=f"^{prefix}-.*")) as reader:
        poll_until(lambda _: reader.assignment() == {(f"{prefix}-1", 0)}, reader)
        broker.create_topic(f"{prefix}-2")
        poll_until(lambda _: reader.assignment() == {(f"{prefix}-1", 0), (f"{prefix}-2", 0)}, reader)

        library.write(broker.bootstrap, f"{prefix}-2", numbered(10))
        read = poll_until(lambda read: len(read) >= 10, reader)

    assert {found.topic for found in read} == {f"{prefix}-2"}


@each_library
def test_a_group_finds_a_topic_that_was_missing(broker: Broker, group: str, library: Library) -> None:
    name = f"missing-{next(numbers)}"
    with library.member(broker.bootstrap, Membership(group, (name,))) as reader:
        reader.poll()
        broker.create_topic(name)
        library.write(broker.bootstrap, name, numbered(10))

        assert len(poll_for(set(values(numbered(10))), reader)) == 10


@each_library
def test_a_group_finds_partitions_that_are_added(bootstrap: str, topic: str, group: str, library: Library) -> None:
    with library.member(bootstrap, Membership(group, (topic,))) as reader:
        poll_until(lambda _: reader.assignment() == {(topic, 0)}, reader)
        add_partitions(bootstrap, topic, 3)
        wanted = write_to_each(bootstrap, topic, 3)

        read = poll_for(wanted, reader)
        assert reader.assignment() == partitions_of(topic, 3)
        assert {found.record.value for found in read} == wanted


@each_library
def test_a_reader_goes_on_in_a_topic_that_was_made_again(
    broker: Broker, topic: str, group: str, library: Library
) -> None:
    library.write(broker.bootstrap, topic, numbered(10))
    with library.member(broker.bootstrap, Membership(group, (topic,))) as reader:
        poll_until(lambda read: len(read) >= 10, reader)
        broker.delete_topic(topic)
        broker.create_topic(topic)
        library.write(broker.bootstrap, topic, numbered(3, start=100))

        read = poll_for(set(values(numbered(3, start=100))), reader)

    assert [(found.offset, found.record.value) for found in read] == [(0, b"100"), (1, b"101"), (2, b"102")]


@each_library
def test_a_reader_loses_a_topic_that_is_deleted_and_keeps_the_other(
    broker: Broker, make_topic: MakeTopic, group: str, library: Library
) -> None:
    deleted, kept = make_topic(), make_topic()
    with library.member(broker.bootstrap, Membership(group, (deleted, kept))) as reader:
        poll_until(lambda _: reader.assignment() == {(deleted, 0), (kept, 0)}, reader)
        broker.delete_topic(deleted)
        poll_until(lambda _: reader.assignment() == {(kept, 0)}, reader)

        library.write(broker.bootstrap, kept, numbered(10))
        assert len(poll_for(set(values(numbered(10))), reader)) == 10
