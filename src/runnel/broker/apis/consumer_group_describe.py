"""ConsumerGroupDescribe (69), versions 0 to 1: a consumer group's state, its members, what they have and shall have.

- The states are Empty, Assigning (there is no target for the group epoch yet), Reconciling (members are on their way to
  it), Stable. Version 1 says which protocol a member speaks: 0 the classic one, 1 the consumer protocol.
- An assignment has the partitions, too, that the member has yet to let go. Topics that are gone are left out.

Errors, for each: INVALID_GROUP_ID (no name at all), GROUP_ID_NOT_FOUND (or it is a classic group),
COORDINATOR_NOT_AVAILABLE, UNSUPPORTED_VERSION (group.coordinator.rebalance.protocols leaves the protocol out).
"""

from __future__ import annotations

import asyncio
from typing import Any

from runnel.broker.groups.answers import error_of
from runnel.broker.groups.consumer.group import ConsumerGroup
from runnel.broker.groups.consumer.member import ConsumerMember
from runnel.broker.groups.consumer.partitions import Partitions
from runnel.broker.node import Node
from runnel.broker.operations import GROUP, NOT_ASKED
from runnel.broker.request import Body, Request
from runnel.errors import RunnelError
from runnel.protocol.error_codes import ErrorCode

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
CONSUMER = "consumer"


async def handle(node: Node, request: Request) -> Body:
    operations = GROUP if request.body["include_authorized_operations"] else NOT_ASKED
    names = [name or "" for name in request.body["group_ids"] or ()]
    groups = await asyncio.gather(*(_described(node, name, operations) for name in names))
    return {"throttle_time": 0, "groups": groups}


async def _described(node: Node, name: str, operations: int) -> dict[str, Any]:
    if CONSUMER not in node.settings.group_coordinator_rebalance_protocols:
        return _missing(name, ErrorCode.UNSUPPORTED_VERSION, "The consumer protocol is not enabled.")
    if not name:
        return _missing(name, ErrorCode.INVALID_GROUP_ID, "The group has no name.")
    try:
        group = await asyncio.wrap_future(node.groups.consumer.describe(name), loop=node.loop)
    except RunnelError as failed:
        return _missing(name, error_of(failed), str(failed))
    if group is None:
        what = "is not a consumer group" if node.groups.describe(name) else "not found"
        return _missing(name, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} {what}.")
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "group_id": name,
        "group_state": group.state.value,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.preferred_assignor(default=node.settings.group_consumer_assignors[0]),
        "members": [_member(node, group, member) for member in group.members.values()],
        "authorized_operations": operations,
    }


def _missing(name: str, error: ErrorCode, message: str) -> dict[str, Any]:
    return {
        "error_code": error,
        "error_message": message,
        "group_id": name,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
        "authorized_operations": NOT_ASKED,
    }


def _member(node: Node, group: ConsumerGroup, member: ConsumerMember) -> dict[str, Any]:
    return {
        "member_id": member.id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topics,
        "subscribed_topic_regex": member.expression or "",
        "assignment": _assignment(node, member.held_partitions),
        "target_assignment": _assignment(node, group.target_of(member.id)),
        "member_type": CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    }


def _assignment(node: Node, partitions: Partitions) -> dict[str, Any]:
    return {
        "topic_partitions": [
            {"topic_id": id, "topic_name": topic.name, "partitions": sorted(numbers)}
            for id, numbers in partitions.items()
            if (topic := node.topics.find_id(id)) is not None
        ]
    }
