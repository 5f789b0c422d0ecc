"""Consumer groups of any Kafka: list, describe, reset, delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions

from runnel.client import arguments
from runnel.client.admin import Admin, TopicAndPartition
from runnel.client.errors import GroupActive, UnknownGroup, told
from runnel.client.texts import is_name

# States without members, in which the offsets of a group may be changed.
QUIET = frozenset({"empty", "dead"})


class Listed(NamedTuple):
    name: str
    state: str
    kind: str


class Member(NamedTuple):
    id: str
    client: str
    host: str
    partitions: tuple[TopicAndPartition, ...]


class Group(NamedTuple):
    name: str
    state: str
    assignor: str
    members: tuple[Member, ...]


class Groups:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def list(self) -> list[Listed]:
        """All groups, by name."""
        found = self._admin.answer(self._admin.call("list_consumer_groups"), "listing the groups")
        if not found.valid and found.errors:
            raise told(found.errors[0], self._admin.connection.bootstrap, "listing the groups")
        return sorted(Listed(each.group_id, _word(each.state), _word(each.type)) for each in found.valid)

    def describe(self, name: str) -> Group:
        self._require(name)
        asked = self._admin.call("describe_consumer_groups", [name])
        group = self._admin.answer(asked[name], f'describing group "{name}"', group=name)
        members = tuple(
            Member(
                member.member_id,
                member.client_id,
                member.host,
                tuple((place.topic, place.partition) for place in member.assignment.topic_partitions),
            )
            for member in group.members
        )
        return Group(name, _word(group.state), group.partition_assignor or "", members)

    def committed(self, name: str) -> dict[TopicAndPartition, int]:
        """The offset of the first record that the group has not done yet, of each partition that it ever committed."""
        if not name or not is_name(name):
            raise UnknownGroup(name)
        asked = self._admin.call("list_consumer_group_offsets", [ConsumerGroupTopicPartitions(name)])
        found = self._admin.answer(asked[name], f'reading the offsets of group "{name}"', group=name)
        return {
            (place.topic, place.partition): place.offset for place in found.topic_partitions or () if place.offset >= 0
        }

    def require_quiet(self, name: str) -> None:
        """Raise unless the group is there and has no members."""
        group = self.describe(name)
        if group.state not in QUIET or group.members:
            raise GroupActive(name, len(group.members))

    def reset(self, name: str, offsets: Mapping[TopicAndPartition, int]) -> None:
        """Let the group go on from other offsets. It may have no members: they would overwrite them."""
        self.require_quiet(name)
        wanted = [arguments.position(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        asked = self._admin.call("alter_consumer_group_offsets", [ConsumerGroupTopicPartitions(name, wanted)])
        done = self._admin.answer(asked[name], f'resetting group "{name}"', group=name)
        for place in done.topic_partitions or ():
            if place.error is not None:
                bootstrap = self._admin.connection.bootstrap
                raise told(place.error, bootstrap, f'resetting group "{name}"', topic=place.topic, group=name)

    def delete(self, name: str) -> None:
        self.require_quiet(name)
        asked = self._admin.call("delete_consumer_groups", [name])
        self._admin.answer(asked[name], f'deleting group "{name}"', group=name)

    def _require(self, name: str) -> None:
        # Old brokers describe a group that is not there as a dead one.
        if name not in (listed.name for listed in self.list()):
            raise UnknownGroup(name)


def _word(value: object) -> str:
    return str(getattr(value, "name", value)).lower().replace("_", " ")


def topics_of(places: Iterable[TopicAndPartition]) -> list[str]:
    return sorted({topic for topic, _ in places})
