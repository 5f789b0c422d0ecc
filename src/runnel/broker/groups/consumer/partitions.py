"""Sets of partitions, by topic id: what a member is to have, has, or must let go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]  # no set of it is empty
Place = tuple[UUID, int]  # one partition

NOWHERE: Partitions = {}


def places(partitions: Partitions) -> Iterator[Place]:
    for topic, numbers in partitions.items():
        for number in numbers:
            yield topic, number


def partitions_of(several: Iterable[Place]) -> Partitions:
    numbers: dict[UUID, set[int]] = {}
    for topic, number in several:
        numbers.setdefault(topic, set()).add(number)
    return {topic: frozenset(each) for topic, each in numbers.items()}


def is_within(some: Partitions, others: Partitions) -> bool:
    return all(numbers <= others.get(topic, frozenset()) for topic, numbers in some.items())


def overlap(some: Partitions, others: Partitions) -> bool:
    return any(numbers & others.get(topic, frozenset()) for topic, numbers in some.items())
