"""Which rows are the same."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest

from runnel.pipeline.tables.equality import same_rows

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int32()))])


def same(kind, left, right):
    one, other = (pa.table({"x": pa.array(values, kind)}) for values in (left, right))
    return same_rows(one, other).tolist()


@pytest.mark.parametrize(
    ("kind", "value", "other"),
    [
        (pa.bool_(), True, False),
        (pa.int8(), 1, 2),
        (pa.float32(), 1.5, 2.5),
        (pa.string(), "a", ""),
        (pa.binary(), b"a", b""),
        (pa.date32(), NOON.date(), NOON.date() + datetime.timedelta(1)),
        (pa.timestamp("us", "UTC"), NOON, NOON + datetime.timedelta(microseconds=1)),
        (pa.decimal128(10, 2), decimal.Decimal("1.00"), decimal.Decimal("1.01")),
        (pa.list_(pa.int32()), [1], [1, 2]),
        (pa.list_(pa.int32()), [], [None]),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)], [("a", 2)]),
        (STRUCT, {"a": 1, "b": [1]}, {"a": 2, "b": [1]}),
        (STRUCT, {"a": 1, "b": [1]}, {"a": 1, "b": [2]}),
        (STRUCT, {"a": 1, "b": [1]}, {"a": None, "b": [1]}),
    ],
)
def test_values_of_every_type(kind, value, other):
    assert same(kind, [value, value, None, None, other], [value, other, None, value, None]) == [
        True,
        False,
        True,
        False,
        False,
    ]


def test_two_that_are_no_number_are_the_same():
    nan = float("nan")
    assert same(pa.float64(), [nan, nan, nan, 1.0], [nan, 1.0, None, nan]) == [True, False, False, False]


def test_a_struct_that_is_not_there_is_not_one_without_fields():
    assert same(STRUCT, [None, {"a": None, "b": None}], [{"a": None, "b": None}, {"a": None, "b": None}]) == [
        False,
        True,
    ]


def test_every_column_counts():
    left = pa.table({"a": [1, 1, 2], "b": [["x"], ["x"], ["x"]]})
    right = pa.table({"a": [1, 1, 1], "b": [["x"], ["y"], ["x"]]})
    assert same_rows(left, right).tolist() == [True, False, False]


def test_rows_in_several_pieces():
    left = pa.concat_tables([pa.table({"a": [1]}), pa.table({"a": [2, 3]})])
    right = pa.concat_tables([pa.table({"a": [1, 2]}), pa.table({"a": [4]})])
    assert same_rows(left, right).tolist() == [True, True, False]
