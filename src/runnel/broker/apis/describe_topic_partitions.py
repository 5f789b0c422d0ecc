"""DescribeTopicPartitions (75), version 0: topics and their partitions, page by page.

- Topics come in the order of their names; no list means all. A cursor names the topic and the partition to go on with.
- A page has at most `response_partition_limit` partitions, and `max.request.partition.size.limit` at that.
- Topics are not made by asking for them. A name that no topic can have is INVALID_TOPIC, and a cursor before the first
  partition is INVALID_REQUEST.
"""

from __future__ import annotations

from typing import Any

from runnel.broker import operations
from runnel.broker.apis.metadata import described_topic, missing_topic
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.topic_names import mistake_in_name
from runnel.protocol.error_codes import ErrorCode


def handle(node: Node, request: Request) -> Body:
    body = request.body
    names = sorted({asked["name"] for asked in body["topics"]} or {topic.name for topic in node.topics.all()})
    cursor = body["cursor"] or {"topic_name": "", "partition_index": 0}
    if cursor["partition_index"] < 0:
        return _answer([missing_topic(name, ErrorCode.INVALID_REQUEST) for name in names], None)
    left = max(1, min(body["response_partition_limit"], node.settings.max_request_partition_size_limit))
    topics: list[dict[str, Any]] = []
    for name in names:
        if name < cursor["topic_name"]:
            continue
        first = max(0, cursor["partition_index"]) if name == cursor["topic_name"] else 0
        if left == 0:
            return _answer(topics, {"topic_name": name, "partition_index": 0})
        topic = node.topics.find(name)
        if topic is None:
            illegal = mistake_in_name(name, node.topics) is not None
            topics.append(
                missing_topic(name, ErrorCode.INVALID_TOPIC if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            )
            continue
        shown = range(first, min(topic.count, first + left))
        topics.append(described_topic(node, topic, shown, operations.TOPIC))
        left -= len(shown)
        if shown.stop < topic.count:
            return _answer(topics, {"topic_name": name, "partition_index": shown.stop})
    return _answer(topics, None)


def _answer(topics: list[dict[str, Any]], cursor: dict[str, Any] | None) -> dict[str, Any]:
    return {"throttle_time": 0, "topics": topics, "next_cursor": cursor}
