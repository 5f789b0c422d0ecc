"""DescribeUserScramCredentials (50), version 0: nobody logs in, so no user has any.

`kafka-configs` asks for them when it shows the quotas of users. A user that is named is RESOURCE_NOT_FOUND, one that is
named twice DUPLICATE_RESOURCE, as in Kafka.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode


def handle(node: Node, request: Request) -> Body:
    asked = Counter(user["name"] for user in request.body["users"] or ())
    results = [_result(user, twice=times > 1) for user, times in asked.items()]
    return {"throttle_time": 0, "error_code": ErrorCode.NONE, "error_message": None, "results": results}


def _result(user: str, *, twice: bool) -> dict[str, Any]:
    code = ErrorCode.DUPLICATE_RESOURCE if twice else ErrorCode.RESOURCE_NOT_FOUND
    message = f"the user {user!r} is named more than once" if twice else f"the user {user!r} has no credentials"
    return {"user": user, "error_code": code, "error_message": message, "credential_infos": ()}
