"""UpdateFeatures (57), versions 0 to 2: the features have one version each: none can be raised or lowered.

- `metadata.version` and `kraft.version` are about the metadata log of Kafka, which we have not; `share.version` and
  `streams.version` stand for what is not there yet. What ApiVersions lists is finalised in its newest version for
  good. An update of any is INVALID_UPDATE_VERSION for the request as a whole; one to what it is succeeds.
- An update of nothing succeeds.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.features import FEATURES
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode


def handle(node: Node, request: Request) -> Body:
    updates = request.body["feature_updates"]
    mistake = next(filter(None, map(_mistake, updates)), None)
    results = [{"feature": each["feature"], "error_code": ErrorCode.NONE, "error_message": None} for each in updates]
    return {
        "throttle_time": 0,
        "error_code": ErrorCode.NONE if mistake is None else ErrorCode.INVALID_UPDATE_VERSION,
        "error_message": mistake,
        "results": results if mistake is None else (),
    }


def _mistake(update: dict[str, Any]) -> str | None:
    name, level = update["feature"], update["max_version_level"]
    known = next((feature for feature in FEATURES if feature.name == name), None)
    if known is None:
        return f"the feature {name!r} cannot be updated: this broker does not have it"
    if level != known.finalised:
        return f"the feature {name!r} cannot be updated to version {level}: it stays at {known.finalised}"
    return None
