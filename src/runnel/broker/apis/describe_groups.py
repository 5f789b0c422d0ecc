"""DescribeGroups (15), versions 0 to 6: a group's state, its members and their assignments.

A group that does not exist, or is a consumer group, is in the state Dead, and from version 6 GROUP_ID_NOT_FOUND. The
members' metadata and the protocol are told of a stable group only. What the client may do is told when it asks (version
3 and later) and there is no error.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.groups import DescribedGroup, DescribedMember
from runnel.broker.node import Node
from runnel.broker.operations import GROUP, NOT_ASKED
from runnel.broker.request import Answer, Request
from runnel.protocol.error_codes import ErrorCode

FIRST_THAT_MISSES_GROUPS = 6


def handle(node: Node, request: Request) -> Answer:
    operations = GROUP if request.body["include_authorized_operations"] else NOT_ASKED
    groups = []
    for name in request.body["groups"] or ():
        described = _described(node.groups.describe(name or ""), name or "", request.version)
        if described["error_code"] and name in node.groups.consumer:
            described["error_message"] = f"Group {name} is not a classic group."
        described["authorized_operations"] = NOT_ASKED if described["error_code"] else operations
        groups.append(described)
    return {"throttle_time": 0, "groups": groups}


def _described(group: DescribedGroup | None, name: str, version: int) -> dict[str, Any]:
    if group is None:
        return _group(name, "Dead", missing=version >= FIRST_THAT_MISSES_GROUPS)
    described = _group(name, group.state.value)
    return described | {
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol_name,
        "members": [_member(member) for member in group.members],
    }


def _group(name: str, state: str, *, missing: bool = False) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
        "error_message": f"Group {name} not found." if missing else None,
        "group_id": name,
        "group_state": state,
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
    }


def _member(member: DescribedMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.metadata,
        "member_assignment": member.assignment,
    }
