"""From batch to batch through a segment file.

`headers` steps by the lengths that the headers claim and reads little else: for files that are known to be whole.
`whole_batches` checks every checksum: for what a crash may have torn. Both stop with `Broken` at the first batch that
cannot be right, and both insist that offsets are consecutive where the caller says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from runnel.errors import CorruptBatch
from runnel.files import File
from runnel.records import HEADER_SIZE, BatchHeader, parse_header, validate
from runnel.records.batch import LENGTH_PREFIX, MAGIC

HEADERS_CHUNK = 64 * 1024
BATCHES_CHUNK = 1024 * 1024


class Broken(Exception):
    """The bytes at `position`, where `offset` should stand, are no batch."""

    def __init__(self, position: int, offset: int, reason: str) -> None:
        super().__init__(f"position {position}: {reason}")
        self.position = position
        self.offset = offset
        self.reason = reason


def headers(file: File, position: int, end: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from `position`, whose base offset should be `offset`."""
    chunk, start = b"", position
    while position < end:
        if position + HEADER_SIZE > start + len(chunk):
            chunk, start = file.read(min(HEADERS_CHUNK, end - position), position), position
        try:
            header = parse_header(chunk, position - start)
        except CorruptBatch as error:
            raise Broken(position, offset, error.what) from error
        refuse_implausible(header, position, end, offset)
        yield position, header
        position += header.size
        offset = header.last_offset + 1


def whole_batches(file: File, position: int, end: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """The same, with every batch validated."""
    chunk, start = b"", position
    while position < end:
        try:
            if position + HEADER_SIZE > start + len(chunk):
                chunk, start = file.read(min(BATCHES_CHUNK, end - position), position), position
            header = parse_header(chunk, position - start)
            refuse_implausible(header, position, end, offset)
            if position + header.size > start + len(chunk):
                length = max(BATCHES_CHUNK, header.size)
                chunk, start = file.read(min(length, end - position), position), position
            validate(chunk, position - start)
        except CorruptBatch as error:
            raise Broken(position, offset, error.what) from error
        yield position, header
        position += header.size
        offset = header.last_offset + 1


def next_whole_batch(file: File, position: int, end: int, offset: int) -> tuple[int, BatchHeader] | None:
    """The first batch at or after `position` that is whole and holds no offset before `offset`: where to go on behind
    a damage."""
    magic = bytes([MAGIC])
    while position + HEADER_SIZE <= end:
        chunk = file.read(min(BATCHES_CHUNK, end - position), position)
        found = chunk.find(magic, 16)
        while found >= 0:
            start = position + found - 16
            header = _whole_batch_at(file, start, end)
            if header is not None and header.base_offset >= offset:
                return start, header
            found = chunk.find(magic, found + 1)
        position += max(1, len(chunk) - 16)
    return None


def _whole_batch_at(file: File, position: int, end: int) -> BatchHeader | None:
    try:
        header = parse_header(file.read(HEADER_SIZE, position))
        if header.magic != MAGIC or not HEADER_SIZE <= header.size <= end - position:
            return None
        return validate(file.read(header.size, position))
    except CorruptBatch:
        return None


def refuse_implausible(header: BatchHeader, position: int, end: int, offset: int) -> None:
    """Broken if this header cannot stand where a batch with base offset `offset` should begin."""
    if header.magic != MAGIC:
        raise Broken(position, offset, f"batch of format {header.magic}, only format {MAGIC} is known")
    if header.length < HEADER_SIZE - LENGTH_PREFIX or position + header.size > end:
        raise Broken(position, offset, f"batch of {header.size} bytes in {end - position} that are left")
    if header.base_offset != offset or header.last_offset_delta < 0:
        raise Broken(position, offset, f"batch with offsets {header.base_offset} to {header.last_offset}")
