"""The shape of a Bloom filter: what it promises, and how much room it takes for it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.graph.errors import InvalidDeclaration
from runnel.pipeline.bloom import BITMAP, BITS, HEADER, MOST_BITMAPS, Shape, shape_for

REFERENCE = Path(__file__).parents[3] / "docs/reference/functions.md"
expected = st.integers(1, 700_000)
shares = st.floats(0.01, 0.5)


@given(expected, shares)
def test_a_shape_keeps_its_promise(expected, false_positives):
    assert shape_for(expected, false_positives).false_positives(expected) <= false_positives


@given(expected, shares)
def test_no_smaller_shape_would_do(expected, false_positives):
    size = shape_for(expected, false_positives).size
    smaller = [Shape(hashes, bitmaps) for bitmaps in range(1, size) for hashes in range(1, (size - 1) // bitmaps + 1)]
    assert all(shape.false_positives(expected) > false_positives for shape in smaller)


@given(st.integers(20_000, 700_000), shares)
def test_large_filters_take_little_more_room_than_the_best_that_there_is(expected, false_positives):
    best = expected * -math.log(false_positives) / math.log(2) ** 2
    assert shape_for(expected, false_positives).size * BITS <= 1.15 * best + 2 * BITS


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "many", None])
def test_a_number_that_cannot_be_expected_is_refused(wrong):
    with pytest.raises(InvalidDeclaration, match="bloom_filter: expected is"):
        shape_for(wrong, 0.01)


@pytest.mark.parametrize("wrong", [0.0, 1.0, -0.1, 1, "few", float("nan")])
def test_a_share_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidDeclaration, match="bloom_filter: false_positives is"):
        shape_for(100, wrong)


@pytest.mark.parametrize(("expected", "share"), [(10**7, 0.01), (10**18, 0.5), (900_000, 0.001)])
def test_a_filter_that_would_be_too_large_is_refused_with_what_to_do(expected, share):
    with pytest.raises(InvalidDeclaration, match="group by something finer") as caught:
        shape_for(expected, share)
    assert f"{MOST_BITMAPS * BITMAP:,} bytes" in str(caught.value)


def test_the_reference_tells_the_sizes_as_they_are():
    told = re.findall(r"^\| ([\d,]+) \| ([\d,]+) \|$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    sizes = {int(expected.replace(",", "")): int(size.replace(",", "")) for expected, size in told}
    assert sizes == {expected: HEADER + shape_for(expected, 0.01).size * BITMAP for expected in sizes}
    assert len(sizes) == 5
