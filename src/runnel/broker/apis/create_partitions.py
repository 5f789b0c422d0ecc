"""CreatePartitions (37), versions 0 to 3: let topics grow.

The count is the new total and must be larger than the present one, else INVALID_PARTITIONS. An assignment names the
replicas of the new partitions, one list for each, and can name this broker only. Internal topics do not grow. At most
10,000 partitions can be made by one request.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from runnel.broker.apis.create_topics import check_replicas
from runnel.broker.mistakes import Refusal, code_of, text_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.topics import MOST_PARTITIONS, refuse_smaller
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode


async def handle(node: Node, request: Request) -> Body:
    names = Counter(each["name"] for each in request.body["topics"])
    results = []
    left = MOST_PARTITIONS
    for asked in request.body["topics"]:
        code, message = ErrorCode.NONE, None
        try:
            if names[asked["name"]] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"topic {asked['name']!r} stands there more than once")
            left -= _checked(node, asked, left)
            if not request.body["validate_only"]:
                await node.topics.grow(asked["name"], asked["count"])
        except (Refusal, RunnelError) as error:
            code, message = code_of(error), text_of(error)
        results.append({"name": asked["name"], "error_code": code, "error_message": message})
    return {"throttle_time": 0, "results": results}


def _checked(node: Node, asked: dict[str, Any], left: int) -> int:
    """How many partitions are to be made; Refusal if that cannot be, or is more than are left to make."""
    name, count = asked["name"], asked["count"]
    topic = node.topics.find(name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    if topic.is_internal:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"topic {name!r} is the broker's own")
    refuse_smaller(name, topic.count, count)
    more: int = count - topic.count
    if more > left:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"at most {MOST_PARTITIONS:,} partitions can be made at once")
    if asked["assignments"] is not None:
        if len(asked["assignments"]) != more:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{len(asked['assignments'])} assignments for {more} new partitions",
            )
        check_replicas(node, [each["broker_ids"] for each in asked["assignments"]])
    return more
