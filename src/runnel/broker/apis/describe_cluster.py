"""DescribeCluster (60), versions 0 to 2: the cluster id and its one broker, which is its controller.

- The address is the one that is advertised for the listener the client came in by.
- Version 1 on can ask for controllers: MISMATCHED_ENDPOINT_TYPE, since clients speak to the broker only. Another type
  is UNSUPPORTED_ENDPOINT_TYPE. Version 2 can ask for fenced brokers: there are none.
- What a client may do is told if it asks, and is everything: there is no access control yet.
"""

from __future__ import annotations

from typing import Any

from runnel.broker import operations
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode

BROKERS, CONTROLLERS = 1, 2


def handle(node: Node, request: Request) -> Body:
    kind = request.body["endpoint_type"]
    if kind == CONTROLLERS:
        return _refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker, and controllers were asked for")
    if kind != BROKERS:
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {kind}")
    host, port = node.endpoint(request.peer.listener)
    rack = node.settings.broker_rack
    broker = {"broker_id": node.node_id, "host": host, "port": port, "rack": rack, "is_fenced": False}
    asked = request.body["include_cluster_authorized_operations"]
    return _refused(ErrorCode.NONE, None) | {
        "cluster_id": node.cluster_id,
        "controller_id": node.node_id,
        "brokers": [broker],
        "cluster_authorized_operations": operations.CLUSTER if asked else operations.NOT_ASKED,
    }


def _refused(code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {
        "throttle_time": 0,
        "error_code": code,
        "error_message": message,
        "endpoint_type": BROKERS,
        "cluster_id": "",
        "controller_id": -1,
        "brokers": (),
        "cluster_authorized_operations": operations.NOT_ASKED,
    }
