"""AlterReplicaLogDirs (34), versions 1 and 2: move partitions to another data directory. There is one.

A move to the directory where the partition is, is done already. Any other directory is LOG_DIR_NOT_FOUND.
"""

from __future__ import annotations

import os
from typing import Any

from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode


def handle(node: Node, request: Request) -> Body:
    results: dict[str, list[dict[str, Any]]] = {}
    for wanted in request.body["dirs"]:
        for asked in wanted["topics"]:
            answers = results.setdefault(asked["name"], [])
            for number in asked["partitions"]:
                code = _code(node, wanted["path"], asked["name"], number)
                answers.append({"partition_index": number, "error_code": code})
    return {
        "throttle_time": 0,
        "results": [{"topic_name": name, "partitions": answers} for name, answers in results.items()],
    }


def _code(node: Node, path: str, name: str, number: int) -> ErrorCode:
    if os.path.abspath(path) != node.log.path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = node.topics.find(name)
    if topic is None or not 0 <= number < topic.count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
