"""AlterClientQuotas (49), versions 0 to 1: set or remove quotas of users, client ids, or both.

- `producer_byte_rate` and `consumer_byte_rate` are enforced from the moment of the answer, which is durable. The quotas
  of an entity change as a whole or not at all; with `validate_only` they are only checked.
- A name of None is the default of its type. Nobody logs in yet: the quota of a user named otherwise than ANONYMOUS is
  kept, and is nobody's.
- Everything that cannot be is INVALID_REQUEST. So are `request_percentage`, `controller_mutation_rate` and, for
  addresses, `connection_creation_rate`: Kafka has them, and nothing here would enforce them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runnel.broker.cluster import ClusterState, QuotaEntity, quota_entry
from runnel.broker.mistakes import Refusal, code_of, text_of
from runnel.broker.node import Node
from runnel.broker.quotas import CLIENT_ID, ENFORCED, IP, USER, Limits, entity_of
from runnel.broker.request import Body, Request
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode
from runnel.replay import Decision
from runnel.settings import INT64_MAX

MOST = float(INT64_MAX)  # a little more than that: Kafka's clients send their largest number as this one
NOT_ENFORCED = ("request_percentage", "controller_mutation_rate", "connection_creation_rate")


async def handle(node: Node, request: Request) -> Body:
    entries = [await _result(node, request, entry) for entry in request.body["entries"]]
    return {"throttle_time": 0, "entries": entries}


async def _result(node: Node, request: Request, entry: dict[str, Any]) -> dict[str, Any]:
    code, message = ErrorCode.NONE, None
    try:
        entity = _entity(entry["entity"])
        changes = _changes(entry["ops"])
        if not request.body["validate_only"]:
            await _change(node, entity, changes)
    except Refusal as refusal:
        code, message = refusal.code, text_of(refusal)
    except RunnelError as error:
        code, message = code_of(error), str(error)
    return {"error_code": code, "error_message": message, "entity": entry["entity"]}


def _entity(parts: list[dict[str, Any]]) -> QuotaEntity:
    types: dict[str, str | None] = {}
    for part in parts:
        kind, name = part["entity_type"], part["entity_name"]
        if kind == IP:
            _refuse("quotas of addresses are not enforced here: see max.connections.per.ip")
        if kind not in (USER, CLIENT_ID):
            _refuse(f"there are no quotas of the type {kind!r}: expected {USER} or {CLIENT_ID}")
        if kind in types:
            _refuse(f"the entity has {kind!r} more than once")
        if name == "":
            _refuse(f"the name of a {kind} is empty")
        types[kind] = name
    if not types:
        _refuse("the entity is empty")
    return entity_of(types)


def _changes(operations: list[dict[str, Any]]) -> dict[str, float | None]:
    changes: dict[str, float | None] = {}
    for operation in operations:
        key, value = operation["key"], operation["value"]
        if not operation["remove"]:
            _check(key, value)
        changes[key] = None if operation["remove"] else value
    return changes


def _check(key: str, value: float) -> None:
    if key in NOT_ENFORCED:
        _refuse(f"{key} is not enforced here: expected {' or '.join(ENFORCED)}")
    if key not in ENFORCED:
        _refuse(f"there is no quota {key!r}: expected {' or '.join(ENFORCED)}")
    if not value > 0:
        _refuse(f"{key} has to be greater than 0, and is {value:g}")
    if value > MOST:
        _refuse(f"{key} has to be at most {MOST:g}, and is {value:g}")
    if value != int(value):
        _refuse(f"{key} has to be a whole number, and is {value:g}")


def _refuse(message: str) -> None:
    raise Refusal(ErrorCode.INVALID_REQUEST, message)


async def _change(node: Node, entity: QuotaEntity, changes: dict[str, float | None]) -> None:
    def decide(state: ClusterState) -> Decision[Limits]:
        merged = {**state.quotas.get(entity, {}), **changes}
        values = {key: value for key, value in merged.items() if value is not None}
        others: dict[QuotaEntity, Mapping[str, float]] = {**state.quotas}
        others.pop(entity, None)
        return Decision(others | ({entity: values} if values else {}), [quota_entry(node.clock, entity, values)])

    node.quotas.change(await node.decide(decide))
