"""A batch of rows as the view's table takes it: checked, in the table's columns, one row of each key.

Nothing here touches a store, so a batch that does not fit its declaration is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from runnel.views.changes import CHANGE, KINDS
from runnel.views.effects import effective, numbered, removing
from runnel.views.errors import InvalidRows, InvalidValue, NullKey
from runnel.views.layout import Layout, is_window, parts, plain
from runnel.views.store import Rows

ROW = "_runnel_row"
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # the years 1 to 9999
DAY_US = 86_400_000_000
FIRST_MICROSECOND, LAST_MICROSECOND = FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1


@dataclass(frozen=True)
class Batch:
    """The last row of each key, in order; `removes` says of each whether it removes its key."""

    table: pa.Table
    removes: pa.ChunkedArray
    numbers: pa.ChunkedArray
    """Where each row stood among those that were handed in."""


def prepared(layout: Layout, rows: Rows) -> Batch:
    """Raises InvalidRows, with the row and the column, if the rows do not fit the table."""
    given = _table(layout, rows)
    numbered = given.append_column(ROW, pa.array(range(given.num_rows), pa.int64()))
    table = _columns(layout, numbered)
    _check_keys(layout, table)
    table, kept = _effective(layout, table, numbered)
    last = _last_of_each_key(layout, table)
    table, kept = (table, kept) if last is None else (table.take(last), kept.take(last))
    removes = removing(kept) if CHANGE in kept.column_names else _none_of(kept)
    for name in layout.columns:
        _check_range(layout, table, kept[ROW], name)
    return Batch(table, removes, kept[ROW])


def _table(layout: Layout, rows: Rows) -> pa.Table:
    if isinstance(rows, pa.RecordBatch):
        rows = [rows]
    if not isinstance(rows, pa.Table):
        batches = list(rows)
        rows = pa.Table.from_batches(batches) if batches else layout.schema.empty_table()
    if CHANGE in rows.column_names:
        rows = rows.set_column(rows.schema.get_field_index(CHANGE), CHANGE, rows[CHANGE].cast(pa.string()))
        _check_changes(layout, rows[CHANGE])
    return rows


def _check_changes(layout: Layout, changes: pa.ChunkedArray) -> None:
    known = pc.fill_null(pc.is_in(changes, pa.array(sorted(KINDS))), False)
    row = first_true(pc.invert(known))
    if row is not None:
        raise InvalidValue(
            layout.name,
            CHANGE,
            row,
            f"{changes[row].as_py()!r} is no change",
            hint=f"one of {', '.join(sorted(KINDS))}",
        )


def _columns(layout: Layout, given: pa.Table) -> pa.Table:
    """The table's columns, in the table's types."""
    columns: dict[str, pa.ChunkedArray] = {}
    for field in given.schema:
        if field.name in (CHANGE, ROW):
            continue
        column = given[field.name]
        for number, part in enumerate(parts(field) if part_of_window(layout, field) else [field]):
            values = pc.struct_field(column, number) if part.name != field.name else column
            columns[part.name] = _typed(layout, part.name, values)
    missing = [name for name in layout.columns if name not in columns]
    if missing:
        raise InvalidRows(
            layout.name, f"the rows have no column {', '.join(missing)}", hint="return every declared column"
        )
    return pa.table([columns[name] for name in layout.columns], schema=layout.schema)


def part_of_window(layout: Layout, field: pa.Field) -> bool:
    return is_window(field.type) and field.name not in layout.columns


def _typed(layout: Layout, name: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    if name not in layout.columns:
        raise InvalidRows(
            layout.name,
            f"the rows have a column {name!r} that is not declared",
            hint="declare it, or leave it out in the view's function",
        )
    wanted = layout.schema.field(name).type
    if plain(values.type) != wanted:
        raise InvalidRows(
            layout.name,
            f"column {name!r} is of type {values.type}, declared as {wanted}",
            hint="cast it in the view's function",
        )
    return values if values.type == wanted else values.cast(wanted)


def _effective(layout: Layout, table: pa.Table, given: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that count, as they are kept and as they were given."""
    if CHANGE not in given.column_names:
        return table, given
    places = effective(table.append_column(CHANGE, given[CHANGE]), layout.key)
    return (table, given) if len(places) == table.num_rows else (table.take(places), given.take(places))


def _check_keys(layout: Layout, table: pa.Table) -> None:
    for name in layout.key:
        column = table[name]
        if column.null_count:
            row = first_true(column.is_null())
            assert row is not None
            values = table.slice(row, 1).to_pylist()[0]
            raise NullKey(layout.name, name, row, values)


def _last_of_each_key(layout: Layout, table: pa.Table) -> pa.Array | None:
    """The indices of the rows that stand; None if all do."""
    numbers, keys = numbered(table, layout.key)
    keys = keys.append_column(ROW, pa.array(range(table.num_rows), pa.int64()))
    last = keys.group_by(numbers).aggregate([(ROW, "max")])[f"{ROW}_max"]
    if len(last) == table.num_rows:
        return None
    return pc.take(last, pc.sort_indices(last)).combine_chunks()


def _none_of(table: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(False, table.num_rows)])


def _check_range(layout: Layout, table: pa.Table, rows: pa.ChunkedArray, name: str) -> None:
    if not _has_times(table[name].type) or _outside(table[name]) is None:
        return
    for row in range(table.num_rows):
        if (number := _outside(table[name].slice(row, 1))) is not None:
            raise InvalidValue(
                layout.name,
                name,
                rows[row].as_py(),
                f"{number} since 1970 is outside of the years 1 to 9999",
                hint="see to the time in the view's function",
            )


def _has_times(kind: pa.DataType) -> bool:
    """Itself, or somewhere inside of it."""
    if types.is_timestamp(kind) or types.is_date(kind):
        return True
    return any(_has_times(kind.field(number).type) for number in range(kind.num_fields))


def _outside(column: pa.ChunkedArray | pa.Array) -> int | None:
    """A time in it, or inside of its values, that is none of those years."""
    if isinstance(column, pa.ChunkedArray):
        return _first(column.chunks)
    kind = column.type
    if types.is_nested(kind):
        return _first(_inside(column))
    if types.is_timestamp(kind):
        low, high, numbers = FIRST_MICROSECOND, LAST_MICROSECOND, column.cast(pa.int64())
    elif types.is_date(kind):
        low, high, numbers = FIRST_DAY, LAST_DAY, column.cast(pa.int32())
    else:
        return None
    ends = pc.min_max(numbers).as_py()
    return next((each for each in ends.values() if each is not None and not low <= each <= high), None)


def _inside(column: pa.Array) -> list[pa.Array]:
    if types.is_struct(column.type):
        return list(column.flatten())
    if not types.is_map(column.type):
        return [column.flatten()]
    ends = column.offsets  # those of a part; keys and items are those of the whole
    first, count = ends[0].as_py(), ends[-1].as_py() - ends[0].as_py()
    return [column.keys.slice(first, count), column.items.slice(first, count)]


def _first(columns: Iterable[pa.Array]) -> int | None:
    return next((found for each in columns if (found := _outside(each)) is not None), None)


def first_true(found: pa.ChunkedArray | pa.Array) -> int | None:
    row = pc.index(found, True).as_py()
    return None if row < 0 else int(row)
