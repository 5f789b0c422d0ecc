"""Members leave, are late, come back: what they had is free when they are no members any more."""

from __future__ import annotations

import pytest

from runnel.broker.groups.consumer.partitions import NOWHERE
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.consumer.stage import SESSION, ConsumerStage, Reader


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.topics.create("orders", 4)
    return stage


def pair(stage: ConsumerStage, **more: str) -> tuple[Reader, Reader]:
    ann, bob = Reader(stage, "ann", "orders", **more), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    stage.settled(ann, bob)
    return ann, bob


def test_who_leaves_frees_its_partitions_at_once(stage: ConsumerStage) -> None:
    ann, bob = pair(stage)
    answer = ann.leave()
    assert (answer.error, answer.epoch) == (ErrorCode.NONE, -1)
    assert stage.consumer_group().epoch == 3
    assert bob.heartbeat().epoch == 3
    assert bob.numbers == [0, 1, 2, 3]


def test_a_group_that_everybody_left_is_empty(stage: ConsumerStage) -> None:
    ann, bob = pair(stage)
    ann.leave()
    bob.leave()
    group = stage.consumer_group()
    assert (group.state, group.epoch, group.owners, group.targets) == ("Empty", 4, {}, {})
    assert ann.heartbeat().epoch == 5


def test_a_stranger_cannot_leave(stage: ConsumerStage) -> None:
    pair(stage)
    assert Reader(stage, "eve", "orders").leave().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert Reader(stage, "eve", "orders", group="other").leave().error is ErrorCode.GROUP_ID_NOT_FOUND


# --- time-outs


def test_a_silent_member_is_fenced_after_its_session(stage: ConsumerStage) -> None:
    ann, bob = pair(stage)
    stage.advance(SESSION - 1)
    bob.heartbeat()
    assert set(stage.consumer_group().members) == {"ann", "bob"}
    stage.advance(1)
    assert set(stage.consumer_group().members) == {"bob"}
    bob.heartbeat()
    assert bob.numbers == [0, 1, 2, 3]
    assert ann.ask().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_groups_own_session_time_out_counts(stage: ConsumerStage) -> None:
    stage.configs["g"] = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    ann = Reader(stage, "ann", "orders")
    assert ann.heartbeat().interval == 7_000
    stage.advance(49_999)
    assert stage.consumer_group().members
    stage.advance(1)
    assert not stage.consumer_group().members


def test_a_groups_own_session_time_out_stays_within_the_brokers_bounds(stage: ConsumerStage) -> None:
    stage.configs["g"] = {"consumer.session.timeout.ms": "1", "consumer.heartbeat.interval.ms": "1"}
    ann = Reader(stage, "ann", "orders")
    assert ann.heartbeat().interval == stage.settings.group_consumer_min_heartbeat_interval_ms
    stage.advance(SESSION - 1)
    assert stage.consumer_group().members


def test_who_does_not_let_go_in_time_is_fenced(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", "orders", rebalance=20_000), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    ann.ask()
    for _ in range(3):
        stage.advance(6_000)
        assert ann.ask().error is ErrorCode.NONE  # alive, but it keeps what it has
        bob.heartbeat()
        assert bob.numbers == []
    stage.advance(2_000)
    assert ann.ask().error is ErrorCode.UNKNOWN_MEMBER_ID
    bob.heartbeat()
    assert bob.numbers == [0, 1, 2, 3]


def test_who_lets_go_in_time_is_not_fenced(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", "orders", rebalance=20_000), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    ann.ask()
    stage.advance(19_000)
    ann.heartbeat()
    ann.heartbeat()
    stage.advance(19_000)
    assert ann.heartbeat().error is ErrorCode.NONE


def test_a_restart_begins_the_sessions_anew(stage: ConsumerStage) -> None:
    pair(stage)
    stage.advance(SESSION - 1)
    stage.stop_and_start()
    stage.advance(SESSION - 1)
    assert len(stage.consumer_group().members) == 2
    stage.advance(1)
    assert not stage.consumer_group().members


def test_a_restart_does_not_forget_who_must_let_go(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", "orders", rebalance=20_000), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    ann.ask()
    stage.kill()
    for _ in range(2):
        ann.ask()
        bob.heartbeat()
        assert bob.numbers == []
        stage.advance(10_000)
    assert ann.ask().error is ErrorCode.UNKNOWN_MEMBER_ID


# --- static members


def test_a_static_member_that_is_away_keeps_its_partitions(stage: ConsumerStage) -> None:
    ann, bob = pair(stage, instance="one")
    before = ann.owned
    assert ann.go_away().epoch == -2
    bob.heartbeat()
    assert len(bob.numbers) == 2
    ann.id = "ann again"
    ann.heartbeat()
    assert ann.owned == before
    assert set(stage.consumer_group().members) == {"ann again", "bob"}
    assert ann.epoch == 2  # nothing was assigned anew


def test_a_static_member_that_stays_away_is_fenced(stage: ConsumerStage) -> None:
    ann, bob = pair(stage, instance="one")
    ann.go_away()
    stage.advance(SESSION - 1)
    bob.heartbeat()
    stage.advance(1)
    bob.heartbeat()
    assert bob.numbers == [0, 1, 2, 3]
    assert ann.ask().error is ErrorCode.NONE  # as a new one


def test_an_instance_that_has_not_left_is_not_released(stage: ConsumerStage) -> None:
    pair(stage, instance="one")
    second = Reader(stage, "second", "orders", instance="one")
    assert second.heartbeat().error is ErrorCode.UNRELEASED_INSTANCE_ID


def test_whoever_was_replaced_is_fenced(stage: ConsumerStage) -> None:
    ann, _ = pair(stage, instance="one")
    old = ann.request()
    ann.go_away()
    ann.id = "ann again"
    ann.heartbeat()
    assert ann.send(old).error is ErrorCode.FENCED_INSTANCE_ID
    assert ann.send(old._replace(epoch=-1)).error is ErrorCode.FENCED_INSTANCE_ID


def test_an_unknown_instance_is_an_unknown_member(stage: ConsumerStage) -> None:
    ann, _ = pair(stage, instance="one")
    assert ann.send(ann.request(instance_id="other")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_leaves_for_good_frees_its_partitions(stage: ConsumerStage) -> None:
    ann, bob = pair(stage, instance="one")
    ann.leave()
    bob.heartbeat()
    assert bob.numbers == [0, 1, 2, 3]
    assert stage.consumer_group().instances == {}


def test_what_a_static_member_was_to_let_go_is_free_when_it_goes_away(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", "orders", instance="one"), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    ann.ask()
    ann.go_away()
    bob.heartbeat()
    assert len(bob.numbers) == 2
    stage.advance(SESSION // 2)
    ann.id = "ann again"
    ann.heartbeat()
    assert len(ann.numbers) == 2
    assert ann.owned != NOWHERE
