"""Where the tests of consumer groups play: `Stage`, with topics, and members that speak the consumer protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple
from uuid import UUID

from runnel.broker.groups.consumer.group import ConsumerGroup
from runnel.broker.groups.consumer.heartbeat import UNSAID, HeartbeatAnswer, HeartbeatRequest
from runnel.broker.groups.consumer.member import AWAY, JOINING, LEAVING
from runnel.broker.groups.consumer.partitions import NOWHERE, Partitions, places
from runnel.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.stage import REBALANCE, Stage

SESSION = 45_000
INTERVAL = 5_000


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
        elif answer.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
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
