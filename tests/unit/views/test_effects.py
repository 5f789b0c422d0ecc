import pyarrow as pa
import pytest

from runnel.views.changes import CHANGE
from runnel.views.effects import Effect, effective, left_over, removing


def table(*rows):
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pa.table(dict(zip(("key", "value", CHANGE), columns, strict=True)))


@pytest.mark.parametrize(
    ("rows", "places"),
    [
        ([("a", 1, "insert"), ("a", 1, "delete")], [0, 1]),
        ([("a", 1, "update_before")], [0]),
        ([("a", 1, "update_before"), ("a", 2, "update_after")], [1]),
        ([("a", 2, "update_after"), ("a", 1, "update_before")], [0]),
        ([("a", 1, "update_after"), ("a", 1, "update_before")], []),
        ([("a", 1, "update_before"), ("b", 1, "update_after")], [0, 1]),
        ([("a", 1, "update_before"), ("a", 1, "delete")], [1]),
        ([("a", 1, "delete"), ("a", 1, "update_before")], [0]),
        ([("a", 1, "update_before"), ("a", 2, "update_before")], [1]),
    ],
)
def test_a_row_counts_unless_another_undoes_it(rows, places):
    assert effective(table(*rows), ["key"]).to_pylist() == places


def test_rows_are_compared_by_all_that_they_say_whatever_their_types():
    nested = [[{"a": 1.0}], [{"a": float("nan")}], [{"a": float("nan")}]]
    rows = table(*zip("aaa", nested, ["insert", "insert", "update_before"], strict=True))
    assert effective(rows, ["key"]).to_pylist() == [0]


def test_of_equal_rows_the_first_ones_are_undone():
    effects = [Effect(0, "insert", "x"), Effect(1, "update_before", "x"), Effect(2, "update_after", "x")]
    assert left_over(effects) == [2]


def test_a_delete_and_a_row_that_is_taken_back_remove_their_key():
    rows = table(*zip("abcd", range(4), ["insert", "update_before", "update_after", "delete"], strict=True))
    assert removing(rows).to_pylist() == [False, True, False, True]


def test_a_batch_without_rows_has_no_effect():
    nothing = pa.schema([("key", pa.string()), (CHANGE, pa.string())]).empty_table()
    assert effective(nothing, ["key"]).to_pylist() == []
