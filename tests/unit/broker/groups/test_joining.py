"""Joining a group: who gets in, and when a generation begins."""

from __future__ import annotations

import pytest

from runnel.broker.groups.group import NEW_MEMBER_TIMEOUT, GroupState
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.stage import DELAY, REBALANCE, SESSION, Consumer, Stage


def test_a_member_without_an_id_is_sent_back_for_one() -> None:
    ann = Consumer(Stage())
    answer = ann.ask_to_join().result(0)
    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("ann-")
    assert answer.generation == -1


def test_member_ids_differ() -> None:
    stage = Stage()
    first, second = Consumer(stage).ask_to_join().result(0), Consumer(stage).ask_to_join().result(0)
    assert first.member_id != second.member_id


def test_before_version_4_a_member_joins_at_once() -> None:
    stage = Stage()
    ann = Consumer(stage, version=3)
    answer = ann.ask_to_join()
    stage.settle()
    assert answer.result(0).error is ErrorCode.NONE
    assert answer.result(0).generation == 1


def test_a_static_member_is_not_sent_back() -> None:
    stage = Stage()
    answer = Consumer(stage, instance="i-1").ask_to_join()
    stage.settle()
    assert answer.result(0).error is ErrorCode.NONE
    assert answer.result(0).member_id.startswith("i-1-")


def test_the_first_generation_waits_for_the_initial_delay() -> None:
    stage = Stage(group_initial_rebalance_delay_ms=DELAY)
    answer = Consumer(stage).join()
    stage.advance(DELAY - 1)
    assert not answer.done()
    assert stage.state() is GroupState.PREPARING_REBALANCE
    stage.advance(1)
    assert answer.result(0).generation == 1
    assert stage.state() is GroupState.COMPLETING_REBALANCE


def test_a_member_that_comes_during_the_initial_delay_prolongs_it() -> None:
    stage = Stage(group_initial_rebalance_delay_ms=DELAY)
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    first = ann.join()
    stage.advance(DELAY - 1)
    second = bob.join()
    stage.advance(DELAY)
    assert not first.done()
    assert not second.done()
    stage.advance(1)
    assert first.result(0).generation == second.result(0).generation == 1


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    stage = Stage(group_initial_rebalance_delay_ms=DELAY)
    first = Consumer(stage, "first", rebalance=2 * DELAY + 1).join()
    for number in range(4):
        stage.advance(DELAY // 2)
        assert not first.done()
        Consumer(stage, f"n{number}", rebalance=2 * DELAY + 1).join()
    stage.advance(1)
    assert len(first.result(0).members) == 5


def test_nobody_who_was_sent_back_holds_up_the_first_generation() -> None:
    stage = Stage(group_initial_rebalance_delay_ms=DELAY)
    Consumer(stage, "undecided").ask_to_join()
    answer = Consumer(stage).join()
    stage.advance(DELAY)
    assert answer.done()


def test_the_first_member_leads_and_alone_hears_of_the_others() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann", protocols=[("range", b"a")]), Consumer(stage, "bob", protocols=[("range", b"b")])
    ann.join()
    bob.join()
    stage.settle()
    answer, other = ann.take_join_answer(), bob.take_join_answer()
    assert answer.leader == other.leader == ann.member_id
    assert {(each.member_id, each.metadata) for each in answer.members} == {
        (ann.member_id, b"a"),
        (bob.member_id, b"b"),
    }
    assert other.members == ()
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def test_a_new_member_of_a_stable_group_begins_a_rebalance() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann)
    second = bob.join()
    stage.settle()
    assert stage.state() is GroupState.PREPARING_REBALANCE
    assert ann.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.done()
    first = ann.join()
    assert first.result(0).generation == second.result(0).generation == 2


def test_a_member_that_does_not_join_again_in_time_is_removed() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann", session=2 * REBALANCE), Consumer(stage, "bob")
    stage.stable(ann)
    second = bob.join()
    stage.advance(REBALANCE - 1)
    assert not second.done()
    stage.advance(1)
    assert second.result(0).generation == 2
    assert second.result(0).leader == bob.member_id
    assert ann.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_slowest_members_rebalance_timeout_counts() -> None:
    stage = Stage()
    ann = Consumer(stage, "ann", rebalance=3 * REBALANCE, session=4 * REBALANCE)
    bob = Consumer(stage, "bob", rebalance=REBALANCE)
    stage.stable(ann)
    second = bob.join()
    stage.advance(3 * REBALANCE - 1)
    assert not second.done()
    stage.advance(1)
    assert second.done()


def test_whoever_was_sent_back_for_an_id_is_waited_for() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann)
    bob.member_id = bob.ask_to_join().result(0).member_id
    assert stage.state() is GroupState.STABLE
    ann.protocols = (*ann.protocols, *Consumer(stage, protocols=[("other", b"")]).protocols)
    first = ann.join()
    assert not first.done()
    second = bob.join()
    assert first.result(0).generation == second.result(0).generation == 2


def test_an_invitation_ends_with_the_session_timeout() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann)
    bob.member_id = bob.ask_to_join().result(0).member_id
    first = ann.join()
    stage.advance(SESSION - 1)
    assert not first.done()
    stage.advance(1)
    assert first.done()
    assert bob.join().result(0).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_whose_join_waits_too_long_is_told_to_ask_again() -> None:
    stage = Stage()
    ann = Consumer(stage, "ann", rebalance=3 * NEW_MEMBER_TIMEOUT)
    bob = Consumer(stage, "bob")
    stage.stable(ann)
    second = bob.join()
    for _ in range(2 * NEW_MEMBER_TIMEOUT // SESSION):
        assert not second.done()
        assert ann.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        stage.advance(SESSION // 2)
    assert second.result(0).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_needs_no_heartbeats() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob", session=5 * SESSION)
    stage.stable(ann, bob)
    first = ann.join()
    stage.advance(2 * SESSION)
    assert not first.done()
    second = bob.join()
    assert first.result(0).generation == second.result(0).generation == 2
    assert len(first.result(0).members) == 2


def test_a_follower_that_joins_again_unchanged_gets_the_generation_that_is() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann, bob)
    answer = bob.join().result(0)
    assert (answer.error, answer.generation, answer.leader) == (ErrorCode.NONE, 1, ann.member_id)
    assert answer.members == ()
    assert stage.state() is GroupState.STABLE


def test_a_follower_that_joins_with_other_metadata_begins_a_rebalance() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann, bob)
    bob.protocols = Consumer(stage, protocols=[("range", b"other")]).protocols
    assert not bob.join().done()
    assert stage.state() is GroupState.PREPARING_REBALANCE


def test_a_leader_that_joins_again_begins_a_rebalance() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann, bob)
    assert not ann.join().done()
    assert stage.state() is GroupState.PREPARING_REBALANCE


def test_a_member_whose_answer_got_lost_gets_it_again() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    ann.join()
    bob.join()
    stage.settle()
    first, second = ann.take_join_answer(), bob.take_join_answer()
    assert stage.state() is GroupState.COMPLETING_REBALANCE
    assert ann.join().result(0) == first
    assert bob.join().result(0) == second


def test_changed_metadata_before_the_assignment_begins_a_rebalance() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    ann.join()
    bob.join()
    stage.settle()
    ann.take_join_answer()
    waiting = bob.take_join_answer() and bob.sync()
    ann.protocols = Consumer(stage, protocols=[("range", b"other")]).protocols
    ann.join()
    assert waiting.result(0).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.state() is GroupState.PREPARING_REBALANCE


def test_a_member_that_asks_twice_is_answered_twice() -> None:
    stage = Stage(group_initial_rebalance_delay_ms=DELAY)
    ann = Consumer(stage)
    first, second = ann.join(), ann.join()
    assert first.result(0).error is ErrorCode.REBALANCE_IN_PROGRESS
    stage.advance(DELAY)
    assert second.result(0).error is ErrorCode.NONE
    assert len(second.result(0).members) == 1


def test_the_protocol_that_most_prefer_is_elected_among_those_that_all_know() -> None:
    stage = Stage()
    consumers = [
        Consumer(stage, "a", protocols=[("only-a", b""), ("sticky", b""), ("range", b"")]),
        Consumer(stage, "b", protocols=[("range", b""), ("sticky", b"")]),
        Consumer(stage, "c", protocols=[("sticky", b""), ("range", b"")]),
    ]
    for consumer in consumers:
        consumer.join()
    stage.settle()
    assert {consumer.take_join_answer().protocol_name for consumer in consumers} == {"sticky"}


@pytest.mark.parametrize(
    ("protocol_type", "protocols"), [("connect", [("range", b"")]), ("consumer", [("other", b"")]), ("consumer", [])]
)
def test_who_does_not_fit_to_the_others_is_refused(protocol_type: str, protocols: list[tuple[str, bytes]]) -> None:
    stage = Stage()
    ann = Consumer(stage, "ann")
    stage.stable(ann)
    stranger = Consumer(stage, "stranger", protocol_type=protocol_type, protocols=protocols)
    assert stranger.ask_to_join().result(0).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.state() is GroupState.STABLE


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", [("range", b"")]), ("consumer", [])])
def test_a_group_needs_a_protocol(protocol_type: str, protocols: list[tuple[str, bytes]]) -> None:
    stage = Stage()
    stranger = Consumer(stage, protocol_type=protocol_type, protocols=protocols)
    assert stranger.ask_to_join().result(0).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.groups.names() == []


def test_who_knows_no_protocol_is_refused_also_while_everybody_else_has_left_a_first_rebalance() -> None:
    """There would be nothing to elect: the rebalance ended in an exception, and held the others for five minutes."""
    stage = Stage(group_initial_rebalance_delay_ms=DELAY)
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    ann.join()
    bob.member_id = bob.ask_to_join().result(0).member_id
    ann.leave()
    assert (stage.state(), len(stage.group().members)) == (GroupState.PREPARING_REBALANCE, 0)
    stranger = Consumer(stage, "stranger", protocols=[], version=3)
    assert stranger.ask_to_join().result(0).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    bob.ask_to_join()
    stage.advance(2 * DELAY)
    assert bob.take_join_answer().error is ErrorCode.NONE


@pytest.mark.parametrize("name", ["", "g" * 40_000])
def test_a_group_needs_a_name_that_can_be_stored(name: str) -> None:
    assert Consumer(Stage(), group=name).ask_to_join().result(0).error is ErrorCode.INVALID_GROUP_ID


def test_an_id_that_cannot_be_stored_is_refused() -> None:
    assert Consumer(Stage(), instance="i" * 40_000).ask_to_join().result(0).error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("session", [5_999, 1_800_001, -1])
def test_a_session_timeout_outside_of_the_brokers_range_is_refused(session: int) -> None:
    assert Consumer(Stage(), session=session).ask_to_join().result(0).error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_an_unknown_member_is_refused() -> None:
    stage = Stage()
    stranger = Consumer(stage, "stranger")
    stranger.member_id = "stranger-1"
    assert stranger.ask_to_join().result(0).error is ErrorCode.UNKNOWN_MEMBER_ID
    stage.stable(Consumer(stage))
    assert stranger.ask_to_join().result(0).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_takes_no_more_members_than_it_may() -> None:
    stage = Stage(group_max_size=2)
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann, bob)
    assert Consumer(stage, "cat").join().result(0).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.state() is GroupState.STABLE


def test_a_full_group_takes_nobody_while_it_rebalances() -> None:
    stage = Stage(group_max_size=2, group_initial_rebalance_delay_ms=DELAY)
    ann, bob, cat = (Consumer(stage, name) for name in ("ann", "bob", "cat"))
    first, second = ann.join(), bob.join()
    assert cat.join().result(0).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not first.done()
    stage.advance(2 * DELAY)
    assert first.result(0).error is second.result(0).error is ErrorCode.NONE


def test_who_waits_in_a_full_group_may_ask_again() -> None:
    stage = Stage(group_max_size=2, group_initial_rebalance_delay_ms=DELAY)
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    ann.join()
    bob.join()
    assert not ann.join().done()
    stage.advance(2 * DELAY)
    assert ann.take_join_answer().error is ErrorCode.NONE


def test_a_client_that_goes_away_takes_nothing_back() -> None:
    stage = Stage(group_initial_rebalance_delay_ms=DELAY)
    waiting = Consumer(stage).join()
    assert not waiting.cancel()
    stage.advance(DELAY)
    assert waiting.result(0).error is ErrorCode.NONE


def test_who_has_no_room_after_the_limit_was_lowered_is_sent_away() -> None:
    stage = Stage()
    ann, bob = Consumer(stage, "ann"), Consumer(stage, "bob")
    stage.stable(ann, bob)
    stage.set(group_max_size=1)
    first = ann.join()
    assert bob.join().result(0).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.result(0).generation == 2
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_cooperative_members_keep_rebalancing_until_nothing_changes() -> None:
    """An incremental assignor ends each generation with a join of those who gave something up."""
    stage = Stage()
    ann = Consumer(stage, "ann", protocols=[("cooperative-sticky", b"owns 0 1")])
    bob = Consumer(stage, "bob", protocols=[("cooperative-sticky", b"owns nothing")])
    stage.stable(ann)
    bob.join()
    assert ann.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    ann.join()
    assert bob.take_join_answer().generation == ann.take_join_answer().generation == 2
    ann.sync({ann.member_id: b"0", bob.member_id: b""})
    assert not bob.sync().done()
    stage.settle()
    ann.protocols = Consumer(stage, protocols=[("cooperative-sticky", b"owns 0")]).protocols
    ann.join()
    assert bob.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    bob.join()
    answer = ann.take_join_answer()
    assert answer.generation == 3
    assert {each.metadata for each in answer.members} == {b"owns 0", b"owns nothing"}
