"""Heartbeat (12), versions 0 to 4: a member is alive.

Its session begins anew. REBALANCE_IN_PROGRESS asks it to join again; its session begins anew then, too.

Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID (also for a group that does not exist), FENCED_INSTANCE_ID,
ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
"""

from __future__ import annotations

from runnel.broker.node import Node
from runnel.broker.request import Answer, Request


def handle(node: Node, request: Request) -> Answer:
    body = request.body
    error = node.groups.heartbeat(
        body["group_id"] or "", body["member_id"] or "", body["group_instance_id"], body["generation_id"]
    )
    return {"throttle_time": 0, "error_code": error}
