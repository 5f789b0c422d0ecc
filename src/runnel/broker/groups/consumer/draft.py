"""A decision on a consumer group while it is being made: the entries so far, and the group as they make it.

The durable group is left alone: the first change is made to a copy.
"""

from __future__ import annotations

from runnel.broker.groups.consumer.group import ConsumerGroup, apply
from runnel.broker.groups.consumer.member import ConsumerMember
from runnel.broker.groups.consumer.partitions import Partitions
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
    write_key,
    write_value,
)
from runnel.broker.groups.consumer.remainder import Remainder
from runnel.broker.groups.records import write_group, write_group_key
from runnel.replay import Entry


class Draft:
    def __init__(self, name: str, now: int, group: ConsumerGroup | None) -> None:
        self.name = name
        self.now = now
        self.group = group or ConsumerGroup()
        self.entries: list[Entry] = []
        self.remainder: Remainder | None = None  # set: it goes on as this classic group
        self._is_own = group is None

    # --- the group

    def set_epoch(self, epoch: int, topics_hash: int) -> None:
        self._write(EpochKey(self.name), Epoch(epoch, topics_hash))

    def set_expression(self, expression: str, topics: TopicsOfExpression | None) -> None:
        self._write(ExpressionKey(self.name, expression), topics)

    def set_targets(self, targets: dict[str, Partitions], epoch: int) -> None:
        """What each member is to have; only what changes is written."""
        for member_id, partitions in targets.items():
            if member_id not in self.group.targets or self.group.targets[member_id] != partitions:
                self.set_target(member_id, partitions)
        self.set_target_epoch(epoch, self.now)

    def set_target(self, member_id: str, partitions: Partitions) -> None:
        self._write(TargetKey(self.name, member_id), Target(partitions))

    def set_target_epoch(self, epoch: int, assigned_at: int) -> None:
        self._write(TargetEpochKey(self.name), TargetEpoch(epoch, assigned_at))

    # --- its members

    def subscribe(self, member: ConsumerMember) -> None:
        """What the member has told of itself."""
        self._write(MemberKey(self.name, member.id), subscribed_of(member))

    def reconcile(self, member: ConsumerMember) -> None:
        """What the member has, and how far it has come."""
        self._write(CurrentKey(self.name, member.id), current_of(member))

    def remove(self, member_id: str) -> None:
        self._write(CurrentKey(self.name, member_id), None)
        self._write(TargetKey(self.name, member_id), None)
        self._write(MemberKey(self.name, member_id), None)

    def end(self) -> None:
        """The group itself is gone."""
        self._write(EpochKey(self.name), None)

    def end_target(self) -> None:
        self._write(TargetEpochKey(self.name), None)

    # --- the classic group that it was, or becomes

    def forget_classic(self) -> None:
        self.entries.append(Entry(write_group_key(self.name), None, self.now))

    def become_classic(self, remainder: Remainder) -> None:
        gone(self)
        self.remainder = remainder
        self.entries.append(Entry(write_group_key(self.name), write_group(remainder.stored), self.now))

    def _write(self, key: Key, value: Value | None) -> None:
        if not self._is_own:
            self.group, self._is_own = self.group.copy(), True
        apply(self.group, key, value)
        self.entries.append(Entry(write_key(key), None if value is None else write_value(value), self.now))


def subscribed_of(member: ConsumerMember) -> Subscribed:
    return Subscribed(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.topics,
        member.expression,
        member.rebalance_timeout,
        member.assignor,
        member.classic,
    )


def current_of(member: ConsumerMember) -> Current:
    return Current(member.epoch, member.previous_epoch, member.progress, member.assigned, member.revoking)


def gone(draft: Draft) -> list[Entry]:
    """Tombstones for all of the group."""
    for member_id in tuple(draft.group.members):
        draft.remove(member_id)
    draft.end_target()
    for expression in tuple(draft.group.expressions):
        draft.set_expression(expression, None)
    draft.end()
    return draft.entries
