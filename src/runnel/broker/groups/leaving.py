"""LeaveGroup: members go, or an administrator sends static ones away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runnel.broker.groups.group import Group, GroupState
from runnel.protocol.error_codes import ErrorCode


class Leaving(NamedTuple):
    member_id: str  # empty: named by the instance id alone, as administrators do
    instance_id: str | None


def leave(group: Group, leaving: Sequence[Leaving]) -> list[ErrorCode]:
    """One answer for each of them, and at most one rebalance for all."""
    before = len(group.members)
    answers = [_leave(group, each) for each in leaving]
    if group.state is GroupState.PREPARING_REBALANCE or len(group.members) < before:
        group.rebalance("members left")
    return answers


def _leave(group: Group, each: Leaving) -> ErrorCode:
    if each.member_id in group.invited:
        group.uninvite(each.member_id)
        return ErrorCode.NONE
    member_id = each.member_id or group.members.static_id(each.instance_id) or ""
    error = group.members.check(member_id, each.instance_id)
    if not error:
        group.remove(group.members[member_id])
    return error
