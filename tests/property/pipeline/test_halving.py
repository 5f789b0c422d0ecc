"""Rows that fail are found by trying parts, whatever rows they are: all of them, no other, and not by trying each."""

from __future__ import annotations

from math import ceil, log2

from hypothesis import given
from hypothesis import strategies as st

from runnel.pipeline.failing.halving import (
    MOST_TOGETHER,
    Bad,
    Part,
    Span,
    cut,
    failing,
    size,
    to_blame,
    together,
    without,
)

PARTS = st.lists(
    st.tuples(st.integers(0, 1_000), st.integers(0, 40)).map(lambda each: (each[0], each[0] + each[1])), max_size=5
).map(lambda found: [Span(number, start, end) for number, (start, end) in enumerate(found)])


def places(part: Part) -> list[tuple[int, int]]:
    return [(each.range, offset) for each in part for offset in range(each.start, each.end)]


@st.composite
def parts_and_places(draw):
    part = draw(PARTS)
    known = places(part)
    return part, draw(st.sets(st.sampled_from(known))) if known else set()


class Trials:
    """Fails where `any_of` is touched, or all of `all_of` are there."""

    def __init__(self, any_of=frozenset(), all_of=frozenset()) -> None:
        self.any_of, self.all_of = any_of, all_of
        self.count = 0

    def __call__(self, part: Part) -> str | None:
        self.count += 1
        found = set(places(part))
        hit = sorted(found & self.any_of)
        if hit:
            return f"no {hit[0]}"
        return "together" if self.all_of and self.all_of <= found else None


@given(PARTS, st.integers(0, 300))
def test_a_part_is_cut_without_losing_or_repeating_an_offset(part, at):
    first, rest = cut(part, at)
    assert places(first) + places(rest) == places(part)
    assert size(first) == min(at, size(part))
    assert all(each.end > each.start for each in [*first, *rest])


@given(parts_and_places())
def test_a_part_without_some_offsets_has_all_others(given):
    part, wrong = given
    left = without(part, [Bad(number, offset, "") for number, offset in wrong])
    assert places(left) == [each for each in places(part) if each not in wrong]
    assert all(each.end > each.start for each in left)


@given(parts_and_places())
def test_exactly_the_rows_that_fail_are_found_each_with_its_own_words(given):
    part, wrong = given
    found = list(failing(part, Trials(wrong)))
    assert found == [Bad(number, offset, f"no {(number, offset)}") for number, offset in sorted(wrong)]


@given(parts_and_places())
def test_few_trials_are_enough(given):
    part, wrong = given
    trials = Trials(wrong)
    list(failing(part, trials))
    whole = size(part)
    assert trials.count <= 2 * whole  # however many fail
    assert trials.count <= (2 * len(wrong) + 1) * (ceil(log2(whole)) + 1 if whole else 1)


@given(parts_and_places())
def test_rows_that_fail_only_together_are_none_that_fail(given):
    part, wrong = given
    trials = Trials(all_of=wrong)
    assert [each[:2] for each in failing(part, trials)] == (sorted(wrong) if len(wrong) == 1 else [])


@given(parts_and_places())
def test_a_group_that_fails_together_is_named_if_it_is_small(given):
    part, wrong = given
    if not wrong:
        return
    found, is_whole = together(part, Trials(all_of=wrong))
    assert set(places(found)) <= wrong
    assert is_whole == (len(wrong) <= MOST_TOGETHER)
    assert len(places(found)) == min(len(wrong), MOST_TOGETHER)


def test_a_row_that_failed_in_a_part_and_passes_alone_is_not_found():
    tried: list[int] = []

    def fails(part: Part) -> str | None:
        tried.append(size(part))
        return "once" if len(tried) == 1 else None

    assert list(failing([Span(0, 0, 8)], fails)) == []
    assert 1 in tried


# --- rows that need others to pass


class Groups:
    """Each offset belongs to a group; it fails if there is a group of one."""

    def __init__(self, groups: str) -> None:
        self.groups = groups
        self.count = 0

    @property
    def whole(self) -> Part:
        return [Span(0, 0, len(self.groups))]

    def __call__(self, part: Part) -> str | None:
        self.count += 1
        found = [self.groups[offset] for _, offset in places(part)]
        return "alone" if any(found.count(each) == 1 for each in found) else None


@given(parts_and_places())
def test_rows_that_fail_with_whatever_others_are_all_to_blame_if_they_are_few(given):
    part, wrong = given
    trials = Trials(wrong)
    found = list(failing(part, trials))
    assert to_blame(part, found, trials) == (found if 0 < len(found) <= MOST_TOGETHER else [])


@given(st.text("abcd", min_size=1, max_size=12))
def test_no_row_is_blamed_that_passes_among_the_others(groups):
    trials = Groups(groups)
    if trials(trials.whole) is None:
        return
    found = list(failing(trials.whole, trials))
    blamed = to_blame(trials.whole, found, trials)
    assert all(groups.count(groups[bad.offset]) == 1 for bad in blamed)
    assert not blamed or trials(without(trials.whole, blamed)) is None


def test_the_one_that_fails_among_others_is_to_blame_though_each_fails_by_itself():
    trials = Groups("bab")
    found = list(failing(trials.whole, trials))
    assert [bad.offset for bad in found] == [0, 1, 2]
    assert [bad.offset for bad in to_blame(trials.whole, found, trials)] == [1]


def test_no_row_is_to_blame_if_it_still_fails_without_those_that_fail_by_themselves():
    def fails(part: Part) -> str | None:
        return "no" if {(0, 1), (0, 2)} <= set(places(part)) or places(part) == [(0, 0)] else None

    assert to_blame([Span(0, 0, 4)], [Bad(0, 0, "no")], fails) == []


def test_not_more_than_a_few_are_tried_among_each_other():
    trials = Groups("abcdefgh")
    assert to_blame(trials.whole, list(failing(trials.whole, trials)), trials) == []
    trials = Groups("abcd")
    found = list(failing(trials.whole, trials))
    trials.count = 0
    assert to_blame(trials.whole, found, trials) == found
    assert trials.count == 2**MOST_TOGETHER - 1
