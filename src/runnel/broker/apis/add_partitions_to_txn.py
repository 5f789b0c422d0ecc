"""AddPartitionsToTxn (24), versions 0 to 5: these partitions will have records of the transaction.

- Producers of the first generation ask so before they write. Those of the second need not: a partition joins with its
  first batch.
- Versions 0 to 3 are about one transaction, 4 and 5 about many, and may ask only whether the partitions are part of it:
  brokers of a Kafka cluster do. A partition that is not is TRANSACTION_ABORTABLE.
- If one partition does not exist, it is UNKNOWN_TOPIC_OR_PARTITION, one of an internal topic is
  TOPIC_AUTHORIZATION_FAILED, the others are OPERATION_NOT_ATTEMPTED, and nothing is added.

Errors for all partitions: INVALID_REQUEST (no transactional id), INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED
(INVALID_PRODUCER_EPOCH before version 2), CONCURRENT_TRANSACTIONS, COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from runnel.broker.mistakes import Refusal
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.topics import INTERNAL
from runnel.broker.transactions import ProducerEpoch, TopicPartition
from runnel.broker.transactions.mistakes import told_as
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode

MANY_SINCE = 4
FENCED_SINCE = 2
FIRST_GENERATION = 1

Results = Mapping[TopicPartition, ErrorCode]


async def handle(node: Node, request: Request) -> Body:
    body = request.body
    if request.version >= MANY_SINCE:
        transactions = [
            {
                "transactional_id": asked["transactional_id"],
                "topic_results": _by_topic(asked["topics"], await _added(node, request, asked)),
            }
            for asked in body["transactions"]
        ]
        return {"throttle_time": 0, "error_code": ErrorCode.NONE, "results_by_transaction": transactions}
    asked = {
        "transactional_id": body["v3_and_below_transactional_id"],
        "producer_id": body["v3_and_below_producer_id"],
        "producer_epoch": body["v3_and_below_producer_epoch"],
        "topics": body["v3_and_below_topics"],
        "verify_only": False,
    }
    results = await _added(node, request, asked)
    return {"throttle_time": 0, "results_by_topic_v3_and_below": _by_topic(asked["topics"], results)}


async def _added(node: Node, request: Request, asked: dict[str, Any]) -> Results:
    places = [TopicPartition(topic["name"], number) for topic in asked["topics"] for number in topic["partitions"]]
    name, producer = asked["transactional_id"], ProducerEpoch(asked["producer_id"], asked["producer_epoch"])
    if not name:
        return dict.fromkeys(places, ErrorCode.INVALID_REQUEST)
    if asked["verify_only"]:
        return {place: await _verified(node, name, producer, place) for place in places}
    mistakes = {place: _mistake(node, place) for place in places}
    if any(mistakes.values()):
        return {place: mistake or ErrorCode.OPERATION_NOT_ATTEMPTED for place, mistake in mistakes.items()}
    code = ErrorCode.NONE
    try:
        added = node.transactions.add(name, producer, places, FIRST_GENERATION)
        await asyncio.wrap_future(added, loop=node.loop)
    except (Refusal, RunnelError) as error:
        code = told_as(error, knows_fenced=request.version >= FENCED_SINCE)
    return dict.fromkeys(places, code)


async def _verified(node: Node, name: str, producer: ProducerEpoch, place: TopicPartition) -> ErrorCode:
    try:
        await asyncio.wrap_future(node.transactions.verify(name, producer, place), loop=node.loop)
    except (Refusal, RunnelError) as error:
        return told_as(error)
    return ErrorCode.NONE


def _mistake(node: Node, place: TopicPartition) -> ErrorCode:
    if place.topic in INTERNAL:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED  # its records are the broker's own, and so are markers in it
    topic = node.topics.find(place.topic)
    is_there = topic is not None and 0 <= place.partition < topic.count
    return ErrorCode.NONE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _by_topic(topics: list[dict[str, Any]], results: Results) -> list[dict[str, Any]]:
    return [
        {
            "name": topic["name"],
            "results_by_partition": [
                {"partition_index": number, "partition_error_code": results[TopicPartition(topic["name"], number)]}
                for number in topic["partitions"]
            ],
        }
        for topic in topics
    ]
