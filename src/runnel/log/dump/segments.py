"""The rows of segments and of their indexes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from runnel.counted import counted
from runnel.errors import CorruptBatch, InvalidBatch
from runnel.files import File
from runnel.log.dump.rows import BatchRow, IndexRow, Malformed, TimeIndexRow, TxnIndexRow
from runnel.log.txn_index import ENTRY as TXN_INDEX_ENTRY
from runnel.log.txn_index import VERSION as TXN_INDEX_VERSION
from runnel.records import HEADER_SIZE, BatchHeader, Marker, Record, parse_header, parse_marker, records_of, validate

INDEX_ENTRY = struct.Struct(">ii")
TIME_INDEX_ENTRY = struct.Struct(">qi")
ENTRIES_CHUNK = 64 * 1024


def segment_rows(file: File, offset: int = 0, *, records: bool = True) -> Iterator[BatchRow]:
    """The batches from the one that holds `offset`, and their records from there on.

    Offsets must rise and may leave gaps: the segments of a compacted Kafka topic can be shown too.
    """
    least = 0
    for position, header, batch in batches(file):
        if header.base_offset < least:
            raise Malformed(position, f"batch with base offset {header.base_offset} after offset {least - 1}")
        least = header.last_offset + 1
        if header.last_offset >= offset:
            shown = _records(position, batch) if records else []
            asked_for = tuple(record for record in shown if record.offset >= offset)
            yield BatchRow(position, header, asked_for, _marker(batch) if header.is_control else None)


def batches(file: File, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader, bytes]]:
    """Position, header and bytes of each batch; its checksum and its fields are right, its records may not be."""
    end = file.size() if end is None else end
    while position < end:
        batch = _batch_at(file, position, end - position)
        try:
            header = validate(batch)
        except CorruptBatch as error:
            raise Malformed(position, error.what) from error
        yield position, header, batch
        position += header.size


def _batch_at(file: File, position: int, left: int) -> bytes:
    start = file.read(min(HEADER_SIZE, left), position)
    if len(start) < HEADER_SIZE:
        raise Malformed(
            position, f"{counted(len(start), 'byte is', 'bytes are')} left, a batch's header has {HEADER_SIZE}"
        )
    size = parse_header(start).size
    if size > left:  # before it is read: a length without sense must cost nothing
        raise Malformed(position, f"batch of {size} bytes in {left} that are left")
    return file.read(max(size, HEADER_SIZE), position)


def _marker(batch: bytes) -> Marker | None:
    try:
        return parse_marker(batch)
    except InvalidBatch:
        return None  # a control record of another kind, or none any more


def _records(position: int, batch: bytes) -> list[Record]:
    try:
        return records_of(batch)
    except InvalidBatch as error:
        raise Malformed(position, error.what) from error


def index_rows(file: File, base_offset: int) -> Iterator[IndexRow]:
    for position, (relative, batch_position) in _entries(file, INDEX_ENTRY):
        yield IndexRow(position, base_offset + relative, batch_position)


def time_index_rows(file: File, base_offset: int) -> Iterator[TimeIndexRow]:
    for position, (timestamp, relative) in _entries(file, TIME_INDEX_ENTRY):
        yield TimeIndexRow(position, timestamp, base_offset + relative)


def txn_index_rows(file: File) -> Iterator[TxnIndexRow]:
    for position, (version, *fields) in _entries(file, TXN_INDEX_ENTRY):
        if version != TXN_INDEX_VERSION:
            raise Malformed(position, f"entry of version {version}, only version {TXN_INDEX_VERSION} is known")
        yield TxnIndexRow(position, *fields)


def _entries(file: File, shape: struct.Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    size = file.size()
    whole = size // shape.size * shape.size
    chunk = ENTRIES_CHUNK // shape.size * shape.size
    for start in range(0, whole, chunk):
        content = file.read(min(chunk, whole - start), start)
        if len(content) % shape.size:
            raise Malformed(start, "the file became shorter while it was read")
        for number, fields in enumerate(shape.iter_unpack(content)):
            yield start + number * shape.size, fields
    if whole < size:
        raise Malformed(whole, f"{counted(size - whole, 'byte is', 'bytes are')} left, an entry has {shape.size}")
