"""Random histories of a group: whatever happens, it is sound, everybody is answered, and nothing is left over."""

from __future__ import annotations

from concurrent.futures import Future
from random import Random
from typing import Any

import pytest

from runnel.broker.groups.group import NEW_MEMBER_TIMEOUT, GroupState
from runnel.broker.groups.members import GroupProtocol
from runnel.broker.groups.offsets import TopicPartition
from runnel.broker.groups.records import CommittedOffset
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.stage import DELAY, REBALANCE, SESSION, Consumer, Stage, subscription

STEPS = 120
PLACES = [TopicPartition("orders", number) for number in range(3)]


class History:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.stage = Stage(group_initial_rebalance_delay_ms=chance.choice((0, DELAY)), group_max_size=5)
        self.consumers = [self.consumer(number) for number in range(6)]
        self.waiting: list[Future[Any]] = []
        self.commits: list[tuple[dict[TopicPartition, CommittedOffset], Future[None]]] = []
        self.generations: dict[int, tuple[str, str | None]] = {}  # leader and protocol, as members were told

    def consumer(self, number: int) -> Consumer:
        static = number % 2 == 0
        consumer = Consumer(self.stage, f"c{number}", instance=f"i{number}" if static else None)
        consumer.version = self.chance.choice((1, 5, 9))
        consumer.protocols = self.protocols()
        return consumer

    def protocols(self) -> tuple[GroupProtocol, ...]:
        names = self.chance.sample(("range", "sticky", "other"), self.chance.randint(2, 3))
        topics = self.chance.choice((("orders",), ("orders", "clicks")))
        return tuple(GroupProtocol(name, subscription(*topics)) for name in names)

    # --- what may happen

    def step(self) -> None:
        actions = (
            [self.join] * 5
            + [self.sync] * 5
            + [self.heartbeat] * 3
            + [self.commit] * 3
            + [self.leave, self.forget, self.change, self.let_time_pass, self.let_time_pass, self.ail, self.restart]
            + [self.stage.settle] * 5
        )
        self.chance.choice(actions)()
        self.take_answers()
        self.check()

    def one(self) -> Consumer:
        return self.chance.choice(self.consumers)

    def join(self) -> None:
        consumer = self.one()
        self.waiting.append(consumer.join())
        if self.chance.random() < 0.5:
            self.stage.settle()

    def sync(self) -> None:
        consumer = self.one()
        assignments = {each.member_id: each.name.encode() for each in self.consumers if each.member_id}
        self.waiting.append(consumer.sync(assignments if consumer.leads else {}))

    def heartbeat(self) -> None:
        consumer = self.one()
        if consumer.heartbeat() in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            consumer.member_id = ""

    def commit(self) -> None:
        consumer = self.one()
        committed = {self.chance.choice(PLACES): CommittedOffset(len(self.commits), -1, "", self.stage.clock.now())}
        if not self.stage.groups.check_commit("g", consumer.committer()):
            self.commits.append((committed, self.stage.groups.commit("g", consumer.committer(), committed)))

    def leave(self) -> None:
        consumer = self.one()
        consumer.leave()
        consumer.member_id = ""

    def forget(self) -> None:
        """The client starts again, and knows no id."""
        self.one().member_id = ""

    def change(self) -> None:
        self.one().protocols = self.protocols()

    def let_time_pass(self) -> None:
        self.stage.advance(self.chance.choice((1, 1_000, SESSION // 2, SESSION, REBALANCE)))

    def ail(self) -> None:
        self.stage.break_disk()
        self.stage.settle()
        self.stage.heal_disk()

    def restart(self) -> None:
        if self.chance.random() < 0.5:
            self.stage.stop_and_start()
        else:
            self.waiting.clear()  # their connections are gone with the process
            self.commits = [each for each in self.commits if each[1].done()]
            self.stage.kill()
        self.generations.clear()  # one that was not completed is given again

    # --- what must hold

    def take_answers(self) -> None:
        for consumer in self.consumers:
            if consumer.joined is not None and consumer.joined.done():
                answer = consumer.take_join_answer()
                consumer.joined = None
                if not answer.error and consumer.version == 9:
                    agreed = self.generations.setdefault(answer.generation, (answer.leader, answer.protocol_name))
                    assert answer.protocol_name == agreed[1]
        self.waiting = [each for each in self.waiting if not each.done()]

    def check(self) -> None:
        group = self.stage.groups._groups.get("g")
        if group is None:
            return
        members = list(group.members)
        assert group.state is not GroupState.DEAD
        assert (group.members.leader in group.members) if members else group.members.leader is None
        if group.state is GroupState.EMPTY:
            assert not members
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert members
            assert group.protocol_name in group.members.common_protocols()
        if group.state is GroupState.STABLE:
            assert not any(member.sync for member in members)
        for member in members:
            assert member.session.is_set or member.may_be_silent, f"nobody would notice that {member.id} is gone"
            assert group.members.check(member.id, member.instance_id) is ErrorCode.NONE
        assert len({member.instance_id for member in members if member.instance_id}) == sum(
            member.instance_id is not None for member in members
        )

    def end(self) -> None:
        """All clients stop. Nobody is left in the group, nobody waits, and what was acknowledged is there."""
        self.stage.files.heal()
        self.stage.set(offsets_retention_check_interval_ms=2**40)
        for _ in range(3):
            self.stage.advance(NEW_MEMBER_TIMEOUT + 2 * REBALANCE)
            self.take_answers()
            self.check()
        assert self.stage.state() in (GroupState.EMPTY, GroupState.DEAD)
        assert self.waiting == []
        assert self.stage.timers.armed == 1  # that of the retention
        found = self.stage.committed()
        last: dict[TopicPartition, int] = {}
        for committed, answer in self.commits:
            for place, value in committed.items():
                if answer.exception(0) is None:
                    last[place] = value.offset
        for place, offset in last.items():
            assert found[place].offset >= offset


def test_a_group_is_sound_whatever_happens(seed: int, rounds: int) -> None:
    for number in range(min(rounds, 50)):
        live(Random(f"{seed}/{number}"))


@pytest.mark.soak
def test_a_group_is_sound_whatever_happens_over_many_histories(seed: int, rounds: int) -> None:
    for number in range(rounds):
        live(Random(f"{seed}/{number}"))


def live(chance: Random) -> None:
    history = History(chance)
    for _ in range(STEPS):
        history.step()
    history.end()
