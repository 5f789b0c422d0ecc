"""OffsetCommit (8), versions 2 to 10: a group has read so far.

- Answered when durable. Each partition gets its own error; what is right is committed.
- A member commits in its generation, also while a rebalance is prepared; between JoinGroup and SyncGroup it is told
  REBALANCE_IN_PROGRESS. Somebody who is no member (generation -1) commits when the group has no members; that may bring
  a group into being. A member's commit is a heartbeat.
- A member of a consumer group commits with its member epoch, from version 9 on, or with an earlier one that it had
  since it got the partition; a classic member of such a group with its generation, which is the same.
- Topics are named, from version 10 by id.
- `retention_time` (versions 2 to 4), unless -1, is kept in place of offsets.retention.minutes.

Errors for all partitions: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, STALE_MEMBER_EPOCH (also for some),
UNSUPPORTED_VERSION (a member of a consumer group, before version 9), ILLEGAL_GENERATION (and, before
version 9, for a group that does not exist), GROUP_ID_NOT_FOUND (from version 9), REBALANCE_IN_PROGRESS,
INVALID_COMMIT_OFFSET_SIZE (more than 16 MiB at once), COORDINATOR_NOT_AVAILABLE (it could not be stored).
For some: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from runnel.broker.groups.answers import error_of, told
from runnel.broker.groups.offsets import Committed, Committer, TopicPartition, why_refused
from runnel.broker.groups.records import CommittedOffset, fits
from runnel.broker.node import Node
from runnel.broker.request import Answer, Request
from runnel.broker.topics import Topic
from runnel.protocol.error_codes import ErrorCode
from runnel.settings import INT64_MAX

FIRST_WITH_IDS = 10
FIRST_THAT_MISSES_GROUPS = 9
BROKERS_RETENTION = -1


class _Part(NamedTuple):
    """One partition of the request."""

    asked: dict[str, Any]
    topic: Topic | None
    error: ErrorCode


def handle(node: Node, request: Request) -> Answer:
    body = request.body
    parts = [
        [_part(node, request, asked, each) for each in asked["partitions"] or ()] for asked in body["topics"] or ()
    ]
    committed = _committed(node, body["retention_time"], [part for topic in parts for part in topic])
    name = body["group_id"]
    committer = Committer(body["member_id"] or "", body["group_instance_id"], body["generation_id_or_member_epoch"])
    if not committed:
        return _body(request, parts, ErrorCode.NONE)
    error = ErrorCode.INVALID_GROUP_ID if name is None else node.groups.check_commit(name, committer, request.version)
    if error is ErrorCode.GROUP_ID_NOT_FOUND and request.version < FIRST_THAT_MISSES_GROUPS:
        error = ErrorCode.ILLEGAL_GENERATION
    if error:
        node.refused(request, error, why_refused(error, name, committer))
        return _body(request, parts, error)
    parts = [[_allowed(node, request, committer, part) for part in topic] for topic in parts]
    committed = _committed(node, body["retention_time"], [part for topic in parts for part in topic])
    if not committed:
        return _body(request, parts, ErrorCode.NONE)
    return told(
        node.groups.commit(name, committer, committed),
        lambda _: _body(request, parts, ErrorCode.NONE),
        lambda failed: _body(request, parts, error_of(failed, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)),
    )


def _part(node: Node, request: Request, topic_asked: dict[str, Any], asked: dict[str, Any]) -> _Part:
    by_id = request.version >= FIRST_WITH_IDS
    topic = node.topics.find_id(topic_asked["topic_id"]) if by_id else node.topics.find(topic_asked["name"])
    if topic is None or not 0 <= asked["partition_index"] < topic.count:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if topic is None and by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        place = f"{topic_asked['topic_id'] if by_id else topic_asked['name']}-{asked['partition_index']}"
        node.refused(request, unknown, f"group {request.body['group_id']!r} cannot commit in {place}")
        return _Part(asked, topic, unknown)
    metadata = asked["committed_metadata"] or ""
    if len(metadata) > node.settings.offset_metadata_max_bytes or not fits(metadata):
        return _Part(asked, topic, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    return _Part(asked, topic, ErrorCode.NONE)


def _allowed(node: Node, request: Request, committer: Committer, part: _Part) -> _Part:
    if part.topic is None or part.error:
        return part
    group = request.body["group_id"]
    error = node.groups.check_partition(group, committer, part.topic.id, part.asked["partition_index"])
    if error:
        node.refused(request, error, why_refused(error, group, committer))
    return part._replace(error=error)


def _committed(node: Node, retention: int, parts: list[_Part]) -> Committed:
    now = node.clock.now()
    return {
        TopicPartition(part.topic.name, part.asked["partition_index"]): CommittedOffset(
            part.asked["committed_offset"],
            part.asked["committed_leader_epoch"],
            part.asked["committed_metadata"] or "",
            now,
            None if retention == BROKERS_RETENTION else min(now + retention, INT64_MAX),
            part.topic.id,
        )
        for part in parts
        if part.topic is not None and not part.error
    }


def _body(request: Request, parts: list[list[_Part]], error: ErrorCode) -> dict[str, Any]:
    return {
        "throttle_time": 0,
        "topics": [
            {
                "name": asked["name"],
                "topic_id": asked["topic_id"],
                "partitions": [
                    {"partition_index": part.asked["partition_index"], "error_code": part.error or error}
                    for part in topic
                ],
            }
            for asked, topic in zip(request.body["topics"] or (), parts, strict=True)
        ],
    }
