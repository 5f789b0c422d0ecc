"""Record batches as Arrow columns: what a reader of many records asks for, and nothing else.

    value, key   binary, null where the record has none
    offset       int64
    timestamp    int64, milliseconds since 1970: the record's own, or the log's where the topic says so
    headers      list<struct<key: string, value: binary>>, empty where the record has none; a key that is not UTF-8 has
                 U+FFFD where it is not

Everything is done for the records of many batches at once, by operations on whole arrays. Only where records cannot be
found that way does a loop go from one to the next.

What comes out is what `runnel.records.records_of` reads, cut to the offsets that were asked for. Batches that are no
data (control batches) give no rows. Whatever is wrong with the bytes ends in DamagedRecords; what is not asked for is
not checked further than it takes to find the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runnel.counted import counted
from runnel.errors import CorruptBatch, InvalidBatch, Permanent
from runnel.records import HEADER_SIZE, BatchHeader, Record, decompress, records_of, validate
from runnel.records.codecs import Buffer
from runnel.records.record import INT64_MAX, read_varint

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
TYPES: dict[str, Any] = {
    "value": pa.binary(),
    "key": pa.binary(),
    "offset": pa.int64(),
    "timestamp": pa.int64(),
    "headers": HEADERS,
}
BLOCK = 4 * 1024 * 1024  # plain bytes that are decoded at once; one batch can be more
BEFORE = bytes(1)  # before the first record, as if a record without headers ended there
LONGEST = 10  # bytes of a number
PADDING = bytes(2 * LONGEST)  # so that numbers at the very end are read without going over it
MANY_HEADERS = 64  # more of them in one record are read by the plain way

Numbers: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]


class DamagedRecords(Permanent):
    """Bytes of a partition that are no record batches, or that hold no records."""

    def __init__(self, topic: str, partition: int, offset: int, reason: str) -> None:
        super().__init__(
            f"records of {topic}-{partition} from offset {offset} cannot be read: {reason}",
            hint="read on after them, or see to the producer and to the broker's disk",
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.reason = reason


class Origin(NamedTuple):
    """Where batches come from, for the errors, and the offsets to keep: from `start` to before `end`."""

    topic: str
    partition: int
    start: int = 0
    end: int = INT64_MAX


class _Batch(NamedTuple):
    header: BatchHeader
    data: Buffer
    plain: Buffer  # the records, decompressed


def decode(batches: Iterable[Buffer], columns: Sequence[str], origin: Origin) -> Iterator[pa.RecordBatch]:
    """The columns, in the order that they are named, of the records of whole batches; one table for about 4 MiB."""
    if unknown := [name for name in columns if name not in TYPES]:
        raise ValueError(f"no column {', '.join(unknown)}; there are: {', '.join(TYPES)}")
    if not columns:
        raise ValueError("no column is asked for; 'offset' is the cheapest")
    group: list[_Batch] = []
    size = 0
    for data in batches:
        batch = _opened(data, origin)
        if batch is None:
            continue
        if group and size + len(batch.plain) > BLOCK:
            yield _table(group, columns, origin)
            group, size = [], 0
        group.append(batch)
        size += len(batch.plain)
    if group:
        yield _table(group, columns, origin)


def decode_plainly(batches: Iterable[Buffer], columns: Sequence[str], origin: Origin) -> pa.RecordBatch:
    """The same, record by record with `records_of`: for what is rare, and to compare with."""
    records: list[Record] = []
    for data in batches:
        if _opened(data, origin) is not None:
            records += [each for each in _records(data, origin) if origin.start <= each.offset < origin.end]
    return pa.RecordBatch.from_arrays([_plain_column(records, name) for name in columns], names=list(columns))


def _opened(data: Buffer, origin: Origin) -> _Batch | None:
    """The batch checked and decompressed, or None when no record of it is asked for."""
    offset = origin.start
    try:
        header = validate(data)
        offset = header.base_offset
        if header.size != len(data):
            raise CorruptBatch(f"{counted(len(data) - header.size, 'byte follows', 'bytes follow')} the batch")
        if header.is_control or header.last_offset < origin.start or header.base_offset >= origin.end:
            return None
        return _Batch(header, data, decompress(header.codec, memoryview(data)[HEADER_SIZE:]))
    except InvalidBatch as error:
        raise DamagedRecords(origin.topic, origin.partition, offset, error.what) from error


def _records(data: Buffer, origin: Origin) -> list[Record]:
    try:
        return records_of(data)
    except InvalidBatch as error:
        offset = validate(data).base_offset
        raise DamagedRecords(origin.topic, origin.partition, offset, error.what) from error


def _plain_column(records: Sequence[Record], name: str) -> pa.Array:
    if name == "headers":
        return pa.array([[{"key": key, "value": value} for key, value in each.headers] for each in records], HEADERS)
    return pa.array([getattr(each, name) for each in records], TYPES[name])


def _table(group: Sequence[_Batch], columns: Sequence[str], origin: Origin) -> pa.RecordBatch:
    try:
        rows = _Rows(group)
        kept = rows.between(origin.start, origin.end)
        arrays = [rows.column(name, kept) for name in columns]
    except _OutOfTheOrdinary:
        return decode_plainly([batch.data for batch in group], columns, origin)
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


class _OutOfTheOrdinary(Exception):
    """Bytes that the fast way does not read; the plain way reads them, or says what is wrong with them."""


class _Rows:
    """Where the parts of each record lie in the records of some batches, one after the other."""

    def __init__(self, group: Sequence[_Batch]) -> None:
        self._bytes = b"".join([BEFORE, *(batch.plain for batch in group), PADDING])
        self._data = np.frombuffer(self._bytes, np.uint8)
        self._headers = [batch.header for batch in group]
        self._counts = self._numbers("count")
        bounds = np.cumsum([len(BEFORE), *(len(batch.plain) for batch in group)])
        starts = _seen_starts(self._data, bounds, self._counts)
        if starts is None:
            starts = _walked_starts(self._bytes, bounds.tolist(), self._counts.tolist())
        self._ends = ends = np.append(starts, bounds[-1])[1:]
        lengths, at = _varints(self._data, starts)
        _ordinary(at + lengths == ends)
        self._times_at = at + 1
        self._offsets_at = _after(self._data, self._times_at)
        key_lengths, at = _varints(self._data, _after(self._data, self._offsets_at))
        self._keys, at = self._field(at, key_lengths)
        value_lengths, at = _varints(self._data, at)
        self._values, at = self._field(at, value_lengths)
        self._header_counts, self._headers_at = _varints(self._data, at)
        # A record without headers ends here. One with headers is checked by whoever asks for them.
        some = self._header_counts > 0
        _ordinary(np.where(some, self._headers_at < ends, (self._header_counts == 0) & (self._headers_at == ends)))

    @cached_property
    def _offsets(self) -> Numbers:
        """They ascend inside of a batch and stay inside of it."""
        deltas, _ = _varints(self._data, self._offsets_at)
        ascending = np.empty(len(deltas), np.bool_)
        ascending[1:] = deltas[1:] > deltas[:-1]
        ascending[(np.cumsum(self._counts) - self._counts)[self._counts > 0]] = True
        _ordinary(ascending & (deltas >= 0) & (deltas <= self._of_batch("last_offset_delta")))
        return self._of_batch("base_offset") + deltas

    def _of_batch(self, name: str) -> Numbers:
        """A number of the batch's header, for each of its records."""
        return np.repeat(self._numbers(name), self._counts)

    def _numbers(self, name: str) -> Numbers:
        return np.fromiter(map(attrgetter(name), self._headers), np.int64, len(self._headers))

    def _field(self, at: Numbers, lengths: Numbers) -> tuple[tuple[Numbers, Numbers], Numbers]:
        after = at + np.maximum(lengths, 0)
        _ordinary((lengths >= -1) & (after < self._ends))
        return (at, lengths), after

    def between(self, start: int, end: int) -> Numbers | None:
        """The rows with these offsets, or None for all of them."""
        if self._headers[0].base_offset >= start and all(each.last_offset < end for each in self._headers):
            return None
        return np.flatnonzero((self._offsets >= start) & (self._offsets < end))

    def column(self, name: str, kept: Numbers | None) -> pa.Array:
        match name:
            case "value":
                return _binaries(self._bytes, *self._values, kept)
            case "key":
                return _binaries(self._bytes, *self._keys, kept)
            case "headers":
                return self._header_lists(kept)
            case "offset":
                numbers = self._offsets
            case _:
                numbers = self._timestamps()
        return pa.array(numbers if kept is None else numbers[kept])

    def _timestamps(self) -> Numbers:
        base = self._of_batch("base_timestamp")
        deltas, _ = _varints(self._data, self._times_at)
        times = base + deltas
        _ordinary(((base ^ times) & (deltas ^ times)) >= 0)  # they did not go over 64 bits
        if not any(header.is_append_time for header in self._headers):
            return times
        return np.where(self._of_batch("is_append_time") == 1, self._of_batch("max_timestamp"), times)

    def _header_lists(self, kept: Numbers | None) -> pa.Array:
        counts = self._header_counts
        if int(counts.max(initial=0)) > MANY_HEADERS:
            raise _OutOfTheOrdinary
        bounds = np.concatenate(([0], np.cumsum(counts)))
        keys, values = (np.zeros((2, int(bounds[-1])), np.int64) for _ in range(2))
        at = self._headers_at.copy()
        rows = np.flatnonzero(counts)
        number = 0
        while rows.size:  # the first header of every record, then the second of those that have one
            slots = bounds[rows] + number
            keys[:, slots], at[rows] = self._part(at[rows], rows)
            values[:, slots], at[rows] = self._part(at[rows], rows)
            number += 1
            rows = rows[counts[rows] > number]
        _ordinary(at == self._ends)
        _ordinary(keys[1] >= 0)
        names = _binaries(self._bytes, keys[0], keys[1], None)
        try:
            structs = pa.StructArray.from_arrays(
                [names.cast(pa.string()), _binaries(self._bytes, values[0], values[1], None)],
                fields=list(HEADERS.value_type),
            )
        except pa.ArrowInvalid as error:  # a name that is not UTF-8
            raise _OutOfTheOrdinary from error
        lists = pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), structs, type=HEADERS)
        return lists if kept is None else lists.take(pa.array(kept))

    def _part(self, at: Numbers, rows: Numbers) -> tuple[tuple[Numbers, Numbers], Numbers]:
        lengths, at = _varints(self._data, at)
        after = at + np.maximum(lengths, 0)
        _ordinary((lengths >= -1) & (after <= self._ends[rows]))
        return (at, lengths), after


def _ordinary(holds: npt.NDArray[np.bool_]) -> None:
    if not holds.all():
        raise _OutOfTheOrdinary


def _seen_starts(data: Bytes, bounds: Numbers, counts: Numbers) -> Numbers | None:
    """Where the records start, seen without a walk; None if that does not come out right.

    A record without headers ends with a zero (their count), and the next one goes on with its length and a zero (its
    attributes): so a record may start after any two zeros with one to three bytes in between. That is a guess. What
    makes it sure is that each record found ends where the next one starts, and that each batch has its count of them.
    """
    zeros = np.flatnonzero(data[: int(bounds[-1])] == 0)
    between = np.diff(zeros)
    likely = np.flatnonzero((between > 1) & (between < 5))
    starts, attributes = zeros[likely] + 1, zeros[likely + 1]
    lengths, at = _varints(data, starts)
    ends = at + lengths
    right = (at == attributes) & (ends > at) & (ends <= bounds[-1])
    if len(starts) != counts.sum() or not right.all():
        starts, ends = starts[right], ends[right]
        marked = np.zeros(len(data), np.bool_)
        marked[starts] = marked[bounds[-1]] = True
        followed = marked[ends]
        starts, ends = starts[followed], ends[followed]
    joined = len(starts) == counts.sum() and (ends == np.append(starts, bounds[-1])[1:]).all()
    firsts = np.append(np.cumsum(counts) - counts, len(starts))
    if not joined or not (np.append(starts, bounds[-1])[firsts] == bounds).all():
        return None
    return starts


def _walked_starts(data: bytes, bounds: Sequence[int], counts: Sequence[int]) -> Numbers:
    """Where the records start, by going from one to the next."""
    starts: list[int] = []
    for position, end, count in zip(bounds, bounds[1:], counts, strict=False):
        if _walk(data, position, count, starts) != end:
            raise _OutOfTheOrdinary
    return np.array(starts, np.int64)


def _walk(data: bytes, position: int, count: int, starts: list[int]) -> int:
    """Adds where each of `count` records starts, and returns where the last one ends.

    Lengths of one and two bytes are read in place, because a call for each would double the time.
    """
    append = starts.append
    try:
        for _ in range(count):
            append(position)
            first = data[position]
            if first < 0x80:
                position += (first >> 1) + 1
            elif (second := data[position + 1]) < 0x80:
                position += ((first & 0x7F | second << 7) >> 1) + 2
            else:
                length, position = read_varint(data, position)
                if length < 0:
                    raise _OutOfTheOrdinary
                position += length
    except (IndexError, CorruptBatch) as error:
        raise _OutOfTheOrdinary from error
    return position


def _varints(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    """The zigzag numbers at some positions, and the positions after them."""
    if at.size and int(at.max()) > len(data) - len(PADDING):
        raise _OutOfTheOrdinary
    first = data[at]
    if not (first >= 0x80).any():
        return (first >> 1).astype(np.int64) ^ -(first & 1).astype(np.int64), at + 1
    long = first >= 0x80
    second = data[at + 1]
    number = np.where(long, second, 0).astype(np.uint64) << np.uint64(7)
    more = np.flatnonzero(number >= 0x80 << 7)
    number &= np.uint64(0x7F << 7)
    number |= first & 0x7F
    at = at + 1 + long
    shift = 14
    while more.size:
        byte = data[at[more]]
        if shift > 63 or (shift == 63 and (byte > 1).any()):
            raise _OutOfTheOrdinary
        number[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        at[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    half = (number >> np.uint64(1)).view(np.int64)
    return half ^ -(number & np.uint64(1)).view(np.int64), at


def _after(data: Bytes, at: Numbers) -> Numbers:
    """The positions after the numbers at some positions."""
    long = data[at] >= 0x80
    at = at + 1
    if not long.any():
        return at
    at += long
    more = np.flatnonzero(long)
    more = more[data[at[more] - 1] >= 0x80]
    for _ in range(LONGEST - 2):
        if not more.size:
            break
        at[more] += 1
        more = more[data[at[more] - 1] >= 0x80]
    if more.size or (at.size and int(at.max()) > len(data) - len(PADDING)):
        raise _OutOfTheOrdinary
    return at


def _binaries(data: bytes, at: Numbers, lengths: Numbers, kept: Numbers | None) -> pa.Array:
    """The pieces of `data` of these lengths, null where the length is -1.

    Arrow's offsets allow no gaps, so the gaps are elements too, and only every second element is taken.
    """
    if kept is not None:
        at, lengths = at[kept], lengths[kept]
    count = len(at)
    if not count:
        return pa.array([], pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = at
    bounds[1::2] = at + np.maximum(lengths, 0)
    missing = lengths < 0
    validity = None
    if missing.any():
        valid = np.ones(2 * count - 1, np.bool_)
        valid[0::2] = ~missing
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [validity, pa.py_buffer(bounds), pa.py_buffer(data)]
    with_gaps = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    return with_gaps.take(pa.array(np.arange(0, 2 * count, 2)))
