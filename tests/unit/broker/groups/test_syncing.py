"""Assignments, heartbeats, sessions: from a generation's beginning to its end."""

from __future__ import annotations

from runnel.broker.groups.group import GroupState
from runnel.broker.groups.leaving import Leaving
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.stage import REBALANCE, SESSION, Consumer, Stage


def joined(stage: Stage, *names: str) -> list[Consumer]:
    """Members of a group that waits for its leader's assignments; the first leads."""
    consumers = [Consumer(stage, name) for name in names]
    for consumer in consumers:
        consumer.join()
    stage.settle()
    for consumer in consumers:
        consumer.take_join_answer()
    return consumers


def test_everybody_gets_its_assignment_when_the_leaders_are_durable() -> None:
    stage = Stage()
    ann, bob = joined(stage, "ann", "bob")
    follower = bob.sync()
    stage.settle()
    assert not follower.done()
    leader = ann.sync({ann.member_id: b"0", bob.member_id: b"1"})
    assert not leader.done()
    assert not follower.done()
    assert stage.state() is GroupState.COMPLETING_REBALANCE
    stage.settle()
    assert (leader.result(0).assignment, follower.result(0).assignment) == (b"0", b"1")
    assert (leader.result(0).protocol_type, leader.result(0).protocol_name) == ("consumer", "range")
    assert stage.state() is GroupState.STABLE
    assert stage.groups.rebalances == 1


def test_a_member_that_syncs_after_the_leader_is_answered_at_once() -> None:
    stage = Stage()
    ann, bob = joined(stage, "ann", "bob")
    ann.sync({bob.member_id: b"1"})
    stage.settle()
    assert bob.sync().result(0).assignment == b"1"


def test_whom_the_leader_forgot_gets_nothing() -> None:
    stage = Stage()
    ann, bob = joined(stage, "ann", "bob")
    follower = bob.sync()
    ann.sync({ann.member_id: b"all", "nobody": b"1"})
    stage.settle()
    assert follower.result(0).error is ErrorCode.NONE
    assert follower.result(0).assignment == b""


def test_a_sync_of_another_generation_or_protocol_is_refused() -> None:
    stage = Stage()
    ann, _ = joined(stage, "ann", "bob")
    assert ann.sync(generation=7).result(0).error is ErrorCode.ILLEGAL_GENERATION
    assert ann.sync(protocol_name="other").result(0).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ann.sync(protocol_type="connect").result(0).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ann.sync(member_id="stranger").result(0).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert not ann.sync(protocol_type="consumer", protocol_name="range").done()


def test_a_sync_or_heartbeat_of_a_group_that_does_not_exist_is_of_an_unknown_member() -> None:
    stage = Stage()
    stranger = Consumer(stage, group="nowhere")
    assert stranger.sync().result(0).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.leave() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_without_a_name_is_refused() -> None:
    stage = Stage()
    stranger = Consumer(stage, group="")
    assert stranger.sync().result(0).error is ErrorCode.INVALID_GROUP_ID
    assert stranger.heartbeat() is ErrorCode.INVALID_GROUP_ID
    assert stage.groups.leave("", [Leaving("m", None)]) == (ErrorCode.INVALID_GROUP_ID, [])


def test_whoever_waits_for_an_assignment_hears_of_a_rebalance() -> None:
    stage = Stage()
    ann, bob = joined(stage, "ann", "bob")
    follower = bob.sync()
    Consumer(stage, "cat").join()
    assert follower.result(0).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert ann.sync({bob.member_id: b"late"}).result(0).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_assignments_that_become_durable_too_late_are_not_given_out() -> None:
    stage = Stage()
    ann, bob = joined(stage, "ann", "bob")
    follower = bob.sync()
    leader = ann.sync({ann.member_id: b"old", bob.member_id: b"old"})
    Consumer(stage, "cat").join()
    stage.settle()
    assert leader.result(0).error is follower.result(0).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.state() is GroupState.PREPARING_REBALANCE


def test_assignments_of_a_generation_that_is_over_are_not_given_to_the_next() -> None:
    stage = Stage()
    ann, bob = joined(stage, "ann", "bob")
    leader = ann.sync({ann.member_id: b"old", bob.member_id: b"old"})
    cat = Consumer(stage, "cat")
    for consumer in (cat, ann, bob):
        consumer.join()
    assert bob.take_join_answer().generation == 2
    follower = bob.sync()
    stage.settle()  # now they are durable
    assert leader.result(0).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.state() is GroupState.COMPLETING_REBALANCE
    assert not follower.done()


def test_a_session_begins_anew_with_the_assignment() -> None:
    stage = Stage()
    ann, bob = joined(stage, "ann", "bob")
    follower = bob.sync()
    for _ in range(2):
        stage.advance(SESSION - 1)
        assert ann.heartbeat() is ErrorCode.NONE
    ann.sync({})
    stage.advance(SESSION - 1)
    assert follower.result(0).error is ErrorCode.NONE
    assert ann.heartbeat() is ErrorCode.NONE
    stage.advance(1)
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_assignments_that_are_lost_begin_a_rebalance() -> None:
    stage = Stage()
    ann, bob = joined(stage, "ann", "bob")
    follower = bob.sync()
    stage.break_disk()
    leader = ann.sync({ann.member_id: b"0", bob.member_id: b"1"})
    stage.settle()
    assert leader.result(0).error is follower.result(0).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.state() is GroupState.PREPARING_REBALANCE
    stage.heal_disk()
    stage.stable(ann, bob)
    assert ann.generation == 2
    assert bob.synced is not None
    assert bob.synced.result(0).assignment == b"bob"


def test_a_leader_that_syncs_twice_is_answered_twice() -> None:
    stage = Stage()
    (ann,) = joined(stage, "ann")
    first, second = ann.sync({ann.member_id: b"0"}), ann.sync({ann.member_id: b"0"})
    stage.settle()
    assert first.result(0).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.result(0).assignment == b"0"
    assert stage.groups.rebalances == 1


def test_a_leader_that_never_syncs_is_removed_after_the_rebalance_timeout() -> None:
    stage = Stage()
    ann, bob = joined(stage, "ann", "bob")
    follower = bob.sync()
    for _ in range(REBALANCE // SESSION):
        assert ann.heartbeat() is ErrorCode.NONE
        assert not follower.done()
        stage.advance(SESSION - 1)
    stage.advance(SESSION)
    assert follower.result(0).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert ann.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    answer = bob.join()
    assert answer.result(0).leader == bob.member_id


def test_a_follower_that_never_syncs_is_removed_though_the_group_is_stable() -> None:
    stage = Stage()
    ann, bob = joined(stage, "ann", "bob")
    ann.sync({})
    stage.settle()
    assert stage.state() is GroupState.STABLE
    for _ in range(REBALANCE // SESSION):
        stage.advance(SESSION - 1)
        ann.heartbeat()
        bob.heartbeat()
    stage.advance(SESSION - 1)
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert ann.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_nobody_is_removed_for_a_join_or_sync_that_came() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann, bob)
    stage.stable(ann, bob)
    assert ann.generation == bob.generation == 2
    for _ in range(2 * REBALANCE // SESSION):
        stage.advance(SESSION - 1)
        assert ann.heartbeat() is bob.heartbeat() is ErrorCode.NONE


# --- sessions


def test_a_member_that_is_silent_for_its_session_timeout_is_removed() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob", session=5 * SESSION)
    stage.stable(ann, bob)
    stage.advance(SESSION - 1)
    assert bob.heartbeat() is ErrorCode.NONE
    stage.advance(1)
    assert bob.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert ann.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_session() -> None:
    stage = Stage()
    ann = Consumer(stage)
    stage.stable(ann)
    for _ in range(10):
        stage.advance(SESSION - 1)
        assert ann.heartbeat() is ErrorCode.NONE


def test_a_heartbeat_of_another_generation_is_refused() -> None:
    stage = Stage()
    ann = Consumer(stage)
    stage.stable(ann)
    ann.generation = 0
    assert ann.heartbeat() is ErrorCode.ILLEGAL_GENERATION


def test_a_member_that_stops_after_joining_is_removed_by_its_session_timeout() -> None:
    stage = Stage()
    _, bob = joined(stage, "ann", "bob")
    follower = bob.sync()
    stage.advance(SESSION)
    assert follower.result(0).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert bob.join().result(0).leader == bob.member_id


def test_a_group_whose_last_member_is_gone_is_empty() -> None:
    stage = Stage()
    ann = Consumer(stage)
    stage.stable(ann)
    stage.advance(SESSION)
    assert stage.state() is GroupState.EMPTY
    assert stage.group().generation == 2
    assert ann.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_can_be_of_another_kind_then() -> None:
    stage = Stage()
    stage.stable(Consumer(stage))
    stage.advance(SESSION)
    other = Consumer(stage, "worker", protocol_type="connect", protocols=[("sessioned", b"")])
    stage.stable(other)
    assert other.generation == 3
    described = stage.groups.describe("g")
    assert described is not None
    assert (described.protocol_type, described.protocol_name) == ("connect", "sessioned")


# --- leaving


def test_a_member_that_leaves_begins_a_rebalance() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann, bob)
    assert ann.leave() is ErrorCode.NONE
    assert ann.leave() is ErrorCode.UNKNOWN_MEMBER_ID
    assert bob.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert bob.join().result(0).leader == bob.member_id


def test_many_that_leave_together_begin_one_rebalance() -> None:
    stage = Stage()
    ann, bob, cat = (Consumer(stage, name) for name in ("ann", "bob", "cat"))
    stage.stable(ann, bob, cat)
    leaving = [Leaving(ann.member_id, None), Leaving("stranger", None), Leaving(bob.member_id, None)]
    error, errors = stage.groups.leave("g", leaving)
    assert (error, errors) == (ErrorCode.NONE, [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE])
    assert cat.join().result(0).generation == 2


def test_the_last_that_leaves_leaves_an_empty_group() -> None:
    stage = Stage()
    ann = Consumer(stage)
    stage.stable(ann)
    ann.leave()
    assert stage.state() is GroupState.EMPTY


def test_a_member_that_waits_and_leaves_is_answered() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann)
    waiting = bob.join()
    assert bob.leave() is ErrorCode.NONE
    assert waiting.result(0).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert ann.join().result(0).generation == 2


def test_the_others_go_on_when_the_one_they_wait_for_leaves() -> None:
    stage = Stage()
    ann, bob, cat = (Consumer(stage, name) for name in ("ann", "bob", "cat"))
    stage.stable(ann, bob)
    waiting, answer = cat.join(), ann.join()
    assert not waiting.done()
    bob.leave()
    assert waiting.result(0).generation == answer.result(0).generation == 2


def test_somebody_who_only_has_an_id_can_leave() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann)
    bob.member_id = bob.ask_to_join().result(0).member_id
    assert bob.leave() is ErrorCode.NONE
    assert stage.state() is GroupState.STABLE
    assert ann.join().result(0).generation == 2


def test_a_group_of_which_all_leave_while_it_begins_is_empty() -> None:
    stage = Stage(group_initial_rebalance_delay_ms=3_000)
    ann = Consumer(stage)
    ann.join()
    assert ann.leave() is ErrorCode.NONE
    stage.advance(3_000)
    assert stage.state() is GroupState.EMPTY


# --- the end


def test_all_who_wait_are_answered_when_the_broker_stops() -> None:
    stage = Stage()
    _, bob = joined(stage, "ann", "bob")
    syncing = bob.sync()
    waiting = Consumer(stage, "new", group="other").join()
    stage.groups.stop()
    assert syncing.result(0).error is waiting.result(0).error is ErrorCode.NOT_COORDINATOR
    assert stage.timers.armed == 0
    stage.settle()


def test_assignments_under_way_when_the_broker_stops_are_not_lost() -> None:
    stage = Stage()
    (ann,) = joined(stage, "ann")
    answer = ann.sync({ann.member_id: b"0"})
    stage.stop_and_start()
    assert answer.result(0).error is ErrorCode.NOT_COORDINATOR
    assert stage.state() is GroupState.STABLE
    assert ann.sync().result(0).assignment == b"0"
