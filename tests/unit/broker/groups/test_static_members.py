"""Static members (KIP-345): a restart of one changes nothing for the others."""

from __future__ import annotations

import pytest

from runnel.broker.groups.group import GroupState
from runnel.broker.groups.leaving import Leaving
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.stage import DELAY, REBALANCE, SESSION, Consumer, Stage


def static(stage: Stage, name: str, **more: object) -> Consumer:
    return Consumer(stage, name, instance=f"i-{name}", **more)  # type: ignore[arg-type]


def restarted(consumer: Consumer) -> Consumer:
    """The same instance in a new process, which knows no member id."""
    fresh = Consumer(
        consumer.stage,
        consumer.name,
        instance=consumer.instance,
        version=consumer.version,
        session=consumer.session,
    )
    fresh.protocols = consumer.protocols
    return fresh


def test_a_static_follower_that_comes_back_gets_its_assignment_without_a_rebalance() -> None:
    stage = Stage()
    ann, bob = static(stage, "ann"), static(stage, "bob")
    stage.stable(ann, bob)
    back = restarted(bob)
    answer = back.join()
    assert not answer.done()  # the new id is not durable yet
    stage.settle()
    told = back.take_join_answer()
    assert (told.error, told.generation, told.leader) == (ErrorCode.NONE, 1, ann.member_id)
    assert told.members == ()
    assert told.member_id != bob.member_id
    assert back.sync().result(0).assignment == b"bob"
    assert stage.state() is GroupState.STABLE
    assert ann.heartbeat() is ErrorCode.NONE


def test_a_static_leader_that_comes_back_is_told_to_skip_the_assignment() -> None:
    stage = Stage()
    ann, bob = static(stage, "ann"), static(stage, "bob")
    stage.stable(ann, bob)
    back = restarted(ann)
    back.join()
    stage.settle()
    told = back.take_join_answer()
    assert told.skip_assignment
    assert told.leader == back.member_id
    assert len(told.members) == 2
    assert back.sync().result(0).assignment == b"ann"


def test_an_older_static_leader_that_comes_back_is_told_that_its_old_id_leads() -> None:
    stage = Stage()
    ann, bob = static(stage, "ann", version=8), static(stage, "bob", version=8)
    stage.stable(ann, bob)
    back = restarted(ann)
    back.join()
    stage.settle()
    told = back.take_join_answer()
    assert not told.skip_assignment
    assert told.leader == ann.member_id
    assert told.members == ()


def test_the_old_id_of_a_static_member_that_came_back_is_fenced() -> None:
    stage = Stage()
    bob = static(stage, "bob")
    stage.stable(bob)
    back = restarted(bob)
    back.join()
    stage.settle()
    assert bob.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert bob.join().result(0).error is ErrorCode.FENCED_INSTANCE_ID
    assert bob.sync().result(0).error is ErrorCode.FENCED_INSTANCE_ID
    assert bob.leave() is ErrorCode.FENCED_INSTANCE_ID
    assert stage.groups.check_commit("g", bob.committer()) is ErrorCode.FENCED_INSTANCE_ID
    assert back.take_join_answer().error is ErrorCode.NONE
    assert back.heartbeat() is ErrorCode.NONE


def test_whoever_waits_under_the_old_id_is_fenced_at_once() -> None:
    stage = Stage(group_initial_rebalance_delay_ms=DELAY)
    bob = static(stage, "bob")
    waiting = bob.join()
    back = restarted(bob)
    again = back.join()
    assert waiting.result(0).error is ErrorCode.FENCED_INSTANCE_ID
    stage.advance(DELAY)
    assert again.result(0).error is ErrorCode.NONE
    assert len(again.result(0).members) == 1


def test_whoever_waits_for_an_assignment_under_the_old_id_is_fenced_and_the_group_rebalances() -> None:
    stage = Stage()
    ann, bob = static(stage, "ann"), static(stage, "bob")
    ann.join()
    bob.join()
    stage.settle()
    ann.take_join_answer()
    bob.take_join_answer()
    waiting = bob.sync()
    restarted(bob).join()
    assert waiting.result(0).error is ErrorCode.FENCED_INSTANCE_ID
    assert stage.state() is GroupState.PREPARING_REBALANCE
    assert ann.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_that_comes_back_with_another_protocol_begins_a_rebalance() -> None:
    stage = Stage()
    ann = static(stage, "ann", protocols=[("range", b""), ("sticky", b"")])
    stage.stable(ann)
    back = restarted(ann)
    back.protocols = Consumer(stage, protocols=[("sticky", b""), ("range", b"")]).protocols
    answer = back.join()
    stage.settle()
    assert answer.result(0).generation == 2
    assert answer.result(0).protocol_name == "sticky"


def test_a_static_member_that_is_away_stays_a_member_until_its_session_ends() -> None:
    stage = Stage()
    ann, bob = static(stage, "ann"), static(stage, "bob", session=3 * SESSION)
    stage.stable(ann, bob)
    for _ in range(3):
        stage.advance(SESSION - 1)
        assert ann.heartbeat() is ErrorCode.NONE
    stage.advance(3)
    assert ann.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_join_again_in_time_stays() -> None:
    stage = Stage()
    ann, bob = static(stage, "ann"), static(stage, "bob", session=5 * REBALANCE)
    stage.stable(ann, bob)
    answer = ann.join()
    stage.advance(REBALANCE)
    assert answer.result(0).generation == 2
    assert {each.member_id for each in answer.result(0).members} == {ann.member_id, bob.member_id}


def test_a_leader_that_does_not_join_in_time_loses_the_lead() -> None:
    stage = Stage()
    ann, bob = static(stage, "ann", session=5 * REBALANCE), static(stage, "bob")
    stage.stable(ann, bob)
    bob.protocols = Consumer(stage, protocols=[("range", b"other")]).protocols
    answer = bob.join()
    stage.advance(REBALANCE)
    assert answer.result(0).leader == bob.member_id
    assert len(answer.result(0).members) == 2


def test_a_rebalance_that_no_static_member_joins_waits_on() -> None:
    stage = Stage()
    ann, dan = static(stage, "ann", session=5 * REBALANCE), Consumer(stage, "dan")
    stage.stable(ann, dan)
    assert dan.leave() is ErrorCode.NONE
    stage.advance(2 * REBALANCE)
    assert stage.state() is GroupState.PREPARING_REBALANCE
    answer = ann.join()
    assert answer.result(0).generation == 2


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    stage = Stage()
    ann, bob = static(stage, "ann"), static(stage, "bob")
    stage.stable(ann, bob)
    error, errors = stage.groups.leave("g", [Leaving("", "i-bob"), Leaving("", "i-nobody")])
    assert (error, errors) == (ErrorCode.NONE, [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID])
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert ann.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_known_member_id_with_a_strange_instance_id_is_refused() -> None:
    stage = Stage()
    ann, bob = static(stage, "ann"), static(stage, "bob")
    stage.stable(ann, bob)
    ann.instance = "i-nobody"
    assert ann.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    ann.instance = "i-bob"
    assert ann.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_a_full_group_takes_a_static_member_back() -> None:
    stage = Stage(group_max_size=1)
    ann = static(stage, "ann")
    stage.stable(ann)
    answer = restarted(ann).join()
    stage.settle()
    assert answer.result(0).error is ErrorCode.NONE


def test_a_new_id_that_could_not_be_stored_leaves_the_old_one() -> None:
    stage = Stage()
    ann = static(stage, "ann")
    stage.stable(ann)
    stage.break_disk()
    answer = restarted(ann).join()
    stage.settle()
    assert answer.result(0).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ann.heartbeat() is ErrorCode.NONE
    stage.heal_disk()
    back = restarted(ann)
    answer = back.join()
    stage.settle()
    assert answer.result(0).error is ErrorCode.NONE
    assert ann.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_of_two_that_come_back_at_once_the_first_is_fenced_and_the_second_is_answered_when_it_is_stored() -> None:
    stage = Stage()
    ann = static(stage, "ann")
    stage.stable(ann)
    first, second = restarted(ann), restarted(ann)
    first.join()
    stage.log.commit()  # the first one is on the disk, and nobody knows yet
    second.join()
    assert first.joined.result(0).error is ErrorCode.FENCED_INSTANCE_ID
    stage.timers.run_soon()
    assert not second.joined.done()
    stage.settle()
    told = second.take_join_answer()
    assert (told.error, told.generation) == (ErrorCode.NONE, 1)
    first.member_id = first.joined.result(0).member_id
    for older in (ann, first):
        assert older.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert second.heartbeat() is ErrorCode.NONE
    stage.kill()
    assert second.heartbeat() is ErrorCode.NONE


@pytest.mark.parametrize("is_first_stored", [False, True])
def test_of_two_that_come_back_at_once_and_cannot_be_stored_what_the_disk_has_is_left(is_first_stored: bool) -> None:
    stage = Stage()
    ann = static(stage, "ann")
    stage.stable(ann)
    first, second = restarted(ann), restarted(ann)
    first.join()
    if is_first_stored:
        stage.log.commit()
    stage.break_disk()
    second.join()
    named = first.joined.result(0).member_id
    stage.settle()
    assert second.joined.result(0).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    left = [each.id for each in stage.group().members]
    assert left == ([named] if is_first_stored else [ann.member_id])
    assert ann.heartbeat() is (ErrorCode.FENCED_INSTANCE_ID if is_first_stored else ErrorCode.NONE)


def test_a_static_member_that_waited_for_the_disk_and_is_never_heard_of_again_is_removed() -> None:
    """A session that ends while a member waits ends nothing: the next one begins when it is answered."""
    stage = Stage()
    ann = static(stage, "ann")
    stage.stable(ann)
    back = restarted(ann)
    back.join()
    while stage.timers.due_until(stage.clock.elapsed() + SESSION):
        assert not back.joined.done()  # the disk takes its time
    stage.settle()
    assert back.take_join_answer().error is ErrorCode.NONE
    stage.advance(SESSION)
    assert stage.state() is GroupState.EMPTY


def test_a_stop_while_a_new_id_is_lost_leaves_no_timer() -> None:
    stage = Stage()
    ann = static(stage, "ann")
    stage.stable(ann)
    stage.break_disk()
    answer = restarted(ann).join()
    stage.groups.stop()
    assert answer.result(0).error is ErrorCode.NOT_COORDINATOR
    stage.settle()
    assert stage.timers.armed == 0
