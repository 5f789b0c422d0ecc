"""ListOffsets (2), versions 1 to 11: where a partition begins and ends, and which offset belongs to a time.

- A time gets the first record that is not older, looked for inside its batch; -1 without an error if there is none.
- -1 is the end, -2 the start, -3 the first of the newest records (version 7), -4 the start of what is local, which is
  the start (8), -5 the end of what is kept elsewhere, which is none: -1 (9), -6 the same (11).
- A partition that is asked for twice is INVALID_REQUEST.
- What some producer was told is committed counts: if its markers are on their way, the answer waits for them first.
- With isolation level 1 (read_committed) the end is where the first open transaction begins, and what is from there on
  is not found by its time. If a marker of something committed is late (a disk is ill), the end is not known:
  OFFSET_NOT_AVAILABLE from version 5 on, and before it the end without that.
- A stale or a future leader epoch is FENCED or UNKNOWN.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from runnel.broker.mistakes import code_of, epoch_mistake
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.transactions import TopicPartition
from runnel.errors import RunnelError
from runnel.log import Partition
from runnel.protocol.error_codes import ErrorCode

LATEST = -1
EARLIEST = -2
NEWEST = -3
EARLIEST_LOCAL = -4
ELSEWHERE = (-5, -6)
READ_COMMITTED = 1
NOT_AVAILABLE_SINCE = 5
SINCE = {NEWEST: 7, EARLIEST_LOCAL: 8, -5: 9, -6: 11}  # the version that knows the number


async def handle(node: Node, request: Request) -> Body:
    places = (
        (topic["name"], each["partition_index"]) for topic in request.body["topics"] for each in topic["partitions"]
    )
    times = Counter(places)
    if node.transactions.are_ending:
        await node.transactions.readable({TopicPartition(*place) for place in times})
    topics = []
    for asked in request.body["topics"]:
        name = asked["name"]
        partitions = [
            await _partition(node, request, name, each, twice=times[name, each["partition_index"]] > 1)
            for each in asked["partitions"]
        ]
        topics.append({"name": name, "partitions": partitions})
    return {"throttle_time": 0, "topics": topics}


async def _partition(
    node: Node, request: Request, topic_name: str, asked: dict[str, Any], *, twice: bool
) -> dict[str, Any]:
    number, timestamp = asked["partition_index"], asked["timestamp"]
    result = {"partition_index": number, "error_code": ErrorCode.NONE, "timestamp": -1, "offset": -1}
    result["leader_epoch"] = -1
    if twice:
        return result | {"error_code": ErrorCode.INVALID_REQUEST}
    topic = node.topics.find(topic_name)
    try:
        if topic is None:
            raise IndexError
        partition = topic.partition(number)
        mistake = epoch_mistake(partition, asked["current_leader_epoch"])
        if mistake:
            return result | {"error_code": mistake}
        if timestamp < 0:
            if timestamp < -6 or request.version < SINCE.get(timestamp, 0):
                return result | {"error_code": ErrorCode.UNSUPPORTED_VERSION}
            if timestamp in ELSEWHERE:
                return result
        committed = request.body["isolation_level"] == READ_COMMITTED
        knows_late = committed and timestamp == LATEST and request.version >= NOT_AVAILABLE_SINCE
        if knows_late and node.transactions.is_late(TopicPartition(topic_name, number)):
            return result | {"error_code": ErrorCode.OFFSET_NOT_AVAILABLE}
        return result | await _place(node, partition, timestamp, committed=committed)
    except IndexError:
        return result | {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    except RunnelError as error:
        return result | {"error_code": code_of(error)}
    except OSError:
        return result | {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}


async def _place(node: Node, partition: Partition, timestamp: int, *, committed: bool) -> dict[str, Any]:
    end = partition.last_stable_offset if committed else partition.end_offset
    if timestamp == LATEST:
        return {"offset": end, "leader_epoch": partition.leader_epoch}
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return {"offset": partition.start_offset, "leader_epoch": partition.epoch_of(partition.start_offset)}
    if timestamp == NEWEST:
        record = await node.in_thread(partition.find_largest_time)
    else:
        record = await node.in_thread(partition.find_time, timestamp)
    if record is None or record.offset >= end:
        return {}
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "leader_epoch": partition.epoch_of(record.offset),
    }
