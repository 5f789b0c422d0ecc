"""JoinGroup (11), versions 0 to 9: be a member of a classic group's next generation.

- It is answered when the generation begins: when all members have joined, or the longest rebalance time-out is over and
  those who have not joined are removed (static members stay). A group that was empty waits
  group.initial.rebalance.delay.ms for further members. Version 0 has no rebalance time-out, its session time-out is it.
- From version 4 a member without an id gets one with MEMBER_ID_REQUIRED and comes again with it; not a static member.
- At once, with the generation that is: a follower that joins a stable group again with unchanged protocols, a member
  whose answer got lost, and a static member that comes back to a stable group. That one gets a new member id, and the
  old one is fenced. If it leads, it is told to skip the assignment (version 9), or that its old id leads.
- The protocol is elected: each member votes for the first of its own that all members know.
- A client that is gone while it waits is not noticed at once: a new member's after 5 minutes, that of others by their
  session time-out in the next generation.

Errors: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, MEMBER_ID_REQUIRED,
GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL (another protocol type, or no protocol that all know),
INVALID_REQUEST (an id longer than 32,767 bytes), COORDINATOR_NOT_AVAILABLE (it could not be stored), NOT_COORDINATOR
(the broker stops).
"""

from __future__ import annotations

from typing import Any

from runnel.broker.groups.answers import JoinAnswer, error_of, told
from runnel.broker.groups.joining import JoinRequest
from runnel.broker.groups.members import GroupProtocol
from runnel.broker.node import Node
from runnel.broker.request import Answer, Request
from runnel.protocol.error_codes import ErrorCode

REASONS = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the group is of another type, or its members have no protocol in common",
    ErrorCode.INVALID_SESSION_TIMEOUT: "see group.min.session.timeout.ms and group.max.session.timeout.ms",
    ErrorCode.FENCED_INSTANCE_ID: "another member has its instance id",
    ErrorCode.UNKNOWN_MEMBER_ID: "it is no member, or not any more",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group is full",
}
FIRST_THAT_SENDS_BACK = 4
FIRST_WITH_NO_PROTOCOL = 7
FIRST_THAT_SKIPS = 9


def handle(node: Node, request: Request) -> Answer:
    body = request.body
    wish = JoinRequest(
        body["member_id"] or "",
        body["group_instance_id"],
        request.client_id or "",
        f"/{request.peer.host}",  # as Kafka writes an address without a name
        body["session_timeout"] if request.version == 0 else body["rebalance_timeout"],
        body["session_timeout"],
        body["protocol_type"] or "",
        tuple(GroupProtocol(each["name"] or "", each["metadata"] or b"") for each in body["protocols"] or ()),
        request.version >= FIRST_THAT_SENDS_BACK,
        request.version >= FIRST_THAT_SKIPS,
    )

    def tell(answer: JoinAnswer) -> dict[str, Any]:
        if answer.error:
            who = f"member {wish.member_id!r}" if wish.member_id else "a new member"
            reason = REASONS.get(answer.error, "it cannot join")
            node.refused(request, answer.error, f"{who} of group {body['group_id']!r}: {reason}")
        return _body(answer, request.version)

    return told(
        node.groups.join(body["group_id"] or "", wish),
        tell,
        lambda failed: _body(JoinAnswer(wish.member_id, error_of(failed)), request.version),
    )


def _body(answer: JoinAnswer, version: int) -> dict[str, Any]:
    return {
        "throttle_time": 0,
        "error_code": answer.error,
        "generation_id": answer.generation,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol_name or (None if version >= FIRST_WITH_NO_PROTOCOL else ""),
        "leader": answer.leader,
        "skip_assignment": answer.skip_assignment,
        "member_id": answer.member_id,
        "members": [
            {"member_id": each.member_id, "group_instance_id": each.instance_id, "metadata": each.metadata}
            for each in answer.members
        ],
    }
