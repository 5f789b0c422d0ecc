"""From batch to batch through a segment file.

`headers` steps by the lengths that the headers claim and reads little else: for files that are known to be whole.
`whole_batches` checks every checksum: for what a crash may have torn. Both stop with `Broken` at the first batch that
cannot be right, and both insist that offsets are consecutive where the caller says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from runnel.errors import CorruptBatch
from runnel.files import File
from runnel.records import HEADER_SIZE, BatchHeader, parse_header, validate
from runnel.records.batch import LENGTH_PREFIX, MAGIC, validate_body
from runnel.settings import INT32_MAX

HEADERS_CHUNK = 64 * 1024
BATCHES_CHUNK = 1024 * 1024
MAGIC_POSITION = 16
LARGE = 4 * 1024


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
    length = HEADERS_CHUNK
    while position < end:
        if position + HEADER_SIZE > start + len(chunk):
            chunk, start = file.read(min(length, end - position), position), position
        try:
            header = parse_header(chunk, position - start)
        except CorruptBatch as error:
            raise Broken(position, offset, error.what) from error
        refuse_implausible(header, position, end, offset)
        yield position, header
        position += header.size
        offset = header.last_offset + 1
        length = HEADERS_CHUNK if header.size < LARGE else HEADER_SIZE  # read what is stepped over, or leave it out


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
            validate_body(chunk, position - start, header)
        except CorruptBatch as error:
            raise Broken(position, offset, error.what) from error
        yield position, header
        position += header.size
        offset = header.last_offset + 1


def next_whole_batch(
    file: File, position: int, end: int, offset: int, end_offset: int | None = None
) -> tuple[int, BatchHeader] | None:
    """The first batch at or after `position` that is whole and holds no offset before `offset`: where to go on behind
    a damage. `end_offset`, if it is known, is the offset after the last batch.

    The checksum does not cover a batch's offset, so what follows has to confirm it: the next batch, or `end_offset`.
    """
    magic = _magic_of_a_batch(offset)
    end = min(end, file.size())
    while position + HEADER_SIZE <= end:
        chunk = file.read(min(BATCHES_CHUNK, end - position), position)
        for found in magic.finditer(chunk):
            start = position + found.start() - MAGIC_POSITION
            header = _whole_batch_at(file, start, end, offset)
            if header is not None and _is_confirmed(file, start, header, end, end_offset):
                return start, header
        position += max(1, len(chunk) - MAGIC_POSITION)
    return None


def _magic_of_a_batch(offset: int) -> re.Pattern[bytes]:
    """Finds the format of whatever might be a batch at most 2**31 offsets after `offset`. As an expression, because a
    loop would take an hour for a gigabyte of garbage."""
    highs = {number >> 32 for number in (offset, offset + INT32_MAX)}
    offsets = b"|".join(re.escape(high.to_bytes(4, "big")) for high in sorted(highs))
    magic = re.escape(bytes([MAGIC]))
    return re.compile(rb"%b(?<=(?:%b)[\s\S]{%d}%b)" % (magic, offsets, MAGIC_POSITION - 4, magic))


def _whole_batch_at(file: File, position: int, end: int, offset: int) -> BatchHeader | None:
    try:
        header = parse_header(file.read(HEADER_SIZE, position))
        if header.magic != MAGIC or not HEADER_SIZE <= header.size <= end - position:
            return None
        if not 0 <= header.base_offset - offset <= INT32_MAX:  # before the checksum: garbage may claim many bytes
            return None
        return validate(file.read(header.size, position))
    except CorruptBatch:
        return None


def _is_confirmed(file: File, position: int, header: BatchHeader, end: int, end_offset: int | None) -> bool:
    after = position + header.size
    if header.last_offset + 1 == end_offset or after + HEADER_SIZE > end:
        return end_offset in (None, header.last_offset + 1)
    return parse_header(file.read(HEADER_SIZE, after)).base_offset == header.last_offset + 1


def refuse_implausible(header: BatchHeader, position: int, end: int, offset: int) -> None:
    """Broken if this header cannot stand where a batch with base offset `offset` should begin."""
    if header.magic != MAGIC:
        raise Broken(position, offset, f"batch of format {header.magic}, only format {MAGIC} is known")
    if header.length < HEADER_SIZE - LENGTH_PREFIX or position + header.size > end:
        raise Broken(position, offset, f"batch of {header.size} bytes in {end - position} that are left")
    if header.base_offset != offset or header.last_offset_delta < 0:
        raise Broken(position, offset, f"batch with offsets {header.base_offset} to {header.last_offset}")
