"""ConsumerGroupHeartbeat: a member joins, is alive, lets go, gets, or leaves.

Each decision is made by a function of the group and of its `World`; see `runnel.replay`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from runnel.broker.groups.consumer.draft import Draft, current_of, subscribed_of
from runnel.broker.groups.consumer.expressions import topic_filter
from runnel.broker.groups.consumer.group import ConsumerGroup
from runnel.broker.groups.consumer.member import AWAY, JOINING, LEAVING, ConsumerMember
from runnel.broker.groups.consumer.partitions import Partitions, is_within
from runnel.broker.groups.consumer.reconciling import reconciled
from runnel.broker.groups.consumer.target import raise_epoch, update_target
from runnel.broker.groups.consumer.world import World, hash_of
from runnel.broker.groups.records import fits
from runnel.broker.mistakes import Refusal
from runnel.protocol.error_codes import ErrorCode

UNSAID = -1  # a time-out that the request does not tell


class HeartbeatRequest(NamedTuple):
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout: int = UNSAID
    topics: tuple[str, ...] | None = None  # None: as before
    expression: str | None = None  # None: as before; empty: none any more
    assignor: str | None = None
    owned: Partitions | None = None  # None: as before
    client_id: str = ""
    client_host: str = ""

    @property
    def leaves(self) -> bool:
        return self.epoch in (LEAVING, AWAY)

    @property
    def is_full(self) -> bool:
        """Whether all is told: then all is answered."""
        told = self.rebalance_timeout != UNSAID and self.owned is not None
        return self.epoch == JOINING or (told and (self.topics is not None or self.expression is not None))


class HeartbeatAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval: int = 0
    assignment: Partitions | None = None  # None: as before


# --- what a request must be


def check(request: HeartbeatRequest, group: str, world: World, *, needs_member_id: bool) -> None:
    """Refusal if it cannot be, whatever the group is."""
    _refuse_empty(group, "GroupId")
    _refuse_empty(request.instance_id, "InstanceId")
    _refuse_empty(request.rack_id, "RackId")
    if not request.member_id and (needs_member_id or request.epoch != JOINING):
        raise _invalid("MemberId can't be empty.")
    if request.epoch == JOINING:
        _check_join(request)
    elif request.epoch == AWAY and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif request.epoch < AWAY:
        raise _invalid(f"MemberEpoch is {request.epoch}, expected at least {AWAY}.")
    known = world.settings.group_consumer_assignors
    if request.assignor is not None and request.assignor not in known:
        raise Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.assignor} is not supported. Supported assignors: {', '.join(known)}.",
        )
    if not fits(group, request.member_id, request.instance_id, request.expression):
        raise _invalid("GroupId, MemberId, InstanceId or SubscribedTopicRegex is longer than 32,767 bytes.")


def _check_join(request: HeartbeatRequest) -> None:
    if request.rebalance_timeout == UNSAID:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.topics is None and request.expression is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _refuse_empty(text: str | None, name: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


# --- a heartbeat


def heartbeat(draft: Draft, world: World, request: HeartbeatRequest, *, topics_changed: bool) -> HeartbeatAnswer:
    """The group is there, or is made; see `leaving.py` for those who leave."""
    _check_room(draft.group, request.member_id, world.settings.group_consumer_max_size)
    before = _member(draft, request)
    subscription_changed = _subscribed(draft, request, before)
    if subscription_changed or topics_have_changed(draft, world, topics_changed=topics_changed):
        raise_epoch(draft, world)
    update_target(draft, world)
    after = go_on(draft, world, request.member_id, request.owned)
    same = after.assigned_partitions == before.assigned_partitions
    return HeartbeatAnswer(
        member_id=after.id,
        epoch=after.epoch,
        interval=world.intervals.heartbeat_interval,
        assignment=None if same and not request.is_full else after.assigned_partitions,
    )


def _check_room(group: ConsumerGroup, member_id: str, most: int) -> None:
    if len(group.members) >= most and member_id not in group.members:
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The consumer group has reached its maximum capacity of {most} members."
        )


def topics_have_changed(draft: Draft, world: World, *, topics_changed: bool) -> bool:
    """Whether topics of the group came, went or grew; they are looked at only if any topic did."""
    if not topics_changed:
        return False
    return hash_of(world.topics, draft.group.all_subscribed_topics()) != draft.group.topics_hash


def _member(draft: Draft, request: HeartbeatRequest) -> ConsumerMember:
    """The member as it is before this request; Refusal if it is none, or is not the one it says."""
    joins = request.epoch == JOINING
    if request.instance_id is None:
        known = draft.group.members.get(request.member_id)
        if known is None and not joins:
            raise unknown_member(request.member_id, draft.name)
        member = known or ConsumerMember(request.member_id)
    else:
        known = draft.group.static_member(request.instance_id)
        if joins:
            return _static_member(draft, request, known)
        member = check_instance(known, request.member_id, request.instance_id)
    _check_epoch(member, request)
    return member


def _static_member(draft: Draft, request: HeartbeatRequest, known: ConsumerMember | None) -> ConsumerMember:
    if known is None:
        return ConsumerMember(request.member_id)
    if known.classic is None and known.epoch != AWAY:
        raise Refusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group because "
            f"the instance id is owned by {known.id} member.",
        )
    return take_over(draft, known, request.member_id)


def take_over(draft: Draft, known: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member is back under another id: it has what it had, and what was meant for it."""
    target = draft.group.target_of(known.id)
    draft.remove(known.id)
    member = replace(known, id=member_id, epoch=JOINING, previous_epoch=JOINING)
    draft.subscribe(member)
    draft.set_target(member_id, target)
    draft.reconcile(member)
    return member


def check_instance(known: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    if known is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if known.id != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {known.id}.",
        )
    return known


def unknown_member(member_id: str, group: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group}.")


def _check_epoch(member: ConsumerMember, request: HeartbeatRequest) -> None:
    if request.epoch == member.epoch or request.epoch == JOINING:
        return
    if request.epoch < member.epoch:
        # The answer with the new epoch may have been lost.
        missed_one = request.epoch == member.previous_epoch
        if missed_one and request.owned is not None and is_within(request.owned, member.assigned_partitions):
            return
    how = "greater" if request.epoch > member.epoch else "smaller"
    raise Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({request.epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _subscribed(draft: Draft, request: HeartbeatRequest, before: ConsumerMember) -> bool:
    """Take over what the member tells; whether the assignment depends on what changed."""
    after = replace(
        before,
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout=(
            before.rebalance_timeout if request.rebalance_timeout == UNSAID else request.rebalance_timeout
        ),
        topics=before.topics if request.topics is None else tuple(sorted(set(request.topics))),
        expression=before.expression if request.expression is None else request.expression or None,
        assignor=before.assignor if request.assignor is None else request.assignor,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
    )
    if after.expression is not None and after.expression != before.expression:
        topic_filter(after.expression)  # or it is refused
    is_new = before.id not in draft.group.members
    if is_new or subscribed_of(after) != subscribed_of(before):
        draft.subscribe(after)
        drop_unused_expressions(draft)
    resolved = after.expression is None or after.expression in draft.group.expressions
    by_expression = after.expression != before.expression and resolved
    return after.topics != before.topics or by_expression or draft.group.epoch == 0


def drop_unused_expressions(draft: Draft) -> None:
    used = {member.expression for member in draft.group.members.values()}
    for expression in tuple(draft.group.expressions):
        if expression not in used:
            draft.set_expression(expression, None)


def go_on(draft: Draft, world: World, member_id: str, owned: Partitions | None) -> ConsumerMember:
    """Let the member take its next step."""
    group = draft.group
    member = group.members[member_id]
    target = _wanted(group, world, member)
    after = reconciled(group, member, target, owned)
    if current_of(after) != current_of(member):
        draft.reconcile(after)
    return after


def _wanted(group: ConsumerGroup, world: World, member: ConsumerMember) -> Partitions:
    """What is meant for the member, without topics that it is not subscribed to any more."""
    target = group.target_of(member.id)
    if group.assignment_epoch == group.epoch:
        return target
    ids = {topic.id for name in group.subscribed_topics(member) if (topic := world.topics.find(name)) is not None}
    return {topic: numbers for topic, numbers in target.items() if topic in ids}
