"""Filtered, ordered and limited reading: by the database, and the same in every store."""

import datetime
import decimal

import pandas as pd
import pyarrow as pa
import pytest

from runnel.views.errors import InvalidFilter, UnknownColumn
from runnel.views.store import Condition, Declared
from tests.contract.views.clicks import CHECKPOINT, QUERY, claimed, marker, seen

UTC = datetime.UTC


def at(hour):
    return datetime.datetime(2026, 1, 1, hour, tzinfo=UTC)


SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("whole", pa.int32()),
        ("large", pa.uint64()),
        ("amount", pa.decimal128(12, 2)),
        ("ratio", pa.float64()),
        ("small", pa.float32()),
        ("is_good", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("took", pa.duration("us")),
        ("raw", pa.binary()),
        ("nested", pa.list_(pa.int64())),
    ]
)
D = decimal.Decimal
ROWS = [
    (1, "a", 1, 9, D("9.50"), 0.5, 0.1, True, at(1), at(1).replace(tzinfo=None), datetime.date(2026, 1, 1),
     datetime.timedelta(seconds=1), b"\x01", [1]),
    (2, "B", -2, 10, D("10.00"), -1.5, 0.5, False, at(12), at(12).replace(tzinfo=None), datetime.date(2026, 2, 1),
     datetime.timedelta(seconds=10), b"\x10", [2]),
    (3, "ä", 30, 2**64 - 1, D("-100.00"), float("nan"), 2.5, True, at(23), at(23).replace(tzinfo=None),
     datetime.date(2025, 12, 31), datetime.timedelta(seconds=-5), b"\xff", [3]),
    (4, None, None, None, None, None, None, None, None, None, None, None, None, None),
]  # fmt: skip
KINDS = Declared("kinds", ("id",), SCHEMA)

# By value, the order of the first three rows in each column.
ORDERS = {
    "text": [2, 1, 3],  # by code point, whatever the server's language
    "whole": [2, 1, 3],
    "large": [1, 2, 3],
    "amount": [3, 1, 2],
    "ratio": [2, 1, 3],  # NaN is above every number
    "small": [1, 2, 3],
    "at": [1, 2, 3],
    "local": [1, 2, 3],
    "day": [3, 1, 2],
    "took": [3, 1, 2],
    "raw": [1, 2, 3],
}


@pytest.fixture
def kinds(store):
    columns = zip(*ROWS, strict=True)
    rows = pa.table([pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
    with store.writer(KINDS, QUERY) as writer:
        writer.claim()
        writer.apply(rows, marker(0))
    with store.reader("kinds") as reader:
        yield reader


def ids(reader, *conditions, order=(), limit=None):
    found = reader.rows([Condition(*each) for each in conditions], order=order, limit=limit)
    return found["id"].to_pylist()


def value(row, column):
    return ROWS[row - 1][SCHEMA.names.index(column)]


@pytest.mark.parametrize("column", ORDERS)
def test_values_compare_as_what_they_are(kinds, column):
    first, middle, last = ORDERS[column]
    between = value(middle, column)
    assert ids(kinds, (column, "=", between)) == [middle]
    assert ids(kinds, (column, "!=", between)) == sorted([first, last])
    assert ids(kinds, (column, "<", between)) == [first]
    assert ids(kinds, (column, "<=", between)) == sorted([first, middle])
    assert ids(kinds, (column, ">", between)) == [last]
    assert ids(kinds, (column, ">=", between)) == sorted([middle, last])
    assert ids(kinds, (column, "in", [value(first, column), value(last, column)])) == sorted([first, last])
    assert ids(kinds, (column, "not in", [value(first, column)])) == sorted([middle, last])


@pytest.mark.parametrize("column", ORDERS)
def test_rows_are_ordered_by_value_and_those_without_one_come_last(kinds, column):
    assert ids(kinds, order=[column]) == [*ORDERS[column], 4]
    assert ids(kinds, order=[f"-{column}"]) == [*reversed(ORDERS[column]), 4]


@pytest.mark.parametrize("column", [name for name in SCHEMA.names if name != "id"])
def test_a_row_without_a_value_is_found_by_that_alone(kinds, column):
    assert ids(kinds, (column, "=", None)) == [4]
    assert ids(kinds, (column, "!=", None)) == [1, 2, 3]


def test_booleans_are_equal_or_not(kinds):
    assert ids(kinds, ("is_good", "=", True)) == [1, 3]
    assert ids(kinds, ("is_good", "!=", True)) == [2]


def test_all_conditions_hold_and_a_limit_takes_the_first(kinds):
    assert ids(kinds, ("whole", ">", -5), ("is_good", "=", True)) == [1, 3]
    assert ids(kinds, ("whole", ">", -5), order=["-whole"], limit=2) == [3, 1]
    assert ids(kinds, limit=0) == []
    assert kinds.count([Condition("whole", ">", 0)]) == 2
    assert kinds.count() == 4


def test_there_may_be_very_many_conditions(kinds):
    assert ids(kinds, *(("id", "!=", number) for number in range(2, 3_000))) == [1]


def test_a_whole_number_may_be_written_with_a_point_and_a_day_as_its_midnight(kinds):
    assert ids(kinds, ("whole", "=", 30.0)) == [3]
    assert ids(kinds, ("whole", "in", [D("1.00"), D("-2")])) == [1, 2]
    assert ids(kinds, ("day", "=", datetime.datetime(2026, 2, 1))) == [2]


def test_a_limit_may_be_larger_than_any_view(kinds):
    assert ids(kinds, limit=2**70) == [1, 2, 3, 4]


def test_an_empty_list_has_no_row_and_none_of_it_has_every_row_with_a_value(kinds):
    assert ids(kinds, ("text", "in", [])) == []
    assert ids(kinds, ("text", "not in", [])) == [1, 2, 3]


def test_times_may_be_text(kinds):
    assert ids(kinds, ("at", ">=", "2026-01-01T12:00:00Z")) == [2, 3]
    assert ids(kinds, ("at", ">=", "2026-01-01T12:00")) == [2, 3]
    assert ids(kinds, ("at", "=", "2026-01-01T13:00+01:00")) == [2]
    assert ids(kinds, ("day", "<", "2026-01-01")) == [3]
    assert ids(kinds, ("at", "=", "2026-01-01T12:00:00.000000000Z")) == [2]


NASTY = ["'; DROP TABLE kinds; --", '"', "?1 $1 %s {}", "\\", "\n", "🙂"]


@pytest.mark.parametrize("text", NASTY)
def test_a_value_is_never_part_of_the_statement(store, text):
    with claimed(store) as writer:
        writer.apply(seen((text, 1), ("other", 2)), marker(0))
    with store.reader("clicks") as reader:
        assert reader.rows([Condition("page", "=", text)]).to_pylist() == [{"page": text, "seen": 1}]
        assert reader.rows([Condition("page", "in", [text])]).num_rows == 1
        assert reader.count() == 2


WRONG = [
    (("nothing", "=", 1), UnknownColumn, "view 'kinds' has no column 'nothing'"),
    (("whole", "like", 1), InvalidFilter, "'like' is no operator"),
    (("whole", "=", "many"), InvalidFilter, "'many' is no value of whole"),
    (("whole", "=", 2**40), InvalidFilter, f"{2**40} is no value of whole"),
    (("whole", "=", True), InvalidFilter, "True is no value of whole"),
    (("whole", ">=", 1.5), InvalidFilter, "1.5 is no value of whole"),
    (("whole", "in", [1, D("1.5")]), InvalidFilter, "Decimal('1.5') is no value of whole"),
    (("whole", "<", float("inf")), InvalidFilter, "inf is no value of whole"),
    (("day", "=", at(12).replace(tzinfo=None)), InvalidFilter, "is no value of day"),
    (("local", "=", at(12)), InvalidFilter, "is no value of local"),
    (("text", "=", 5), InvalidFilter, "5 is no value of text"),
    (("amount", ">", D("1.234")), InvalidFilter, "Decimal('1.234') is no value of amount"),
    (("at", ">", "yesterday"), InvalidFilter, "'yesterday' is no value of at"),
    (("at", ">", "0001-01-01T00:00+14:00"), InvalidFilter, "'0001-01-01T00:00+14:00' is no value of at"),
    (("at", "<", "9999-12-31T23:00-05:00"), InvalidFilter, "'9999-12-31T23:00-05:00' is no value of at"),
    (("at", "=", "2026-01-01T12:00:00.1234567Z"), InvalidFilter, "'2026-01-01T12:00:00.1234567Z' is no value of at"),
    (("at", "=", pd.Timestamp("2026-01-01T12:00:00.123456789Z")), InvalidFilter, "is no value of at"),
    (("local", ">", pd.Timestamp("2026-01-01T12:00:00.000000001")), InvalidFilter, "is no value of local"),
    (("day", "=", pd.Timestamp("2026-02-01T00:00:00.000000001")), InvalidFilter, "is no value of day"),
    (("took", "=", pd.Timedelta(1_000_000_001, "ns")), InvalidFilter, "is no value of took"),
    (("at", ">", pd.NaT), InvalidFilter, "NaT is no value of at"),
    (("local", ">", 10**18), InvalidFilter, f"{10**18} is no value of local"),
    (("day", ">", 10**9), InvalidFilter, f"{10**9} is no value of day"),
    (("small", "=", 1e300), InvalidFilter, "1e+300 is no value of small"),
    (("local", ">", "2026-01-01T12:00Z"), InvalidFilter, "'2026-01-01T12:00Z' is no value of local"),
    (("whole", ">", None), InvalidFilter, "whole is compared with None"),
    (("whole", "in", [1, None]), InvalidFilter, "whole is compared with None"),
    (("whole", "in", 5), InvalidFilter, "in wants several values, not 5"),
    (("text", "in", "abc"), InvalidFilter, "in wants several values, not 'abc'"),
    (("nested", "=", [1]), InvalidFilter, "nested is of type list<item: int64>, which has no order and no equality"),
    (("whole", "in", range(10_001)), InvalidFilter, "10,001 values are too many"),
]


@pytest.mark.parametrize(("condition", "error", "text"), WRONG)
def test_a_condition_that_does_not_fit_is_told(kinds, condition, error, text):
    with pytest.raises(error) as told:
        ids(kinds, condition)
    assert text in told.value.what
    assert told.value.hint


def test_a_wrong_column_is_told_with_those_that_are_there(store):
    with claimed(store):
        pass
    with store.reader("clicks") as reader:
        with pytest.raises(UnknownColumn) as told:
            reader.rows([Condition("sen", "=", 1)])
        assert str(told.value) == "view 'clicks' has no column 'sen' (its columns are page, seen)"
        for wrong in ("-sen", ["seen"], 1):
            with pytest.raises(UnknownColumn):
                reader.rows(order=[wrong])


def test_what_has_no_order_orders_nothing(kinds):
    with pytest.raises(InvalidFilter, match="nested is of type list<item: int64>, which has no order"):
        ids(kinds, order=["nested"])


def test_changes_of_a_part_tell_what_comes_in_and_what_goes_out(store):
    many = [Condition("seen", ">=", 10)]
    with claimed(store) as writer:
        writer.apply(seen(("a", 1), ("b", 10), ("c", 20)), marker(0))
        writer.apply(seen(("a", 11), ("b", 9), ("c", 21), ("d", 5)), marker(1))
        writer.apply(seen(("a", None), ("d", None), ("c", None), changes=["delete"] * 3), marker(2))
    with store.reader("clicks") as reader:
        assert reader.snapshot(many).rows.num_rows == 0
        found = reader.changes(0, where=many)
        assert found.next_position == reader.changes(0).next_position == 10
        assert [
            (change.position, change.kind, change.key["page"], change.before and change.before["seen"],
             change.after and change.after["seen"])
            for change in found
        ] == [
            (1, "insert", "b", None, 10),
            (2, "insert", "c", None, 20),
            (3, "insert", "a", None, 11),
            (4, "delete", "b", 10, None),
            (5, "update", "c", 20, 21),
            (7, "delete", "a", 11, None),
            (9, "delete", "c", 21, None),
        ]  # fmt: skip


def test_progress_tells_the_marker_the_position_and_when_it_changed(store, clock):
    with claimed(store) as writer, store.reader("clicks") as reader:
        assert reader.progress() == (None, 0, None, "")
        now = clock.now()
        writer.apply(seen(("a", 1)), marker(0))
        assert reader.progress() == (marker(0), 1, now, CHECKPOINT)
        clock.advance(5_000)
        writer.apply(seen(("a", 1)), marker(1))
        assert reader.progress() == (marker(1), 1, now, CHECKPOINT)
