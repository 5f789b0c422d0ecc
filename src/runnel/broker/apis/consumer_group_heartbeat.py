"""ConsumerGroupHeartbeat (68), versions 0 to 1: be a member of a consumer group (KIP-848), and do what it asks for.

- Epoch 0 joins. It may make a group, or make a consumer group of a classic one whose members are consumers, as
  group.consumer.migration.policy allows. Epoch -1 leaves; -2 is a static member that leaves and will be back: it keeps
  its partitions until its session ends, or somebody joins with its instance id.
- A member tells what has changed only: its subscription (names, from version 1 a regular expression of RE2, or both),
  its assignor, and which partitions it has. It is told its assignment when that has changed, or it has told all.
- A partition that is to move is first taken out of its owner's assignment, and given to the next one when the owner
  lists it no longer, has left or was fenced. A member that keeps it for longer than its rebalance time-out is fenced,
  and so is one that is silent for group.consumer.session.timeout.ms, or what the group's own configuration says.
- Answered when durable. A heartbeat that changes nothing writes nothing.
- Topics that do not exist may be subscribed to: when they come, or grow, or go, the group epoch rises with the next
  heartbeat. The same when topics come that a regular expression describes; the broker's own are described by none.
- From version 1 the member makes its own id, in version 0 the broker does if it has none.

Errors: INVALID_REQUEST, GROUP_ID_NOT_FOUND (or it is a classic group that cannot change), UNKNOWN_MEMBER_ID,
FENCED_MEMBER_EPOCH (give up all partitions and join again; not for the last epoch but one, with nothing but assigned
partitions: the answer may have been lost), UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR,
INVALID_REGULAR_EXPRESSION, GROUP_MAX_SIZE_REACHED, UNSUPPORTED_VERSION (group.coordinator.rebalance.protocols leaves
the protocol out), COORDINATOR_NOT_AVAILABLE (it could not be stored), NOT_COORDINATOR (the broker stops).
"""

from __future__ import annotations

from typing import Any

from runnel.broker.groups.answers import error_of, told
from runnel.broker.groups.consumer.heartbeat import HeartbeatAnswer, HeartbeatRequest
from runnel.broker.groups.consumer.partitions import Partitions, partitions_of
from runnel.broker.node import Node
from runnel.broker.request import Answer, Request
from runnel.protocol.error_codes import ErrorCode

FIRST_WITH_OWN_IDS = 1
CONSUMER = "consumer"


def handle(node: Node, request: Request) -> Answer:
    body = request.body
    if CONSUMER not in node.settings.group_coordinator_rebalance_protocols:
        return _body(HeartbeatAnswer(ErrorCode.UNSUPPORTED_VERSION))
    names = body["subscribed_topic_names"]
    wish = HeartbeatRequest(
        body["member_id"] or "",
        body["member_epoch"],
        body["instance_id"],
        body["rack_id"],
        body["rebalance_timeout"],
        None if names is None else tuple(names),
        body["subscribed_topic_regex"],
        body["server_assignor"],
        _owned(body["topic_partitions"]),
        request.client_id or "",
        f"/{request.peer.host}",  # as Kafka writes an address without a name
    )
    needs_member_id = request.version >= FIRST_WITH_OWN_IDS

    def tell(answer: HeartbeatAnswer) -> dict[str, Any]:
        if answer.error:
            who = f"member {wish.member_id!r} of group {body['group_id']!r}"
            node.refused(request, answer.error, f"{who}: {answer.message}")
        return _body(answer)

    return told(
        node.groups.consumer_heartbeat(body["group_id"] or "", wish, needs_member_id=needs_member_id),
        tell,
        lambda failed: _body(HeartbeatAnswer(error_of(failed))),
    )


def _owned(topics: list[dict[str, Any]] | None) -> Partitions | None:
    if topics is None:
        return None
    return partitions_of((topic["topic_id"], number) for topic in topics for number in topic["partitions"] or ())


def _body(answer: HeartbeatAnswer) -> dict[str, Any]:
    assignment = None
    if answer.assignment is not None:
        assignment = {
            "topic_partitions": [
                {"topic_id": topic, "partitions": sorted(numbers)} for topic, numbers in answer.assignment.items()
            ]
        }
    return {
        "throttle_time": 0,
        "error_code": answer.error,
        "error_message": answer.message,
        "member_id": answer.member_id,
        "member_epoch": answer.epoch,
        "heartbeat_interval": answer.interval,
        "assignment": assignment,
    }
