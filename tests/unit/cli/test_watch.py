"""When an alert is told, and how."""

from __future__ import annotations

from runnel.cli.watch import Alarm, Watch, as_line
from runnel.client import Lag


def lag(used: float | None = None, *, partition: int = 0, start: int = 0) -> Lag:
    return Lag("orders", partition, 4, start, 1_010, used)


def test_a_partition_is_told_when_it_comes_near_and_again_after_it_was_well():
    watch = Watch(0.5)
    looks = [0.4, 0.5, 0.6, 0.4, 0.7]
    assert [[alarm.lag.used for alarm in watch.look("g", [lag(used)])] for used in looks] == [[], [0.5], [], [], [0.7]]


def test_partitions_and_groups_are_told_apart():
    watch = Watch(0.5)
    assert len(watch.look("g", [lag(0.6), lag(0.6, partition=1)])) == 2
    assert watch.look("g", [lag(0.6), lag(0.6, partition=1)]) == []
    assert watch.look("h", [lag(0.6)]) == [Alarm("h", lag(0.6))]
    assert watch.look("g", [lag(0.6), lag(0.6, partition=1)]) == []


def test_an_alarm_is_one_line():
    assert as_line(Alarm("g", lag(0.625))) == (
        'group "g" is near to losing records: topic "orders" partition 0, lag 1,006, 62% of the retention used'
    )
    assert as_line(Alarm("g", lag(start=5))) == 'group "g" has lost 1 record: topic "orders" partition 0, lag 1,005'
    assert as_line(Alarm("g", lag(start=10))).startswith('group "g" has lost 6 records: ')
