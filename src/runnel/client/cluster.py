"""A Kafka cluster, asked directly: who leads what, over connections of our own, again until it answers.

    with Cluster("127.0.0.1:9092", security=Security.of(settings)) as cluster:
        topic = cluster.topic("orders")
        cluster.settled(lambda: cluster.ask(node, Api.LIST_OFFSETS, {...}, "finding the end"))

It remembers leaders until one of them says that it is none, and keeps connections for the next question. Threads can
share one. A pickled one arrives without connections, and a forked process makes its own.

What passes by itself (a leader that moves, a broker that starts again) is waited for, for `timeout` seconds.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from runnel.client.again import Again, error_of, settled
from runnel.client.connection import Connection
from runnel.client.errors import Busy, TimedOut, UnknownPartition, UnknownTopic, Unreachable
from runnel.client.metadata import Leader, Metadata, Node, Place, Topic, metadata_request, read_metadata
from runnel.client.security import PLAIN, Security
from runnel.client.wire import SOFTWARE, Address, Wire
from runnel.forking import OwnLock
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api

Answer = TypeVar("Answer")

PATIENCE = 30.0  # seconds
LONGEST_ANSWER_SECONDS = 15.0  # then another broker is asked, if there is time left
UNKNOWN_SECONDS = 1.0  # a new topic is not known to every broker at once
KEPT_CONNECTIONS = 8  # to one broker
GROUP, TRANSACTION = 0, 1  # the kinds of keys that FindCoordinator is asked for
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4  # the kinds of what has configs

Configs: TypeAlias = dict[str, str | None]


class Cluster:
    def __init__(self, bootstrap: str, *, security: Security = PLAIN, timeout: float = PATIENCE) -> None:
        self.bootstrap = bootstrap
        self.security = security
        self.timeout = timeout
        self._addresses: list[Address] = Connection(bootstrap).addresses
        self._lock = OwnLock()
        self._is_hurried = False
        self._owner = os.getpid()
        self._idle: dict[Address, list[Wire]] = {}
        self._nodes: list[Node] = []
        self._topics: dict[str, Topic] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.bootstrap, self.security, self.timeout)

    def close(self) -> None:
        """Let go of the connections. It can still be asked, and makes others then."""
        with self._lock:
            kept, self._idle = self._idle, {}
        for wires in kept.values():
            for wire in wires:
                wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def reach(self) -> None:
        """Raise at once if no broker answers, instead of waiting for one."""
        self._learn([], "reaching the cluster")

    # --- topics and leaders

    def topic(self, name: str, *, fresh: bool = False) -> Topic:
        return self.topics([name], fresh=fresh)[name]

    def topics(self, names: Iterable[str], *, fresh: bool = False) -> dict[str, Topic]:
        """These topics, as far as they are remembered, or `fresh`; UnknownTopic if one of them is not there."""
        wanted = list(dict.fromkeys(names))
        with self._lock:
            known = {name: self._topics[name] for name in wanted if name in self._topics}
        asked = wanted if fresh else [name for name in wanted if name not in known]
        if asked:
            known |= self.settled(lambda: self._described(asked))
        return {name: known[name] for name in wanted}

    def all_topics(self, *, internal: bool = False) -> dict[str, Topic]:
        """All that are there now; those that Kafka keeps for itself only if asked for."""
        found = self.settled(lambda: self._learn(None, "listing the topics"))
        return {name: topic for name, topic in sorted(found.topics.items()) if internal or not topic.internal}

    def leader(self, place: Place) -> Leader:
        """Who leads the partition, as far as known; Again if it is nobody."""
        name, number = place
        leaders = self.topic(name).leaders
        if number not in leaders:
            leaders = self.topic(name, fresh=True).leaders
        if number not in leaders:
            raise UnknownPartition(name, number, len(leaders))
        leader = leaders[number]
        if leader is None:
            self.forget(name)
            raise Again(Busy(f"finding the leader of {name}-{number}", "the partition has no leader at the moment"))
        return leader

    def by_leader(self, places: Iterable[Place]) -> dict[Node, list[Place]]:
        led: dict[Node, list[Place]] = {}
        for place in places:
            led.setdefault(self.leader(place).node, []).append(place)
        return led

    def forget(self, topic: str | None = None) -> None:
        """The leaders of a topic, or of all: they are looked for when they are needed."""
        with self._lock:
            if topic is None:
                self._topics.clear()
            else:
                self._topics.pop(topic, None)

    # --- questions

    def coordinator(self, key: str, doing: str, *, kind: int = TRANSACTION) -> Node:
        """Of a transactional id, or of a group."""
        asked = {"key": key, "key_type": kind, "coordinator_keys": [key]}
        answer = self._ask_any(Api.FIND_COORDINATOR, asked, doing)
        found = answer["coordinators"][0] if answer["coordinators"] else answer
        self.check(found["error_code"], found["error_message"], doing)
        return Node(found["node_id"], found["host"], found["port"])

    def configs(self, topic: str) -> Configs:
        """All configs of a topic; a sensitive one has no value."""
        doing = f'describing the configs of topic "{topic}"'

        def asked() -> Configs:
            told = self._ask_any(Api.DESCRIBE_CONFIGS, _configs_of(TOPIC_RESOURCE, topic), doing)["results"][0]
            if told["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise Again(UnknownTopic(topic), UNKNOWN_SECONDS)
            self.check(told["error_code"], told["error_message"], doing, topic=topic)
            return _values_in(told)

        return self.settled(asked)

    def broker_configs(self) -> Configs:
        """All configs of the first broker."""
        doing = "describing the configs of a broker"

        def asked() -> Configs:
            node = min(self._learn([], doing).nodes)
            told = self.ask(node, Api.DESCRIBE_CONFIGS, _configs_of(BROKER_RESOURCE, str(node.id)), doing)["results"][0]
            self.check(told["error_code"], told["error_message"], doing)
            return _values_in(told)

        return self.settled(asked)

    def versions(self) -> Message:
        """What whichever broker answers says of itself: the APIs that it serves, and its features."""
        return self._ask_any(Api.API_VERSIONS, SOFTWARE, "asking what the broker serves")

    def ask(
        self, node: Node, api_key: int, body: Message, doing: str, *, least: int = 0, most: int | None = None
    ) -> Message:
        with self.wire(node.address) as wire:
            return wire.ask(api_key, body, doing, least=least, most=most)

    def settled(self, attempt: Callable[[], Answer]) -> Answer:
        """What the attempt gives, which is made again while that can help."""
        return settled(attempt, self.timeout, self.forget, lambda: self._is_hurried)

    def hurry(self) -> None:
        """From now on, do not wait for a broker that is away: whoever asks is about to end."""
        self._is_hurried = True

    def check(self, code: int, message: str | None, doing: str, *, topic: str = "") -> None:
        """Raise what an error code of an answer means: `Again`, or one of our errors."""
        if code == ErrorCode.NONE:
            return
        if topic:
            self.forget(topic)
        raise error_of(code, message, self.bootstrap, doing, topic=topic)

    # --- connections

    @contextmanager
    def wire(self, address: Address) -> Iterator[Wire]:
        """A connection for the block alone; it is kept for the next unless the block raises."""
        wire = self.borrow(address)
        try:
            yield wire
        except BaseException:
            wire.close()
            raise
        self.give_back(address, wire)

    def borrow(self, address: Address) -> Wire:
        with self._lock:
            self._disown_if_forked()
            kept = self._idle.get(address, [])
            wire = kept.pop() if kept else None
        if wire is not None and not wire.is_worn:
            return wire
        if wire is not None:
            wire.close()
        return Wire(address, min(self.timeout, LONGEST_ANSWER_SECONDS), self.security)

    def give_back(self, address: Address, wire: Wire) -> None:
        """A connection on which no answer is missing."""
        with self._lock:
            kept = self._idle.setdefault(address, [])
            if len(kept) < KEPT_CONNECTIONS:
                kept.append(wire)
                return
        wire.close()

    # --- inside

    def _disown_if_forked(self) -> None:
        """The parent's connections are the parent's; closing our copies does not end them."""
        if self._owner != os.getpid():
            self._owner = os.getpid()
            kept, self._idle = self._idle, {}
            for wires in kept.values():
                for wire in wires:
                    wire.close()

    def _described(self, names: list[str]) -> dict[str, Topic]:
        doing = f"describing {', '.join(names)}"
        found = self._learn(names, doing)
        for name, code in found.missing.items():
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise Again(UnknownTopic(name), UNKNOWN_SECONDS)
            self.check(code, None, doing, topic=name)
        return found.topics

    def _learn(self, names: Iterable[str] | None, doing: str) -> Metadata:
        found = read_metadata(self._ask_any(Api.METADATA, metadata_request(names), doing))
        with self._lock:
            self._nodes = found.nodes
            for name in found.missing:
                self._topics.pop(name, None)
            self._topics |= found.topics
        return found

    def _ask_any(self, api_key: int, body: Message, doing: str) -> Message:
        """Of whichever broker answers; those that are known first, in any order."""
        with self._lock:
            known = [node.address for node in self._nodes]
        random.shuffle(known)
        last: Unreachable | TimedOut | None = None
        for address in dict.fromkeys([*known, *self._addresses]):
            try:
                with self.wire(address) as wire:
                    return wire.ask(api_key, body, doing)
            except (Unreachable, TimedOut) as error:
                last = error
        assert last is not None, "a cluster has at least one address"
        raise last


def _again(bootstrap: str, security: Security, timeout: float) -> Cluster:
    return Cluster(bootstrap, security=security, timeout=timeout)


def _configs_of(kind: int, name: str) -> Message:
    return {"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]}


def _values_in(told: Message) -> Configs:
    return {config["name"]: config["value"] for config in told["configs"]}
