"""The windows that a view shows and that are not closed, as far as this run has seen them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

WINDOW = ["start", "end"]  # the fields of one of Spark's


class OpenWindows:
    """By the column of the window. A window is closed when the watermark has come to its end."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._open: set[tuple[int, int]] = set()  # starts and ends, in microseconds

    @classmethod
    def of(cls, schema: pa.Schema) -> OpenWindows | None:
        """None where no column is a window."""
        found = [field.name for field in schema if _is_window(field.type)]
        return cls(found[0]) if found else None

    @property
    def count(self) -> int:
        return len(self._open)

    def see(self, rows: pa.Table, watermark: int) -> None:
        """What a batch showed; the watermark is in milliseconds."""
        closed = watermark * 1000
        column = rows[self._column].combine_chunks()
        bounds = [pc.cast(pc.struct_field(column, name), pa.timestamp("us", "UTC")) for name in WINDOW]
        seen = pa.table([each.cast(pa.int64()) for each in bounds], WINDOW).group_by(WINDOW).aggregate([])
        new = zip(seen["start"].to_pylist(), seen["end"].to_pylist(), strict=True)
        every = self._open | {(start, end) for start, end in new if end is not None}
        self._open = {(start, end) for start, end in every if end > closed}


def _is_window(kind: pa.DataType) -> bool:
    return (
        pa.types.is_struct(kind)
        and [field.name for field in kind] == WINDOW
        and all(pa.types.is_timestamp(field.type) for field in kind)
    )
