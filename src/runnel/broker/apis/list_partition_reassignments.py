"""ListPartitionReassignments (46), version 0: there is one broker, so nothing is ever being reassigned."""

from __future__ import annotations

from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode


def handle(node: Node, request: Request) -> Body:
    return {"throttle_time": 0, "error_code": ErrorCode.NONE, "error_message": None, "topics": ()}
