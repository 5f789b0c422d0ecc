"""Nested values go through JSON and come back."""

import json
import math
from datetime import UTC
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from runnel.views import nested

KIND = pa.struct(
    [
        ("number", pa.float64()),
        ("amounts", pa.list_(pa.decimal128(38, 9))),
        ("names", pa.map_(pa.string(), pa.binary())),
        ("days", pa.map_(pa.date32(), pa.list_(pa.timestamp("us", "UTC")))),
        ("whole", pa.int64()),
    ]
)
VALUES = st.fixed_dictionaries(
    {
        "number": st.none() | st.floats(),
        "amounts": st.none() | st.lists(st.none() | st.decimals(-(10**9), 10**9, places=9), max_size=3),
        "names": st.none()
        | st.dictionaries(st.text(), st.none() | st.binary(), max_size=3).map(lambda d: list(d.items())),
        "days": st.none()
        | st.dictionaries(st.dates(), st.lists(st.datetimes(timezones=st.just(UTC))), max_size=2).map(
            lambda days: list(days.items())
        ),
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
    }
)


def ordered(value: dict[str, Any]) -> dict[str, Any]:
    number = value["number"]
    shown = None if number is None else "NaN" if math.isnan(number) else (number, math.copysign(1, number))
    return {
        **value,
        "number": shown,
        **{name: value[name] and sorted(value[name]) for name in ("names", "days")},
    }


@given(VALUES)
def test_a_value_comes_back_from_its_text(value):
    given_value = pa.scalar(value, KIND).as_py()
    text = nested.to_text(KIND)(given_value)
    again = pa.scalar(nested.from_text(KIND)(text), KIND).as_py()
    assert ordered(again) == ordered(given_value)


@given(VALUES)
def test_the_text_is_json_that_anybody_reads(value):
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    json.loads(nested.to_text(KIND)(pa.scalar(value, KIND).as_py()), parse_constant=refuse)


@given(st.dictionaries(st.text(), st.integers(0, 9)), st.randoms())
def test_equal_maps_have_equal_texts_whatever_their_order(entries, chance):
    kind = pa.map_(pa.string(), pa.int64())
    turned = list(entries.items())
    chance.shuffle(turned)
    text = nested.to_text(kind)
    assert text(turned) == text(list(entries.items()))
