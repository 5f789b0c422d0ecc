"""How many of something, in words."""

from __future__ import annotations

import pytest

from runnel.counted import counted


@pytest.mark.parametrize(("count", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1_000, "1,000 rows")])
def test_a_word_fits_its_number(count, text):
    assert counted(count, "row") == text


def test_a_word_of_its_own_may_stand_for_many():
    assert [counted(count, "batch", "batches") for count in (1, 2)] == ["1 batch", "2 batches"]
