"""Heartbeat (12), versions 0 to 4: a member is alive.

Its session begins anew. REBALANCE_IN_PROGRESS asks it to join again; its session begins anew then, too. In a consumer
group that is so when there is something to let go or to get.

Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID (also for a group that does not exist), FENCED_INSTANCE_ID,
ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from runnel.broker.groups.answers import error_of, told
from runnel.broker.node import Node
from runnel.broker.request import Answer, Request
from runnel.protocol.error_codes import ErrorCode


def handle(node: Node, request: Request) -> Answer:
    body = request.body
    error = node.groups.heartbeat(
        body["group_id"] or "", body["member_id"] or "", body["group_instance_id"], body["generation_id"]
    )
    if isinstance(error, Future):
        return told(error, _body, lambda failed: _body(error_of(failed)))
    return _body(error)


def _body(error: ErrorCode) -> dict[str, Any]:
    return {"throttle_time": 0, "error_code": error}
