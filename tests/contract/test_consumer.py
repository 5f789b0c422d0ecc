"""Reading records: from where, up to where, alone and in a group."""

from __future__ import annotations

import threading
from itertools import islice

import pytest

from runnel.client import EARLIEST, LATEST, Consumer, Groups, Start, UnknownPartition, UnknownTopic, Unreachable
from runnel.errors import OffsetOutOfRange


@pytest.fixture
def ten(producer, topic):
    """A topic with ten records, a second apart."""
    for number in range(10):
        producer.send(topic, b"%d" % number, timestamp=1_700_000_000_000 + number * 1_000)
    producer.flush()
    return topic


def read(*arguments, limit=None, **options):
    with Consumer(*arguments, **options) as consumer:
        return [int(record.value) for record in consumer.records(limit)]


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
    with pytest.raises(Unreachable, match="no broker answers at 127.0.0.1:1: connection refused"):
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
    before = [group.name for group in Groups(admin).list()]
    read(bootstrap, ten)
    assert [group.name for group in Groups(admin).list()] == before


def test_members_of_a_group_share_the_partitions(bootstrap, admin, producer, wide, name):
    for number in range(300):
        producer.send(wide, b"%d" % number, partition=number % 3)
    producer.flush()
    seen: list[set[int]] = [set(), set()]
    lock, complete = threading.Lock(), threading.Event()

    def member(number: int) -> None:
        with Consumer(bootstrap, wide, group=name, follow=True) as consumer:
            while not complete.is_set():
                for record in consumer.records(1):
                    with lock:
                        seen[number].add(int(record.value))
                        if len(seen[0] | seen[1]) >= 300 and all(seen):
                            complete.set()
                    if not complete.is_set() and len(seen[0] | seen[1]) >= 300:
                        producer.send(wide, b"%d" % (1000 + number), partition=int(record.partition))

    threads = [threading.Thread(target=member, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    assert complete.wait(60)
    for number in range(3):  # wakes whoever waits for a record
        producer.send(wide, b"0", partition=number)
    for thread in threads:
        thread.join(60)
    assert set(range(300)) <= seen[0] | seen[1]
