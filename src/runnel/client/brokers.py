"""The brokers of a cluster, each asked by a wire of its own: the one that leads a partition, or coordinates an id.

A cluster that is just starting, or moving something, asks to try again. That is done here until the time-out of the
admin's connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from confluent_kafka import KafkaError

from runnel.client.admin import Admin, TopicAndPartition
from runnel.client.errors import Busy, NotPlain, UnknownPartition, Unreachable, told
from runnel.client.wire import Wire
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api

Answer = TypeVar("Answer")

PAUSE_SECONDS = 0.1
TRANSACTION = 1  # the kind of a key that FindCoordinator is asked for
PASSING = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


class Again(Exception):
    """A broker asks to try again."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Brokers:
    def __init__(self, admin: Admin, doing: str) -> None:
        if not admin.connection.is_plain:
            raise NotPlain(doing)
        self._admin = admin
        self.doing = doing
        self._wires: dict[tuple[str, int], Wire] = {}

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def all(self) -> list[Wire]:
        return [self._wire(node.host, node.port) for node in self._admin.cluster().brokers]

    def by_leader(self, places: Iterable[TopicAndPartition]) -> list[tuple[Wire, list[TopicAndPartition]]]:
        """The partitions, each with those that have the same leader."""
        wanted = sorted(set(places))
        leaders = {
            (topic.name, each.number): each.leader
            for topic in self._admin.described(sorted({name for name, _ in wanted}))
            for each in topic.partitions
        }
        led: dict[int, list[TopicAndPartition]] = {}
        for topic, partition in wanted:
            if (topic, partition) not in leaders:
                raise UnknownPartition(topic, partition, sum(name == topic for name, _ in leaders))
            leader = leaders[topic, partition]
            if leader is None:
                raise Again(f"partition {topic}-{partition} has no leader")
            led.setdefault(leader, []).append((topic, partition))
        up = {node.id: node for node in self._admin.cluster().brokers} if led else {}
        if led.keys() - up.keys():
            raise Again("a leader is not up")
        return [(self._wire(up[leader].host, up[leader].port), own) for leader, own in led.items()]

    def coordinator(self, transactional_id: str) -> Wire:
        """Of a transactional id, whether it is there or not."""
        asked = {"key": transactional_id, "key_type": TRANSACTION, "coordinator_keys": [transactional_id]}
        answer = self._any().ask(Api.FIND_COORDINATOR, asked, self.doing)
        found = answer["coordinators"][0] if answer["coordinators"] else answer
        self.check(found)
        return self._wire(found["host"], found["port"])

    def check(self, answer: Message, *, topic: str = "") -> None:
        """Raise what the answer, or a part of it, says: `Again`, or one of our errors."""
        code = answer["error_code"]
        if code == ErrorCode.NONE:
            return
        reason = answer.get("error_message") or _words(code)
        if code in PASSING:
            raise Again(reason)
        raise told(KafkaError(code, reason), self._admin.connection.bootstrap, self.doing, topic=topic)

    def settled(self, attempt: Callable[[], Answer]) -> Answer:
        """What the attempt gives, which is made again as long as a broker asks for it, and there is time."""
        deadline = time.monotonic() + self._admin.connection.timeout
        while True:
            try:
                return attempt()
            except Again as again:
                if time.monotonic() >= deadline:
                    raise Busy(self.doing, again.reason) from None
            time.sleep(PAUSE_SECONDS)

    def _any(self) -> Wire:
        nodes = self._admin.cluster().brokers
        for node in nodes[:-1]:
            with suppress(Unreachable):
                return self._wire(node.host, node.port)
        return self._wire(nodes[-1].host, nodes[-1].port)

    def _wire(self, host: str, port: int) -> Wire:
        known = self._wires.get((host, port))
        if known is None:
            known = self._wires[host, port] = Wire((host, port), self._admin.connection.timeout)
        return known


def _words(code: int) -> str:
    try:
        return ErrorCode(code).name.lower().replace("_", " ")
    except ValueError:
        return f"error {code}"
