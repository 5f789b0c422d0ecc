"""The target assignment: what each member of a group is to have, made anew for a group epoch."""

from __future__ import annotations

from uuid import UUID

from runnel.broker.groups.consumer.assignors import ASSIGNORS, Subscriber
from runnel.broker.groups.consumer.draft import Draft
from runnel.broker.groups.consumer.member import ConsumerMember
from runnel.broker.groups.consumer.world import World, hash_of


def raise_epoch(draft: Draft, world: World) -> None:
    """Something has changed that the assignment depends on."""
    draft.set_epoch(draft.group.epoch + 1, hash_of(world.topics, draft.group.all_subscribed_topics()))


def update_target(draft: Draft, world: World) -> None:
    """Make a target for the group epoch if it has none, and the last one is not too recent."""
    group = draft.group
    if group.epoch <= group.assignment_epoch:
        return
    since = world.now - group.assigned_at
    if group.assigned_at and 0 <= since < world.intervals.assignment_interval:
        return  # many changes at once, such as a start of all members, shall be one
    known = {name: world.topics.find(name) for name in group.all_subscribed_topics()}
    ids = {name: topic.id for name, topic in known.items() if topic is not None}
    counts = {topic.id: topic.count for topic in known.values() if topic is not None}
    members = {member.id: _subscriber(draft, member, ids) for member in group.members.values()}
    assign = ASSIGNORS[group.preferred_assignor(default=world.settings.group_consumer_assignors[0])]
    draft.set_targets(assign(members, counts), group.epoch)


def _subscriber(draft: Draft, member: ConsumerMember, ids: dict[str, UUID]) -> Subscriber:
    names = draft.group.subscribed_topics(member)
    return Subscriber(
        frozenset(ids[name] for name in names if name in ids),
        draft.group.target_of(member.id),
        member.instance_id,
        member.rack_id,
    )
