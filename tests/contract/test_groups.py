"""Groups: describe, reset, delete, lag, and how near they are to losing records."""

from __future__ import annotations

import pytest

from runnel.client import EARLIEST, LATEST, Consumer, GroupActive, Groups, Lag, UnknownGroup, lag
from runnel.testing import StoppedClock

NOW = 1_700_000_000_000


@pytest.fixture
def groups(admin):
    return Groups(admin)


@pytest.fixture
def behind(bootstrap, producer, kept, name):
    """A group that has read four of ten records; they are 100 seconds apart, the last one as old as that."""
    for number in range(10):
        producer.send(kept, bytes(1_000), timestamp=NOW - (10 - number) * 100_000)
    producer.flush()
    with Consumer(bootstrap, kept, group=name) as consumer:
        list(consumer.records(4))
    return name


def test_a_group_is_listed_once_it_has_committed(groups, behind):
    assert (behind, "empty") in [(group.name, group.state) for group in groups.list()]


def test_a_group_is_described_with_its_members(bootstrap, groups, producer, topic, name):
    producer.produce(topic, b"")
    with Consumer(bootstrap, topic, group=name, follow=True) as consumer:
        list(consumer.records(1))
        group = groups.describe(name)
    assert group.state == "stable"
    assert [(member.client, member.partitions) for member in group.members] == [("runnel", ((topic, 0),))]


def test_an_unknown_group_is_told(groups, name):
    for ask in (groups.describe, groups.delete, lambda group: groups.reset(group, {})):
        with pytest.raises(UnknownGroup, match=f'there is no group "{name}"'):
            ask(name)


def test_a_group_is_reset(admin, bootstrap, groups, behind, topic):
    groups.reset(behind, admin.offsets([(topic, 0)], EARLIEST))
    assert groups.committed(behind) == {(topic, 0): 0}
    with Consumer(bootstrap, topic, group=behind) as consumer:
        assert [record.offset for record in consumer] == list(range(10))


def test_a_group_is_deleted_with_its_offsets(groups, behind):
    groups.delete(behind)
    assert behind not in [group.name for group in groups.list()]
    assert groups.committed(behind) == {}


def test_a_group_at_work_is_neither_reset_nor_deleted(bootstrap, groups, behind, topic):
    with Consumer(bootstrap, topic, group=behind, follow=True) as consumer:
        list(consumer.records(1))
        for ask in (groups.delete, lambda group: groups.reset(group, {(topic, 0): 0})):
            with pytest.raises(GroupActive, match=f'group "{behind}" has 1 member at work'):
                ask(behind)


# --- lag


def test_lag_is_what_is_there_and_not_read(admin, behind, topic):
    (found,) = lag(admin, behind)
    assert found[:5] == (topic, 0, 4, 0, 10)
    assert (found.lag, found.lost) == (6, 0)


def test_without_lag_nothing_is_near_loss(admin, groups, behind, topic):
    groups.reset(behind, admin.offsets([(topic, 0)], LATEST))
    assert lag(admin, behind) == [Lag(topic, 0, 10, 0, 10)]
    assert not lag(admin, behind)[0].is_near_loss(0.0)


def test_how_near_loss_is_by_time(admin, behind, topic):
    admin.alter(topic, configs={"retention.ms": "1000000000000"})  # nothing is deleted during the test
    (found,) = lag(admin, behind, clock=StoppedClock(NOW))
    # The first unread record is the fifth, written 600 seconds ago.
    assert found.used_time == 600_000 / 1_000_000_000_000
    assert found.used_bytes is None
    assert found.used == found.used_time


def test_how_near_loss_is_by_bytes(admin, behind, topic):
    admin.alter(topic, configs={"retention.bytes": "1000000", "retention.ms": "-1"})
    (size,) = admin.sizes([(topic, 0)]).values()
    (found,) = lag(admin, behind)
    assert found.used_time is None
    assert found.used_bytes == pytest.approx(size * 6 / 10 / 1_000_000)
    assert found.is_near_loss(0.005)
    assert not found.is_near_loss(0.5)


def test_a_topic_that_is_only_compacted_loses_nothing(admin, behind, topic):
    admin.alter(topic, configs={"cleanup.policy": "compact", "retention.bytes": "1"})
    assert lag(admin, behind)[0].used is None


def test_records_that_were_deleted_unread_are_lost(admin, behind, topic):
    admin.delete_records(topic, {0: 7})
    (found,) = lag(admin, behind)
    assert (found.lost, found.lag) == (3, 3)
    assert found.is_near_loss(1.0)


def test_a_deleted_topic_is_no_part_of_the_lag(admin, bootstrap, groups, producer, name):
    admin.create(f"{name}-gone")
    producer.produce(f"{name}-gone", b"")
    with Consumer(bootstrap, f"{name}-gone", group=name) as consumer:
        list(consumer)
    admin.delete(f"{name}-gone")
    assert lag(admin, name) == []
