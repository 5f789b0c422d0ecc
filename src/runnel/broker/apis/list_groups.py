"""ListGroups (16), versions 0 to 5: all groups, or those in some states (version 4) or of some types (version 5).

States and types are compared without regard to case. All groups are of the type `classic`. There are no errors.
"""

from __future__ import annotations

from runnel.broker.node import Node
from runnel.broker.request import Answer, Request
from runnel.protocol.error_codes import ErrorCode

CLASSIC = "classic"


def handle(node: Node, request: Request) -> Answer:
    states = {(state or "").lower() for state in request.body["states_filter"] or ()}
    types = {(kind or "").lower() for kind in request.body["types_filter"] or ()}
    described = (node.groups.describe(name) for name in node.groups.names())
    groups = [
        {
            "group_id": group.name,
            "protocol_type": group.protocol_type,
            "group_state": group.state.value,
            "group_type": CLASSIC,
        }
        for group in described
        if group is not None and (not states or group.state.value.lower() in states) and (not types or CLASSIC in types)
    ]
    return {"throttle_time": 0, "error_code": ErrorCode.NONE, "groups": groups}
