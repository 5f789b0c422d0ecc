"""DescribeLogDirs (35), versions 1 to 5: the data directory, and the size of each partition in it.

- There is one data directory. No list of topics asks for all; topics and partitions that do not exist are left out, and
  so are partitions that cannot be read now.
- The size of a partition is that of its batches. Nothing lags and nothing is being moved: offset lag 0, no future key.
- Version 4 tells the size of the disk and what is free for us, -1 where the disk does not tell;
  version 5 that the directory is not cordoned off.
"""

from __future__ import annotations

import contextlib
import shutil
from typing import Any

from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.topics import Topic
from runnel.errors import Closed, Transient, UnknownTopic
from runnel.protocol.error_codes import ErrorCode

UNKNOWN = -1  # bytes, in Kafka's words


async def handle(node: Node, request: Request) -> Body:
    wanted = _wanted(node, request.body["topics"])
    # In a thread: a partition that nobody has used yet is opened for it.
    return await node.in_thread(_described, node, wanted)


def _wanted(node: Node, asked: list[dict[str, Any]] | None) -> list[tuple[Topic, list[int]]]:
    if asked is None:
        return [(topic, list(range(topic.count))) for topic in node.topics.all()]
    wanted = []
    for each in asked:
        topic = node.topics.find(each["topic"])
        if topic is not None:
            wanted.append((topic, sorted({number for number in each["partitions"] if 0 <= number < topic.count})))
    return wanted


def _described(node: Node, wanted: list[tuple[Topic, list[int]]]) -> Body:
    topics = [
        {"name": topic.name, "partitions": partitions}
        for topic, numbers in wanted
        if (partitions := _partitions(topic, numbers))
    ]
    free = node.log.free_space()
    directory = {
        "error_code": ErrorCode.NONE,
        "log_dir": node.log.path,
        "topics": topics,
        "total_bytes": _total(node.log.path),
        "usable_bytes": UNKNOWN if free is None else free,
        "is_cordoned": False,
    }
    return {"throttle_time": 0, "error_code": ErrorCode.NONE, "results": [directory]}


def _total(path: str) -> int:
    try:
        return shutil.disk_usage(path).total
    except OSError:
        return UNKNOWN


def _partitions(topic: Topic, numbers: list[int]) -> list[dict[str, Any]]:
    found = []
    for number in numbers:
        with contextlib.suppress(UnknownTopic, Closed, Transient, OSError):  # it was deleted, or cannot be read
            found.append(_partition(topic, number))
    return found


def _partition(topic: Topic, number: int) -> dict[str, Any]:
    partition = topic.partition(number)
    if partition.closed:
        raise Closed(f"partition {partition.id}")
    return {
        "partition_index": number,
        "partition_size": partition.size,
        "offset_lag": 0,
        "is_future_key": False,
    }
