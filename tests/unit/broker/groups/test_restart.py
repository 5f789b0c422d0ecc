"""What a restart, a kill and a power cut leave of groups."""

from __future__ import annotations

from random import Random

import pytest

from runnel.broker.groups import takeover
from runnel.broker.groups.group import GroupState
from runnel.broker.groups.offsets import Committer, TopicPartition
from runnel.broker.groups.records import CommittedOffset, write_pairs
from runnel.broker.groups.state import GroupsState
from runnel.broker.groups.takeover import FILE_NAME
from runnel.broker.topics import OFFSETS_TOPIC
from runnel.errors import ReplayFailed, Transient
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Entry, SnapshotFile
from runnel.testing import Crashed
from tests.unit.broker.groups.stage import DAY, REBALANCE, SESSION, Consumer, Stage, consumer_of

PRODUCER_ID = 1
ENDS = [Stage.stop_and_start, Stage.kill, Stage.lose_power]


@pytest.mark.parametrize("end", ENDS)
def test_a_stable_group_is_as_it_was(end) -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann", instance="i-1"), Consumer(stage, "bob")
    stage.stable(ann, bob)
    stage.commit(7, by=bob)
    before = stage.groups.describe("g")
    end(stage)
    assert stage.groups.describe("g") == before
    assert ann.heartbeat() is bob.heartbeat() is ErrorCode.NONE
    assert bob.sync().result(0).assignment == b"bob"
    assert stage.commit(8, by=bob) is ErrorCode.NONE
    assert bob.join().result(0).generation == 1
    assert not ann.join().done()  # it still leads


@pytest.mark.parametrize("end", ENDS)
def test_sessions_begin_anew(end) -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann, bob)
    stage.advance(SESSION - 1)
    end(stage)
    stage.advance(SESSION - 1)
    assert ann.heartbeat() is ErrorCode.NONE
    stage.advance(1)
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert ann.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("end", ENDS)
def test_a_group_whose_only_offset_is_in_an_open_transaction_is_there(end) -> None:
    """It could be read by nobody but who knew its name, not be deleted, and never expired."""
    stage = Stage()
    committed = {TopicPartition("orders", 0): CommittedOffset(7, -1, "", stage.clock.now())}
    stage.groups.commit_in_transaction("g", (PRODUCER_ID, 0), committed)
    stage.settle()
    end(stage)
    assert stage.groups.names() == ["g"]
    stage.groups.end_transaction(PRODUCER_ID, 0, committed=True)
    stage.settle()
    assert stage.offset() == 7
    stage.groups.forget_topic("orders")
    stage.settle()
    assert stage.committed() == {}
    assert stage.groups.check_deletion("g") is ErrorCode.NONE


def test_the_leader_stays_the_leader() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann", instance="i-1", session=3 * REBALANCE), Consumer(stage, "bob")
    stage.stable(ann, bob)
    bob.protocols = Consumer(stage, protocols=[("range", b"other")]).protocols
    bob.join()
    stage.advance(REBALANCE)  # ann does not join: bob leads
    bob.take_join_answer()
    bob.sync()
    stage.settle()
    stage.kill()
    assert stage.group().members.leader == bob.member_id


def test_a_rebalance_under_way_falls_back_to_the_last_generation() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann)
    bob.join()
    ann.join()
    assert ann.take_join_answer().generation == bob.take_join_answer().generation == 2
    stage.kill()
    assert ann.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert bob.join().result(0).error is ErrorCode.UNKNOWN_MEMBER_ID
    bob.member_id = ""
    second, first = bob.join(), ann.join()
    assert first.result(0).generation == second.result(0).generation == 2


def test_an_empty_group_stays_empty_and_keeps_its_generation() -> None:
    stage = Stage()
    ann = consumer_of(stage, "orders")
    stage.stable(ann)
    stage.commit(1, by=ann)
    ann.leave()
    stage.settle()
    stage.kill()
    assert stage.state() is GroupState.EMPTY
    assert stage.group().generation == 2
    back = consumer_of(stage, "orders")
    stage.stable(back)
    assert back.generation == 3


def test_retention_goes_on_from_when_the_group_was_left() -> None:
    stage = Stage()
    ann = consumer_of(stage, "orders")
    stage.stable(ann)
    stage.commit(1, by=ann)
    ann.leave()
    stage.settle()
    stage.clock.advance(6 * DAY)
    stage.stop_and_start()
    stage.clock.advance(DAY - 1)
    stage.groups.expire_offsets()
    assert stage.offset() == 1
    stage.clock.advance(1)
    stage.groups.expire_offsets()
    stage.settle()
    assert stage.groups.names() == []


def test_a_group_that_has_become_too_large_rebalances() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann, bob)
    stage.set(group_max_size=1)
    stage.stop_and_start()
    assert stage.state() is GroupState.PREPARING_REBALANCE
    first = ann.join()
    assert bob.join().result(0).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.result(0).error is ErrorCode.NONE


def test_only_commits_make_a_group_that_is_there_after_a_restart() -> None:
    stage = Stage()
    stage.commit(3, group="simple")
    Consumer(stage, group="invited").ask_to_join()
    stage.stop_and_start()
    assert stage.groups.names() == ["simple"]
    assert stage.state("simple") is GroupState.EMPTY


# --- compaction


@pytest.mark.parametrize("end", ENDS)
def test_compaction_changes_nothing_but_the_length_of_the_log(end) -> None:
    stage = Stage()
    ann = Consumer(stage)
    stage.stable(ann)
    for offset in range(50):
        stage.commit(offset, by=ann)
    compacted = stage.log.partition(OFFSETS_TOPIC).compact()
    assert (compacted.records_before, compacted.records_after) == (51, 2)
    stage.commit(99, "clicks", by=ann)
    end(stage)
    end(stage)
    assert (stage.offset(), stage.offset("clicks")) == (49, 99)
    assert ann.heartbeat() is ErrorCode.NONE


def test_what_was_deleted_stays_so_when_its_tombstones_are_gone() -> None:
    stage = Stage()
    stage.commit(1)
    stage.groups.delete("g")
    stage.settle()
    partition = stage.log.partition(OFFSETS_TOPIC)
    partition.compact()
    stage.clock.advance(2 * DAY)
    assert partition.compact().records_after == 0
    stage.kill()
    assert stage.groups.names() == []
    assert stage.committed() == {}
    stage.commit(7)
    stage.kill()
    assert stage.offset() == 7


def test_the_broker_compacts_by_itself() -> None:
    stage = Stage()
    settings = stage.log.partition(OFFSETS_TOPIC).settings
    assert settings.compacts
    assert not settings.deletes
    assert settings.max_compaction_lag_ms <= DAY


# --- a directory of a version that could not compact


def test_an_old_snapshot_is_taken_over() -> None:
    stage = Stage()
    ann = Consumer(stage)
    stage.stable(ann)
    stage.commit(3, by=ann)
    stage.commit(4, "clicks", by=ann)
    _as_an_old_version_left_it(stage)
    stage.commit(5, "clicks", by=ann)
    for end in (*ENDS, *ENDS):
        end(stage)
        assert (stage.offset(), stage.offset("clicks")) == (3, 5)
        assert ann.heartbeat() is ErrorCode.NONE
    assert _old_snapshot(stage).read()[0].names() == set()


def test_what_an_old_snapshot_knows_can_be_deleted_for_good() -> None:
    stage = Stage()
    stage.commit(3)
    _as_an_old_version_left_it(stage)
    stage.kill()
    stage.groups.delete("g")
    stage.settle()
    partition = stage.log.partition(OFFSETS_TOPIC)
    partition.compact()
    stage.clock.advance(2 * DAY)
    partition.compact()
    stage.kill()
    assert stage.groups.names() == []


def _as_an_old_version_left_it(stage: Stage) -> None:
    """All that is durable in a snapshot, and the log trimmed."""
    partition = stage.log.partition(OFFSETS_TOPIC)
    pairs = [(record.key, record.value) for record in partition.records()]
    _old_snapshot(stage, write_pairs(pairs)).write(GroupsState(), partition.end_offset)
    partition.delete_before(-1)


def _old_snapshot(stage: Stage, dump: bytes = b"") -> SnapshotFile[GroupsState]:
    return SnapshotFile(f"{stage.log.path}/{FILE_NAME}", lambda _: dump, takeover._load, stage.files)


def test_a_record_that_nobody_knows_is_not_passed_over() -> None:
    stage = Stage()
    stage.commit(1)
    stage.groups._durable._journal.append([Entry(b"\x00\x09\x00\x01g", b"", 0)])
    stage.log.commit()
    with pytest.raises(ReplayFailed, match="newer version"):
        stage.kill()


# --- crashes


def test_every_acknowledged_commit_survives_a_power_cut_at_every_file_operation() -> None:
    stage = Stage()
    history(stage, {})
    operations = stage.files.operations
    assert operations > 100
    for operation in range(1, operations + 1):
        stage = Stage()
        stage.files.crash_at = stage.files.operations + operation
        acknowledged: dict[int, int] = {}
        try:
            history(stage, acknowledged)
        except Crashed:
            stage.lose_power(operation)
            check(stage, acknowledged)
        else:
            return  # the plan is over


def history(stage: Stage, acknowledged: dict[int, int]) -> None:
    """Commits to eight partitions, with compactions, a rebalance and a disk that fails once in between."""
    chance = Random(3)
    ann = Consumer(stage)
    stage.stable(ann)
    for number in range(40):
        partition = number % 8
        place = TopicPartition("orders", partition)
        if ann.heartbeat():
            stage.stable(ann)
        answer = stage.groups.commit(
            "g", Committer(ann.member_id, None, ann.generation), {place: CommittedOffset(number, -1, "", number)}
        )
        if chance.random() < 0.5:
            stage.settle()
        if number == 20:
            stage.break_disk()
            stage.settle()
            stage.heal_disk()
        if number % 10 == 9:
            stage.settle()
            stage.log.partition(OFFSETS_TOPIC).compact()
        if answer.done() and answer.exception() is None:
            acknowledged[partition] = number
    stage.settle()


def check(stage: Stage, acknowledged: dict[int, int]) -> None:
    committed = stage.committed()
    for partition, number in acknowledged.items():
        assert committed[TopicPartition("orders", partition)].offset >= number
    assert stage.state() in (GroupState.STABLE, GroupState.DEAD)


def test_a_group_whose_disk_is_ill_answers_and_goes_on_when_it_is_well() -> None:
    stage = Stage()
    ann = Consumer(stage)
    stage.stable(ann)
    stage.break_disk()
    place = TopicPartition("orders", 0)
    lost = stage.groups.commit("g", ann.committer(), {place: CommittedOffset(1, -1, "", 0)})
    stage.settle()
    refused = stage.groups.commit("g", ann.committer(), {place: CommittedOffset(2, -1, "", 0)})
    looked = stage.groups.fetch("g", None)
    stage.settle()
    for answer in (lost, refused, looked):
        assert isinstance(answer.exception(0), Transient)
    assert ann.heartbeat() is ErrorCode.NONE
    stage.heal_disk()
    assert stage.commit(3, by=ann) is ErrorCode.NONE
    assert stage.offset() == 3
