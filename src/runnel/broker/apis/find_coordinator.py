"""FindCoordinator (10), versions 0 to 6: who looks after a group or a transaction. One node looks after all.

Version 0 to 3 ask for one key, 4 to 6 for many. Key type 0 is a group, 1 a transactional id. Share groups (2) are not
served yet: they have no coordinator, COORDINATOR_NOT_AVAILABLE. Any other type is INVALID_REQUEST.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.node import Node
from runnel.broker.request import Answer, Request
from runnel.protocol.error_codes import ErrorCode

SERVED = (0, 1)
NOT_SERVED_YET = {2: "share groups"}
FIRST_WITH_MANY = 4


def handle(node: Node, request: Request) -> Answer:
    body = request.body
    found = _coordinator(node, request)
    if request.version >= FIRST_WITH_MANY:
        return {"throttle_time": 0, "coordinators": [{"key": key, **found} for key in body["coordinator_keys"] or ()]}
    return {"throttle_time": 0, **found}


def _coordinator(node: Node, request: Request) -> dict[str, Any]:
    key_type = request.body["key_type"]
    if key_type in SERVED:
        endpoint = node.endpoint(request.peer.listener)
        return _found(node.node_id, endpoint.host, endpoint.port)
    if key_type in NOT_SERVED_YET:
        message = f"this broker does not serve {NOT_SERVED_YET[key_type]}"
        return _found(-1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
    return _found(-1, "", -1, ErrorCode.INVALID_REQUEST, f"key type {key_type} is unknown")


def _found(
    node_id: int, host: str, port: int, error: ErrorCode = ErrorCode.NONE, message: str | None = None
) -> dict[str, Any]:
    return {"node_id": node_id, "host": host, "port": port, "error_code": error, "error_message": message}
