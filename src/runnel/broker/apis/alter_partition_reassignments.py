"""AlterPartitionReassignments (45), versions 0 to 1: there is one broker, so a partition can stay where it is.

- A reassignment to this broker alone is done already, and answered without an error.
- To other brokers it is INVALID_REPLICA_ASSIGNMENT. Nothing is ever under way, so a cancellation, which names no
  replicas, is NO_REASSIGNMENT_IN_PROGRESS. A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode


def handle(node: Node, request: Request) -> Body:
    responses = [
        {
            "name": topic["name"],
            "partitions": [_result(node, topic["name"], partition) for partition in topic["partitions"]],
        }
        for topic in request.body["topics"]
    ]
    return {
        "throttle_time": 0,
        "allow_replication_factor_change": request.body["allow_replication_factor_change"],
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "responses": responses,
    }


def _result(node: Node, name: str, asked: dict[str, Any]) -> dict[str, Any]:
    number, replicas = asked["partition_index"], asked["replicas"]
    topic = node.topics.find(name)
    code, message = ErrorCode.NONE, None
    if topic is None or not 0 <= number < topic.count:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{number}"
    elif replicas is None:
        code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    elif list(replicas) != [node.node_id]:
        code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        message = f"the replicas {list(replicas)} are asked for, and the only broker is {node.node_id}"
    return {"partition_index": number, "error_code": code, "error_message": message}
