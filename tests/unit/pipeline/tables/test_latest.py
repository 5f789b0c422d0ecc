"""The latest row of each key."""

from __future__ import annotations

import pyarrow as pa

from runnel.pipeline.tables import latest as module
from runnel.pipeline.tables.latest import CHANGE, GONE, KEY, PLACE, RECORD, Latest, records_schema

SCHEMA = pa.schema([("n", pa.int64())])


def records(*told):
    """Pairs of a key and a number; None deletes."""
    rows = [{KEY: key.encode(), GONE: n is None, "n": n} for key, n in told]
    return pa.Table.from_pylist(rows, records_schema(SCHEMA))


def held(latest):
    return {row[KEY].decode(): row["n"] for row in latest.rows().to_pylist()}


def told(changes):
    return [(row[CHANGE], row[RECORD], row["n"]) for row in changes.to_pylist()]


def based(*told):
    """All of them in the base."""
    latest = Latest.empty(SCHEMA).apply(records(*told))
    return Latest(SCHEMA, latest.rows(), latest.delta.slice(0, 0))


def test_the_last_record_of_a_key_stands():
    latest = Latest.empty(SCHEMA).apply(records(("a", 1), ("b", 2), ("a", 3)))
    assert held(latest) == {"a": 3, "b": 2}


def test_a_record_without_a_value_deletes():
    latest = based(("a", 1), ("b", 2)).apply(records(("a", None), ("c", None)))
    assert held(latest) == {"b": 2}
    assert held(latest.apply(records(("a", 4)))) == {"a": 4, "b": 2}


def test_what_came_and_went_since_the_base_leaves_nothing_behind():
    latest = based(("a", 1)).apply(records(("b", 2))).apply(records(("b", None)))
    assert latest.delta.num_rows == 0


def test_a_change_says_which_row_of_the_base_it_stands_for():
    latest = based(("a", 1), ("b", 2)).apply(records(("c", 3), ("b", None)))
    assert [(row[KEY], row[GONE], row[PLACE]) for row in latest.delta.to_pylist()] == [
        (b"c", False, None),
        (b"b", True, 1),
    ]


def test_one_that_is_used_further_stays_as_it_was():
    before = based(("a", 1))
    before.apply(records(("a", 2)))
    assert held(before) == {"a": 1}


def test_no_records_are_no_change():
    latest, changes = based(("a", 1)).change(records())
    assert (held(latest), changes.num_rows) == ({"a": 1}, 0)


def test_each_change_is_told_with_the_row_as_it_was_and_is():
    latest = based(("a", 1), ("b", 2), ("c", 3))
    latest, changes = latest.change(records(("d", 4), ("a", 5), ("b", None), ("c", 3), ("e", None)))
    assert told(changes) == [
        ("insert", 0, 4),
        ("update_before", 1, 1),
        ("update_after", 1, 5),
        ("delete", 2, 2),
    ]
    _, changes = latest.change(records(("a", None), ("b", 6), ("d", 7)))
    assert told(changes) == [("delete", 0, 5), ("insert", 1, 6), ("update_before", 2, 4), ("update_after", 2, 7)]


def test_a_key_that_changes_several_times_at_once_tells_each():
    _, changes = based(("a", 1)).change(records(("a", 2), ("b", 9), ("a", None), ("a", None), ("a", 3), ("a", 3)))
    assert told(changes) == [
        ("update_before", 0, 1),
        ("update_after", 0, 2),
        ("insert", 1, 9),
        ("delete", 2, 2),
        ("insert", 4, 3),
    ]


def test_much_that_changed_makes_a_new_base(monkeypatch):
    monkeypatch.setattr(module, "FEW", 2)
    latest = Latest.empty(SCHEMA).apply(records(("a", 1), ("b", 2)))
    assert (latest.base.num_rows, latest.delta.num_rows) == (0, 2)
    latest = latest.apply(records(("c", 3)))
    assert (latest.base.num_rows, latest.delta.num_rows, latest.base_name) == (3, 0, None)
    assert held(latest) == {"a": 1, "b": 2, "c": 3}


def test_rows_are_found_by_their_keys():
    latest = based(("a", 1), ("b", 2), ("c", 3)).apply(records(("b", 20), ("c", None), ("d", 4)))
    rows, there = latest.find(pa.array([b"d", b"c", b"x", b"a", b"b"]))
    assert rows["n"].to_pylist() == [4, None, None, 1, 20]
    assert there.tolist() == [True, False, False, True, True]
    rows, there = Latest.empty(SCHEMA).find(pa.array([b"a"]))
    assert (rows["n"].to_pylist(), there.tolist()) == ([None], [False])
