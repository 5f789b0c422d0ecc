"""Joining a consumer group, and what its members are told."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.broker.groups.consumer.heartbeat import UNSAID
from runnel.broker.groups.consumer.member import Progress
from runnel.broker.groups.consumer.partitions import NOWHERE
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.consumer.stage import INTERVAL, ConsumerStage, Reader


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.topics.create("orders", 4)
    return stage


def test_the_first_member_gets_all_partitions(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    answer = ann.heartbeat()
    assert (answer.error, answer.member_id, answer.epoch, answer.interval) == (ErrorCode.NONE, "ann", 1, INTERVAL)
    assert ann.numbers == [0, 1, 2, 3]
    assert stage.consumer_group().state == "Stable"


def test_a_group_whose_topic_does_not_exist_is_stable_with_nothing(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "none")
    assert ann.heartbeat().assignment == {}
    assert stage.consumer_group().state == "Stable"


def test_who_is_subscribed_to_nothing_yet_is_a_member_all_the_same(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann")
    assert ann.heartbeat().epoch == 1
    ann.subscribe("orders")
    assert ann.numbers == [0, 1, 2, 3]


def test_a_partition_is_given_only_after_its_owner_lists_it_no_longer(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", "orders"), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    assert (bob.epoch, bob.numbers) == (2, [])
    answer = ann.ask()  # it hears what it shall keep, and still has all
    assert (answer.epoch, len(ann.told[next(iter(ann.told))])) == (1, 2)
    for _ in range(3):
        bob.heartbeat()
        assert bob.numbers == []
        assert ann.ask().epoch == 1
    ann.owned = ann.told
    assert ann.heartbeat().epoch == 2
    bob.heartbeat()
    assert sorted(ann.numbers + bob.numbers) == [0, 1, 2, 3]
    assert len(bob.numbers) == 2


def test_a_member_that_does_not_say_what_it_has_has_let_nothing_go(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", "orders"), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    ann.ask()
    for _ in range(3):
        ann.ask(owned=None)
        bob.heartbeat()
        assert bob.numbers == []


def test_the_states_of_members_and_group_follow_a_rebalance(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", "orders"), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    group = stage.consumer_group()
    assert (group.state, group.epoch, group.assignment_epoch) == ("Reconciling", 2, 2)
    assert group.members["bob"].progress is Progress.UNRELEASED
    ann.ask()
    assert stage.consumer_group().members["ann"].progress is Progress.UNREVOKED
    stage.settled(ann, bob)
    assert {member.epoch for member in stage.consumer_group().members.values()} == {2}


def test_a_group_is_assigning_until_the_interval_between_assignments_is_over(stage: ConsumerStage) -> None:
    stage.set(group_consumer_assignment_interval_ms=1_000)
    ann, bob = Reader(stage, "ann", "orders"), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    assert stage.consumer_group().state == "Assigning"
    assert bob.epoch == 1  # it is there, with nothing yet
    stage.advance(1_000)
    stage.settled(ann, bob)
    assert (len(ann.numbers), len(bob.numbers)) == (2, 2)


def test_an_unchanged_heartbeat_writes_nothing_and_tells_no_assignment(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    end = stage.log.partition("__consumer_offsets").end_offset
    assert ann.heartbeat().assignment is None
    assert stage.log.partition("__consumer_offsets").end_offset == end


def test_who_tells_all_is_told_all(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    assert ann.heartbeat(rebalance_timeout=1_000, topics=("orders",)).assignment == ann.owned


def test_another_subscription_is_let_go_and_given(stage: ConsumerStage) -> None:
    stage.topics.create("bills", 2)
    ann, bob = Reader(stage, "ann", "orders"), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    stage.settled(ann, bob)
    bob.subscribe("bills")
    stage.settled(ann, bob)
    assert ann.has == {("orders", number) for number in range(4)}
    assert bob.has == {("bills", 0), ("bills", 1)}


def test_what_a_member_is_not_subscribed_to_any_more_goes_before_the_next_assignment(stage: ConsumerStage) -> None:
    stage.topics.create("bills", 2)
    stage.set(group_consumer_assignment_interval_ms=10_000)
    ann = Reader(stage, "ann", "orders", "bills")
    ann.heartbeat()
    ann.subscribe("bills")
    assert ann.has == {("bills", 0), ("bills", 1)}
    assert stage.consumer_group().state == "Assigning"


# --- topics


def test_a_topic_that_comes_raises_the_group_epoch(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders", "bills")
    ann.heartbeat()
    stage.topics.create("bills", 1)
    assert ann.heartbeat().epoch == 2
    assert ("bills", 0) in ann.has


def test_a_topic_that_nobody_is_subscribed_to_raises_nothing(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    stage.topics.create("bills", 1)
    assert ann.heartbeat().epoch == 1


def test_a_topic_that_grows_raises_the_group_epoch(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    stage.topics.grow("orders", 6)
    assert ann.heartbeat().epoch == 2
    assert ann.numbers == [0, 1, 2, 3, 4, 5]


def test_a_topic_that_goes_is_let_go(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    stage.topics.delete("orders")
    ann.heartbeat()
    stage.settled(ann)
    assert ann.owned == NOWHERE
    assert stage.consumer_group().epoch == 2


def test_a_topic_that_is_made_anew_under_its_name_is_another_one(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    before = ann.owned
    stage.topics.delete("orders")
    stage.topics.create("orders", 4)
    stage.settled(ann)
    assert ann.owned.keys() != before.keys()
    assert ann.numbers == [0, 1, 2, 3]


# --- epochs


@pytest.mark.parametrize("epoch", [3, 7])
def test_a_greater_epoch_is_fenced(stage: ConsumerStage, epoch: int) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    answer = ann.send(ann.request(epoch=epoch))
    assert answer.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert "greater member epoch" in (answer.message or "")


def two_steps(stage: ConsumerStage) -> Reader:
    """A member of epoch 3 that has seen the epochs 1 and 2."""
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    for count in (5, 6):
        stage.topics.grow("orders", count)
        ann.heartbeat()
    assert ann.epoch == 3
    return ann


def test_the_last_epoch_but_one_is_allowed_as_the_answer_may_be_lost(stage: ConsumerStage) -> None:
    ann = two_steps(stage)
    answer = ann.send(ann.request(epoch=2))
    assert (answer.error, answer.epoch) == (ErrorCode.NONE, 3)


def test_the_last_epoch_but_one_is_fenced_with_a_partition_that_is_not_assigned(stage: ConsumerStage) -> None:
    ann = two_steps(stage)
    (topic,) = ann.owned
    answer = ann.send(ann.request(epoch=2, owned={topic: frozenset({0, 9})}))
    assert answer.error is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_last_epoch_but_one_is_fenced_if_it_is_not_said_what_is_owned(stage: ConsumerStage) -> None:
    ann = two_steps(stage)
    assert ann.send(ann.request(epoch=2, owned=None)).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_an_older_epoch_is_fenced(stage: ConsumerStage) -> None:
    ann = two_steps(stage)
    answer = ann.send(ann.request(epoch=1))
    assert answer.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert "smaller member epoch" in (answer.message or "")


def test_a_request_from_before_a_revocation_does_not_count_as_one(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    delayed = ann.request(owned=NOWHERE)  # from before it had anything
    stage.topics.grow("orders", 5)
    ann.heartbeat()
    bob = Reader(stage, "bob", "orders")
    bob.heartbeat()
    ann.ask()  # it is asked to let go, in epoch 2
    assert ann.send(delayed).error is ErrorCode.FENCED_MEMBER_EPOCH
    bob.heartbeat()
    assert bob.numbers == []


def test_a_member_that_joins_again_keeps_what_it_has(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", "orders"), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    stage.settled(ann, bob)
    before, ann.epoch, ann.owned = ann.owned, 0, NOWHERE
    ann.heartbeat()
    assert ann.owned == before


# --- refusals


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId"),
        ({"rebalance_timeout": UNSAID}, ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs"),
        ({"owned": None}, ErrorCode.INVALID_REQUEST, "TopicPartitions"),
        ({"topics": None}, ErrorCode.INVALID_REQUEST, "SubscribedTopicNames"),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST, "InstanceId"),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId"),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST, "MemberEpoch"),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST, "InstanceId"),
        ({"assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR, "uniform, range"),
        ({"expression": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION, "missing )"),
        ({"epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND, "not found"),
        ({"member_id": "m" * 40_000}, ErrorCode.INVALID_REQUEST, "32,767"),
    ],
)
def test_what_cannot_be_is_refused_with_a_text(
    stage: ConsumerStage, change: dict[str, Any], error: ErrorCode, message: str
) -> None:
    ann = Reader(stage, "ann", "orders")
    answer = ann.send(ann.request(**change))
    assert answer.error is error
    assert message in (answer.message or "")
    assert "g" not in stage.groups.consumer


def test_a_group_without_a_name_is_refused(stage: ConsumerStage) -> None:
    assert Reader(stage, "ann", "orders", group="").heartbeat().error is ErrorCode.INVALID_REQUEST


def test_a_stranger_is_told_so(stage: ConsumerStage) -> None:
    Reader(stage, "ann", "orders").heartbeat()
    bob = Reader(stage, "bob", "orders")
    assert bob.send(bob.request(epoch=1)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody_else(stage: ConsumerStage) -> None:
    stage.set(group_consumer_max_size=1)
    ann, bob = Reader(stage, "ann", "orders"), Reader(stage, "bob", "orders")
    assert not ann.heartbeat().error
    assert bob.heartbeat().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not ann.heartbeat().error


def test_version_0_gets_an_id_from_the_broker(stage: ConsumerStage) -> None:
    ann = Reader(stage, "", "orders")
    future = stage.groups.consumer_heartbeat("g", ann.request())
    stage.settle()
    member_id = future.result(0).member_id
    assert member_id
    assert list(stage.consumer_group().members) == [member_id]


# --- assignors


def test_the_assignor_that_most_members_ask_for_is_taken(stage: ConsumerStage) -> None:
    readers = [Reader(stage, name, "orders", assignor="range") for name in ("a", "b")]
    readers.append(Reader(stage, "c", "orders", assignor="uniform"))
    for reader in readers:
        reader.heartbeat()
    stage.settled(*readers)
    assert [reader.numbers for reader in readers] == [[0, 1], [2], [3]]


def test_a_lost_decision_leaves_nothing_behind(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", "orders"), Reader(stage, "bob", "orders")
    ann.heartbeat()
    stage.break_disk()
    future = stage.groups.consumer_heartbeat("g", bob.request())
    stage.settle()
    assert future.exception(0) is not None
    stage.heal_disk()
    assert ann.heartbeat().epoch == 1
    assert list(stage.consumer_group().members) == ["ann"]
    assert not bob.heartbeat().error
