"""Uniform: as many partitions for each member as for any other, and as few of them moved as that allows.

If all members are subscribed to the same topics, the numbers differ by at most one. If not, a partition goes to the
subscriber that has fewest, and then partitions are moved from those who have more to those who have at least two less,
until that helps nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from runnel.broker.groups.consumer.assignors.subscriber import Subscriber
from runnel.broker.groups.consumer.partitions import Partitions, Place, partitions_of, places

Owned = dict[str, set[Place]]


def assign_uniformly(members: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Partitions]:
    if not members:
        return {}
    owned = _kept(members, partitions)
    taken = {place for some in owned.values() for place in some}
    if len({member.topics for member in members.values()}) == 1:
        topics = next(iter(members.values())).topics
        wanted = [place for place in _all_places(partitions) if place[0] in topics]
        _share_equally(owned, wanted, taken)
    else:
        _share_among_subscribers(owned, members, partitions, taken)
    return {member: partitions_of(some) for member, some in owned.items()}


def _kept(members: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> Owned:
    """What each had before and may keep. A partition that two had, which may be after a loss, stays with the first."""
    taken: set[Place] = set()
    owned: Owned = {}
    for name, member in members.items():
        mine = {
            (topic, number)
            for topic, number in places(member.before)
            if topic in member.topics and number < partitions.get(topic, 0)
        } - taken
        taken |= mine
        owned[name] = mine
    return owned


def _all_places(partitions: Mapping[UUID, int]) -> list[Place]:
    return [(topic, number) for topic in sorted(partitions) for number in range(partitions[topic])]


# --- all are subscribed to the same


def _share_equally(owned: Owned, wanted: Sequence[Place], taken: set[Place]) -> None:
    least, more = divmod(len(wanted), len(owned))
    free = [place for place in wanted if place not in taken]
    for mine in owned.values():
        allowed = least
        if len(mine) > least and more:  # whoever has more already is among those who may
            allowed, more = least + 1, more - 1
        surplus = sorted(mine)[allowed:]
        mine.difference_update(surplus)
        free += surplus
    free.sort(reverse=True)
    for quota in (least, least + 1):
        _deal(owned, free, quota)


def _deal(owned: Owned, free: list[Place], quota: int) -> None:
    """One to each in turn, so that neighbours go to different members, until all have their quota."""
    hungry = [mine for mine in owned.values() if len(mine) < quota]
    while hungry and free:
        for mine in hungry:
            if not free:
                return
            mine.add(free.pop())
        hungry = [mine for mine in hungry if len(mine) < quota]


# --- they are not


def _share_among_subscribers(
    owned: Owned, members: Mapping[str, Subscriber], partitions: Mapping[UUID, int], taken: set[Place]
) -> None:
    subscribers = {
        topic: [name for name, member in members.items() if topic in member.topics] for topic in sorted(partitions)
    }
    # Where there is least choice it is made first.
    topics = sorted((topic for topic in subscribers if subscribers[topic]), key=lambda topic: len(subscribers[topic]))
    for topic in topics:
        for number in range(partitions[topic]):
            if (topic, number) not in taken:
                _fewest(owned, subscribers[topic]).add((topic, number))
    moved = True
    while moved:  # each move makes the numbers more equal, so this ends
        moved = False
        for topic in topics:
            moved |= _level(owned, topic, subscribers[topic])


def _fewest(owned: Owned, names: Sequence[str]) -> set[Place]:
    return min((owned[name] for name in names), key=len)


def _level(owned: Owned, topic: UUID, subscribers: Sequence[str]) -> bool:
    """Move partitions of one topic to those who have less; whether any was."""
    holders = {name: sorted(place for place in owned[name] if place[0] == topic) for name in subscribers}
    moved = False
    while True:
        most = max((name for name in subscribers if holders[name]), key=lambda name: len(owned[name]), default=None)
        least = min(subscribers, key=lambda name: len(owned[name]))
        if most is None or len(owned[most]) - len(owned[least]) < 2:
            return moved
        place = holders[most].pop()
        owned[most].remove(place)
        owned[least].add(place)
        holders[least].append(place)
        moved = True
