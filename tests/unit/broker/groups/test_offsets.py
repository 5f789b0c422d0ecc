"""Committed offsets: who may commit, what is kept, and for how long."""

from __future__ import annotations

from uuid import UUID

import pytest

from runnel.broker.groups.group import GroupState
from runnel.broker.groups.offsets import Committer, TopicPartition
from runnel.broker.groups.records import CommittedOffset
from runnel.errors import BatchTooLarge, Transient
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.stage import DAY, SESSION, Consumer, Stage, consumer_of

WEEK = 7 * DAY
PRODUCER_ID = 1


def test_what_was_committed_is_fetched_as_it_was() -> None:
    stage = Stage()
    committed = CommittedOffset(42, 3, "note", stage.clock.now(), topic_id=UUID(int=5))
    stage.groups.commit("g", Committer("", None, -1), {TopicPartition("orders", 1): committed})
    stage.settle()
    assert stage.committed() == {TopicPartition("orders", 1): committed}


def test_the_last_commit_counts() -> None:
    stage = Stage()
    stage.commit(1)
    stage.commit(5)
    stage.commit(3)
    assert stage.offset() == 3
    assert stage.groups.commits == 3


def test_only_the_places_that_were_asked_for_are_told() -> None:
    stage = Stage()
    stage.commit(1, "orders", 0)
    stage.commit(2, "orders", 1)
    asked = [TopicPartition("orders", 1), TopicPartition("orders", 9), TopicPartition("clicks", 0)]
    assert list(stage.groups.fetch("g", asked).result(0)) == [TopicPartition("orders", 1)]
    assert stage.groups.fetch("nobody", asked).result(0) == {}


def test_a_commit_is_answered_when_it_is_durable() -> None:
    stage = Stage()
    committed = {TopicPartition("orders", 0): CommittedOffset(1, -1, "", 0)}
    answer = stage.groups.commit("g", Committer("", None, -1), committed)
    looked = stage.groups.fetch("g", None)
    assert not answer.done()
    assert not looked.done()
    stage.settle()
    assert answer.result(0) is None
    assert looked.result(0) == committed


def test_a_commit_that_is_lost_says_so() -> None:
    stage = Stage()
    stage.commit(1)
    stage.break_disk()
    answer = stage.groups.commit(
        "g", Committer("", None, -1), {TopicPartition("orders", 0): CommittedOffset(2, -1, "", 0)}
    )
    stage.settle()
    assert isinstance(answer.exception(0), Transient)
    stage.heal_disk()
    assert stage.offset() == 1


def test_a_commit_that_is_too_large_says_so() -> None:
    stage = Stage()
    committed = {TopicPartition("t" * 249, number): CommittedOffset(1, -1, "m" * 4_000, 0) for number in range(4_500)}
    answer = stage.groups.commit("g", Committer("", None, -1), committed)
    assert isinstance(answer.exception(0), BatchTooLarge)
    assert stage.commit(1) is ErrorCode.NONE


# --- who may commit


def test_anybody_commits_for_a_group_that_does_not_exist_and_brings_it_into_being() -> None:
    stage = Stage()
    assert stage.commit(1) is ErrorCode.NONE
    assert stage.state() is GroupState.EMPTY
    described = stage.groups.describe("g")
    assert described is not None
    assert described.protocol_type == ""


def test_a_member_of_a_group_that_does_not_exist_cannot_commit() -> None:
    assert Stage().groups.check_commit("g", Committer("m", None, 1)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_commits_in_its_generation() -> None:
    stage = Stage()
    ann = Consumer(stage)
    stage.stable(ann)
    assert stage.commit(5, by=ann) is ErrorCode.NONE
    check = stage.groups.check_commit
    assert check("g", Committer(ann.member_id, None, 7)) is ErrorCode.ILLEGAL_GENERATION
    assert check("g", Committer("stranger", None, 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert check("g", Committer(ann.member_id, "i-1", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert check("g", Committer(ann.member_id, None, -1)) is ErrorCode.ILLEGAL_GENERATION


def test_nobody_else_commits_while_a_group_has_members() -> None:
    stage = Stage()
    ann = Consumer(stage)
    stage.stable(ann)
    assert stage.commit(1) is ErrorCode.UNKNOWN_MEMBER_ID
    ann.leave()
    assert stage.commit(1) is ErrorCode.NONE


def test_a_member_may_commit_while_a_rebalance_is_prepared_and_not_while_it_is_completed() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann)
    bob.join()
    assert stage.state() is GroupState.PREPARING_REBALANCE
    assert stage.commit(5, by=ann) is ErrorCode.NONE
    old = ann.committer()
    ann.join()
    ann.take_join_answer()
    assert stage.state() is GroupState.COMPLETING_REBALANCE
    assert stage.commit(6, by=ann) is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.groups.check_commit("g", old) is ErrorCode.ILLEGAL_GENERATION


def test_commits_keep_a_session() -> None:
    stage = Stage()
    ann = Consumer(stage)
    stage.stable(ann)
    for offset in range(5):
        stage.advance(SESSION - 1)
        assert stage.commit(offset, by=ann) is ErrorCode.NONE


def test_a_group_without_a_name_has_offsets() -> None:
    stage = Stage()
    assert stage.commit(4, group="") is ErrorCode.NONE
    assert stage.offset(group="") == 4


def test_a_group_with_a_name_that_cannot_be_stored_has_none() -> None:
    assert Stage().groups.check_commit("g" * 40_000, Committer("", None, -1)) is ErrorCode.INVALID_GROUP_ID


# --- deleting


def test_deleted_offsets_are_gone_and_the_others_are_not() -> None:
    stage = Stage()
    stage.commit(1, "orders", 0)
    stage.commit(2, "orders", 1)
    stage.groups.delete_offsets("g", [TopicPartition("orders", 0), TopicPartition("clicks", 0)])
    assert list(stage.committed()) == [TopicPartition("orders", 1)]


def test_offsets_of_a_group_can_be_deleted_unless_its_members_need_them() -> None:
    stage = Stage()
    groups = stage.groups
    assert groups.check_deletion("g") is ErrorCode.GROUP_ID_NOT_FOUND
    ann = consumer_of(stage, "orders")
    stage.stable(ann)
    assert groups.check_deletion("g") is ErrorCode.NONE
    assert groups.is_subscribed_to("g", "orders")
    assert not groups.is_subscribed_to("g", "clicks")
    ann.leave()
    assert groups.check_deletion("g") is ErrorCode.NONE
    assert not groups.is_subscribed_to("g", "orders")
    stage.stable(Consumer(stage, group="c", protocol_type="connect"))
    assert groups.check_deletion("c") is ErrorCode.NON_EMPTY_GROUP


def test_members_whose_subscription_cannot_be_read_may_need_everything() -> None:
    stage = Stage()
    stage.stable(Consumer(stage, protocols=[("range", b"")]))
    assert stage.groups.is_subscribed_to("g", "anything")


def test_the_offsets_of_a_deleted_topic_are_forgotten_by_all_groups() -> None:
    stage = Stage()
    for group in ("g", "h"):
        stage.commit(1, "orders", 0, group=group)
        stage.commit(1, "orders", 1, group=group)
        stage.commit(2, "clicks", 0, group=group)
    answer = stage.groups.forget_topic("orders")
    assert not answer.done()
    stage.settle()
    assert answer.result(0) is None
    assert list(stage.committed("g")) == list(stage.committed("h")) == [TopicPartition("clicks", 0)]
    assert Stage().groups.forget_topic("orders").result(0) is None


# --- groups that go


def test_a_group_without_members_is_deleted_with_its_offsets() -> None:
    stage = Stage()
    ann = Consumer(stage)
    stage.stable(ann)
    stage.commit(1, by=ann)
    assert stage.groups.delete("g").result(0) is ErrorCode.NON_EMPTY_GROUP
    ann.leave()
    stage.settle()
    answer = stage.groups.delete("g")
    stage.settle()
    assert answer.result(0) is ErrorCode.NONE
    assert stage.groups.names() == []
    assert stage.offset() is None
    assert stage.groups.delete("g").result(0) is ErrorCode.GROUP_ID_NOT_FOUND
    stage.stop_and_start()
    assert stage.groups.names() == []


def test_a_deletion_that_is_lost_leaves_the_group() -> None:
    stage = Stage()
    stage.commit(1)
    stage.break_disk()
    answer = stage.groups.delete("g")
    stage.settle()
    assert isinstance(answer.exception(0), Transient)
    assert stage.groups.names() == ["g"]
    stage.heal_disk()
    assert stage.offset() == 1


def test_who_was_invited_to_a_deleted_group_must_come_as_a_stranger() -> None:
    stage = Stage()
    ann = Consumer(stage)
    ann.member_id = ann.ask_to_join().result(0).member_id
    stage.groups.delete("g")
    stage.settle()
    assert ann.ask_to_join().result(0).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.timers.armed == 1  # that of the retention


# --- retention


def test_the_offsets_of_nobodys_group_expire_after_the_commit() -> None:
    stage = Stage()
    stage.commit(1, "orders", 0)
    stage.advance(DAY)
    stage.commit(2, "orders", 1)
    stage.advance(WEEK - DAY - 1)
    stage.groups.expire_offsets()
    assert len(stage.committed()) == 2
    stage.clock.advance(1)
    stage.groups.expire_offsets()
    assert list(stage.committed()) == [TopicPartition("orders", 1)]
    stage.clock.advance(DAY)
    stage.groups.expire_offsets()
    stage.settle()
    assert stage.groups.names() == []
    assert stage.groups.expired == 2


def test_the_offsets_of_a_group_expire_after_its_last_member_left() -> None:
    stage = Stage()
    ann = consumer_of(stage, "orders", session=30_000)
    stage.stable(ann)
    stage.commit(1, by=ann)
    stage.clock.advance(20 * DAY)
    ann.leave()
    stage.settle()
    stage.clock.advance(WEEK - 1)
    stage.groups.expire_offsets()
    assert stage.offset() == 1
    stage.clock.advance(1)
    stage.groups.expire_offsets()
    stage.settle()
    assert stage.groups.names() == []
    stage.stop_and_start()
    assert stage.groups.names() == []


def test_what_an_administrator_commits_for_an_empty_group_does_not_expire_at_once() -> None:
    stage = Stage()
    ann = consumer_of(stage, "orders")
    stage.stable(ann)
    ann.leave()
    stage.clock.advance(2 * WEEK)
    stage.commit(1)
    stage.groups.expire_offsets()
    assert stage.offset() == 1


def test_no_offset_of_a_subscribed_topic_expires() -> None:
    stage = Stage()
    ann = consumer_of(stage, "orders")
    stage.stable(ann)
    stage.commit(1, "orders", by=ann)
    stage.commit(2, "clicks", by=ann)
    stage.clock.advance(WEEK)
    stage.groups.expire_offsets()
    assert stage.state() is GroupState.STABLE
    assert list(stage.committed()) == [TopicPartition("orders", 0)]


def test_nothing_expires_while_members_are_of_an_unknown_kind_or_rebalance() -> None:
    stage = Stage()
    ann = Consumer(stage, "ann", protocol_type="connect")
    stage.stable(ann)
    stage.commit(1, by=ann)
    bob = consumer_of(stage, "clicks", name="bob", group="h")
    stage.stable(bob)
    stage.commit(1, by=bob, group="h")
    Consumer(stage, "cat", group="h").join()
    stage.clock.advance(WEEK)
    stage.groups.expire_offsets()
    assert stage.offset(group="g") == stage.offset(group="h") == 1


def test_a_commit_may_say_itself_when_it_expires() -> None:
    stage = Stage()
    stage.commit(1, expires_at=stage.clock.now() + 1_000)
    stage.clock.advance(999)
    stage.groups.expire_offsets()
    assert stage.offset() == 1
    stage.clock.advance(1)
    stage.groups.expire_offsets()
    assert stage.offset() is None


def test_an_empty_group_without_offsets_goes_at_the_next_check() -> None:
    stage = Stage()
    ann = Consumer(stage)
    stage.stable(ann)
    ann.leave()
    stage.settle()
    stage.groups.expire_offsets()
    stage.settle()
    assert stage.groups.names() == []


def test_a_group_to_which_somebody_was_invited_stays() -> None:
    stage = Stage()
    ann = Consumer(stage)
    ann.member_id = ann.ask_to_join().result(0).member_id
    stage.groups.expire_offsets()
    stage.settle()
    stage.stable(ann)


def test_the_check_runs_by_itself() -> None:
    stage = Stage(offsets_retention_check_interval_ms=60_000, offsets_retention_minutes=2)
    stage.commit(1)
    stage.advance(60_000)
    assert stage.offset() == 1
    stage.advance(60_000)
    assert stage.groups.names() == []


def test_an_offset_does_not_expire_while_a_transaction_has_a_newer_one_for_its_place() -> None:
    """Its tombstone would overtake the newer one, which would be lost with the commit of the transaction."""
    stage = Stage()
    stage.commit(1, "orders", 0)
    stage.commit(1, "orders", 1)
    stage.clock.advance(WEEK)
    newer = {TopicPartition("orders", 0): CommittedOffset(2, -1, "", stage.clock.now())}
    stage.groups.commit_in_transaction("g", (PRODUCER_ID, 0), newer)
    stage.groups.expire_offsets()
    stage.settle()
    assert {place.partition: each.offset for place, each in stage.committed().items()} == {0: 1}
    assert stage.groups.expired == 1
    stage.groups.end_transaction(PRODUCER_ID, 0, committed=True)
    stage.settle()
    assert stage.offset() == 2
    stage.kill()
    assert stage.offset() == 2


def test_an_expiry_that_is_lost_leaves_the_offsets() -> None:
    stage = Stage()
    stage.commit(1)
    stage.clock.advance(WEEK)
    stage.break_disk()
    stage.groups.expire_offsets()
    stage.settle()
    stage.heal_disk()
    assert stage.groups.names() == ["g"]
    assert stage.offset() == 1


@pytest.mark.parametrize("state", list(GroupState)[:-1])
def test_groups_are_counted_by_their_state(state: GroupState) -> None:
    stage = Stage(group_initial_rebalance_delay_ms=3_000)
    stage.commit(1, group="empty")
    Consumer(stage, group="preparing").join()
    assert stage.groups.count_by_state()["classic", "Empty"] == 1
    assert stage.groups.count_by_state()["classic", "PreparingRebalance"] == 1
    stage.advance(3_000)
    expected = {GroupState.EMPTY: 1, GroupState.COMPLETING_REBALANCE: 1}
    assert stage.groups.count_by_state()["classic", state] == expected.get(state, 0)
