"""ApiVersions (18), versions 0 to 4: which APIs are served, in which versions.

- A version that is not served is answered in version 0 with UNSUPPORTED_VERSION and the row of this API, so that the
  client can ask again (KIP-511).
- From version 3 on the client says its name and version; names that are no names are INVALID_REQUEST.
- Produce is advertised from version 0, though it is served from 3 on: older clients of librdkafka take a least version
  of 3 for a broker that knows no compression.
- There are no finalised features yet, so clients use neither transactions of the second generation nor KIP-848.
"""

from __future__ import annotations

import re
from typing import Any

from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import SERVED, Api

CLIENT_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
NAMES_SINCE = 3


def _row(key: int) -> dict[str, int]:
    least, most = SERVED[key]
    return {"api_key": key, "min_version": 0 if key == Api.PRODUCE else least, "max_version": most}


ROWS = [_row(key) for key in sorted(SERVED)]


def handle(node: Node, request: Request) -> Body:
    body = request.body
    if "unsupported_version" in body:
        return _answer(ErrorCode.UNSUPPORTED_VERSION, [_row(Api.API_VERSIONS)])
    if request.version >= NAMES_SINCE:
        for name in (body["client_software_name"], body["client_software_version"]):
            if not CLIENT_NAME.fullmatch(name or ""):
                return _answer(ErrorCode.INVALID_REQUEST, [])
    return _answer(ErrorCode.NONE, ROWS)


def _answer(error: ErrorCode, rows: list[dict[str, int]]) -> dict[str, Any]:
    return {
        "error_code": error,
        "api_keys": rows,
        "throttle_time": 0,
        "supported_features": (),
        "finalized_features_epoch": 0,
        "finalized_features": (),
        "zk_migration_ready": False,
    }
