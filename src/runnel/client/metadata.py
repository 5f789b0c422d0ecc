"""What a cluster tells of itself: its nodes, its topics, and who leads their partitions. Plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from runnel.protocol.decode import Message
from runnel.protocol.error_codes import ErrorCode

NOBODY = -1

Place = tuple[str, int]  # a topic's name and a partition's number


class Node(NamedTuple):
    id: int
    host: str
    port: int

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port


class Leader(NamedTuple):
    node: Node
    epoch: int


class Topic(NamedTuple):
    """`leaders` has every partition, by number; one that nobody leads at the moment has None."""

    name: str
    id: UUID | None
    leaders: dict[int, Leader | None]
    internal: bool

    @property
    def places(self) -> list[Place]:
        return [(self.name, number) for number in self.leaders]


class Metadata(NamedTuple):
    nodes: list[Node]
    topics: dict[str, Topic]
    missing: dict[str, int]  # error codes of topics that are not told


def metadata_request(names: Iterable[str] | None) -> Message:
    """About some topics, or about all; asking creates nothing."""
    topics = None if names is None else [{"topic_id": None, "name": name} for name in names]
    return {
        "topics": topics,
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }


def read_metadata(answer: Message) -> Metadata:
    nodes = {each["node_id"]: Node(each["node_id"], each["host"], each["port"]) for each in answer["brokers"]}
    topics = {told["name"]: _topic(told, nodes) for told in answer["topics"] if told["error_code"] == ErrorCode.NONE}
    missing = {told["name"]: told["error_code"] for told in answer["topics"] if told["error_code"] != ErrorCode.NONE}
    return Metadata(list(nodes.values()), topics, missing)


def _topic(told: dict[str, Any], nodes: dict[int, Node]) -> Topic:
    leaders = {
        each["partition_index"]: _leader(each, nodes)
        for each in sorted(told["partitions"], key=lambda each: each["partition_index"])
    }
    return Topic(told["name"], told["topic_id"], leaders, told["is_internal"])


def _leader(told: dict[str, Any], nodes: dict[int, Node]) -> Leader | None:
    node = nodes.get(told["leader_id"])
    return None if node is None else Leader(node, told["leader_epoch"])
