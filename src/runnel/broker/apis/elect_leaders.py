"""ElectLeaders (43), versions 0 to 2: there is one replica, and it leads. Every election is ELECTION_NOT_NEEDED.

- Of all partitions, with no list of topics, none needs one: no partition is listed.
- A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION, an unknown type of election INVALID_REQUEST.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode

PREFERRED, UNCLEAN = 0, 1


def handle(node: Node, request: Request) -> Body:
    if request.body["election_type"] not in (PREFERRED, UNCLEAN):
        return _answer(ErrorCode.INVALID_REQUEST, [])
    results = [
        {
            "topic": asked["topic"],
            "partition_result": [_result(node, asked["topic"], number) for number in asked["partitions"]],
        }
        for asked in request.body["topic_partitions"] or ()
    ]
    return _answer(ErrorCode.NONE, results)


def _result(node: Node, name: str, number: int) -> dict[str, Any]:
    topic = node.topics.find(name)
    if topic is None or not 0 <= number < topic.count:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{number}"
    else:
        code, message = ErrorCode.ELECTION_NOT_NEEDED, "the only replica leads already"
    return {"partition_id": number, "error_code": code, "error_message": message}


def _answer(code: ErrorCode, results: list[dict[str, Any]]) -> Body:
    return {"throttle_time": 0, "error_code": code, "replica_election_results": results}
