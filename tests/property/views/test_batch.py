"""A prepared batch is what applying its rows one by one would leave."""

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from runnel.views.batch import prepared
from runnel.views.layout import layout
from runnel.views.store import Declared

SCHEMA = pa.schema([("page", pa.string()), ("day", pa.int32()), ("seen", pa.int64())])
DAILY = layout(Declared("daily", ("day", "page"), SCHEMA))
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", ""]),
        st.integers(0, 2),
        st.none() | st.integers(0, 9),
        st.sampled_from(["insert", "update_before", "update_after", "delete"]),
    )
)


def as_table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    return pa.table(list(columns), schema=SCHEMA.append(pa.field("_change", pa.string())))


def stands(rows: list[tuple[int, Any, str]]) -> tuple[Any, bool, int] | None:
    """Of the rows of one key; None: nothing of it has an effect."""
    befores = Counter(seen for _, seen, change in rows if change == "update_before")
    puts = Counter(seen for _, seen, change in rows if change in ("insert", "update_after"))
    number, seen, change = rows[-1]
    if change != "update_before":
        return seen, change == "delete", number
    spare = puts - befores
    for place, content, kind in reversed(rows):
        if kind == "delete" or (kind != "update_before" and spare[content]):
            return content, kind == "delete", place
    more = befores - puts
    return next(((content, True, place) for place, content, _ in reversed(rows) if more[content]), None)


@given(rows=ROWS, cut=st.integers(1, 5))
def test_the_last_row_of_each_key_stands_in_the_order_of_the_rows(rows, cut):
    by_key: dict[Any, list[Any]] = {}
    for number, (page, day, seen, change) in enumerate(rows):
        by_key.setdefault((page, day), []).append((number, seen, change))
    last = {}
    for key, each in by_key.items():
        if (found := stands(each)) is not None:
            last[key] = found
    last = dict(sorted(last.items(), key=lambda pair: pair[1][-1]))
    batch = prepared(DAILY, as_table(rows).to_batches(max_chunksize=cut))
    got = zip(batch.table.to_pylist(), batch.removes.to_pylist(), batch.numbers.to_pylist(), strict=True)
    assert [(row["page"], row["day"], row["seen"], removes, number) for row, removes, number in got] == [
        (page, day, *rest) for (page, day), rest in last.items()
    ]


@given(rows=ROWS)
def test_without_changes_every_row_upserts(rows):
    batch = prepared(DAILY, as_table(rows).drop_columns("_change"))
    assert not any(batch.removes.to_pylist())
    assert batch.table.num_rows == len({(page, day) for page, day, _, _ in rows})
