"""DescribeQuorum (55), versions 0 to 2: who votes on the metadata. There is one voter: this broker, which leads.

- The partition to ask for is Kafka's, `__cluster_metadata-0`; the offsets and the epoch in the answer are those of the
  log in which this broker keeps its own metadata. Another partition is UNKNOWN_TOPIC_OR_PARTITION.
- The voter is always caught up, and has no directory id. Version 2 tells its address: that of the listener the client
  came in by, since there is none of its own for controllers.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.cluster import METADATA_TOPIC
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode

ASKED_FOR = ("__cluster_metadata", 0)


def handle(node: Node, request: Request) -> Body:
    topics = [
        {
            "topic_name": topic["topic_name"],
            "partitions": [
                _partition(node, topic["topic_name"], partition["partition_index"]) for partition in topic["partitions"]
            ],
        }
        for topic in request.body["topics"]
    ]
    listener = request.peer.listener
    host, port = node.endpoint(listener)
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "topics": topics,
        "nodes": [{"node_id": node.node_id, "listeners": [{"name": listener, "host": host, "port": port}]}],
    }


def _partition(node: Node, topic: str, number: int) -> dict[str, Any]:
    if (topic, number) != ASKED_FOR:
        return {
            "partition_index": number,
            "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "error_message": f"expected {ASKED_FOR[0]}-{ASKED_FOR[1]}, which is all that is voted on",
            "leader_id": -1,
            "leader_epoch": -1,
            "high_watermark": -1,
            "current_voters": (),
            "observers": (),
        }
    metadata = node.log.partition(METADATA_TOPIC)
    now = node.clock.now()
    voter = {
        "replica_id": node.node_id,
        "replica_directory_id": None,
        "log_end_offset": metadata.end_offset,
        "last_fetch_timestamp": now,
        "last_caught_up_timestamp": now,
    }
    return {
        "partition_index": number,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "leader_id": node.node_id,
        "leader_epoch": metadata.leader_epoch,
        "high_watermark": metadata.end_offset,
        "current_voters": [voter],
        "observers": (),
    }
