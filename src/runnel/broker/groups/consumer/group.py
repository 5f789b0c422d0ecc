"""One consumer group of KIP-848, as it is durable. Only `apply` changes it, one record at a time.

The *group epoch* rises whenever something changes that the assignment depends on. The *assignment epoch* is the group
epoch that the target assignment was made for. Each member goes its own way to the target, and its *member epoch* says
how far it has come: there is no moment at which all stop.

What is not in the records follows from them: who owns a partition, and which member an instance id belongs to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from runnel.broker.groups.consumer.member import ConsumerMember
from runnel.broker.groups.consumer.partitions import NOWHERE, Partitions, Place
from runnel.broker.groups.consumer.records import (
    Current,
    CurrentKey,
    Epoch,
    EpochKey,
    ExpressionKey,
    Key,
    MemberKey,
    Subscribed,
    Target,
    TargetEpoch,
    TargetEpochKey,
    TargetKey,
    TopicsOfExpression,
    Value,
)


class ConsumerGroupState(StrEnum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the target is older than the group epoch
    RECONCILING = "Reconciling"  # some members are on their way
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class ConsumerGroup:
    epoch: int = 0
    topics_hash: int = 0  # of the topics that members are subscribed to, when the epoch rose last
    assignment_epoch: int = 0
    assigned_at: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    expressions: dict[str, TopicsOfExpression] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)  # member ids by instance id
    owners: dict[Place, str] = field(default_factory=dict)  # who has a partition, or has yet to let it go
    epoch_since: int = field(default=0, compare=False)  # when the group epoch was written, as its record says

    def copy(self) -> ConsumerGroup:
        return replace(
            self,
            members=dict(self.members),
            targets=dict(self.targets),
            expressions=dict(self.expressions),
            instances=dict(self.instances),
            owners=dict(self.owners),
        )

    # --- what follows from it

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.has_reached(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def empty_since(self) -> int | None:
        """When its last member left, which raised the epoch; nothing raises that of an empty group."""
        return None if self.members else self.epoch_since

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.instances.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NOWHERE)

    def subscribed_topics(self, member: ConsumerMember) -> frozenset[str]:
        """By name and by expression; whether they exist is another question."""
        resolved = None if member.expression is None else self.expressions.get(member.expression)
        return frozenset(member.topics) | (frozenset() if resolved is None else frozenset(resolved.topics))

    def all_subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*(self.subscribed_topics(member) for member in self.members.values()))

    def preferred_assignor(self, default: str) -> str:
        """The one that most members ask for; of equals, the one that was asked for first."""
        asked = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return asked.most_common(1)[0][0] if asked else default

    def classic_members(self) -> Iterator[ConsumerMember]:
        return (member for member in self.members.values() if member.classic is not None)


# --- replay


def apply(group: ConsumerGroup, key: Key, value: Value | None) -> None:
    """A tombstone of what is not there changes nothing: the log may have been compacted."""
    match key, value:
        case EpochKey(), Epoch():
            group.epoch, group.topics_hash = value.epoch, value.topics_hash
        case TargetEpochKey(), TargetEpoch():
            group.assignment_epoch, group.assigned_at = value.epoch, value.assigned_at
        case TargetEpochKey(), None:
            group.assignment_epoch = group.assigned_at = 0
        case MemberKey(), Subscribed():
            _subscribe(group, key.member, value)
        case MemberKey(), None:
            _remove(group, key.member)
        case TargetKey(), Target():
            group.targets[key.member] = value.partitions
        case TargetKey(), None:
            group.targets.pop(key.member, None)
        case CurrentKey(), Current():
            _reconcile(group, key.member, value)
        case CurrentKey(), None:
            if key.member in group.members:
                _reconcile(group, key.member, Current())
        case ExpressionKey(), TopicsOfExpression():
            group.expressions[key.expression] = value
        case ExpressionKey(), None:
            group.expressions.pop(key.expression, None)


def _subscribe(group: ConsumerGroup, member_id: str, subscribed: Subscribed) -> None:
    before = group.members.get(member_id) or ConsumerMember(member_id)
    _forget_instance(group, before)
    group.members[member_id] = replace(before, **subscribed._asdict())
    if subscribed.instance_id is not None:
        group.instances[subscribed.instance_id] = member_id


def _reconcile(group: ConsumerGroup, member_id: str, current: Current) -> None:
    # A compacted log may tell of what a member has before it tells of the member.
    before = group.members.get(member_id) or ConsumerMember(member_id)
    _disown(group, before)
    member = group.members[member_id] = replace(before, **current._asdict())
    for given in (member.assigned, member.revoking):
        for topic, numbers in given.items():
            for number in numbers:
                group.owners[topic, number] = member_id


def _remove(group: ConsumerGroup, member_id: str) -> None:
    member = group.members.pop(member_id, None)
    group.targets.pop(member_id, None)
    if member is not None:
        _disown(group, member)
        _forget_instance(group, member)


def _disown(group: ConsumerGroup, member: ConsumerMember) -> None:
    for given in (member.assigned, member.revoking):
        for topic, numbers in given.items():
            for number in numbers:
                if group.owners.get((topic, number)) == member.id:
                    del group.owners[topic, number]


def _forget_instance(group: ConsumerGroup, member: ConsumerMember) -> None:
    if member.instance_id is not None and group.instances.get(member.instance_id) == member.id:
        del group.instances[member.instance_id]
