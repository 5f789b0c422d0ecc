"""Where to start, as people write it."""

from __future__ import annotations

import pytest

from runnel.start import EARLIEST, LATEST, InvalidStart, Start

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("0", Start.offset(0)),
        ("17", Start.offset(17)),
        ("2023-11-14T22:13:20Z", Start.time(NOW)),
        ("2023-11-14T23:13:20.5+01:00", Start.time(NOW + 500)),
        ("2023-11-14 22:13:20", Start.time(NOW)),
        ("2023-11-15", Start.time(1_700_006_400_000)),
        ("1500ms", Start.time(NOW - 1_500)),
        ("30s", Start.time(NOW - 30_000)),
        ("15m", Start.time(NOW - 900_000)),
        ("2h", Start.time(NOW - 7_200_000)),
        ("1d", Start.time(NOW - 86_400_000)),
        ("999999d", Start.time(0)),
        ("1960-01-01", Start.time(0)),
    ],
)
def test_a_start_is_read(text, start):
    assert Start.parse(text, NOW) == start


@pytest.mark.parametrize(
    "text", ["", "Earliest", "-1", "1.5", "yesterday", "2h30m", "2023-13-01", "٣", str(2**63), "1" * 5_000]
)
def test_what_is_no_start_is_refused(text):
    with pytest.raises(InvalidStart, match="is no place to start from") as caught:
        Start.parse(text, NOW)
    assert caught.value.text == text


@pytest.mark.parametrize("make", [Start.offset, Start.time])
@pytest.mark.parametrize("wrong", ["soon", None, float("nan"), float("inf")])
def test_a_number_that_is_none_is_no_start(make, wrong):
    with pytest.raises(InvalidStart, match="is no place to start from"):
        make(wrong)


def test_a_time_outside_of_what_kafka_has_is_the_nearest_that_it_has():
    assert Start.time(-1) == Start.time(0)
    assert Start.time(2**70) == Start.time(2**63 - 1)
