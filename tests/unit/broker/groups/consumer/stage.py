"""Where the tests of consumer groups play: `Stage`, with topics, and members that speak either protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple
from uuid import UUID

from runnel.broker.groups.answers import JoinAnswer, SyncAnswer
from runnel.broker.groups.consumer.embedded import read_assignment, read_subscription, write_assignment
from runnel.broker.groups.consumer.group import ConsumerGroup
from runnel.broker.groups.consumer.heartbeat import UNSAID, HeartbeatAnswer, HeartbeatRequest
from runnel.broker.groups.consumer.member import AWAY, JOINING, LEAVING
from runnel.broker.groups.consumer.partitions import NOWHERE, Partitions, Place, partitions_of, places
from runnel.broker.groups.leaving import Leaving
from runnel.broker.groups.members import GroupProtocol
from runnel.protocol.encode import put_string
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.stage import REBALANCE, Consumer, Stage

SESSION = 45_000
INTERVAL = 5_000
# The last one: the group has gone on without the member, and is a classic one now.
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


class StageTopic(NamedTuple):
    name: str
    id: UUID
    count: int
    is_internal: bool = False


class StageTopics:
    def __init__(self) -> None:
        self.changes = 0
        self._made = 0
        self._topics: dict[str, StageTopic] = {}

    def create(self, name: str, count: int = 1, *, is_internal: bool = False) -> StageTopic:
        self._made += 1
        return self._put(StageTopic(name, UUID(int=self._made), count, is_internal))

    def grow(self, name: str, count: int) -> None:
        self._put(self._topics[name]._replace(count=count))

    def delete(self, name: str) -> None:
        del self._topics[name]
        self.changes += 1

    def _put(self, topic: StageTopic) -> StageTopic:
        self._topics[topic.name] = topic
        self.changes += 1
        return topic

    def find(self, name: str, /) -> StageTopic | None:
        return self._topics.get(name)

    def find_id(self, topic_id: UUID | None, /) -> StageTopic | None:
        return next((topic for topic in self._topics.values() if topic.id == topic_id), None)

    def all(self) -> Iterable[StageTopic]:
        return self._topics.values()


class ConsumerStage(Stage):
    def __init__(self, **settings: Any) -> None:
        self.topics = StageTopics()
        self.configs: dict[str, Mapping[str, str]] = {}
        super().__init__(**{"group_consumer_assignment_interval_ms": 0} | settings)

    def open(self) -> None:
        super().open()
        self.groups.consumer.topics = self.topics
        self.groups.consumer.configs_of = lambda name: self.configs.get(name, {})
        self.groups.consumer._apart = at_once

    def consumer_group(self, name: str = "g") -> ConsumerGroup:
        answer = self.groups.consumer.describe(name)
        self.settle()
        group = answer.result(0)
        assert group is not None
        return group

    def settled(self, *readers: Reader, rounds: int = 20) -> None:
        """Let the readers send heartbeats until all have what is meant for them."""
        for _ in range(rounds):
            for reader in readers:
                reader.heartbeat()
            if self.consumer_group(readers[0].group).state == "Stable":
                return
        raise AssertionError(f"the group is {self.consumer_group(readers[0].group)} after {rounds} rounds")


def at_once(work: Callable[[], Any]) -> Future[Any]:
    done: Future[Any] = Future()
    done.set_result(work())
    return done


class Reader:
    """A member that speaks the consumer protocol, and does as it is told unless a test says otherwise."""

    def __init__(self, stage: ConsumerStage, name: str, *topics: str, group: str = "g", **more: Any) -> None:
        self.stage = stage
        self.id = name
        self.group = group
        self.topics = topics
        self.expression: str | None = more.pop("expression", None)
        self.instance: str | None = more.pop("instance", None)
        self.assignor: str | None = more.pop("assignor", None)
        self.rebalance: int = more.pop("rebalance", REBALANCE)
        assert not more, more
        self.epoch = JOINING
        self.owned: Partitions = NOWHERE
        self.told: Partitions = NOWHERE  # what it was last told to have
        self.missed_answer = False  # then it tells all, to be told all

    def request(self, **more: Any) -> HeartbeatRequest:
        joins = self.epoch == JOINING
        tells_all = joins or self.missed_answer
        wish = HeartbeatRequest(
            self.id,
            self.epoch,
            self.instance,
            rebalance_timeout=self.rebalance if tells_all else UNSAID,
            topics=self.topics if tells_all else None,
            expression=self.expression if tells_all else None,
            assignor=self.assignor,
            owned=NOWHERE if joins else self.owned,
            client_id="client",
            client_host="/10.0.0.1",
        )
        return wish._replace(**more)

    def send(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        """What is answered, without any effect on the reader."""
        future = self.stage.groups.consumer_heartbeat(self.group, request, needs_member_id=True)
        self.stage.settle()
        return future.result(0)

    def ask(self, **more: Any) -> HeartbeatAnswer:
        """One heartbeat, of which it learns its epoch and what it is to have, and does nothing about it yet."""
        answer = self.send(self.request(**more))
        self.missed_answer = False
        if not answer.error:
            self.epoch = answer.epoch
            self.told = self.told if answer.assignment is None else answer.assignment
        elif answer.error in FENCED:
            self.epoch, self.owned, self.told = JOINING, NOWHERE, NOWHERE
        return answer

    def heartbeat(self, **more: Any) -> HeartbeatAnswer:
        """One heartbeat, after which it has what it is told to have."""
        answer = self.ask(**more)
        self.owned = self.told
        return answer

    def subscribe(self, *topics: str) -> HeartbeatAnswer:
        self.topics = topics
        return self.heartbeat(topics=topics)

    def leave(self) -> HeartbeatAnswer:
        return self._end(LEAVING)

    def go_away(self) -> HeartbeatAnswer:
        return self._end(AWAY)

    def _end(self, epoch: int) -> HeartbeatAnswer:
        answer = self.send(self.request()._replace(epoch=epoch, owned=None))
        self.epoch, self.owned, self.told = JOINING, NOWHERE, NOWHERE
        return answer

    @property
    def has(self) -> set[tuple[str, int]]:
        """The partitions that it has, by name."""
        return {
            (topic.name, number)
            for id, number in places(self.owned)
            if (topic := self.stage.topics.find_id(id)) is not None
        }

    @property
    def numbers(self) -> list[int]:
        return sorted(number for _, number in places(self.owned))


# --- the classic protocol


class ClassicReader(Consumer):
    """A classic consumer that is a good one. An eager one lets all go before it joins; a cooperative one keeps it.

    It never waits: `step` is the next thing that it can do now.
    """

    def __init__(
        self, stage: ConsumerStage, name: str, *topics: str, cooperative: bool, instance: str | None = None
    ) -> None:
        super().__init__(stage, name, instance=instance, session=SESSION, rebalance=20_000)
        self.topics = topics
        self.cooperative = cooperative
        self.owned: Partitions = NOWHERE
        self.is_in = False  # it has joined and synced, as far as it knows

    def step(self) -> None:
        if self.joined is not None:
            if self.joined.done():
                self._take_join(self.joined.result())
        elif self.synced is not None:
            if self.synced.done():
                self._take_sync(self.synced.result())
        elif not self.is_in:
            self.begin()
        else:
            answer: Any = super().heartbeat()
            self.stage.settle()
            self._hear(answer if isinstance(answer, ErrorCode) else answer.result(0))

    def begin(self) -> None:
        """Join, for the first time or again."""
        self.is_in = False
        self.synced = None
        if not self.cooperative:
            self.owned = NOWHERE
        self.protocols = (GroupProtocol("range", self._subscription()),)
        self.ask_to_join()
        self.stage.settle()

    def lose_connection(self) -> None:
        """Nobody answers what it has asked for."""
        if self.joined is not None or self.synced is not None:
            self.joined = self.synced = None
            self.is_in = False

    def go(self) -> None:
        self.stage.groups.leave(self.group, [Leaving(self.member_id, self.instance)])
        self.stage.settle()
        self._forget()

    def _hear(self, error: ErrorCode) -> None:
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.begin()
        elif error in LOST:
            member_id = self.member_id if error is ErrorCode.ILLEGAL_GENERATION else ""
            self._forget()
            self.member_id = member_id
            self.begin()

    def _take_join(self, answer: JoinAnswer) -> None:
        self.joined = None
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.begin()
        elif answer.error:
            self._hear(answer.error)
        else:
            self.member_id, self.generation = answer.member_id, answer.generation
            self.sync(self._shares(answer) if answer.leader == answer.member_id else {})
            self.stage.settle()

    def _take_sync(self, answer: SyncAnswer) -> None:
        self.synced = None
        if answer.error:
            self._hear(answer.error)
            return
        self.is_in = True
        named = [(self.stage.topics.find(name), number) for name, number in read_assignment(answer.assignment)]
        given = partitions_of((topic.id, number) for topic, number in named if topic is not None)
        lets_go = set(places(self.owned)) - set(places(given))
        self.owned = given
        if lets_go and self.cooperative:
            self.begin()

    def _forget(self) -> None:
        self.member_id, self.generation, self.owned = "", -1, NOWHERE
        self.joined = self.synced = None
        self.is_in = False

    def _subscription(self) -> bytes:
        data = bytearray((3).to_bytes(2) + len(self.topics).to_bytes(4))
        for name in self.topics:
            put_string(data, name)
        data += b"\xff" * 4
        owned = write_assignment(3, self.owned, self.stage.topics)  # between its version and its data are partitions
        return bytes(data + owned[2:-4] + self.generation.to_bytes(4, signed=True) + b"\xff" * 2)

    def _shares(self, joined: JoinAnswer) -> dict[str, bytes]:
        """As a leader: evenly, but what a cooperative member still has is not given to another in this round."""
        told = {each.member_id: read_subscription(each.metadata) for each in joined.members}
        has = {place: member for member, each in told.items() for place in each.owned}
        shares: dict[str, set[Place]] = {member: set() for member in told}
        for name in sorted({name for each in told.values() for name in each.topics}):
            topic = self.stage.topics.find(name)
            for number in range(0 if topic is None else topic.count):
                able = [member for member, each in told.items() if name in each.topics]
                chosen = min(able, key=lambda member: (len(shares[member]), has.get((name, number)) != member))
                shares[chosen].add((topic.id, number))
        return {
            member: write_assignment(3, partitions_of(self._free(member, share, has)), self.stage.topics)
            for member, share in shares.items()
        }

    def _free(self, member: str, share: set[Place], has: dict[tuple[str, int], str]) -> Iterable[Place]:
        for topic_id, number in share:
            topic = self.stage.topics.find_id(topic_id)
            if topic is not None and has.get((topic.name, number), member) == member:
                yield topic_id, number


LOST = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    }
)
