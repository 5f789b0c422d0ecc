import pytest

from runnel.broker.handover import Handover
from runnel.broker.waits import Waits
from runnel.records import Record
from tests.unit.broker.socketless import Loop
from tests.unit.log.stage import Stage


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def stage():
    stage = Stage()
    yield stage
    stage.log.close()


def test_whoever_waits_is_woken_by_an_append(loop, stage):
    waits, woken = Waits(Handover(loop)), []
    orders, others = stage.partition("orders"), stage.partition("others")
    waits.add([orders], lambda: woken.append("orders"))
    waits.add([others], lambda: woken.append("others"))
    orders.append([Record(b"x")])
    assert woken == []  # on the loop's thread only
    loop.turn(2)
    assert woken == ["orders"]


def test_one_that_waits_for_several_is_woken_by_any(loop, stage):
    waits, woken = Waits(Handover(loop)), []
    partitions = [stage.partition("a"), stage.partition("b")]
    waits.add(partitions, lambda: woken.append(1))
    for partition in partitions:
        partition.append([Record(b"x")])
        loop.turn(2)
    assert woken == [1, 1]


def test_whoever_left_is_not_woken(loop, stage):
    waits, woken = Waits(Handover(loop)), []
    partition = stage.partition()

    def wake() -> None:
        woken.append(1)

    waits.add([partition], wake)
    waits.remove([partition], wake)
    waits.remove([stage.partition("never-waited-for")], wake)
    partition.append([Record(b"x")])
    loop.turn(2)
    assert woken == []


def test_all_that_wait_for_a_partition_are_woken_though_one_leaves_meanwhile(loop, stage):
    waits, woken = Waits(Handover(loop)), []
    partition = stage.partition()

    def first() -> None:
        woken.append("first")
        waits.remove([partition], first)

    waits.add([partition], first)
    waits.add([partition], lambda: woken.append("second"))
    for _ in range(2):
        partition.append([Record(b"x")])
        loop.turn(2)
    assert woken == ["first", "second", "second"]


def test_a_partition_is_watched_once_however_often_somebody_waits(loop, stage):
    waits, woken = Waits(Handover(loop)), []
    partition = stage.partition()
    for number in range(10):
        wake = lambda number=number: woken.append(number)  # noqa: E731 (each is one of its own)
        waits.add([partition], wake)
        if number < 9:
            waits.remove([partition], wake)
    partition.append([Record(b"x")])
    loop.turn(2)
    assert woken == [9]


def test_the_end_of_the_broker_wakes_all(loop, stage):
    waits, woken = Waits(Handover(loop)), []
    waits.add([stage.partition("a")], lambda: woken.append("a"))
    waits.add([stage.partition("b")], lambda: woken.append("b"))
    waits.wake_all()
    assert sorted(woken) == ["a", "b"]


def test_the_deletion_of_a_partition_wakes_those_who_wait_for_it(loop, stage):
    waits, woken = Waits(Handover(loop)), []
    partition = stage.partition("orders")
    waits.add([partition], lambda: woken.append(partition.closed))
    stage.log.delete("orders")
    loop.turn(2)
    assert woken
    assert all(woken)
