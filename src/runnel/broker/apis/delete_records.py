"""DeleteRecords (21), versions 0 to 2: delete the records before an offset.

-1 deletes all that is there, with the markers that are on their way: the answer waits for them. An offset
after the end, or below -1, is OFFSET_OUT_OF_RANGE. A topic whose cleanup policy does not delete is POLICY_VIOLATION,
and the broker's own topics are INVALID_TOPIC. It is durable when it is answered.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.mistakes import code_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.topics import Topic
from runnel.broker.transactions import TopicPartition
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode

ALL = -1


async def handle(node: Node, request: Request) -> Body:
    if node.transactions.are_ending:
        await node.transactions.readable(_whole(request))
    topics = []
    for asked in request.body["topics"]:
        topic = node.topics.find(asked["name"])
        partitions = [await _delete(node, topic, partition) for partition in asked["partitions"]]
        topics.append({"name": asked["name"], "partitions": partitions})
    return {"throttle_time": 0, "topics": topics}


def _whole(request: Request) -> set[TopicPartition]:
    """Those that are to be empty."""
    return {
        TopicPartition(topic["name"], asked["partition_index"])
        for topic in request.body["topics"]
        for asked in topic["partitions"]
        if asked["offset"] == ALL
    }


async def _delete(node: Node, topic: Topic | None, asked: dict[str, Any]) -> dict[str, Any]:
    result = {"partition_index": asked["partition_index"], "low_watermark": -1, "error_code": ErrorCode.NONE}
    try:
        if topic is None:
            raise IndexError
        partition = topic.partition(asked["partition_index"])
        if topic.is_internal:
            return result | {"error_code": ErrorCode.INVALID_TOPIC}
        if not topic.settings.deletes:
            return result | {"error_code": ErrorCode.POLICY_VIOLATION}
        return result | {"low_watermark": await node.in_thread(partition.delete_before, asked["offset"])}
    except IndexError:
        return result | {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    except RunnelError as error:
        return result | {"error_code": code_of(error)}
    except OSError:
        return result | {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}
