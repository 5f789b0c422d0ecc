"""Classic members in a consumer group, and groups that change from one protocol to the other."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.broker.groups.answers import JoinAnswer
from runnel.broker.groups.consumer.embedded import read_assignment, write_assignment
from runnel.broker.groups.consumer.partitions import partitions_of, places
from runnel.broker.groups.leaving import Leaving
from runnel.protocol.encode import put_string
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.consumer.stage import ClassicReader, ConsumerStage, Reader
from tests.unit.broker.groups.stage import REBALANCE, SESSION, Consumer

TOPIC = "orders"


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.topics.create(TOPIC, 4)
    return stage


def metadata(topics: tuple[str, ...], owned: set[int], version: int = 3) -> bytes:
    data = bytearray(version.to_bytes(2) + len(topics).to_bytes(4))
    for topic in topics:
        put_string(data, topic)
    data += b"\xff\xff\xff\xff"
    data += (1).to_bytes(4)
    put_string(data, TOPIC)
    data += len(owned).to_bytes(4) + b"".join(number.to_bytes(4) for number in sorted(owned))
    return bytes(data + (7).to_bytes(4) + b"\xff\xff")


class Classic(Consumer):
    """A classic consumer with the cooperative protocol: it tells what it owns."""

    def __init__(self, stage: ConsumerStage, name: str, *topics: str, **more: Any) -> None:
        super().__init__(stage, name, **more)
        self.topics = topics or (TOPIC,)
        self.owned: set[int] = set()

    def rejoin(self) -> JoinAnswer:
        self.protocols = tuple(each._replace(metadata=metadata(self.topics, self.owned)) for each in self.protocols)
        self.join()
        self.stage.settle()
        return self.take_join_answer()

    def get(self) -> set[int]:
        """SyncGroup, and what it is to have."""
        future = self.sync()
        self.stage.settle()
        answer = future.result(0)
        assert not answer.error, answer
        return {number for _, number in read_assignment(answer.assignment)}

    def beat(self) -> ErrorCode:
        answer: Any = self.heartbeat()
        self.stage.settle()
        return answer if isinstance(answer, ErrorCode) else answer.result(0)

    def turn(self) -> None:
        """What a good client does from time to time: heartbeat, and join and sync if it is told to."""
        error = self.beat()
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.rejoin().error is ErrorCode.NONE:
                self.owned = self.get()
        elif error:
            self.member_id, self.generation, self.owned = "", -1, set()
            self.rejoin()


def classic_group(stage: ConsumerStage, *names: str) -> list[Classic]:
    """A stable classic group; the leader's assignment is as even as can be."""
    consumers = [Classic(stage, name) for name in names]
    for consumer in consumers:
        consumer.protocols = tuple(each._replace(metadata=metadata((TOPIC,), set())) for each in consumer.protocols)
        consumer.join()
    stage.settle()
    if len(consumers) > 1:  # the first generation began with the first one alone
        consumers[0].join()
        stage.settle()
    for consumer in consumers:
        consumer.take_join_answer()
    topic = stage.topics.find(TOPIC)
    assert topic is not None
    for place, consumer in enumerate(consumers):
        consumer.owned = set(range(place, topic.count, len(consumers)))
    assignments = {
        each.member_id: write_assignment(3, partitions_of((topic.id, number) for number in each.owned), stage.topics)
        for each in consumers
    }
    for consumer in consumers:
        consumer.sync(assignments if consumer.leads else {})
    stage.settle()
    assert stage.state() == "Stable"
    return consumers


def settle_together(stage: ConsumerStage, readers: list[Reader], consumers: list[Classic]) -> None:
    for _ in range(12):
        for reader in readers:
            reader.heartbeat()
        for consumer in consumers:
            consumer.turn()
    owned = [number for reader in readers for number in reader.numbers]
    owned += [number for consumer in consumers for number in consumer.owned]
    assert sorted(owned) == [0, 1, 2, 3]
    assert stage.consumer_group().state == "Stable"


# --- upgrade


def test_a_classic_group_becomes_a_consumer_group_when_somebody_speaks_its_protocol(stage: ConsumerStage) -> None:
    ann, bob = classic_group(stage, "ann", "bob")
    eve = Reader(stage, "eve", TOPIC)
    assert not eve.heartbeat().error
    group = stage.consumer_group()
    assert set(group.members) == {ann.member_id, bob.member_id, "eve"}
    assert {len(each.assigned) for each in group.classic_members()} == {1}
    assert eve.numbers == []  # the others still have all
    assert stage.groups.describe("g") is None
    settle_together(stage, [eve], [ann, bob])
    assert len(eve.numbers) == 1


def test_what_cooperative_members_keep_in_a_rebalance_that_begins_anew_stays_theirs(stage: ConsumerStage) -> None:
    ann, bob = readers = [ClassicReader(stage, name, TOPIC, cooperative=True) for name in ("ann", "bob")]
    for _ in range(10):
        for reader in readers:
            reader.step()
    had = {reader.name: set(places(reader.owned)) for reader in readers}
    assert [len(each) for each in had.values()] == [2, 2]
    ann.begin()
    bob.step()
    bob.step()  # both have joined; the leader has not sent the assignments
    assert stage.state() == "CompletingRebalance"
    cid = ClassicReader(stage, "cid", TOPIC, cooperative=True)
    cid.step()
    cid.step()
    assert stage.state() == "PreparingRebalance"
    eve = Reader(stage, "eve", TOPIC)
    eve.heartbeat()
    assert eve.numbers == []
    members = stage.consumer_group().members
    assert {each.name: set(places(members[each.member_id].assigned_partitions)) for each in readers} == had
    for _ in range(10):
        for reader in (ann, bob, cid):
            reader.step()
        eve.heartbeat()
    assert stage.consumer_group().state == "Stable"
    assert [len(list(places(each.owned))) for each in (ann, bob, cid, eve)] == [1, 1, 1, 1]


def test_what_another_was_assigned_is_not_kept(stage: ConsumerStage) -> None:
    """Whoever says that it owns what its broker gave to another is not believed."""
    ann, bob = classic_group(stage, "ann", "bob")
    bob.owned |= ann.owned
    ann.join()
    bob.protocols = tuple(each._replace(metadata=metadata((TOPIC,), bob.owned)) for each in bob.protocols)
    bob.join()
    stage.settle()
    eve = Reader(stage, "eve", TOPIC)
    assert not eve.heartbeat().error
    members = stage.consumer_group().members
    assert [sorted(members[each.member_id].assigned_partitions.values()) for each in (ann, bob)] == [
        [frozenset({0, 2})],
        [frozenset({1, 3})],
    ]


def test_the_group_epoch_goes_on_where_the_generation_was(stage: ConsumerStage) -> None:
    (ann,) = classic_group(stage, "ann")
    eve = Reader(stage, "eve", TOPIC)
    assert eve.heartbeat().epoch == ann.generation + 1


def test_a_classic_member_hears_of_the_upgrade_by_its_heartbeat(stage: ConsumerStage) -> None:
    (ann,) = classic_group(stage, "ann")
    assert ann.beat() is ErrorCode.NONE
    Reader(stage, "eve", TOPIC).heartbeat()
    assert ann.beat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_waits_in_a_classic_rebalance_is_told_to_join_again(stage: ConsumerStage) -> None:
    ann, _ = classic_group(stage, "ann", "bob")
    waiting = Classic(stage, "cid")
    waiting.protocols = tuple(each._replace(metadata=metadata((TOPIC,), set())) for each in waiting.protocols)
    future = waiting.join()
    stage.settle()
    assert not future.done()
    Reader(stage, "eve", TOPIC).heartbeat()
    assert future.result(0).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert ann.beat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_committed_offsets_stay(stage: ConsumerStage) -> None:
    (ann,) = classic_group(stage, "ann")
    assert stage.commit(5, TOPIC, by=ann) is ErrorCode.NONE
    Reader(stage, "eve", TOPIC).heartbeat()
    assert stage.offset(TOPIC) == 5
    assert stage.commit(6, TOPIC, by=ann) is ErrorCode.NONE  # with its generation, still


def test_an_empty_classic_group_is_replaced(stage: ConsumerStage) -> None:
    stage.commit(5, TOPIC)
    assert stage.groups.describe("g") is not None
    eve = Reader(stage, "eve", TOPIC)
    assert eve.heartbeat().epoch == 1
    assert stage.groups.describe("g") is None
    assert stage.offset(TOPIC) == 5
    stage.kill()
    assert stage.groups.names() == []


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_policy_can_forbid_the_upgrade(stage: ConsumerStage, policy: str) -> None:
    classic_group(stage, "ann")
    stage.set(group_consumer_migration_policy=policy)
    assert Reader(stage, "eve", TOPIC).heartbeat().error is ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.state() == "Stable"


def test_a_group_of_others_than_consumers_is_not_upgraded(stage: ConsumerStage) -> None:
    stage.stable(Consumer(stage, "ann", protocol_type="connect"))
    answer = Reader(stage, "eve", TOPIC).heartbeat()
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "is not a consumer group" in (answer.message or "")


def test_a_group_with_metadata_that_cannot_be_read_is_not_upgraded(stage: ConsumerStage) -> None:
    stage.stable(Consumer(stage, "ann", protocols=[("range", b"\x00")]))
    assert Reader(stage, "eve", TOPIC).heartbeat().error is ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.state() == "Stable"


def test_an_upgrade_that_is_lost_did_not_happen(stage: ConsumerStage) -> None:
    (ann,) = classic_group(stage, "ann")
    stage.break_disk()
    eve = Reader(stage, "eve", TOPIC)
    future = stage.groups.consumer_heartbeat("g", eve.request())
    stage.settle()
    assert future.exception(0) is not None
    stage.heal_disk()
    stage.advance(2_000)
    assert ann.beat() is ErrorCode.NONE
    assert "g" not in stage.groups.consumer


# --- classic members in a consumer group


def mixed(stage: ConsumerStage) -> tuple[Reader, Classic]:
    eve = Reader(stage, "eve", TOPIC)
    eve.heartbeat()
    ann = Classic(stage, "ann")
    assert not ann.rejoin().error
    ann.owned = ann.get()
    settle_together(stage, [eve], [ann])
    return eve, ann


def test_a_classic_member_joins_a_consumer_group(stage: ConsumerStage) -> None:
    eve, ann = mixed(stage)
    assert (len(eve.numbers), len(ann.owned)) == (2, 2)
    member = stage.consumer_group().members[ann.member_id]
    assert member.classic is not None
    assert member.classic.session_timeout == SESSION


def test_a_classic_member_is_given_nothing_before_its_owner_lets_go(stage: ConsumerStage) -> None:
    eve = Reader(stage, "eve", TOPIC)
    eve.heartbeat()
    ann = Classic(stage, "ann")
    ann.rejoin()
    assert ann.get() == set()
    eve.ask()
    assert ann.beat() is ErrorCode.NONE  # there is nothing to get yet
    eve.owned = eve.told
    eve.heartbeat()
    assert ann.beat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_that_keeps_what_it_should_let_go_gets_nothing_new(stage: ConsumerStage) -> None:
    eve, ann = mixed(stage)
    cid = Reader(stage, "cid", TOPIC)
    cid.heartbeat()
    before = ann.owned
    ann.rejoin()
    assert ann.get() <= before
    assert ann.beat() is ErrorCode.REBALANCE_IN_PROGRESS or ann.get() == before
    settle_together(stage, [eve, cid], [ann])


def test_nobody_leads_and_nobody_is_told_of_others(stage: ConsumerStage) -> None:
    Reader(stage, "eve", TOPIC).heartbeat()
    answer = Classic(stage, "ann").rejoin()
    assert (answer.leader, answer.members, answer.protocol_type, answer.protocol_name) == ("", (), "consumer", "range")


def test_a_new_member_is_sent_back_for_an_id(stage: ConsumerStage) -> None:
    Reader(stage, "eve", TOPIC).heartbeat()
    ann = Classic(stage, "ann")
    ann.protocols = tuple(each._replace(metadata=metadata((TOPIC,), set())) for each in ann.protocols)
    assert ann.ask_to_join().result(0).error is ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize(
    "more", [{"protocol_type": "connect"}, {"protocols": []}, {"protocols": [("range", b"")], "version": 3}]
)
def test_other_protocols_do_not_fit(stage: ConsumerStage, more: dict[str, Any]) -> None:
    Reader(stage, "eve", TOPIC).heartbeat()
    future = Consumer(stage, "ann", **more).join()
    stage.settle()
    assert future.result(0).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_classic_members_must_have_a_protocol_in_common(stage: ConsumerStage) -> None:
    mixed(stage)
    other = Classic(stage, "bob", protocols=[("roundrobin", b"")])
    assert other.rejoin().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_no_classic_member(stage: ConsumerStage) -> None:
    Reader(stage, "eve", TOPIC).heartbeat()
    stage.set(group_consumer_max_size=1)
    assert Classic(stage, "ann").rejoin().error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_wrong_generation_is_told(stage: ConsumerStage) -> None:
    _, ann = mixed(stage)
    ann.generation += 1
    assert ann.beat() is ErrorCode.ILLEGAL_GENERATION
    future = ann.sync()
    stage.settle()
    assert future.result(0).error is ErrorCode.ILLEGAL_GENERATION
    assert stage.groups.check_commit("g", ann.committer(), 8) is ErrorCode.ILLEGAL_GENERATION


def test_a_member_of_the_other_protocol_gets_no_classic_answers(stage: ConsumerStage) -> None:
    eve, _ = mixed(stage)
    posing = Classic(stage, "eve")
    posing.member_id, posing.generation = "eve", eve.epoch
    assert posing.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_with_another_protocol_does_not_fit(stage: ConsumerStage) -> None:
    _, ann = mixed(stage)
    future = ann.sync(protocol_type="consumer", protocol_name="sticky")
    stage.settle()
    assert future.result(0).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_silent_classic_member_is_fenced_after_its_own_session(stage: ConsumerStage) -> None:
    eve, ann = mixed(stage)
    stage.advance(SESSION)
    eve.heartbeat()
    assert set(stage.consumer_group().members) == {"eve"}
    assert ann.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_does_not_join_again_in_time_is_fenced(stage: ConsumerStage) -> None:
    eve, ann = mixed(stage)
    stage.topics.grow(TOPIC, 8)
    eve.heartbeat()
    for _ in range(REBALANCE // 6_000):
        assert ann.beat() is ErrorCode.REBALANCE_IN_PROGRESS
        eve.heartbeat()
        stage.advance(6_000)
    assert ann.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_does_not_sync_in_time_is_fenced(stage: ConsumerStage) -> None:
    eve = Reader(stage, "eve", TOPIC)
    eve.heartbeat()
    ann = Classic(stage, "ann")
    ann.rejoin()
    for _ in range(REBALANCE // 6_000):
        ann.beat()
        eve.heartbeat()
        stage.advance(6_000)
    assert ann.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_classic_and_other_members_leave_by_leave_group(stage: ConsumerStage) -> None:
    eve, ann = mixed(stage)
    bob = Reader(stage, "bob", TOPIC, instance="one")
    bob.heartbeat()
    error, future = stage.groups.leave(
        "g", [Leaving(ann.member_id, None), Leaving("", "one"), Leaving("nobody", None), Leaving("wrong", "two")]
    )
    stage.settle()
    assert error is ErrorCode.NONE
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert not isinstance(future, list)
    assert future.result(0) == [ErrorCode.NONE, ErrorCode.NONE, unknown, unknown]
    eve.heartbeat()
    assert eve.numbers == [0, 1, 2, 3]


# --- downgrade


def test_a_consumer_group_becomes_classic_when_the_last_of_the_other_protocol_leaves(stage: ConsumerStage) -> None:
    eve, ann = mixed(stage)
    epoch = stage.consumer_group().epoch
    eve.leave()
    assert "g" not in stage.groups.consumer
    assert stage.state() == "PreparingRebalance"
    assert stage.group().generation == epoch
    assert ann.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    ann.join()
    stage.settle()
    answer = ann.take_join_answer()
    assert (answer.error, answer.generation, ann.leads) == (ErrorCode.NONE, epoch + 1, True)


def test_a_consumer_group_becomes_classic_when_the_last_of_the_other_protocol_is_late(stage: ConsumerStage) -> None:
    _, ann = mixed(stage)
    for _ in range(8):
        ann.beat()
        stage.advance(6_000)
    assert stage.state() == "PreparingRebalance"
    assert ann.beat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_downgraded_group_is_classic_after_a_restart(stage: ConsumerStage) -> None:
    eve, ann = mixed(stage)
    eve.leave()
    stage.kill()
    assert "g" not in stage.groups.consumer
    assert stage.state() == "Stable"
    (member,) = stage.group().members
    assert {number for _, number in read_assignment(member.assignment)} == ann.owned


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_a_policy_can_forbid_the_downgrade(stage: ConsumerStage, policy: str) -> None:
    eve, ann = mixed(stage)
    stage.set(group_consumer_migration_policy=policy)
    eve.leave()
    settle_together(stage, [], [ann])
    assert ann.owned == {0, 1, 2, 3}


def test_a_static_member_that_comes_back_with_the_classic_protocol_downgrades_the_group(stage: ConsumerStage) -> None:
    eve = Reader(stage, "eve", TOPIC, instance="one")
    eve.heartbeat()
    eve.go_away()
    ann = Classic(stage, "ann", instance="one")
    answer = ann.rejoin()
    assert answer.error is ErrorCode.NONE
    assert stage.state() == "Stable"
    assert ann.get() == {0, 1, 2, 3}


def test_a_static_member_that_comes_back_with_the_consumer_protocol_upgrades_the_group(stage: ConsumerStage) -> None:
    ann = Classic(stage, "ann", instance="one")
    ann.protocols = tuple(each._replace(metadata=metadata((TOPIC,), set())) for each in ann.protocols)
    ann.join()
    stage.settle()
    ann.take_join_answer()
    topic = stage.topics.find(TOPIC)
    assert topic is not None
    ann.sync({ann.member_id: write_assignment(3, {topic.id: frozenset(range(4))}, stage.topics)})
    stage.settle()
    eve = Reader(stage, "eve", TOPIC, instance="one")
    eve.heartbeat()
    assert eve.numbers == [0, 1, 2, 3]
    assert set(stage.consumer_group().members) == {"eve"}
    assert ann.beat() is ErrorCode.FENCED_INSTANCE_ID


def test_an_empty_consumer_group_gives_way_to_a_classic_one(stage: ConsumerStage) -> None:
    eve = Reader(stage, "eve", TOPIC)
    eve.heartbeat()
    eve.leave()
    stage.commit(5, TOPIC)
    classic_group(stage, "ann")
    assert "g" not in stage.groups.consumer
    assert stage.offset(TOPIC) == 5
    stage.kill()
    assert stage.state() == "Stable"
    assert "g" not in stage.groups.consumer


def test_a_known_member_id_is_unknown_in_an_empty_consumer_group(stage: ConsumerStage) -> None:
    eve = Reader(stage, "eve", TOPIC)
    eve.heartbeat()
    eve.leave()
    ann = Classic(stage, "ann")
    ann.member_id = "somebody"
    future = ann.ask_to_join()
    stage.settle()
    assert future.result(0).error is ErrorCode.UNKNOWN_MEMBER_ID
