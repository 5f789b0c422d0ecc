"""TxnOffsetCommit (28), versions 0 to 5: offsets of a group that count when the producer's transaction is committed.

- Answered when durable. Until the transaction ends, OffsetFetch with `require_stable` answers UNSTABLE_OFFSET_COMMIT
  for these partitions; if it is aborted, nothing has changed.
- From version 5 on (the second generation) the group's offsets join the transaction with this request; before, they
  have to be added with AddOffsetsToTxn: TRANSACTION_ABORTABLE if they were not, INVALID_TXN_STATE before version 4.
- From version 3 on a member says who it is, and is refused when it is not one any more: a consumer that was replaced
  must not commit through its producer. A producer that says nothing is believed.

Errors for all partitions: INVALID_REQUEST (no transactional id), INVALID_GROUP_ID, INVALID_PRODUCER_ID_MAPPING,
INVALID_PRODUCER_EPOCH, CONCURRENT_TRANSACTIONS, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION (also for a
stale epoch of a member of KIP-848), COORDINATOR_NOT_AVAILABLE. For some: UNKNOWN_TOPIC_OR_PARTITION,
OFFSET_METADATA_TOO_LARGE.
"""

from __future__ import annotations

import asyncio
from typing import Any

from runnel.broker.groups.answers import error_of
from runnel.broker.groups.offsets import Committed, Committer, TopicPartition, why_refused
from runnel.broker.groups.records import CommittedOffset, fits
from runnel.broker.mistakes import Refusal
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.broker.transactions import OFFSETS, ProducerEpoch, Status
from runnel.broker.transactions.mistakes import refuse
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode

ABORTABLE_SINCE = 4
LIKE_AN_OLD_GENERATION = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH)
SECOND_GENERATION_SINCE = 5


async def handle(node: Node, request: Request) -> Body:
    body = request.body
    mistakes: dict[TopicPartition, ErrorCode] = {}
    committed: Committed = {}
    for topic in body["topics"]:
        for asked in topic["partitions"]:
            place = TopicPartition(topic["name"], asked["partition_index"])
            mistake = _mistake(node, place, asked)
            if mistake:
                mistakes[place] = mistake
                who = f"transaction {body['transactional_id']!r} cannot commit for group {body['group_id']!r}"
                node.refused(request, mistake, f"{who} in {place.topic}-{place.partition}")
            else:
                committed[place] = _committed(node, place, asked)
    error = await _commit(node, request, committed) if committed else ErrorCode.NONE
    return {
        "throttle_time": 0,
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {
                        "partition_index": asked["partition_index"],
                        "error_code": mistakes.get(TopicPartition(topic["name"], asked["partition_index"]), error),
                    }
                    for asked in topic["partitions"]
                ],
            }
            for topic in body["topics"]
        ],
    }


async def _commit(node: Node, request: Request, committed: Committed) -> ErrorCode:
    body = request.body
    name, producer = body["transactional_id"], ProducerEpoch(body["producer_id"], body["producer_epoch"])
    if not name:
        return ErrorCode.INVALID_REQUEST
    committer = Committer(body["member_id"] or "", body["group_instance_id"], body["generation_id"])
    error = _check(node, body["group_id"], committer, committed)
    if error:
        node.refused(request, error, why_refused(error, body["group_id"], committer))
        return error
    version = 2 if request.version >= SECOND_GENERATION_SINCE else 1
    try:
        await node.transactions.admitted(name, producer, OFFSETS, version)
        _refuse_if_ended(node, name, producer)
    except (Refusal, RunnelError) as refused:
        return refuse(node, request, refused, knows_fenced=False, knows_abortable=request.version >= ABORTABLE_SINCE)
    try:
        # Looked at again: the group may have changed while the transaction was asked for.
        error = _check(node, body["group_id"], committer, committed)
        if not error:
            stored = node.groups.commit_in_transaction(body["group_id"], producer, committed)
            await asyncio.wrap_future(stored, loop=node.loop)
        else:
            node.refused(request, error, why_refused(error, body["group_id"], committer))
        return error
    except RunnelError as failed:
        return error_of(failed, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)


def _refuse_if_ended(node: Node, name: str, producer: ProducerEpoch) -> None:
    """The end can have been decided since it was admitted, if its client gave up waiting for the answer. What is
    written behind the marker would be of no transaction, and hold the group's readers back for ever."""
    known = node.transactions.get(name)
    if known is None or known.producer != producer:
        raise Refusal(ErrorCode.PRODUCER_FENCED, f"the transaction of {name!r} has ended")
    if known.status is not Status.ONGOING:
        raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS, f"the transaction of {name!r} is being ended")


def _check(node: Node, group: str | None, committer: Committer, committed: Committed) -> ErrorCode:
    if not group:
        return ErrorCode.INVALID_GROUP_ID
    if committer.generation < 0 and not committer.member_id and committer.instance_id is None:
        return ErrorCode.NONE if fits(group) else ErrorCode.INVALID_GROUP_ID
    error = node.groups.check_commit(group, committer)
    for place, value in committed.items():
        if not error and value.topic_id is not None:
            error = node.groups.check_partition(group, committer, value.topic_id, place.partition)
    return ErrorCode.ILLEGAL_GENERATION if error in LIKE_AN_OLD_GENERATION else error


def _mistake(node: Node, place: TopicPartition, asked: dict[str, Any]) -> ErrorCode:
    topic = node.topics.find(place.topic)
    if topic is None or not 0 <= place.partition < topic.count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata = asked["committed_metadata"] or ""
    if len(metadata) > node.settings.offset_metadata_max_bytes or not fits(metadata):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _committed(node: Node, place: TopicPartition, asked: dict[str, Any]) -> CommittedOffset:
    topic = node.topics.find(place.topic)
    return CommittedOffset(
        asked["committed_offset"],
        asked["committed_leader_epoch"],
        asked["committed_metadata"] or "",
        node.clock.now(),
        None,
        None if topic is None else topic.id,
    )
