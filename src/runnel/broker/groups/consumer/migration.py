"""A group changes from one protocol to the other while its members are alive.

It becomes a consumer group when somebody joins who speaks the consumer protocol, and a classic one when the last such
member is gone and others remain. Who may do which is said by group.consumer.migration.policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from runnel.broker.groups.consumer.draft import Draft
from runnel.broker.groups.consumer.embedded import (
    PROTOCOL_TYPE,
    known_partitions,
    read_assignment,
    read_subscription,
    write_assignment,
)
from runnel.broker.groups.consumer.group import ConsumerGroup
from runnel.broker.groups.consumer.member import ClassicPart, ConsumerMember, Progress
from runnel.broker.groups.consumer.partitions import partitions_of, places
from runnel.broker.groups.consumer.remainder import Remainder
from runnel.broker.groups.consumer.world import World
from runnel.broker.groups.group import Group, GroupState
from runnel.broker.groups.members import Member, Members
from runnel.broker.groups.records import StoredGroup
from runnel.broker.mistakes import Refusal
from runnel.protocol.error_codes import ErrorCode

UPGRADING = frozenset({"upgrade", "bidirectional"})
DOWNGRADING = frozenset({"downgrade", "bidirectional"})


# --- to a consumer group


def check_upgrade(group: Group, world: World) -> None:
    """Refusal if a classic group with members cannot become a consumer group."""
    reason = None
    if world.settings.group_consumer_migration_policy not in UPGRADING:
        reason = "group.consumer.migration.policy does not allow to upgrade it"
    elif group.protocol_type != PROTOCOL_TYPE or group.protocol_name is None:
        reason = "its members are not consumers, or have not found together yet"
    elif len(group.members) > world.settings.group_consumer_max_size:
        reason = "it has more members than group.consumer.max.size allows"
    if reason is not None:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.name} is not a consumer group: {reason}.")


def upgrade(draft: Draft, world: World, group: Group) -> None:
    """The members stay, each with what it had in the last generation.

    A rebalance that was begun anew has no assignments: then cooperative members have what they said when they joined,
    and may commit it. (Apache Kafka gives that to others.)
    """
    draft.set_epoch(group.generation, 0)
    members = [_as_consumer_member(group, member, world) for member in group.members]
    if group.state is not GroupState.STABLE:
        members = _with_what_they_kept(group, members, world)
    for member in members:
        draft.subscribe(member)
        draft.set_target(member.id, member.assigned_partitions)
    draft.set_target_epoch(group.generation, 0)
    for member in members:
        draft.reconcile(member)


def _as_consumer_member(group: Group, member: Member, world: World) -> ConsumerMember:
    try:
        subscription = read_subscription(member.metadata(group.protocol_name))
        assigned = known_partitions(read_assignment(member.assignment), world.topics)
    except Refusal as malformed:
        raise Refusal(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.name} cannot become a consumer group: {malformed}."
        ) from malformed
    return ConsumerMember(
        member.id,
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        tuple(sorted(set(subscription.topics))),
        None,
        member.rebalance_timeout,
        None,
        ClassicPart(member.session_timeout, member.protocols),
        epoch=group.generation,
        previous_epoch=group.generation,
        progress=Progress.STABLE,
        assigned={topic: dict.fromkeys(numbers, group.generation) for topic, numbers in assigned.items()},
    )


def _with_what_they_kept(group: Group, members: list[ConsumerMember], world: World) -> list[ConsumerMember]:
    """Those without an assignment have what they own, unless others have it."""
    taken = {place for member in members for place in places(member.assigned_partitions)}
    result = []
    for before, member in zip(group.members, members, strict=True):
        owned = known_partitions(read_subscription(before.metadata(group.protocol_name)).owned, world.topics)
        kept = set() if member.assigned else set(places(owned)) - taken
        taken |= kept
        given = {topic: dict.fromkeys(numbers, member.epoch) for topic, numbers in partitions_of(kept).items()}
        result.append(replace(member, assigned=given) if kept else member)
    return result


# --- to a classic group


def can_downgrade(group: ConsumerGroup, world: World, *, without: Iterable[str]) -> bool:
    """Whether the group is to become a classic one when those members are gone."""
    gone = set(without)
    remaining = [member for member in group.members.values() if member.id not in gone]
    return (
        bool(remaining)
        and all(member.classic is not None for member in remaining)
        and world.settings.group_consumer_migration_policy in DOWNGRADING
        and len(remaining) <= world.settings.group_max_size
    )


def downgrade(draft: Draft, world: World, *, without: Iterable[str]) -> None:
    """Those who remain are a classic group, each with what was meant for it."""
    group, gone = draft.group, set(without)
    members = Members()
    for member in group.members.values():
        if member.id not in gone and member.classic is not None:
            members.add(_as_classic_member(group, member, member.classic, world))
    protocol_name = members.elect_protocol()
    stored = StoredGroup(
        PROTOCOL_TYPE,
        group.epoch,
        protocol_name,
        members.leader,
        world.now,
        tuple(member.stored(protocol_name, member.assignment) for member in members),
    )
    draft.become_classic(Remainder(group.epoch, protocol_name, members, stored))


def _as_classic_member(group: ConsumerGroup, member: ConsumerMember, classic: ClassicPart, world: World) -> Member:
    version = read_subscription(classic.protocols[0].metadata).version
    return Member(
        member.id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout,
        classic.session_timeout,
        classic.protocols,
        write_assignment(version, group.target_of(member.id), world.topics),
    )
