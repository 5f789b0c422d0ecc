"""Durations as people write and read them."""

from __future__ import annotations

import pytest

from runnel.cli.durations import as_duration, parse_duration


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (61_500, "1 min 1 s"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
        (86_400_000 + 59_000, "1 d"),
        (90 * 86_400_000 + 7_200_000, "90 d 2 h"),
    ],
)
def test_a_duration_is_told_in_its_largest_units(milliseconds, text):
    assert as_duration(milliseconds) == text


@pytest.mark.parametrize(("text", "milliseconds"), [("500ms", 500), ("90s", 90_000), ("15m", 900_000), ("0s", 0)])
def test_a_duration_is_read(text, milliseconds):
    assert parse_duration(text) == milliseconds
