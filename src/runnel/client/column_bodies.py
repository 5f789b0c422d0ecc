"""Records that are columns of Arrow, encoded and cut into batches by operations on whole arrays.

The bytes of a record are a few varints, its key, another varint, its value, and its headers. The varints of all records
are made at once, and Arrow joins the columns: what it makes is the batch.

An operation on arrays takes some microseconds, however short they are, and a batch takes many. A few rows are encoded
one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runnel.client.bodies import BATCH_BYTES, OVERHEAD_BYTES, Body, bodies, now
from runnel.records import NO_TIMESTAMP, Contents, Record
from runnel.records.record import NO_HEADERS, encode_headers

Numbers: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

JOINED = pa.binary()
LONGEST_VARINT = 10
FEW_ROWS = 64


def column_bodies(
    values: Any, keys: Any = None, timestamps: Any = None, headers: Any = None, *, batch_bytes: int = BATCH_BYTES
) -> Iterator[Body]:
    """The records in their order: `values` and `keys` are binary or string arrays, null where there is none.

    `timestamps` are int64 milliseconds; without them, and where they are null, the present one. `headers` are
    list<struct<key, value>>.
    """
    count = len(values)
    if count <= FEW_ROWS and not _is_without_time(timestamps):
        yield from bodies(_records(values, keys, timestamps, headers), batch_bytes=batch_bytes)
        return
    values = _binary(values)
    keys = pa.nulls(count, JOINED) if keys is None else _binary(keys)
    times = _times(timestamps, count)
    suffixes = None if headers is None else _header_bytes(headers)
    sizes = _lengths(values) + _lengths(keys) + OVERHEAD_BYTES
    if suffixes is not None:
        sizes += _lengths(suffixes)
    for start, stop in _cuts(np.cumsum(sizes), batch_bytes):
        rows = slice(start, stop)
        own = NO_HEADERS if suffixes is None else suffixes[rows]
        yield _body(values[rows], keys[rows], times[rows], own)


def _records(values: Any, keys: Any, timestamps: Any, headers: Any) -> Iterator[Record]:
    count = len(values)
    values = _binary(values).to_pylist()
    keys = [None] * count if keys is None else _binary(keys).to_pylist()
    times = [None] * count if timestamps is None else _milliseconds(timestamps).to_pylist()
    rows = [()] * count if headers is None else headers.to_pylist()
    for value, key, time, row in zip(values, keys, times, rows, strict=True):
        own = tuple((header["key"], header["value"]) for header in row or ())
        yield Record(value, key, NO_TIMESTAMP if time is None else time, own)


def _cuts(ends: Numbers, batch_bytes: int) -> Iterator[tuple[int, int]]:
    """From and to which row a batch goes, by the bytes up to the end of each row."""
    start = taken = 0
    while start < len(ends):
        stop = max(start + 1, int(np.searchsorted(ends, taken + batch_bytes, side="right")))
        yield start, stop
        start, taken = stop, int(ends[stop - 1])


def _body(values: Any, keys: Any, times: Numbers, suffixes: Any) -> Body:
    count = len(values)
    base = int(times[0])
    before_key = [times - base, np.arange(count), _nullable_lengths(keys)]
    before_value = _nullable_lengths(values)
    rest = _lengths(suffixes) if isinstance(suffixes, pa.Array) else len(suffixes)
    numbers = sum(_varint_sizes(_zigzag(each)) for each in (*before_key, before_value))
    lengths = 1 + numbers + _lengths(keys) + _lengths(values) + rest  # 1: the record's attributes
    heads = _varints([lengths, None, *before_key])
    middles = _varints([before_value])
    end = suffixes if isinstance(suffixes, pa.Array) else pa.scalar(suffixes, JOINED)
    nothing = pa.scalar(b"", JOINED)  # not when this is imported: the first scalar loads pandas
    joined = pc.binary_join_element_wise(
        heads, keys, middles, values, end, nothing, null_handling="replace", null_replacement=b""
    )
    return Body(_data(joined), Contents(count, base, int(times.max())))


def _varints(columns: list[Numbers | None]) -> Any:
    """A binary array: of each row, the numbers of all columns one after the other; None stands for a zero byte."""
    count = next(len(column) for column in columns if column is not None)
    coded = [None if column is None else _zigzag(column) for column in columns]
    sizes = [np.ones(count, np.int64) if each is None else _varint_sizes(each) for each in coded]
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(sum(sizes), out=offsets[1:])
    data: Bytes = np.zeros(int(offsets[-1]), np.uint8)
    positions = offsets[:-1].astype(np.int64)
    for each, size in zip(coded, sizes, strict=True):
        if each is not None:
            _put(data, positions, each, size)
        positions = positions + size
    return pa.Array.from_buffers(JOINED, count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _put(data: Bytes, positions: Numbers, coded: npt.NDArray[np.uint64], sizes: Numbers) -> None:
    """Write varints at their positions, a byte of each at a time."""
    left, rows = coded, positions
    for place in range(LONGEST_VARINT):
        more = sizes > place + 1
        data[rows + place] = (left & 0x7F).astype(np.uint8) | (more.astype(np.uint8) << 7)
        if not more.any():
            return
        left, rows, sizes = (left >> np.uint64(7))[more], rows[more], sizes[more]


def _zigzag(numbers: Numbers) -> npt.NDArray[np.uint64]:
    return ((numbers << 1) ^ (numbers >> 63)).astype(np.uint64)


def _varint_sizes(coded: npt.NDArray[np.uint64]) -> Numbers:
    sizes = np.ones(len(coded), np.int64)
    largest = int(coded.max(initial=0))
    for bits in range(7, 70, 7):
        if largest >> bits == 0:
            break
        sizes += coded >= np.uint64(1 << bits)
    return sizes


def _binary(column: Any) -> Any:
    """The same bytes as one binary array: a text has those of its UTF-8."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column if column.type == JOINED else column.cast(JOINED)


def _lengths(column: Any) -> Numbers:
    """0 for those that are null."""
    found: Numbers = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _nullable_lengths(column: Any) -> Numbers:
    """-1 for those that are null."""
    found: Numbers = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _times(timestamps: Any, count: int) -> Numbers:
    if timestamps is None:
        return np.full(count, now(), np.int64)
    if isinstance(timestamps, pa.ChunkedArray):
        timestamps = timestamps.combine_chunks()
    found: Numbers = pc.fill_null(_milliseconds(timestamps), now()).to_numpy(zero_copy_only=False)
    return found


def _is_without_time(timestamps: Any) -> bool:
    """Whether a row has the time that one by one stands for none."""
    return timestamps is not None and NO_TIMESTAMP in _milliseconds(timestamps).to_pylist()


def _milliseconds(timestamps: Any) -> Any:
    return timestamps if timestamps.type == pa.int64() else timestamps.cast(pa.int64())


def _header_bytes(headers: Any) -> Any:
    """The headers of each row as they are written. Few topics have any, and many records have the same."""
    known: dict[Any, bytes] = {}
    rows = []
    for row in headers.to_pylist():
        each = tuple((header["key"], header["value"]) for header in row or ())
        if each not in known:
            known[each] = encode_headers(each) if each else NO_HEADERS
        rows.append(known[each])
    return pa.array(rows, JOINED)


def _data(joined: Any) -> memoryview:
    """The bytes of all rows, one after the other."""
    offsets = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset : joined.offset + len(joined) + 1]
    return memoryview(joined.buffers()[2])[int(offsets[0]) : int(offsets[-1])]
