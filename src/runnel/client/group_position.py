"""The position of a group that has no members: where somebody is who reads without the group's help.

    position = GroupPosition(cluster, "runnel.shop.clicks_per_minute")
    position.commit({("clicks", 0): 120})

It is for others to look at: `runnel groups describe`, and Kafka's own tools, tell the lag by it. A group that has
members is theirs: Kafka refuses the commit then.
"""

from __future__ import annotations

from collections.abc import Mapping

from runnel.client.cluster import GROUP, Cluster
from runnel.client.errors import UnknownTopic
from runnel.client.metadata import Node, Place
from runnel.errors import Transient
from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api

NO_MEMBER = ""
NO_GENERATION = NO_EPOCH = -1
UP_TO_THE_BROKER = -1  # how long it is kept
BY_NAME = 9  # the newest version that names topics; later ones give their ids


class GroupPosition:
    def __init__(self, cluster: Cluster, group: str) -> None:
        self.group = group
        self._cluster = cluster
        self._coordinator: Node | None = None

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """The next offset of each partition. All of them or, if one is refused, the others. UnknownTopic if one of them
        is not there, or not known to the coordinator yet.
        """
        if offsets:
            self._cluster.settled(lambda: self._commit(offsets))

    def _commit(self, offsets: Mapping[Place, int]) -> None:
        doing = f'committing the position of group "{self.group}"'
        try:
            if self._coordinator is None:
                self._coordinator = self._cluster.coordinator(self.group, doing, kind=GROUP)
            answer = self._cluster.ask(
                self._coordinator, Api.OFFSET_COMMIT, self._request(offsets), doing, most=BY_NAME
            )
        except Transient:
            self._coordinator = None
            raise
        for topic in answer["topics"]:
            for told in topic["partitions"]:
                if told["error_code"] != ErrorCode.NONE:
                    self._coordinator = None  # it may have moved
                if told["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise UnknownTopic(topic["name"])
                self._cluster.check(told["error_code"], None, doing, topic=topic["name"])

    def _request(self, offsets: Mapping[Place, int]) -> Message:
        topics: dict[str, list[Message]] = {}
        for (topic, partition), offset in sorted(offsets.items()):
            told = {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_leader_epoch": NO_EPOCH,
                "committed_metadata": "",
            }
            topics.setdefault(topic, []).append(told)
        return {
            "group_id": self.group,
            "generation_id_or_member_epoch": NO_GENERATION,
            "member_id": NO_MEMBER,
            "group_instance_id": None,
            "retention_time": UP_TO_THE_BROKER,
            "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        }
