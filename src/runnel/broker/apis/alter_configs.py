"""AlterConfigs (33), versions 0 to 2: replace all that is set for a topic, a broker or a group.

- What is not named is reset to its default. Everything is checked first; it is answered when it is durable, and is in
  force then. With `validate_only` it is only checked.
- Errors are those of IncrementalAlterConfigs (44). The levels of loggers cannot be replaced: INVALID_REQUEST.
- Each resource is answered on its own; one that stands there twice is INVALID_REQUEST both times.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from runnel.broker.configs.altering import alter, refuse_repeated, result
from runnel.broker.mistakes import Refusal
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode


async def handle(node: Node, request: Request) -> Body:
    resources = request.body["resources"]
    times = Counter((resource["resource_type"], resource["resource_name"]) for resource in resources)
    responses = [await result(resource, _altered(node, request, resource, times)) for resource in resources]
    return {"throttle_time": 0, "responses": responses}


async def _altered(node: Node, request: Request, resource: dict[str, Any], times: Counter[tuple[int, str]]) -> None:
    refuse_repeated(resource, times)
    given = {}
    for config in resource["configs"]:
        if config["value"] is None:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{config['name']} has no value")
        given[config["name"]] = config["value"]
    await alter(
        node,
        resource["resource_type"],
        resource["resource_name"],
        lambda _: given,
        validate_only=request.body["validate_only"],
    )
