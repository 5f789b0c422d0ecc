"""Ranges: each topic's partitions in order, in as many equal pieces as the topic has subscribers.

Subscribers stand in the same order for every topic, static ones first, so that the same numbers of topics with as many
partitions go to the same member. The first ones get one more if it does not come out even.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from runnel.broker.groups.consumer.assignors.subscriber import Subscriber
from runnel.broker.groups.consumer.partitions import Partitions


def assign_ranges(members: Mapping[str, Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Partitions]:
    ordered = sorted(members, key=lambda member: _place(member, members[member]))
    assigned: dict[str, dict[UUID, frozenset[int]]] = {member: {} for member in members}
    for topic, count in partitions.items():
        subscribers = [member for member in ordered if topic in members[member].topics]
        first = 0
        for index, member in enumerate(subscribers):
            size = count // len(subscribers) + (index < count % len(subscribers))
            if size:
                assigned[member][topic] = frozenset(range(first, first + size))
            first += size
    return dict(assigned)


def _place(member: str, subscriber: Subscriber) -> tuple[bool, str]:
    return subscriber.instance_id is None, subscriber.instance_id or member
