"""LeaveGroup (13), versions 0 to 5: members go; the others rebalance, once.

- Versions 0 to 2 name one member, and its error is that of the answer. From version 3 many are named, each gets its own
  error, and a static member may be named by its instance id alone, as administrators do.
- Members of a consumer group can leave and be sent away, too, whichever protocol they speak.
- A member that has only got its id (MEMBER_ID_REQUIRED) can leave, too.

Errors: INVALID_GROUP_ID, COORDINATOR_NOT_AVAILABLE (it could not be stored) for all; UNKNOWN_MEMBER_ID (also for a
group that does not exist) and FENCED_INSTANCE_ID for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from runnel.broker.groups.answers import error_of, told
from runnel.broker.groups.leaving import Leaving
from runnel.broker.node import Node
from runnel.broker.request import Answer, Request
from runnel.protocol.error_codes import ErrorCode

FIRST_WITH_MANY = 3


def handle(node: Node, request: Request) -> Answer:
    body = request.body
    many = request.version >= FIRST_WITH_MANY
    if many:
        leaving = [Leaving(each["member_id"] or "", each["group_instance_id"]) for each in body["members"] or ()]
    else:
        leaving = [Leaving(body["member_id"] or "", None)]
    error, errors = node.groups.leave(body["group_id"] or "", leaving)
    if isinstance(errors, Future):
        return told(
            errors,
            lambda each: _body(leaving, ErrorCode.NONE, each, many=many),
            lambda failed: _body(leaving, error_of(failed), [], many=many),
        )
    return _body(leaving, error, errors, many=many)


def _body(leaving: Sequence[Leaving], error: ErrorCode, errors: Sequence[ErrorCode], *, many: bool) -> dict[str, Any]:
    if not many and not error:
        error = errors[0]
    members = [
        {"member_id": each.member_id, "group_instance_id": each.instance_id, "error_code": own}
        for each, own in zip(leaving, errors, strict=False)  # none for a group that cannot be
    ]
    return {"throttle_time": 0, "error_code": error, "members": members}
