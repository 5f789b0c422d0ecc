"""DescribeClientQuotas (48), versions 0 to 1: the quotas of users, client ids and addresses that fit a filter.

- A component of the filter names a type (`user`, `client-id`, `ip`) and matches one name exactly, the default, or any.
  An entity fits if it has every type of the filter and each matches; a strict filter fits no entity with further types.
  Without components everything fits, or nothing if it is strict.
- A malformed filter is INVALID_REQUEST, and an unknown type UNSUPPORTED_VERSION, as in Kafka. KAFKA_STORAGE_ERROR: the
  disk is ill, and what is set is not known now.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.cluster import QuotaEntity
from runnel.broker.mistakes import Refusal, code_of, text_of
from runnel.broker.node import Node
from runnel.broker.quotas import CLIENT_ID, IP, USER
from runnel.broker.request import Body, Request
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision

EXACT, DEFAULT, ANY = 0, 1, 2


async def handle(node: Node, request: Request) -> Body:
    try:
        components = _components(request.body["components"])
        quotas = await node.decide(lambda state: Decision(dict(state.quotas)))
    except (Refusal, RunnelError) as error:
        return _answer(code_of(error), text_of(error), None)
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
            "values": [{"key": key, "value": value} for key, value in values.items()],
        }
        for entity, values in quotas.items()
        if _fits(entity, components, strict=request.body["strict"])
    ]
    return _answer(ErrorCode.NONE, None, entries)


def _components(asked: list[dict[str, Any]]) -> dict[str, tuple[int, str | None]]:
    components: dict[str, tuple[int, str | None]] = {}
    for component in asked:
        kind, how, match = component["entity_type"], component["match_type"], component["match"]
        if not kind:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a component of the filter has no type")
        if kind not in (USER, CLIENT_ID, IP):
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"there are no quotas of the type {kind!r}")
        if kind in components:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"the filter has {kind!r} more than once")
        if how not in (EXACT, DEFAULT, ANY):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no match type {how}")
        if (how == EXACT) != (match is not None):
            needed = "a name to match" if how == EXACT else "no name to match"
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{kind!r} needs {needed} with match type {how}")
        components[kind] = (how, match)
    if IP in components and len(components) > 1:
        raise Refusal(ErrorCode.INVALID_REQUEST, "an address cannot be combined with users or client ids")
    return components


def _fits(entity: QuotaEntity, components: dict[str, tuple[int, str | None]], *, strict: bool) -> bool:
    types = dict(entity)
    if strict and types.keys() != components.keys():
        return False
    return all(
        kind in types and (how == ANY or types[kind] == match)  # the default's name is None, and so is its match
        for kind, (how, match) in components.items()
    )


def _answer(code: ErrorCode, message: str | None, entries: list[dict[str, Any]] | None) -> Body:
    return {"throttle_time": 0, "error_code": code, "error_message": message, "entries": entries}
