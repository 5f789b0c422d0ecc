"""DeleteGroups (42), versions 0 to 2: groups without members go, with their offsets. Answered when durable; a
group that is named twice is answered once.

Errors, for each: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, INVALID_GROUP_ID (no name at all), COORDINATOR_NOT_AVAILABLE (it
could not be stored).
"""

from __future__ import annotations

import asyncio
from typing import Any

from runnel.broker.groups.answers import error_of
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode


async def handle(node: Node, request: Request) -> Body:
    names = dict.fromkeys(request.body["groups_names"] or ())
    results = await asyncio.gather(*(_delete(node, name) for name in names))
    return {"throttle_time": 0, "results": results}


async def _delete(node: Node, name: str | None) -> dict[str, Any]:
    try:
        if name is None:
            error = ErrorCode.INVALID_GROUP_ID
        else:
            error = await asyncio.wrap_future(node.groups.delete(name), loop=node.loop)
    except RunnelError as failed:
        error = error_of(failed)
    return {"group_id": name or "", "error_code": error}
