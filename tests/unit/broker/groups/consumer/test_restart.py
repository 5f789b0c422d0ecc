"""A consumer group over the end of its process: it is as it was, and what was decided and not durable never was."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from runnel.broker.groups.offsets import Committer, TopicPartition
from runnel.broker.groups.records import CommittedOffset
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.consumer.stage import SESSION, ConsumerStage, Reader, at_once
from tests.unit.broker.groups.stage import DAY, Consumer

WEEK = 7 * DAY
NEWEST_COMMIT = 10  # version of OffsetCommit


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.topics.create("orders", 4)
    return stage


@pytest.mark.parametrize("end", ["stop_and_start", "kill", "lose_power"])
def test_epochs_and_assignments_survive(stage: ConsumerStage, end: str) -> None:
    ann, bob = Reader(stage, "ann", "orders", instance="one"), Reader(stage, "bob", expression="or.*")
    ann.heartbeat()
    bob.heartbeat()
    bob.heartbeat()
    stage.settled(ann, bob)
    before = stage.consumer_group()
    getattr(stage, end)()
    assert stage.consumer_group() == before
    for reader in (ann, bob):
        owned, epoch = reader.owned, reader.epoch
        assert reader.heartbeat().error is ErrorCode.NONE
        assert (reader.owned, reader.epoch) == (owned, epoch)


def test_a_rebalance_goes_on_after_a_restart(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", "orders"), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    ann.ask()
    stage.kill()
    bob.heartbeat()
    assert bob.numbers == []  # ann still has all
    stage.settled(ann, bob)
    assert (len(ann.numbers), len(bob.numbers)) == (2, 2)


def test_a_topic_that_grew_meanwhile_is_noticed(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    stage.groups.stop()
    stage.topics.grow("orders", 5)
    stage.log.close()
    stage.open()
    assert ann.heartbeat().epoch == 2
    assert ann.numbers == [0, 1, 2, 3, 4]


def test_a_compacted_journal_gives_the_same_group(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", "orders"), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    ann.ask()
    before = stage.consumer_group()
    stage.log.partition("__consumer_offsets").compact()
    stage.kill()
    assert stage.consumer_group() == before


def test_a_deleted_group_stays_deleted(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    assert stage.groups.delete("g").result(0) is ErrorCode.NON_EMPTY_GROUP
    ann.leave()
    deleted = stage.groups.delete("g")
    stage.settle()
    assert deleted.result(0) is ErrorCode.NONE
    stage.kill()
    assert "g" not in stage.groups.consumer
    assert stage.groups.describe("g") is None
    assert ann.heartbeat().epoch == 1


def test_a_deletion_that_is_lost_did_not_happen(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    ann.leave()
    stage.break_disk()
    deleted = stage.groups.delete("g")
    stage.settle()
    assert deleted.exception(0) is not None
    stage.heal_disk()
    bob = Reader(stage, "bob", "orders")
    assert bob.heartbeat().epoch == 3


def test_a_departure_that_is_lost_does_not_make_a_member_immortal(stage: ConsumerStage) -> None:
    ann, bob = Reader(stage, "ann", "orders"), Reader(stage, "bob", "orders")
    ann.heartbeat()
    bob.heartbeat()
    stage.settled(ann, bob)
    stage.break_disk()
    lost = stage.groups.consumer_heartbeat("g", ann.request(epoch=-1))
    stage.settle()
    assert lost.exception(0) is not None
    stage.heal_disk()
    bob.heartbeat()
    assert len(bob.numbers) == 2
    stage.advance(1_000)
    for _ in range(10):
        stage.advance(10_000)
        bob.heartbeat()
    assert bob.numbers == [0, 1, 2, 3]


def test_a_member_whose_time_ends_while_the_disk_is_ill_is_fenced_later(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    stage.break_disk()
    stage.advance(SESSION)
    stage.heal_disk()
    stage.advance(SESSION + 2_000)
    assert stage.consumer_group().members == {}


def test_partitions_whose_coming_is_noticed_and_lost_are_noticed_again(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    stage.topics.grow("orders", 6)
    stage.break_disk()
    lost = stage.groups.consumer_heartbeat("g", ann.request())
    stage.settle()
    assert lost.exception(0) is not None
    stage.heal_disk()
    stage.advance(1_000)
    for _ in range(3):
        ann.heartbeat()
    assert ann.numbers == [0, 1, 2, 3, 4, 5]


def test_topics_of_an_expression_that_are_found_and_lost_are_found_again(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", expression="or.*")
    ann.heartbeat()
    ann.heartbeat()
    stage.topics.create("ores", 1)
    resolved: Future[Any] = Future()
    stage.groups.consumer._apart = lambda work: resolved
    ann.heartbeat()
    stage.break_disk()
    resolved.set_result({"or.*": ("orders", "ores")})
    stage.settle()
    stage.heal_disk()
    stage.groups.consumer._apart = at_once
    stage.advance(1_000)
    for _ in range(3):
        ann.heartbeat()
    assert ("ores", 0) in ann.has


@pytest.mark.parametrize("end", [None, ConsumerStage.kill])
def test_offsets_are_kept_for_the_whole_retention_after_the_last_member_left(stage: ConsumerStage, end: Any) -> None:
    """A group may have had nothing to commit for longer than that: it must not lose its place when it is restarted."""
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    by_ann = Committer("ann", None, ann.epoch)
    committed = {TopicPartition("orders", 0): CommittedOffset(7, -1, "", stage.clock.now())}
    assert stage.groups.check_commit("g", by_ann, NEWEST_COMMIT) is ErrorCode.NONE
    stage.groups.commit("g", by_ann, committed)
    stage.settle()
    stage.clock.advance(2 * WEEK)
    stage.groups.expire_offsets()
    assert stage.offset() == 7  # she is subscribed
    ann.leave()
    if end is not None:
        end(stage)
    stage.clock.advance(WEEK - 1)
    stage.groups.expire_offsets()
    assert stage.offset() == 7
    stage.clock.advance(1)
    stage.groups.expire_offsets()
    stage.settle()
    assert stage.committed() == {}
    assert "g" not in stage.groups.consumer


def test_an_empty_group_that_refuses_a_classic_member_is_still_there(stage: ConsumerStage) -> None:
    """It was of neither kind then: not listed, not to be deleted, and its offsets never expired."""
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    ann.leave()
    stage.commit(7)
    stranger = Consumer(stage, "stranger", protocols=[])
    assert stranger.ask_to_join().result(0).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    stage.settle()
    assert (stage.groups.names(), stage.offset()) == (["g"], 7)
    stage.clock.advance(WEEK)
    stage.groups.expire_offsets()
    assert stage.committed() == {}


def test_an_empty_group_goes_with_its_last_offset(stage: ConsumerStage) -> None:
    ann = Reader(stage, "ann", "orders")
    ann.heartbeat()
    stage.groups.expire_offsets()
    stage.settle()
    assert "g" in stage.groups.consumer  # it has a member
    ann.leave()
    stage.groups.expire_offsets()
    stage.settle()
    assert "g" not in stage.groups.consumer
    stage.kill()
    assert "g" not in stage.groups.consumer
