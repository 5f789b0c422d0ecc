"""DescribeProducers (61), version 0: the producers that a partition remembers, idempotent and transactional.

- A producer is listed until it was silent for `producer.id.expiration.ms`, and for as long as its transaction is open:
  then with the offset at which it began, which is -1 otherwise.
- A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.mistakes import code_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.errors import RunnelError
from runnel.log.producers import ProducerState
from runnel.protocol.error_codes import ErrorCode


async def handle(node: Node, request: Request) -> Body:
    # In a thread: a partition that nobody has used yet is opened for it.
    return await node.in_thread(_described, node, request.body["topics"])


def _described(node: Node, asked: list[dict[str, Any]]) -> Body:
    topics = [
        {
            "name": topic["name"],
            "partitions": [_partition(node, topic["name"], number) for number in topic["partition_indexes"]],
        }
        for topic in asked
    ]
    return {"throttle_time": 0, "topics": topics}


def _partition(node: Node, name: str, number: int) -> dict[str, Any]:
    code, message = ErrorCode.NONE, None
    producers: dict[int, ProducerState] = {}
    topic = node.topics.find(name)
    if topic is None or not 0 <= number < topic.count:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{number}"
    else:
        try:
            producers = topic.partition(number).producers()
        except RunnelError as error:
            code, message = code_of(error), str(error)
    return {
        "partition_index": number,
        "error_code": code,
        "error_message": message,
        "active_producers": [_producer(producer_id, state) for producer_id, state in producers.items()],
    }


def _producer(producer_id: int, state: ProducerState) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "producer_epoch": state.epoch,
        "last_sequence": state.batches[-1].last_sequence if state.batches else -1,
        "last_timestamp": state.last_timestamp,
        "coordinator_epoch": state.coordinator_epoch,
        "current_txn_start_offset": state.transaction_start,
    }
