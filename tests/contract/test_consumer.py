"""Reading records: from where, up to where, alone and in a group."""

from __future__ import annotations

import threading
import time
from itertools import islice

import pytest
from confluent_kafka import TopicPartition

from runnel.client import (
    EARLIEST,
    LATEST,
    Consumer,
    Groups,
    Start,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
    Unreachable,
)
from runnel.errors import OffsetOutOfRange


@pytest.fixture
def ten(producer, kept):
    """A topic with ten records, a second apart."""
    for number in range(10):
        producer.send(kept, b"%d" % number, timestamp=1_700_000_000_000 + number * 1_000)
    producer.flush()
    return kept


def read(*arguments, limit=None, **options):
    with Consumer(*arguments, **options) as consumer:
        return [int(record.value) for record in consumer.records(limit)]


def test_a_header_name_that_is_not_utf_8_is_read_with_a_mark(bootstrap, strange):
    for _ in range(12):  # Python calls what it has called often in another way, which does not see all errors
        with Consumer(bootstrap, strange) as records:
            assert [(each.value, each.headers) for each in records] == [
                (b"a", (("\ufffdh", b"1"),)),
                (b"b", (("h", b"2"),)),
            ]


def test_it_reads_from_the_earliest_record_to_the_end(bootstrap, ten):
    assert read(bootstrap, ten) == list(range(10))


def test_it_reads_from_an_offset(bootstrap, ten):
    assert read(bootstrap, ten, start=Start.offset(7)) == [7, 8, 9]


def test_it_reads_from_a_time(bootstrap, ten):
    assert read(bootstrap, ten, start=Start.time(1_700_000_007_500)) == [8, 9]


def test_after_the_last_time_there_is_nothing(bootstrap, ten):
    assert read(bootstrap, ten, start=Start.time(1_800_000_000_000)) == []


def test_behind_the_latest_there_is_nothing(bootstrap, ten):
    assert read(bootstrap, ten, start=LATEST) == []


def test_an_empty_topic_has_an_end(bootstrap, topic):
    assert read(bootstrap, topic) == []


def test_it_stops_after_a_limit_and_goes_on_from_there(bootstrap, ten):
    with Consumer(bootstrap, ten) as consumer:
        assert [int(record.value) for record in consumer.records(3)] == [0, 1, 2]
        assert [int(record.value) for record in islice(consumer, 2)] == [3, 4]
        assert [int(record.value) for record in consumer] == [5, 6, 7, 8, 9]


def test_it_stops_at_the_end_that_was_there_when_it_began(bootstrap, producer, ten):
    with Consumer(bootstrap, ten) as consumer:
        producer.produce(ten, b"10")
        assert [int(record.value) for record in consumer] == list(range(10))


def test_it_follows_if_it_is_told_to(bootstrap, producer, ten):
    with Consumer(bootstrap, ten, start=LATEST, follow=True) as consumer:
        producer.produce(ten, b"10")
        producer.produce(ten, b"11")
        assert [int(record.value) for record in consumer.records(2)] == [10, 11]


def test_a_stopped_consumer_ends_its_loop_after_the_record_it_is_at(bootstrap, ten):
    with Consumer(bootstrap, ten, follow=True) as consumer:
        seen = []
        for record in consumer:
            seen.append(int(record.value))
            if len(seen) == 3:
                consumer.stop()
    assert seen == [0, 1, 2]


def test_it_reads_all_partitions_or_those_that_are_named(bootstrap, producer, wide):
    for number in range(3):
        producer.produce(wide, b"%d" % number, partition=number)
    assert sorted(read(bootstrap, wide)) == [0, 1, 2]
    assert sorted(read(bootstrap, wide, partitions=[2, 0])) == [0, 2]


def test_deleted_records_are_no_part_of_the_topic(bootstrap, admin, ten):
    admin.delete_records(ten, {0: 4})
    assert read(bootstrap, ten) == [4, 5, 6, 7, 8, 9]
    with pytest.raises(OffsetOutOfRange, match=f"offset 3 of partition {ten}-0 is outside of 4..10"):
        read(bootstrap, ten, start=Start.offset(3))


def test_an_offset_behind_the_end_is_told(bootstrap, ten):
    assert read(bootstrap, ten, start=Start.offset(10)) == []
    with pytest.raises(OffsetOutOfRange, match=r"offset 11 of partition .* is outside of 0\.\.10"):
        read(bootstrap, ten, start=Start.offset(11))


def test_an_unknown_topic_is_told_and_not_created(bootstrap, admin, name):
    with pytest.raises(UnknownTopic, match=f'there is no topic "{name}"'):
        Consumer(bootstrap, name)
    assert name not in [topic.name for topic in admin.topics()]


def test_an_unknown_partition_is_told_with_those_that_are_there(bootstrap, wide):
    with pytest.raises(UnknownPartition, match=r"has no partition 3 \(its partitions are 0 to 2\)"):
        Consumer(bootstrap, wide, partitions=[3])


def test_a_broker_that_is_not_there_is_told_with_its_address():
    with pytest.raises(Unreachable, match=r"no broker answers at 127\.0\.0\.1:1: connection refused"):
        Consumer("127.0.0.1:1", "any")


def test_partitions_and_a_group_exclude_each_other(bootstrap, topic):
    with pytest.raises(ValueError, match="give either of them"):
        Consumer(bootstrap, topic, partitions=[0], group="g")


# --- groups


def test_a_group_goes_on_where_it_stopped(bootstrap, ten, name):
    assert read(bootstrap, ten, group=name, limit=4) == [0, 1, 2, 3]
    assert read(bootstrap, ten, group=name) == [4, 5, 6, 7, 8, 9]
    assert read(bootstrap, ten, group=name) == []


def test_the_start_counts_for_a_group_that_has_committed_nothing(bootstrap, ten, name):
    assert read(bootstrap, ten, group=name, start=Start.time(1_700_000_008_000)) == [8, 9]
    assert read(bootstrap, ten, group=name, start=EARLIEST) == []
    assert read(bootstrap, ten, group=f"{name}-late", start=LATEST) == []
    assert read(bootstrap, ten, group=f"{name}-at", start=Start.offset(9)) == [9]


def test_a_start_that_is_not_there_is_told_in_a_group_too(bootstrap, ten, name):
    with pytest.raises(OffsetOutOfRange, match=r"offset 11 of partition .* is outside of 0\.\.10"):
        read(bootstrap, ten, group=name, start=Start.offset(11))


def test_a_record_that_was_being_handled_comes_again(bootstrap, ten, name):
    consumer = Consumer(bootstrap, ten, group=name)
    records = iter(consumer)
    assert [int(next(records).value) for _ in range(3)] == [0, 1, 2]
    consumer.close()
    assert read(bootstrap, ten, group=name, limit=1) == [2]


def test_commit_is_seen_at_once(bootstrap, admin, ten, name):
    with Consumer(bootstrap, ten, group=name) as consumer:
        list(consumer.records(4))
        consumer.commit()
        assert Groups(admin).committed(name) == {(ten, 0): 4}
        consumer.commit()  # nothing new is no error


def test_without_a_group_nothing_is_committed(bootstrap, admin, ten):
    before = {group.name for group in Groups(admin).list()}
    read(bootstrap, ten)
    assert {group.name for group in Groups(admin).list()} <= before  # one of another test may end meanwhile


def test_members_of_a_group_share_the_partitions(bootstrap, admin, producer, wide, name):
    consumers = [Consumer(bootstrap, wide, group=name, follow=True) for _ in range(2)]
    seen: list[list[tuple[int, int]]] = [[], []]

    def read_on(number: int) -> None:
        for record in consumers[number]:
            seen[number].append((record.partition, record.offset))

    threads = [threading.Thread(target=read_on, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: shares(admin, name) in ([1, 2], [2, 1]))
        for number in range(300):
            producer.send(wide, b"", partition=number % 3)
        producer.flush()
        wait_until(lambda: len({*seen[0], *seen[1]}) >= 300)
    finally:
        for consumer in consumers:
            consumer.stop()
        for thread in threads:
            thread.join()
        for consumer in consumers:
            consumer.close()
    assert sorted(seen[0] + seen[1]) == [(partition, offset) for partition in range(3) for offset in range(100)]
    assert all(seen)


def test_what_was_fetched_is_dropped_when_the_partitions_go_to_another_member(bootstrap, ten, name):
    with Consumer(bootstrap, ten, group=name) as consumer:
        list(consumer.records(1))
        wait_until(lambda: consumer._waiting or consumer._fetch())
        consumer._revoked(consumer._consumer, [])
        assert not consumer._waiting


# A group that gives and takes partitions one by one.
ONE_BY_ONE = pytest.mark.parametrize(
    "settings", [{"group.protocol": "consumer"}, {"partition.assignment.strategy": "cooperative-sticky"}]
)


@ONE_BY_ONE
def test_so_does_a_group_that_shares_its_partitions_one_by_one(bootstrap, ten, name, settings):
    assert read(bootstrap, ten, group=name, settings=settings, limit=4) == [0, 1, 2, 3]
    assert read(bootstrap, ten, group=name, settings=settings) == [4, 5, 6, 7, 8, 9]
    assert read(bootstrap, ten, group=name, settings=settings) == []
    assert read(bootstrap, ten, group=f"{name}-at", start=Start.offset(9), settings=settings) == [9]


@ONE_BY_ONE
def test_members_of_it_read_every_record_while_others_come(bootstrap, admin, producer, wide, name, settings):
    for number in range(300):
        producer.send(wide, b"", partition=number % 3)
    producer.flush()
    seen: list[tuple[int, int]] = []
    consumers: list[Consumer] = []
    threads: list[threading.Thread] = []

    def read_on(consumer: Consumer) -> None:
        seen.extend((record.partition, record.offset) for record in consumer)

    def one_comes() -> None:
        # It is a member from the beginning, and would hold what it was given until it reads.
        consumers.append(Consumer(bootstrap, wide, group=name, follow=True, settings=settings))
        threads.append(threading.Thread(target=read_on, args=(consumers[-1],)))
        threads[-1].start()

    try:
        one_comes()
        wait_until(lambda: seen)
        one_comes()
        wait_until(lambda: shares(admin, name) in ([1, 2], [2, 1]))
        for number in range(300):
            producer.send(wide, b"", partition=number % 3)
        producer.flush()
        expected = {(partition, offset) for partition in range(3) for offset in range(200)}
        wait_until(lambda: expected <= set(seen))
    finally:
        for consumer, thread in zip(consumers, threads, strict=True):
            consumer.stop()
            thread.join()
            consumer.close()


@ONE_BY_ONE
def test_what_was_fetched_of_partitions_that_stay_is_kept(bootstrap, producer, wide, name, settings):
    for number in range(300):
        producer.send(wide, b"", partition=number % 3)
    producer.flush()
    with Consumer(bootstrap, wide, group=name, settings=settings) as consumer:
        wait_until(lambda: len({each.partition() for each in consumer._waiting}) > 1 or consumer._fetch())
        gone, *stay = sorted({each.partition() for each in consumer._waiting})
        consumer._revoked(consumer._consumer, [TopicPartition(wide, gone)])
        assert sorted({each.partition() for each in consumer._waiting}) == stay


def shares(admin, group):
    """How many partitions each member has, once the group is stable."""
    try:
        described = Groups(admin).describe(group)
    except UnknownGroup:
        return []
    return [len(member.partitions) for member in described.members] if described.state == "stable" else []


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
