"""The assignors: each partition has one owner who is subscribed; balance, and few moves."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.broker.groups.consumer.assignors import ASSIGNORS, Subscriber
from runnel.broker.groups.consumer.assignors.range import assign_ranges
from runnel.broker.groups.consumer.assignors.uniform import assign_uniformly
from runnel.broker.groups.consumer.partitions import Partitions, partitions_of, places

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def sizes(assigned: dict[str, Partitions]) -> list[int]:
    return [len(list(places(each))) for each in assigned.values()]


def moved(before: dict[str, Partitions], after: dict[str, Partitions]) -> int:
    owner = {place: name for name, each in before.items() for place in places(each)}
    return sum(owner.get(place, name) != name for name, each in after.items() for place in places(each))


def everybody(count: int, *topics: UUID, before: dict[str, Partitions] | None = None) -> dict[str, Subscriber]:
    names = [f"m{number}" for number in range(count)]
    return {name: Subscriber(frozenset(topics), (before or {}).get(name, {})) for name in names}


def test_ranges_are_contiguous_and_the_same_for_topics_of_the_same_size() -> None:
    assigned = assign_ranges(everybody(3, A, B), {A: 4, B: 4})
    assert [sorted(each[A]) for each in assigned.values()] == [[0, 1], [2], [3]]
    assert all(each[A] == each[B] for each in assigned.values())


def test_ranges_are_cut_for_the_subscribers_of_each_topic() -> None:
    members = {"m0": Subscriber(frozenset({A})), "m1": Subscriber(frozenset({A, B})), "m2": Subscriber(frozenset({B}))}
    assigned = assign_ranges(members, {A: 2, B: 2})
    assert assigned == {
        "m0": {A: frozenset({0})},
        "m1": {A: frozenset({1}), B: frozenset({0})},
        "m2": {B: frozenset({1})},
    }


def test_a_static_member_has_the_same_range_under_another_id() -> None:
    topics = frozenset({A})
    before = assign_ranges({"z": Subscriber(topics, {}, "one"), "b": Subscriber(topics)}, {A: 4})
    after = assign_ranges({"b": Subscriber(topics), "a": Subscriber(topics, {}, "one")}, {A: 4})
    assert after["a"] == before["z"]


def test_with_fewer_partitions_than_members_some_have_none() -> None:
    for assign in ASSIGNORS.values():
        assert sorted(sizes(assign(everybody(3, A), {A: 2}))) == [0, 1, 1]


def test_nobody_gets_anything_in_a_group_without_members() -> None:
    for assign in ASSIGNORS.values():
        assert assign({}, {A: 2}) == {}


def test_uniform_moves_no_more_than_it_must_when_somebody_comes() -> None:
    before = assign_uniformly(everybody(3, A, B), {A: 6, B: 6})
    after = assign_uniformly(everybody(4, A, B, before=before), {A: 6, B: 6})
    assert sorted(sizes(after)) == [3, 3, 3, 3]
    assert moved(before, after) == 3


def test_uniform_moves_nothing_but_what_was_left_when_somebody_goes() -> None:
    before = assign_uniformly(everybody(4, A), {A: 12})
    remaining = everybody(3, A, before=before)
    after = assign_uniformly(remaining, {A: 12})
    assert sorted(sizes(after)) == [4, 4, 4]
    assert moved(before, after) == 3


def test_uniform_is_its_own_successor() -> None:
    before = assign_uniformly(everybody(5, A, B, C), {A: 7, B: 3, C: 1})
    assert assign_uniformly(everybody(5, A, B, C, before=before), {A: 7, B: 3, C: 1}) == before


def test_uniform_spreads_the_partitions_of_a_topic() -> None:
    assigned = assign_uniformly(everybody(2, A, B), {A: 2, B: 2})
    assert all(each.keys() == {A, B} for each in assigned.values())


def test_uniform_takes_from_who_has_much_for_who_can_have_little() -> None:
    members = {
        "all": Subscriber(frozenset({A, B}), {A: frozenset(range(4)), B: frozenset(range(2))}),
        "one": Subscriber(frozenset({A})),
    }
    assert sorted(sizes(assign_uniformly(members, {A: 4, B: 2}))) == [3, 3]


topics = st.dictionaries(st.sampled_from([UUID(int=number) for number in range(1, 6)]), st.integers(1, 9))


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, Subscriber], dict[UUID, int]]:
    partitions = draw(topics)
    known = sorted(partitions)
    members = {}
    for number in range(draw(st.integers(1, 6))):
        mine = frozenset(draw(st.sets(st.sampled_from(known))) if known else ())
        # What was meant for it before may be of topics that shrank, went, or that somebody else has.
        stale = st.tuples(st.sampled_from([*known, UUID(int=9)]), st.integers(0, 11))
        members[f"m{number}"] = Subscriber(mine, partitions_of(draw(st.sets(stale, max_size=8))))
    return members, partitions


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
def test_each_partition_has_one_owner_who_is_subscribed(
    name: str, group: tuple[dict[str, Subscriber], dict[UUID, int]]
) -> None:
    members, partitions = group
    assigned = ASSIGNORS[name](members, partitions)
    assert assigned.keys() == members.keys()
    owners = Counter(place for each in assigned.values() for place in places(each))
    wanted = {topic for member in members.values() for topic in member.topics}
    assert owners == Counter((topic, number) for topic in wanted for number in range(partitions[topic]))
    assert all(each.keys() <= members[member].topics for member, each in assigned.items())


@given(group=groups())
def test_no_single_move_would_make_uniform_more_equal(
    group: tuple[dict[str, Subscriber], dict[UUID, int]],
) -> None:
    members, partitions = group
    assigned = assign_uniformly(members, partitions)
    load = {name: len(list(places(each))) for name, each in assigned.items()}
    for name, each in assigned.items():
        for topic in each:
            others = [load[other] for other, member in members.items() if topic in member.topics]
            assert load[name] - min(others) <= 1
