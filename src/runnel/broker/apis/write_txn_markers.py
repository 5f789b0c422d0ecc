"""WriteTxnMarkers (27), versions 1 and 2: end a producer's transaction in single partitions.

Coordinators of a Kafka cluster send it to other brokers. Here it is for a transaction that hangs: the coordinator does
not know it, and it holds the readers of a partition back. `kafka-transactions abort` and `runnel transactions abort`
send it for a partition, with the producer's epoch as DescribeProducers tells it.

There is one coordinator, so an epoch of a newer one than this is TRANSACTION_COORDINATOR_FENCED, too: the partition
would believe it, and take no marker from this one any more.

Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.mistakes import code_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode


async def handle(node: Node, request: Request) -> Body:
    return {"markers": [await _marker(node, asked) for asked in request.body["markers"]]}


async def _marker(node: Node, asked: dict[str, Any]) -> dict[str, Any]:
    topics = [
        {
            "name": topic["name"],
            "partitions": [
                {"partition_index": number, "error_code": await _written(node, asked, topic["name"], number)}
                for number in topic["partition_indexes"]
            ],
        }
        for topic in asked["topics"]
    ]
    return {"producer_id": asked["producer_id"], "topics": topics}


async def _written(node: Node, asked: dict[str, Any], name: str, number: int) -> ErrorCode:
    topic = node.topics.find(name)
    if topic is None or topic.is_internal or not 0 <= number < topic.count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if asked["coordinator_epoch"] > node.transactions.coordinator_epoch():
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    try:
        append = topic.partition(number).submit_marker(
            asked["producer_id"],
            asked["producer_epoch"],
            committed=asked["transaction_result"],
            coordinator_epoch=asked["coordinator_epoch"],
        )
        await node.appended(append)
    except RunnelError as error:
        return code_of(error)
    return ErrorCode.NONE
