"""SyncGroup (14), versions 0 to 5: the leader hands in all assignments, everybody gets its own.

- Answered when the leader's assignments are durable; in a stable group at once. A member that the leader has forgotten
  gets an empty assignment.
- A member that does not ask for its assignment within the longest rebalance time-out is removed.
- A rebalance that begins meanwhile answers REBALANCE_IN_PROGRESS to all who wait.

Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID (also for a group that does not exist), FENCED_INSTANCE_ID,
ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL (version 5: the protocol is not the elected one, or is not told),
REBALANCE_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE (the assignments could not be stored: join again), NOT_COORDINATOR (the
broker stops).
"""

from __future__ import annotations

from typing import Any

from runnel.broker.groups.answers import SyncAnswer, error_of, told
from runnel.broker.groups.syncing import SyncRequest
from runnel.broker.node import Node
from runnel.broker.request import Answer, Request
from runnel.protocol.error_codes import ErrorCode

FIRST_WITH_PROTOCOL = 5


def handle(node: Node, request: Request) -> Answer:
    body = request.body
    if request.version >= FIRST_WITH_PROTOCOL and None in (body["protocol_type"], body["protocol_name"]):
        return _body(SyncAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    wish = SyncRequest(
        body["member_id"] or "",
        body["group_instance_id"],
        body["generation_id"],
        body["protocol_type"],
        body["protocol_name"],
        {each["member_id"]: each["assignment"] or b"" for each in body["assignments"] or ()},
    )
    return told(
        node.groups.sync(body["group_id"] or "", wish), _body, lambda failed: _body(SyncAnswer(error_of(failed)))
    )


def _body(answer: SyncAnswer) -> dict[str, Any]:
    return {
        "throttle_time": 0,
        "error_code": answer.error,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol_name,
        "assignment": answer.assignment,
    }
