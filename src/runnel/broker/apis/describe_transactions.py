"""DescribeTransactions (65), version 0: where transactional ids stand.

Errors for each id: INVALID_REQUEST (it is empty), TRANSACTIONAL_ID_NOT_FOUND, COORDINATOR_NOT_AVAILABLE (the disk is
ill).
"""

from __future__ import annotations

from typing import Any

from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.transactions import Transaction
from runnel.errors import Transient
from runnel.protocol.error_codes import ErrorCode


def handle(node: Node, request: Request) -> Body:
    states = [_state_of(node, name) for name in request.body["transactional_ids"]]
    return {"throttle_time": 0, "transaction_states": states}


def _state_of(node: Node, name: str) -> dict[str, Any]:
    try:
        return _described(name, node.transactions.get(name))
    except Transient:
        return _state(name, ErrorCode.COORDINATOR_NOT_AVAILABLE, "", 0, 0, (0, 0), {})


def _described(name: str, known: Transaction | None) -> dict[str, Any]:
    if known is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if name else ErrorCode.INVALID_REQUEST
        return _state(name, code, "", 0, 0, (0, 0), {})  # as Kafka fills it
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(known.partitions):
        topics.setdefault(topic, []).append(number)
    return _state(name, ErrorCode.NONE, known.status.kafka_name, known.timeout, known.started, known.producer, topics)


def _state(
    name: str,
    code: ErrorCode,
    status: str,
    timeout: int,
    started: int,
    producer: tuple[int, int],
    topics: dict[str, list[int]],
) -> dict[str, Any]:
    return {
        "error_code": code,
        "transactional_id": name,
        "transaction_state": status,
        "transaction_timeout": timeout,
        "transaction_start_time": started,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "topics": [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()],
    }
