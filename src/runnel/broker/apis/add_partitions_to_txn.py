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
from collections.abc import Callable, Sequence
from typing import Any

from runnel.broker.mistakes import Refusal
from runnel.broker.node import Node
from runnel.broker.request import Answer, Body, Later, Request
from runnel.broker.topics import INTERNAL
from runnel.broker.transactions import ProducerEpoch, TopicPartition
from runnel.broker.transactions.mistakes import refuse
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode

MANY_SINCE = 4
FENCED_SINCE = 2
FIRST_GENERATION = 1

NONE = ErrorCode.NONE

Results = Sequence[ErrorCode]  # of the partitions, in the order in which they were asked for


def handle(node: Node, request: Request) -> Answer:
    return _many(node, request) if request.version >= MANY_SINCE else _one(node, request)


def _one(node: Node, request: Request) -> Answer:
    body = request.body
    topics = body["v3_and_below_topics"]
    answer = Later()

    def tell(results: Results) -> None:
        answer.give({"throttle_time": 0, "results_by_topic_v3_and_below": _by_topic(topics, results)})

    producer = ProducerEpoch(body["v3_and_below_producer_id"], body["v3_and_below_producer_epoch"])
    _add(node, request, body["v3_and_below_transactional_id"], producer, topics, tell)
    return answer


async def _many(node: Node, request: Request) -> Body:
    results = [
        {
            "transactional_id": asked["transactional_id"],
            "topic_results": _by_topic(asked["topics"], await _added(node, request, asked)),
        }
        for asked in request.body["transactions"]
    ]
    return {"throttle_time": 0, "error_code": ErrorCode.NONE, "results_by_transaction": results}


async def _added(node: Node, request: Request, asked: dict[str, Any]) -> Results:
    name, producer = asked["transactional_id"], ProducerEpoch(asked["producer_id"], asked["producer_epoch"])
    if name and asked["verify_only"]:
        return [await _verified(node, request, name, producer, place) for place in _places(asked["topics"])]
    results: asyncio.Future[Results] = node.loop.create_future()
    _add(node, request, name, producer, asked["topics"], results.set_result)
    return await results


def _places(topics: list[dict[str, Any]]) -> list[TopicPartition]:
    return [TopicPartition(topic["name"], number) for topic in topics for number in topic["partitions"]]


def _add(
    node: Node,
    request: Request,
    name: str,
    producer: ProducerEpoch,
    topics: list[dict[str, Any]],
    tell: Callable[[Results], object],
) -> None:
    places = _places(topics)
    if not name:
        tell([ErrorCode.INVALID_REQUEST] * len(places))
        return
    mistakes = [mistake for topic in topics for mistake in _mistakes(node, topic["name"], topic["partitions"])]
    if any(mistakes):
        for (topic, number), mistake in zip(places, mistakes, strict=True):
            if mistake:
                node.refused(request, mistake, f"transaction {name!r} cannot have {topic}-{number}")
        tell([mistake or ErrorCode.OPERATION_NOT_ATTEMPTED for mistake in mistakes])
        return

    def answer(refused: BaseException | None) -> None:
        knows_fenced = request.version >= FENCED_SINCE
        code = NONE if refused is None else refuse(node, request, refused, knows_fenced=knows_fenced)
        tell([code] * len(places))

    node.transactions.add_then(
        name, producer, places, FIRST_GENERATION, lambda refused: node.handover.call(answer, refused)
    )


async def _verified(
    node: Node, request: Request, name: str, producer: ProducerEpoch, place: TopicPartition
) -> ErrorCode:
    try:
        await asyncio.wrap_future(node.transactions.verify(name, producer, place), loop=node.loop)
    except (Refusal, RunnelError) as error:
        return refuse(node, request, error)
    return ErrorCode.NONE


def _mistakes(node: Node, name: str, numbers: list[int]) -> Results:
    if name in INTERNAL:  # its records are the broker's own, and so are markers in it
        return [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * len(numbers)
    topic = node.topics.find(name)
    count = 0 if topic is None else topic.count
    return [NONE if 0 <= number < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for number in numbers]


def _by_topic(topics: list[dict[str, Any]], results: Results) -> list[dict[str, Any]]:
    codes = iter(results)
    return [
        {
            "name": topic["name"],
            "results_by_partition": [
                {"partition_index": number, "partition_error_code": next(codes)} for number in topic["partitions"]
            ],
        }
        for topic in topics
    ]
