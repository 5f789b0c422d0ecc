"""SyncGroup and Heartbeat: a member asks for its assignment, and says that it is alive.

SyncGroup is answered when the leader's assignments are durable, or at once in a stable group.
"""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from runnel.broker.groups.answers import SyncAnswer, error_of, kept, promise
from runnel.broker.groups.group import Group, GroupState
from runnel.protocol.error_codes import ErrorCode


class SyncRequest(NamedTuple):
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None  # None: not told
    protocol_name: str | None
    assignments: dict[str, bytes]  # the leader's


# --- SyncGroup


def sync(group: Group, request: SyncRequest) -> Future[SyncAnswer]:
    error = _check(group, request)
    if error:
        return kept(SyncAnswer(error))
    member = group.members[request.member_id]
    group.has_synced(member)
    if group.state is GroupState.STABLE:
        return kept(group.sync_answer(member))
    waiting: Future[SyncAnswer] = promise()
    member.await_sync(waiting)
    if group.is_leader(member):
        _store_assignments(group, request)
    return waiting


def _check(group: Group, request: SyncRequest) -> ErrorCode:
    error = group.members.check(request.member_id, request.instance_id)
    if error:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _store_assignments(group: Group, request: SyncRequest) -> None:
    """Whoever the leader has forgotten gets nothing, but an answer."""
    then = partial(_assignments_stored, group, request)
    group.home.store(group.name, group.stored(request.assignments), then)


def _assignments_stored(group: Group, request: SyncRequest, error: BaseException | None) -> None:
    if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != request.generation:
        return  # the group has moved on, and all who waited know
    if error is None:
        group.assign(request.assignments)
    else:
        group.reject_assignments(error_of(error))
        group.rebalance(f"the assignments could not be stored: {error}")


# --- Heartbeat


def heartbeat(group: Group, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    error = group.members.check(member_id, instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    group.heard_from(group.members[member_id])
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING_REBALANCE else ErrorCode.NONE
