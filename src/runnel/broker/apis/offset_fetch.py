"""OffsetFetch (9), versions 1 to 10: how far a group has read.

- Versions 1 to 7 ask for one group, 8 to 10 for many; from version 10 topics are named by id.
- No topics (null) asks for all that is committed; by id, of the topics that exist.
- What was never committed, a group that does not exist, and what was committed for an earlier topic of the same name
  have the offset -1 and no error.
- Only what is durable is told. With `require_stable` (version 7) a partition for which an open transaction has an
  offset is UNSTABLE_OFFSET_COMMIT: the client asks again when it is known what counts.
- Offsets of which some producer was told that they are committed count: if they are on their way, the answer waits for
  them first. If they are late (a disk is ill), the group's answer is COORDINATOR_NOT_AVAILABLE, and no old offset.
- A member of a consumer group says its id and epoch (version 9), and only the right ones are answered. To a classic
  group they mean nothing.

Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID and STALE_MEMBER_EPOCH (version 9), UNKNOWN_TOPIC_ID (version 10),
COORDINATOR_NOT_AVAILABLE. Each partition has the error of its
group, too: version 1 has no other place for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from runnel.broker.groups.answers import error_of
from runnel.broker.groups.offsets import Committed, TopicPartition
from runnel.broker.groups.records import CommittedOffset
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.transactions import OFFSETS
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode

FIRST_WITH_MANY = 8
FIRST_WITH_MEMBERS = 9
FIRST_WITH_IDS = 10
NOTHING = CommittedOffset(-1, -1, "", -1)


class _Topic(NamedTuple):
    name: str | None  # None: there is no topic with the id
    id: UUID | None
    partitions: Sequence[int]


async def handle(node: Node, request: Request) -> Body:
    body = request.body
    if node.transactions.are_ending:
        await node.transactions.readable({OFFSETS})
    if request.version < FIRST_WITH_MANY:
        return {"throttle_time": 0, **await _group(node, request, body)}
    groups = await asyncio.gather(*(_group(node, request, asked) for asked in body["groups"] or ()))
    return {"throttle_time": 0, "groups": groups}


async def _group(node: Node, request: Request, asked: dict[str, Any]) -> dict[str, Any]:
    name, topics = asked["group_id"], _topics(node, request, asked["topics"])
    error = ErrorCode.INVALID_GROUP_ID if name is None else _check(node, request, asked)
    committed: Committed = {}
    unstable: set[TopicPartition] = set()
    if not error:
        try:
            error = await _late(node, name)
            if request.body["require_stable"]:  # first: what is committed meanwhile is among what is told
                unstable = await asyncio.wrap_future(node.groups.unstable(name), loop=node.loop)
            if not error:
                committed = await asyncio.wrap_future(node.groups.fetch(name, _places(topics)), loop=node.loop)
        except RunnelError as failed:
            error = error_of(failed)
    if topics is None:
        topics = _all_topics(node, committed, by_id=request.version >= FIRST_WITH_IDS)
    return {
        "group_id": name,
        "error_code": error,
        "topics": [_topic(node, topic, committed, unstable, error) for topic in topics],
    }


async def _late(node: Node, group: str) -> ErrorCode:
    """Whether an offset of the group is committed that is not among those that would be told."""
    late = node.transactions.late_producers(OFFSETS)
    if not late:
        return ErrorCode.NONE
    has_some = await asyncio.wrap_future(node.groups.has_pending(group, late), loop=node.loop)
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if has_some else ErrorCode.NONE


def _check(node: Node, request: Request, asked: dict[str, Any]) -> ErrorCode:
    if request.version < FIRST_WITH_MEMBERS:
        return ErrorCode.NONE
    return node.groups.check_fetch(asked["group_id"], asked["member_id"], asked["member_epoch"])


def _topics(node: Node, request: Request, asked: list[dict[str, Any]] | None) -> list[_Topic] | None:
    if asked is None:
        return None
    if request.version < FIRST_WITH_IDS:
        return [_Topic(each["name"], None, each["partition_indexes"] or ()) for each in asked]
    topics = []
    for each in asked:
        found = node.topics.find_id(each["topic_id"])
        name = None if found is None else found.name
        topics.append(_Topic(name, each["topic_id"], each["partition_indexes"] or ()))
    return topics


def _all_topics(node: Node, committed: Committed, *, by_id: bool) -> list[_Topic]:
    partitions: dict[str, list[int]] = {}
    for place in committed:
        partitions.setdefault(place.topic, []).append(place.partition)
    topics = []
    for name, numbers in partitions.items():
        known = node.topics.find(name)
        if known is not None or not by_id:
            topics.append(_Topic(name, None if known is None else known.id, numbers))
    return topics


def _places(topics: list[_Topic] | None) -> list[TopicPartition] | None:
    if topics is None:
        return None
    return [TopicPartition(topic.name, each) for topic in topics if topic.name is not None for each in topic.partitions]


def _topic(
    node: Node, topic: _Topic, committed: Committed, unstable: set[TopicPartition], error: ErrorCode
) -> dict[str, Any]:
    known = None if topic.name is None else node.topics.find(topic.name)
    if topic.name is None:
        error = error or ErrorCode.UNKNOWN_TOPIC_ID
    partitions = []
    for number in topic.partitions:
        place = TopicPartition(topic.name or "", number)
        value = NOTHING if place in unstable else committed.get(place, NOTHING)
        if known is not None and value.topic_id not in (None, known.id):
            value = NOTHING
        partitions.append(
            {
                "partition_index": number,
                "committed_offset": value.offset,
                "committed_leader_epoch": value.leader_epoch,
                "metadata": value.metadata,
                "error_code": error or (ErrorCode.UNSTABLE_OFFSET_COMMIT if place in unstable else ErrorCode.NONE),
            }
        )
    return {"name": topic.name or "", "topic_id": topic.id, "partitions": partitions}
