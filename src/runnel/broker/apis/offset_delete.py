"""OffsetDelete (47), version 0: a group's offsets of some partitions go. Answered when durable.

Errors for all: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members of another kind than consumers: nobody can tell what they
need), COORDINATOR_NOT_AVAILABLE (it could not be stored). For each partition: GROUP_SUBSCRIBED_TO_TOPIC (a member of
the group is), UNKNOWN_TOPIC_OR_PARTITION. Where nothing is committed there is nothing to do, and no error.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.groups.answers import error_of, told
from runnel.broker.groups.offsets import TopicPartition
from runnel.broker.node import Node
from runnel.broker.request import Answer, Request
from runnel.protocol.error_codes import ErrorCode


def handle(node: Node, request: Request) -> Answer:
    name = request.body["group_id"] or ""
    error = node.groups.check_deletion(name)
    if error:
        return _body(error)
    topics = [_topic(node, name, asked) for asked in request.body["topics"] or ()]
    places = [
        TopicPartition(topic["name"], each["partition_index"])
        for topic in topics
        for each in topic["partitions"]
        if not each["error_code"]
    ]
    return told(
        node.groups.delete_offsets(name, places),
        lambda _: _body(ErrorCode.NONE, topics),
        lambda failed: _body(error_of(failed)),
    )


def _topic(node: Node, group: str, asked: dict[str, Any]) -> dict[str, Any]:
    partitions = [
        {"partition_index": number, "error_code": _error(node, group, asked["name"], number)}
        for number in (each["partition_index"] for each in asked["partitions"] or ())
    ]
    return {"name": asked["name"], "partitions": partitions}


def _error(node: Node, group: str, name: str, number: int) -> ErrorCode:
    topic = node.topics.find(name)
    if topic is None or not 0 <= number < topic.count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if node.groups.is_subscribed_to(group, name) else ErrorCode.NONE


def _body(error: ErrorCode, topics: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"throttle_time": 0, "error_code": error, "topics": topics or []}
