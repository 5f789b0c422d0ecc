"""What is counted of consumer groups: how many there are in each state, and their rebalances."""

from __future__ import annotations

import pytest

from runnel.broker.groups.consumer.group import ConsumerGroupState
from tests.unit.broker.groups.consumer.stage import ClassicReader, ConsumerStage, Reader

TOPIC = "orders"


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.topics.create(TOPIC, 4)
    return stage


def counted(stage: ConsumerStage) -> dict[str, int]:
    return {state: count for (kind, state), count in stage.groups.count_by_state().items() if kind == "consumer"}


def test_every_state_is_told_also_where_there_is_no_group(stage: ConsumerStage) -> None:
    assert counted(stage) == {"Empty": 0, "Assigning": 0, "Reconciling": 0, "Stable": 0}


def test_groups_are_counted_by_their_state(stage: ConsumerStage) -> None:
    for name in ("first", "second"):
        Reader(stage, "ann", TOPIC, group=name).heartbeat()
    gone = Reader(stage, "ann", TOPIC, group="empty")
    gone.heartbeat()
    gone.leave()
    assert counted(stage) == {"Empty": 1, "Assigning": 0, "Reconciling": 0, "Stable": 2}
    Reader(stage, "bob", TOPIC, group="second").heartbeat()
    assert counted(stage) == {"Empty": 1, "Assigning": 0, "Reconciling": 1, "Stable": 1}


def test_a_group_that_waits_for_its_assignment_is_counted_as_such(stage: ConsumerStage) -> None:
    stage.set(group_consumer_assignment_interval_ms=1_000)
    Reader(stage, "ann", TOPIC).heartbeat()
    Reader(stage, "bob", TOPIC).heartbeat()
    assert counted(stage) == {"Empty": 0, "Assigning": 1, "Reconciling": 0, "Stable": 0}


def test_while_the_disk_is_ill_they_are_not_told(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", TOPIC)
    ann.heartbeat()
    stage.break_disk()
    stage.groups.consumer_heartbeat("g", Reader(stage, "bob", TOPIC).request(), needs_member_id=True)
    stage.settle()
    assert counted(stage) == {}
    assert stage.groups.count_by_state()["classic", "Stable"] == 0


def test_a_rebalance_is_counted_when_all_have_what_is_meant_for_them(stage: ConsumerStage) -> None:
    ann, bob = (Reader(stage, name, TOPIC) for name in ("ann", "bob"))
    ann.heartbeat()
    assert stage.groups.rebalances == 1
    bob.heartbeat()
    assert stage.consumer_group().state is ConsumerGroupState.RECONCILING
    assert stage.groups.rebalances == 1
    stage.settled(ann, bob)
    assert stage.groups.rebalances == 2
    for _ in range(3):
        ann.heartbeat()
        bob.heartbeat()
    assert stage.groups.rebalances == 2


def test_a_rebalance_that_is_over_at_once_is_counted_too(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", TOPIC)
    ann.heartbeat()
    stage.topics.create("more", 1)
    ann.subscribe(TOPIC, "more")
    stage.settled(ann)
    assert stage.groups.rebalances == 2


def test_a_group_that_becomes_empty_has_not_rebalanced(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", TOPIC)
    ann.heartbeat()
    ann.leave()
    assert stage.groups.rebalances == 1


def test_what_is_lost_is_not_counted(stage: ConsumerStage) -> None:
    stage.break_disk()
    stage.groups.consumer_heartbeat("g", Reader(stage, "ann", TOPIC).request(), needs_member_id=True)
    stage.settle()
    assert stage.groups.rebalances == 0


def test_rebalances_of_both_protocols_are_one_number(stage: ConsumerStage) -> None:
    classic = ClassicReader(stage, "cid", TOPIC, cooperative=False)
    while not classic.is_in:
        classic.step()
    assert stage.groups.rebalances == 1
    eve = Reader(stage, "eve", TOPIC)
    for _ in range(5):
        eve.heartbeat()
        classic.step()
    assert stage.consumer_group().state is ConsumerGroupState.STABLE
    assert stage.groups.rebalances == 2
