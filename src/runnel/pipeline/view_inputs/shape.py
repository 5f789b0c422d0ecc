"""Rows as the view's body returned them, made of what the store keeps: the two columns of a window are one again.

So a function that reads a view can be called with what the view's own function returns, as in a test.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from runnel.views.layout import is_window, parts


def returned(kept: pa.Table, wanted: pa.Schema) -> pa.Table:
    """The columns of `wanted`, in its types."""
    return pa.table([_column(kept, field) for field in wanted], schema=wanted)


def _column(kept: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if not is_window(field.type):
        return kept[field.name].cast(field.type)
    ends = [kept[part.name].cast(part.type).combine_chunks() for part in parts(field)]
    nothing = pc.and_(*(each.is_null() for each in ends))
    return pa.chunked_array([pa.StructArray.from_arrays(ends, fields=list(field.type), mask=nothing)])
