"""ApiVersions (18), versions 0 to 4: which APIs are served, in which versions.

- A version that is not served is answered in version 0 with UNSUPPORTED_VERSION and the row of this API, so that the
  client can ask again (KIP-511).
- From version 3 on the client says its name and version; names that are no names are INVALID_REQUEST.
- Produce is advertised from version 0, though it is served from 3 on: older clients of librdkafka take a least version
  of 3 for a broker that knows no compression.
- The features say which generation of transactions clients may use; see `features.py`. Those that can be off, which is
  version 0, are supported from version 4 on: Java's clients before 3.8 fail over a least version of 0 (KAFKA-17011).
"""

from __future__ import annotations

import re
from typing import Any

from runnel.broker.features import EPOCH, FEATURES
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.own import ANSWERED
from runnel.protocol.versions import Api

CLIENT_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
NAMES_SINCE = 3
LEAST_OF_0_SINCE = 4


def _row(key: int) -> dict[str, int]:
    least, most = ANSWERED[key]
    return {"api_key": key, "min_version": 0 if key == Api.PRODUCE else least, "max_version": most}


ROWS = [_row(key) for key in sorted(ANSWERED)]
SUPPORTED = [{"name": each.name, "min_version": each.least, "max_version": each.most} for each in FEATURES]
SUPPORTED_BEFORE = [each for each in SUPPORTED if each["min_version"] != 0]
FINALISED = [
    {"name": each.name, "max_version_level": each.finalised, "min_version_level": each.finalised} for each in FEATURES
]


def handle(node: Node, request: Request) -> Body:
    body, version = request.body, request.version
    if "unsupported_version" in body:
        return _answer(version, ErrorCode.UNSUPPORTED_VERSION, [_row(Api.API_VERSIONS)])
    if version >= NAMES_SINCE:
        for name in (body["client_software_name"], body["client_software_version"]):
            if not CLIENT_NAME.fullmatch(name or ""):
                return _answer(version, ErrorCode.INVALID_REQUEST, [])
    return _answer(version, ErrorCode.NONE, ROWS)


def _answer(version: int, error: ErrorCode, rows: list[dict[str, int]]) -> dict[str, Any]:
    return {
        "error_code": error,
        "api_keys": rows,
        "throttle_time": 0,
        "supported_features": SUPPORTED if version >= LEAST_OF_0_SINCE else SUPPORTED_BEFORE,
        "finalized_features_epoch": EPOCH,
        "finalized_features": FINALISED,
        "zk_migration_ready": False,
    }
