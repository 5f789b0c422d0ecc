"""A member leaves a consumer group, or is sent away: what it had is free at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from runnel.broker.groups.consumer.draft import Draft
from runnel.broker.groups.consumer.heartbeat import (
    HeartbeatAnswer,
    HeartbeatRequest,
    check_instance,
    drop_unused_expressions,
    unknown_member,
)
from runnel.broker.groups.consumer.member import AWAY
from runnel.broker.groups.consumer.migration import can_downgrade, downgrade
from runnel.broker.groups.consumer.target import raise_epoch
from runnel.broker.groups.consumer.world import World


def leave(draft: Draft, world: World, request: HeartbeatRequest) -> HeartbeatAnswer:
    if request.instance_id is None:
        member = draft.group.members.get(request.member_id)
        if member is None:
            raise unknown_member(request.member_id, draft.name)
    else:
        known = draft.group.static_member(request.instance_id)
        member = check_instance(known, request.member_id, request.instance_id)
    if request.epoch == AWAY:
        # It keeps what it has until its session ends. What it was about to let go, it has let go.
        draft.reconcile(replace(member, epoch=AWAY, revoking={}))
    else:
        remove(draft, world, [member.id])
    return HeartbeatAnswer(member_id=member.id, epoch=request.epoch)


def remove(draft: Draft, world: World, member_ids: Collection[str]) -> None:
    """They are no members any more. If only classic members remain, so does a classic group."""
    if can_downgrade(draft.group, world, without=member_ids):
        downgrade(draft, world, without=member_ids)
        return
    for member_id in member_ids:
        draft.remove(member_id)
    drop_unused_expressions(draft)
    raise_epoch(draft, world)
