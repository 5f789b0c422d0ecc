"""A member's next step towards its target.

First it lets go what is not meant for it any more, and stays in its epoch until it lists that no longer. Then it goes
on to the epoch of the target, and gets what nobody else has: a partition has one owner at any time, and the next owner
gets it only when the last one has let it go, or is no member any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from runnel.broker.groups.consumer.group import ConsumerGroup
from runnel.broker.groups.consumer.member import ConsumerMember, Given, Progress
from runnel.broker.groups.consumer.partitions import Partitions, overlap
from runnel.broker.mistakes import Refusal
from runnel.protocol.error_codes import ErrorCode


def reconciled(
    group: ConsumerGroup, member: ConsumerMember, target: Partitions, owned: Partitions | None
) -> ConsumerMember:
    """The member after its next step; `owned` is what it says it has, None if it does not say.

    `target` may be less than what the group means for it: what it is not subscribed to any more is left out.
    """
    if member.progress is Progress.STABLE and member.epoch == group.assignment_epoch:
        return _without_excess(group, member, target, owned)
    if member.progress is Progress.UNREVOKED:
        if owned is None or overlap(owned, member.revoking_partitions):
            return member
        # It may have been at the target already, and let go because its subscription shrank.
        return _next(group, member, target, owned, min(member.epoch + 1, group.assignment_epoch))
    if member.progress is Progress.UNKNOWN and owned != {}:
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"member {member.id} is in a state that is not known here: it must give up its partitions and join again",
        )
    return _next(group, member, target, owned, member.epoch)


def _without_excess(
    group: ConsumerGroup, member: ConsumerMember, target: Partitions, owned: Partitions | None
) -> ConsumerMember:
    """It has reached its target, but what it is subscribed to has shrunk since."""
    excess = any(numbers.keys() - target.get(topic, frozenset()) for topic, numbers in member.assigned.items())
    return _next(group, member, target, owned, member.epoch) if excess else member


def _next(
    group: ConsumerGroup, member: ConsumerMember, target: Partitions, owned: Partitions | None, epoch: int
) -> ConsumerMember:
    kept = _those_in(member.assigned, target)
    revoking = _those_not_in(member.assigned, target)
    if revoking and (owned is None or overlap(owned, {topic: frozenset(each) for topic, each in revoking.items()})):
        return _stepped(member, epoch, Progress.UNREVOKED, kept, revoking)
    given = {topic: dict(numbers) for topic, numbers in kept.items()}
    waits = False
    for topic, numbers in target.items():
        for number in numbers - kept.get(topic, {}).keys():
            if group.owners.get((topic, number), member.id) == member.id:
                given.setdefault(topic, {})[number] = group.assignment_epoch
            else:
                waits = True
    progress = Progress.UNRELEASED if waits else Progress.STABLE
    return _stepped(member, group.assignment_epoch, progress, given, {})


def _stepped(
    member: ConsumerMember, epoch: int, progress: Progress, assigned: Given, revoking: Given
) -> ConsumerMember:
    # Also where the epoch stays: from now on an older request would tell what is not true any more.
    return replace(
        member, epoch=epoch, previous_epoch=member.epoch, progress=progress, assigned=assigned, revoking=revoking
    )


def _those_in(given: Given, target: Partitions) -> Given:
    return _chosen(given, {topic: numbers.keys() & target.get(topic, frozenset()) for topic, numbers in given.items()})


def _those_not_in(given: Given, target: Partitions) -> Given:
    return _chosen(given, {topic: numbers.keys() - target.get(topic, frozenset()) for topic, numbers in given.items()})


def _chosen(given: Given, wanted: Mapping[UUID, set[int]]) -> Given:
    return {topic: {number: given[topic][number] for number in numbers} for topic, numbers in wanted.items() if numbers}
