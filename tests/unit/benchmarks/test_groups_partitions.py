"""How the benchmark's members of a group divide partitions."""

from itertools import combinations

import pytest

from benchmarks.groups_partitions import (
    assignment,
    divided,
    divided_again,
    is_settled,
    owned_in,
    partitions_in,
    subscription,
)

PARTITIONS = 30


def members(count):
    return [f"member-{number}" for number in range(count)]


@pytest.mark.parametrize("count", [1, 9, 10, 30])
def test_partitions_are_divided_so_that_a_group_is_settled(count):
    assert is_settled(divided(members(count), PARTITIONS).values(), PARTITIONS)


@pytest.mark.parametrize(("before", "after"), [(9, 10), (10, 9), (1, 10), (10, 3), (10, 10)])
def test_the_second_generation_of_cooperative_members_is_settled(before, after):
    owned = divided(members(before), PARTITIONS)
    first = divided_again({name: owned.get(name, frozenset()) for name in members(after)}, PARTITIONS)
    assert is_settled(divided_again(first, PARTITIONS).values(), PARTITIONS)


def test_a_partition_is_never_given_while_another_member_has_it():
    owned = divided(members(9), PARTITIONS) | {"member-9": frozenset()}
    given = divided_again(owned, PARTITIONS)
    for one, other in combinations(given, 2):
        assert not given[one] & owned[other]
    assert not given["member-9"]


def test_no_more_moves_than_the_new_member_is_to_have():
    owned = divided(members(9), PARTITIONS) | {"member-9": frozenset()}
    given = divided_again(owned, PARTITIONS)
    assert sum(len(owned[name] - given[name]) for name in owned) == PARTITIONS // 10


def test_what_is_settled_stays_as_it_is():
    owned = divided(members(9), PARTITIONS)
    assert divided_again(owned, PARTITIONS) == owned


@pytest.mark.parametrize(
    "owned",
    [
        [{0, 1}, {2}],  # one is missing
        [{0, 1}, {1, 2, 3}],  # one twice
        [{0, 1, 2}, {3}],  # not fair
        [{0, 1}, {2, 3}, set()],
    ],
)
def test_a_group_is_not_settled_before_each_partition_has_one_owner_and_all_have_a_fair_share(owned):
    assert not is_settled(map(frozenset, owned), 4)


def test_what_a_member_owns_is_read_as_it_was_written():
    assert owned_in(subscription("orders", frozenset({3, 700})), "orders") == {3, 700}
    assert owned_in(subscription("orders", frozenset()), "orders") == frozenset()


def test_an_assignment_is_read_as_it_was_written():
    assert partitions_in(assignment("orders", frozenset({3, 700})), "orders") == {3, 700}
    assert partitions_in(b"", "orders") == frozenset()
