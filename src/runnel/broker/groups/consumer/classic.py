"""Members of a consumer group that speak the classic protocol, while a group is changed over to the other.

Their generation is their member epoch, nobody leads, and the broker makes their assignments. A member hears of a new
target by REBALANCE_IN_PROGRESS, joins with what it has, and syncs to get its assignment; that it may have to do again
after it has let partitions go, and when others have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runnel.broker.groups.answers import JoinAnswer, SyncAnswer
from runnel.broker.groups.consumer.draft import Draft, subscribed_of
from runnel.broker.groups.consumer.embedded import (
    PROTOCOL_TYPE,
    known_partitions,
    read_subscription,
    write_assignment,
)
from runnel.broker.groups.consumer.group import ConsumerGroup
from runnel.broker.groups.consumer.heartbeat import (
    check_instance,
    drop_unused_expressions,
    go_on,
    take_over,
    topics_have_changed,
    unknown_member,
)
from runnel.broker.groups.consumer.leaving import remove
from runnel.broker.groups.consumer.member import ClassicPart, ConsumerMember, Progress
from runnel.broker.groups.consumer.migration import can_downgrade, downgrade
from runnel.broker.groups.consumer.target import raise_epoch, update_target
from runnel.broker.groups.consumer.world import World
from runnel.broker.groups.joining import JoinRequest
from runnel.broker.groups.leaving import Leaving
from runnel.broker.groups.members import GroupProtocol
from runnel.broker.groups.syncing import SyncRequest
from runnel.broker.mistakes import Refusal
from runnel.protocol.error_codes import ErrorCode

# --- JoinGroup


def join(draft: Draft, world: World, request: JoinRequest, *, topics_changed: bool) -> JoinAnswer:
    member_id = request.member_id or world.new_id()
    _check_join(draft.group, world, request, member_id)
    if not request.member_id and request.instance_id is None and request.may_be_sent_back:
        return JoinAnswer(member_id, ErrorCode.MEMBER_ID_REQUIRED)
    subscription = read_subscription(request.protocols[0].metadata)
    before = _joining(draft, request, member_id)
    after = replace(
        before,
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if subscription.rack_id is None else subscription.rack_id,
        rebalance_timeout=request.rebalance_timeout,
        topics=tuple(sorted(set(subscription.topics))),
        expression=None,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicPart(request.session_timeout, request.protocols),
    )
    if before.id not in draft.group.members or subscribed_of(after) != subscribed_of(before):
        draft.subscribe(after)
        drop_unused_expressions(draft)
    subscription_changed = after.topics != before.topics or after.expression != before.expression
    if subscription_changed or topics_have_changed(draft, world, topics_changed=topics_changed):
        raise_epoch(draft, world)
    update_target(draft, world)
    member = go_on(draft, world, member_id, known_partitions(subscription.owned, world.topics))
    if request.instance_id is not None and can_downgrade(draft.group, world, without=()):
        downgrade(draft, world, without=())  # it has replaced the last one that spoke the consumer protocol
    return JoinAnswer(
        member.id,
        generation=member.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
    )


def _check_join(group: ConsumerGroup, world: World, request: JoinRequest, member_id: str) -> None:
    most = world.settings.group_consumer_max_size
    if len(group.members) >= most and member_id not in group.members:
        raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The consumer group has its {most} members.")
    if request.protocol_type != PROTOCOL_TYPE or not _can_follow(group, request.protocols):
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocols of member {member_id} are not supported by the group.",
        )


def _can_follow(group: ConsumerGroup, protocols: Sequence[GroupProtocol]) -> bool:
    """Whether one of the protocols is one that all classic members know."""
    common = {protocol.name for protocol in protocols}
    for member in group.classic_members():
        common &= {protocol.name for protocol in member.classic.protocols} if member.classic else set()
    return bool(common)


def _joining(draft: Draft, request: JoinRequest, member_id: str) -> ConsumerMember:
    group = draft.group
    if request.instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    known = group.static_member(request.instance_id)
    if request.member_id:
        return check_instance(known, member_id, request.instance_id)
    return ConsumerMember(member_id) if known is None else take_over(draft, known, member_id)


# --- SyncGroup


def sync(group: ConsumerGroup, name: str, world: World, request: SyncRequest) -> SyncAnswer:
    member, classic = _classic_member(group, name, request.member_id, request.instance_id)
    _check_generation(member, request.generation)
    protocol = classic.protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol.name):
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Member {member.id} syncs with {request.protocol_type} {request.protocol_name}, "
            f"it joined with {PROTOCOL_TYPE} {protocol.name}.",
        )
    if member.epoch < group.assignment_epoch and member.progress is not Progress.UNREVOKED:
        raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, f"Member {member.id} should join again to catch up.")
    version = read_subscription(protocol.metadata).version
    assignment = write_assignment(version, member.assigned_partitions, world.topics)
    return SyncAnswer(ErrorCode.NONE, request.protocol_type, request.protocol_name, assignment)


# --- Heartbeat


def heartbeat(draft: Draft, world: World, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    member, _ = _classic_member(draft.group, draft.name, member_id, instance_id)
    _check_generation(member, generation)
    update_target(draft, world)
    if member.epoch < draft.group.assignment_epoch or member.progress is Progress.UNREVOKED:
        return ErrorCode.REBALANCE_IN_PROGRESS
    if member.progress is Progress.UNRELEASED and not _waits_for_others(draft.group, member):
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    return any(
        group.owners.get((topic, number), member.id) != member.id
        for topic, numbers in group.target_of(member.id).items()
        for number in numbers
    )


# --- LeaveGroup


def leave(draft: Draft, world: World, leaving: Sequence[Leaving]) -> list[ErrorCode]:
    """One answer for each. Administrators may send away those of the other protocol, too."""
    answers, gone = [], []
    for each in leaving:
        try:
            gone.append(_leaving(draft, each).id)
            answers.append(ErrorCode.NONE)
        except Refusal as refusal:
            answers.append(refusal.code)
    if gone:
        remove(draft, world, dict.fromkeys(gone))
    return answers


def _leaving(draft: Draft, each: Leaving) -> ConsumerMember:
    if each.instance_id is None:
        member = draft.group.members.get(each.member_id)
        if member is None:
            raise unknown_member(each.member_id, draft.name)
        return member
    known = draft.group.static_member(each.instance_id)
    own_id = each.member_id or (known.id if known is not None else "")
    return check_instance(known, own_id, each.instance_id)


# --- what they have in common


def _classic_member(
    group: ConsumerGroup, name: str, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicPart]:
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise unknown_member(member_id, name)
    else:
        member = check_instance(group.static_member(instance_id), member_id, instance_id)
    if member.classic is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.id} does not use the classic protocol.")
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise Refusal(
            ErrorCode.ILLEGAL_GENERATION,
            f"The generation {generation} is not the member epoch {member.epoch} of member {member.id}.",
        )
