"""The windows that a view shows and that are not closed."""

from datetime import UTC, datetime

import pyarrow as pa

from runnel.pipeline.open_windows import OpenWindows

WINDOW = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
SCHEMA = pa.schema([("window", WINDOW), ("page", pa.string()), ("count", pa.int64())])


def at(second):
    return datetime.fromtimestamp(second, UTC)


def rows(*seconds):
    """A row for each window of ten seconds."""
    found = [{"window": {"start": at(second), "end": at(second + 10)}, "page": "p", "count": 1} for second in seconds]
    return pa.Table.from_pylist(found, SCHEMA)


def test_a_window_is_counted_once_however_many_rows_it_has():
    windows = OpenWindows.of(SCHEMA)
    windows.see(rows(100, 100, 110), 0)
    windows.see(rows(110, 120), 0)
    assert windows.count == 3


def test_a_window_is_closed_when_the_watermark_has_come_to_its_end():
    windows = OpenWindows.of(SCHEMA)
    windows.see(rows(100, 110), 109_999)
    assert windows.count == 2
    windows.see(rows(), 110_000)
    assert windows.count == 1
    windows.see(rows(), 120_000)
    assert windows.count == 0


def test_a_closed_window_that_is_told_at_last_is_not_open():
    windows = OpenWindows.of(SCHEMA)
    windows.see(rows(100), 500_000)
    assert windows.count == 0


def test_where_no_column_is_a_window_nothing_is_counted():
    pair = pa.struct([("start", pa.int64()), ("end", pa.int64())])
    assert OpenWindows.of(pa.schema([("pair", pair), ("page", pa.string())])) is None
