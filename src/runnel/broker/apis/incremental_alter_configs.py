"""IncrementalAlterConfigs (44), versions 0 to 1: change some configurations of a topic, broker, its loggers or a group.

- SET and DELETE change one; APPEND and SUBTRACT change the parts of a list, beginning with its default if it was not
  set. What is appended twice stands there once.
- A resource is changed as a whole or not at all. It is answered when the change is durable, and is in force then; the
  levels of loggers are the process's and last as long. With `validate_only` it is only checked.
- A topic's unknown name or bad value is INVALID_CONFIG, a broker's INVALID_REQUEST, as in Kafka. What a broker cannot
  change at run time is INVALID_REQUEST too, and so is a resource or a name that stands there twice. Unlike Kafka, a
  broker refuses names that it does not know. Its own topics are INVALID_REQUEST: what is set for them is fixed.
- Client metrics are not taken, so a subscription is INVALID_CONFIG.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from runnel.broker.configs.altering import Configs, alter, alter_loggers, refuse_repeated, result
from runnel.broker.configs.catalogue import BROKER, CLIENT_METRICS, GROUP, TOPIC, Type, find
from runnel.broker.configs.resources import Kind, kind_of
from runnel.broker.configs.values import as_text, split
from runnel.broker.mistakes import Refusal
from runnel.broker.node import Node
from runnel.broker.request import Body, Request
from runnel.protocol.error_codes import ErrorCode

CATALOGUES = {
    Kind.TOPIC: TOPIC,
    Kind.BROKER: BROKER,
    Kind.GROUP: GROUP,
    Kind.CLIENT_METRICS: CLIENT_METRICS,
}


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def handle(node: Node, request: Request) -> Body:
    resources = request.body["resources"]
    times = Counter((resource["resource_type"], resource["resource_name"]) for resource in resources)
    responses = [await result(resource, _altered(node, request, resource, times)) for resource in resources]
    return {"throttle_time": 0, "responses": responses}


async def _altered(node: Node, request: Request, resource: dict[str, Any], times: Counter[tuple[int, str]]) -> None:
    refuse_repeated(resource, times)
    kind, name = kind_of(resource["resource_type"]), resource["resource_name"]
    changes = resource["configs"]
    for change in changes:
        _refuse_malformed(change)
    validate_only = request.body["validate_only"]
    if kind is Kind.BROKER_LOGGER:
        alter_loggers(node, name, _levels(changes), validate_only=validate_only)
        return
    defaults = node.settings.topic_defaults() if kind is Kind.TOPIC else {}
    await alter(
        node,
        kind,
        name,
        lambda before: _changed(CATALOGUES[kind], before, changes, defaults),
        validate_only=validate_only,
    )


def _refuse_malformed(change: dict[str, Any]) -> None:
    if change["config_operation"] not in iter(Operation):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no operation {change['config_operation']}")
    if change["value"] is None and change["config_operation"] != Operation.DELETE:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{change['name']} has no value")


def _levels(changes: list[dict[str, Any]]) -> dict[str, str | None]:
    for change in changes:
        if change["config_operation"] in (Operation.APPEND, Operation.SUBTRACT):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"the level of {change['name']} is no list")
    return {
        change["name"]: change["value"] if change["config_operation"] == Operation.SET else None for change in changes
    }


def _changed(
    catalogue: str, before: Mapping[str, str], changes: list[dict[str, Any]], defaults: Mapping[str, Any]
) -> Configs:
    after = dict(before)
    for change in changes:
        name, operation = change["name"], change["config_operation"]
        if operation == Operation.SET:
            after[name] = change["value"]
        elif operation == Operation.DELETE:
            after.pop(name, None)
        else:
            config = find(catalogue, name, change["value"])
            if config.type is not Type.LIST:
                raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} is no list: nothing can be added or taken away")
            present = after.get(name, as_text(defaults.get(name, config.default)) or "")
            after[name] = _list_with(operation, split(present), split(change["value"]))
    return after


def _list_with(operation: int, present: tuple[str, ...], parts: tuple[str, ...]) -> str:
    if operation == Operation.APPEND:
        return ",".join(dict.fromkeys([*present, *parts]))
    return ",".join(part for part in present if part not in parts)
