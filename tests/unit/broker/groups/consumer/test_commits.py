"""Who may commit and fetch the offsets of a consumer group."""

from __future__ import annotations

import pytest

from runnel.broker.groups.offsets import Committer
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.consumer.stage import ConsumerStage, Reader

NEWEST = 10


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.topics.create("orders", 4)
    return stage


@pytest.fixture
def ann(stage: ConsumerStage) -> Reader:
    """A member of epoch 2, which got three partitions in epoch 1 and the fourth in epoch 2."""
    stage.topics.create("bills", 3)
    ann = Reader(stage, "ann", "bills")
    ann.heartbeat()
    stage.topics.grow("bills", 4)
    ann.heartbeat()
    assert ann.epoch == 2
    return ann


def check(stage: ConsumerStage, member: str, epoch: int, version: int | None = NEWEST) -> ErrorCode:
    return stage.groups.check_commit("g", Committer(member, None, epoch), version)


def check_partition(stage: ConsumerStage, member: str, epoch: int, partition: int) -> ErrorCode:
    topic = stage.topics.find("bills")
    assert topic is not None
    return stage.groups.check_partition("g", Committer(member, None, epoch), topic.id, partition)


def test_a_member_commits_in_its_epoch(stage: ConsumerStage, ann: Reader) -> None:
    assert check(stage, "ann", 2) is ErrorCode.NONE
    assert check_partition(stage, "ann", 2, 3) is ErrorCode.NONE


@pytest.mark.usefixtures("ann")
def test_an_epoch_that_is_not_yet_is_stale(stage: ConsumerStage) -> None:
    assert check(stage, "ann", 3) is ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.usefixtures("ann")
def test_an_earlier_epoch_commits_what_was_given_by_then(stage: ConsumerStage) -> None:
    assert check(stage, "ann", 1) is ErrorCode.NONE
    assert check_partition(stage, "ann", 1, 0) is ErrorCode.NONE
    assert check_partition(stage, "ann", 1, 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert check_partition(stage, "ann", 0, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert check_partition(stage, "ann", 1, 9) is ErrorCode.STALE_MEMBER_EPOCH


def test_what_is_being_let_go_can_be_committed(stage: ConsumerStage, ann: Reader) -> None:
    bob = Reader(stage, "bob", "bills")
    bob.heartbeat()
    ann.ask()
    assert stage.consumer_group().members["ann"].revoking
    for partition in range(4):
        assert check_partition(stage, "ann", 2, partition) is ErrorCode.NONE


def test_a_fenced_member_cannot_commit(stage: ConsumerStage, ann: Reader) -> None:
    stage.advance(stage.settings.group_consumer_session_timeout_ms)
    bob = Reader(stage, "bob", "bills")
    bob.heartbeat()
    assert check(stage, "ann", 2) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.usefixtures("ann")
def test_who_is_no_member_commits_only_when_there_are_none(stage: ConsumerStage) -> None:
    assert check(stage, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    stage.advance(stage.settings.group_consumer_session_timeout_ms)
    assert check(stage, "", -1) is ErrorCode.NONE
    assert check(stage, "ann", 2) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.usefixtures("ann")
def test_older_versions_know_no_epochs(stage: ConsumerStage) -> None:
    assert check(stage, "ann", 2, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert check(stage, "ann", 2, version=9) is ErrorCode.NONE


@pytest.mark.usefixtures("ann")
def test_a_transaction_without_a_member_commits(stage: ConsumerStage) -> None:
    assert check(stage, "", -1, version=None) is ErrorCode.NONE
    assert check(stage, "ann", 3, version=None) is ErrorCode.STALE_MEMBER_EPOCH
    assert check(stage, "ann", 2, version=None) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("ann", 2, ErrorCode.NONE),
        ("ann", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("ann", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("eve", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.usefixtures("ann")
def test_a_fetch_asks_for_the_epoch(stage: ConsumerStage, member: str | None, epoch: int, error: ErrorCode) -> None:
    assert stage.groups.check_fetch("g", member, epoch) is error


def test_a_commit_makes_no_classic_group_of_it(stage: ConsumerStage, ann: Reader) -> None:
    stage.advance(stage.settings.group_consumer_session_timeout_ms)
    assert stage.commit(5, "bills") is ErrorCode.NONE
    assert stage.groups.describe("g") is None
    assert stage.offset("bills") == 5


@pytest.mark.usefixtures("ann")
def test_offsets_of_subscribed_topics_are_neither_deleted_nor_expired(stage: ConsumerStage) -> None:
    assert stage.groups.check_deletion("g") is ErrorCode.NONE
    assert stage.groups.is_subscribed_to("g", "bills")
    assert not stage.groups.is_subscribed_to("g", "orders")
    topic = stage.topics.find("bills")
    assert topic is not None
