"""UpdateFeatures (57), versions 0 to 2: there are no features that could be raised or lowered.

- `metadata.version` and `kraft.version` are about the metadata log of Kafka, which we have not; `transaction.version`,
  `group.version`, `share.version` and `streams.version` stand for what is not there yet. ApiVersions lists none, and
  an update of any is INVALID_UPDATE_VERSION for the request as a whole.
- An update of nothing succeeds.
"""

from __future__ import annotations

from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode


def handle(node: Node, request: Request) -> Body:
    names = [update["feature"] for update in request.body["feature_updates"]]
    code, message = ErrorCode.NONE, None
    if names:
        code = ErrorCode.INVALID_UPDATE_VERSION
        message = f"the feature {names[0]!r} cannot be updated: this broker has no features with versions"
    return {"throttle_time": 0, "error_code": code, "error_message": message, "results": ()}
