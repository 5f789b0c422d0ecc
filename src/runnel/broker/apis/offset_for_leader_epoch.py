"""OffsetForLeaderEpoch (23), versions 2 to 4: where a leader epoch ends, for clients that check their position.

The answer is the largest epoch that is not larger than the one asked for, and the offset after its last record; of an
epoch that is yet to come nothing is known, and both are -1. An epoch that left no records, or whose records are gone,
is answered with itself and the offset at which the next one begins, as in Kafka: -1 would tell a client that its
position is lost, and it would begin anew where its reset policy says.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.mistakes import code_of, epoch_mistake
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode


def handle(node: Node, request: Request) -> Body:
    topics = [
        {"topic": asked["topic"], "partitions": [_end(node, asked["topic"], each) for each in asked["partitions"]]}
        for asked in request.body["topics"]
    ]
    return {"throttle_time": 0, "topics": topics}


def _end(node: Node, topic_name: str, asked: dict[str, Any]) -> dict[str, Any]:
    result = {"partition": asked["partition"], "error_code": ErrorCode.NONE, "leader_epoch": -1, "end_offset": -1}
    topic = node.topics.find(topic_name)
    try:
        if topic is None:
            raise IndexError
        partition = topic.partition(asked["partition"])
    except IndexError:
        return result | {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    except RunnelError as error:
        return result | {"error_code": code_of(error)}
    mistake = epoch_mistake(partition, asked["current_leader_epoch"])
    if mistake:
        return result | {"error_code": mistake}
    if not 0 <= asked["leader_epoch"] <= partition.leader_epoch:
        return result
    if asked["leader_epoch"] == partition.leader_epoch:  # perhaps it has no record yet
        return result | {"leader_epoch": partition.leader_epoch, "end_offset": partition.end_offset}
    epoch, end = partition.epoch_end(asked["leader_epoch"])
    return result | {"leader_epoch": epoch, "end_offset": end}
