"""JoinGroup: somebody wants to be in the next generation.

It is answered when that generation begins, or at once: with an error, with an id to come back with, or, for a member
whose wish changes nothing, with the generation that is.
"""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from runnel.broker.groups.answers import JoinAnswer, error_of, kept, promise
from runnel.broker.groups.group import Group, GroupState
from runnel.broker.groups.members import GroupProtocol, Member, Named
from runnel.protocol.error_codes import ErrorCode


class JoinRequest(NamedTuple):
    member_id: str  # empty: it has none yet
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    may_be_sent_back: bool  # for an id, with MEMBER_ID_REQUIRED
    may_skip_assignment: bool


def join(group: Group, request: JoinRequest) -> Future[JoinAnswer]:
    if not _has_room(group, request):
        return _send_away(group, request.member_id)
    if not _fits(group, request):
        return kept(JoinAnswer(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if request.member_id:
        return _join_as_known(group, request)
    return _join_as_unknown(group, request)


def _has_room(group: Group, request: JoinRequest) -> bool:
    most = group.home.settings().group_max_size
    known = group.members.find(request.member_id or group.members.static_id(request.instance_id) or "")
    if group.state is GroupState.PREPARING_REBALANCE:
        # By those who have joined: so the last ones to come are sent away when the limit was lowered.
        return (known is not None and known.join is not None) or group.members.joined < most
    return group.state is GroupState.EMPTY or known is not None or len(group.members) < most


def _send_away(group: Group, member_id: str) -> Future[JoinAnswer]:
    if member_id in group.invited:
        group.uninvite(member_id)
    if member_id in group.members:
        group.remove(group.members[member_id])
    if group.state is GroupState.PREPARING_REBALANCE:
        group.rebalance(f"there is no room for {member_id}")
    return kept(JoinAnswer("", ErrorCode.GROUP_MAX_SIZE_REACHED))


def _fits(group: Group, request: JoinRequest) -> bool:
    if group.state is GroupState.EMPTY:
        return bool(request.protocol_type and request.protocols)
    return request.protocol_type == group.protocol_type and group.members.can_follow_one_of(request.protocols)


def _join_as_unknown(group: Group, request: JoinRequest) -> Future[JoinAnswer]:
    member_id = group.new_member_id(request.client_id, request.instance_id)
    previous = group.members.static_id(request.instance_id)
    if previous is not None:
        return _take_over(group, request, group.members[previous], member_id)
    if request.instance_id is None and request.may_be_sent_back:
        group.invite(member_id, request.session_timeout)
        return kept(JoinAnswer(member_id, ErrorCode.MEMBER_ID_REQUIRED))
    return _admit(group, request, member_id)


def _join_as_known(group: Group, request: JoinRequest) -> Future[JoinAnswer]:
    if request.member_id in group.invited and request.instance_id is None:
        return _admit(group, request, request.member_id)
    error = group.members.check(request.member_id, request.instance_id)
    if error:
        return kept(JoinAnswer(request.member_id, error))
    member = group.members[request.member_id]
    changes = request.protocols != member.protocols
    if group.state is GroupState.COMPLETING_REBALANCE and not changes:
        return kept(group.join_answer(member))  # the answer that it had got lost
    if group.state is GroupState.STABLE and not changes and not group.is_leader(member):
        return kept(group.join_answer(member))
    waiting = _update(member, request)
    group.rebalance(f"{member.id} joins again{' with changes' if changes else ''}")
    return waiting


def _admit(group: Group, request: JoinRequest, member_id: str) -> Future[JoinAnswer]:
    member = Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout,
        request.session_timeout,
        request.protocols,
    )
    group.admit_new(member, request.protocol_type)
    waiting = _update(member, request)
    group.rebalance(f"{member_id} is new")
    return waiting


def _update(member: Member, request: JoinRequest) -> Future[JoinAnswer]:
    member.protocols = request.protocols
    member.rebalance_timeout = request.rebalance_timeout
    member.session_timeout = request.session_timeout
    waiting: Future[JoinAnswer] = promise()
    member.await_join(waiting)
    return waiting


# --- a static member that comes back


def _take_over(group: Group, request: JoinRequest, member: Member, member_id: str) -> Future[JoinAnswer]:
    """It gets a new id, and whoever uses the old one is fenced. In a stable group nothing else changes."""
    before, leader = member.named(), group.members.leader or ""
    member.dismiss(ErrorCode.FENCED_INSTANCE_ID, member.id)
    group.rename(member, member_id)
    member.client_id, member.client_host = request.client_id, request.client_host
    waiting = _update(member, request)
    group.heard_from(member)
    if group.state is GroupState.STABLE and group.members.elect_protocol() == group.protocol_name:
        assignments = {each.id: each.assignment for each in group.members}
        member.stored_as = member.stored_as or before  # several may come while the disk takes its time
        taken_over = partial(_taken_over, group, member, member.named(), leader, request.may_skip_assignment)
        group.home.store(group.name, group.stored(assignments), taken_over)
    else:
        member.stored_as = None
        group.rebalance(f"the static member {request.instance_id} is back")
    return waiting


def _taken_over(
    group: Group, member: Member, name: Named, leader: str, skips: bool, error: BaseException | None
) -> None:
    if group.state is GroupState.DEAD or group.members.find(member.id) is not member:
        return  # it has left meanwhile
    if member.id != name.member_id:  # another one has come in its place: that is answered when it is stored
        if error is None and member.stored_as is not None:
            member.stored_as = name
        return
    before, member.stored_as = member.stored_as, None
    if error is not None:
        member.answer_join(JoinAnswer("", error_of(error)))
        if before is not None:
            member.protocols = before.protocols
            member.rebalance_timeout, member.session_timeout = before.rebalance_timeout, before.session_timeout
            group.rename(member, before.member_id)
        group.heard_from(member)
        return
    answer = group.join_answer(member)
    group.heard_from(member)  # its session may have ended while it waited for the disk
    if skips:
        member.answer_join(answer._replace(skip_assignment=group.is_leader(member)))
    else:
        # An older client that is told it leads would assign anew; under the old id nobody does.
        member.answer_join(answer._replace(leader=leader, members=()))
