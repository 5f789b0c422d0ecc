"""Changes of rows that move between keys leave what is there in the end, however a shuffle mixes them."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from runnel.views.changes import CHANGE
from runnel.views.effects import effective, removing

KEYS = st.sampled_from("abc")
STEPS = st.lists(st.tuples(st.integers(0, 2), KEYS | st.none(), st.integers(0, 1)), max_size=12)


def played(steps: list[tuple[int, str | None, int]], rows: dict[int, tuple[str, int]]) -> list[tuple[str, int, str]]:
    """Each step puts a row under a free key, or lets a filter take it out (None). Its changes, as a body gives them."""
    changes = []
    for row, key, value in steps:
        if key is not None and any(other != row and rows[other][0] == key for other in rows):
            continue
        before = rows.pop(row, None)
        if before is not None:
            changes.append((*before, "update_before"))
        if key is not None:
            rows[row] = (key, value)
            changes.append((key, value, "update_after" if before else "insert"))
    return changes


def applied(view: dict[str, int], changes: list[tuple[str, int, str]]) -> dict[str, int]:
    columns: list[Any] = [list(column) for column in zip(*changes, strict=True)] or [[], [], []]
    schema = pa.schema([("key", pa.string()), ("value", pa.int64()), (CHANGE, pa.string())])
    table = pa.table(columns, schema=schema)
    counting = table.take(effective(table, ["key"]))
    for (key, value, _), removes in zip(
        (tuple(row.values()) for row in counting.to_pylist()), removing(counting).to_pylist(), strict=True
    ):
        if removes:
            view.pop(key, None)
        else:
            view[key] = value
    return view


@given(before=STEPS, steps=STEPS, data=st.data())
def test_what_is_left_is_where_the_rows_are_in_whatever_order_tasks_hand_them_over(before, steps, data):
    rows: dict[int, tuple[str, int]] = {}
    view = applied({}, played(before, rows))
    assert view == dict(rows.values())
    changes = played(steps, rows)
    tasks: dict[Any, list[Any]] = {}
    for change in changes:
        tasks.setdefault(change[:2], []).append(change)  # a shuffle by what a row says keeps equal rows in their order
    order = data.draw(st.permutations(list(tasks)))
    assert applied(view, [change for task in order for change in tasks[task]]) == dict(rows.values())


@given(before=STEPS, steps=STEPS)
def test_what_is_left_is_where_the_rows_are_when_nothing_is_shuffled(before, steps):
    rows: dict[int, tuple[str, int]] = {}
    view = applied({}, played(before, rows))
    assert applied(view, played(steps, rows)) == dict(rows.values())
