"""ListGroups (16), versions 0 to 5: all groups, or those in some states (version 4) or of some types (version 5).

States and types are compared without regard to case. A group is of the type `classic` or `consumer`.

Errors: COORDINATOR_NOT_AVAILABLE (the state of the groups cannot be read now).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runnel.broker.groups.answers import error_of, told
from runnel.broker.groups.consumer.group import ConsumerGroupState
from runnel.broker.node import Node
from runnel.broker.request import Answer, Request
from runnel.protocol.error_codes import ErrorCode

CLASSIC, CONSUMER = "classic", "consumer"


def handle(node: Node, request: Request) -> Answer:
    states = {(state or "").lower() for state in request.body["states_filter"] or ()}
    types = {(kind or "").lower() for kind in request.body["types_filter"] or ()}

    def body(consumer: dict[str, ConsumerGroupState]) -> dict[str, Any]:
        listed = [*_classic(node), *_consumer(consumer)]
        groups = [
            group
            for group in listed
            if (not states or group["group_state"].lower() in states) and (not types or group["group_type"] in types)
        ]
        return {"throttle_time": 0, "error_code": ErrorCode.NONE, "groups": groups}

    return told(
        node.groups.consumer.states(),
        body,
        lambda failed: {"throttle_time": 0, "error_code": error_of(failed), "groups": ()},
    )


def _classic(node: Node) -> Iterator[dict[str, str]]:
    for group in map(node.groups.describe, node.groups.names()):
        if group is not None:
            yield _listed(group.name, group.protocol_type, group.state.value, CLASSIC)


def _consumer(states: dict[str, ConsumerGroupState]) -> Iterator[dict[str, str]]:
    for name, state in states.items():
        yield _listed(name, CONSUMER, state.value, CONSUMER)


def _listed(name: str, protocol_type: str, state: str, kind: str) -> dict[str, str]:
    return {"group_id": name, "protocol_type": protocol_type, "group_state": state, "group_type": kind}
