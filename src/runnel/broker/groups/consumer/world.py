"""What a decision on a consumer group may look at beside the group: the topics, the settings, the time, chance.

The caller hands it in; a decision keeps nothing of it but what is in its entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from runnel.broker.configs.settings import BrokerSettings

EMPTY_HASH = 0


class KnownTopic(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def id(self) -> UUID: ...

    @property
    def count(self) -> int:
        """How many partitions it has."""
        ...


class KnownTopics(Protocol):
    @property
    def changes(self) -> int:
        """Another number whenever a topic came, went or grew."""
        ...

    def find(self, name: str, /) -> KnownTopic | None: ...

    def find_id(self, topic_id: UUID | None, /) -> KnownTopic | None: ...

    def all(self) -> Iterable[KnownTopic]: ...


class NoTopics:
    """For groups that only keep offsets."""

    changes = 0

    def find(self, _name: str, /) -> None:
        return None

    def find_id(self, _topic_id: UUID | None, /) -> None:
        return None

    def all(self) -> tuple[KnownTopic, ...]:
        return ()


class GroupIntervals(NamedTuple):
    """What holds for one group: its own configuration, or else the broker's."""

    session_timeout: int
    heartbeat_interval: int
    assignment_interval: int


class World(NamedTuple):
    now: int
    settings: BrokerSettings
    intervals: GroupIntervals
    topics: KnownTopics
    new_id: Callable[[], str]  # for a member that has none


def intervals_of(settings: BrokerSettings, own: Mapping[str, str]) -> GroupIntervals:
    """A group's own configuration is held within the broker's bounds, which may have been narrowed since it was set."""

    def within(name: str, inherited: int, least: int, most: int) -> int:
        return min(max(int(own[name]), least), most) if name in own else inherited

    return GroupIntervals(
        within(
            "consumer.session.timeout.ms",
            settings.group_consumer_session_timeout_ms,
            settings.group_consumer_min_session_timeout_ms,
            settings.group_consumer_max_session_timeout_ms,
        ),
        within(
            "consumer.heartbeat.interval.ms",
            settings.group_consumer_heartbeat_interval_ms,
            settings.group_consumer_min_heartbeat_interval_ms,
            settings.group_consumer_max_heartbeat_interval_ms,
        ),
        within(
            "consumer.assignment.interval.ms",
            settings.group_consumer_assignment_interval_ms,
            settings.group_consumer_min_assignment_interval_ms,
            settings.group_consumer_max_assignment_interval_ms,
        ),
    )


def hash_of(topics: KnownTopics, names: Iterable[str]) -> int:
    """Another number when a topic of these comes, goes, grows or is made anew; it survives a restart."""
    digest = hashlib.blake2b(digest_size=8)
    known = False
    for name in sorted(names):
        topic = topics.find(name)
        if topic is not None:
            known = True
            digest.update(b"%d:%s" % (len(name), name.encode()))
            digest.update(topic.id.bytes + topic.count.to_bytes(4))
    return int.from_bytes(digest.digest(), signed=True) if known else EMPTY_HASH
