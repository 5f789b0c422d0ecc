"""A segment file in pieces of whole batches, each small enough to be held in memory, every batch checked.

What is rewritten gets a new checksum. So nothing is rewritten whose old one is wrong: it would be damage that nobody
finds any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from runnel.counted import counted
from runnel.errors import CorruptBatch
from runnel.files import File
from runnel.log.walk import Broken, refuse_implausible
from runnel.records import HEADER_SIZE, BatchHeader, parse_header
from runnel.records.batch import validate_body
from runnel.settings import KIB

# A piece of work, and of memory: whoever else wants the processor waits while the system finds pages for a large one.
WINDOW = 128 * KIB


class Window(NamedTuple):
    """Whole batches: `length` bytes from `position` on, the first with base offset `offset`."""

    position: int
    length: int
    offset: int
    next_offset: int
    records: int  # without those of markers


def windows_of(file: File, base_offset: int, size: int) -> Iterator[Window]:
    """All of a segment, by the lengths that the headers claim; Broken where no batch can be."""
    position, offset = 0, base_offset
    while position < size:
        window = _window_at(file, position, offset, size)
        yield window
        position += window.length
        offset = window.next_offset


def _window_at(file: File, position: int, offset: int, size: int) -> Window:
    data = file.read(min(WINDOW, size - position), position)
    expected, done, records = offset, 0, 0
    while done + HEADER_SIZE <= len(data):
        header = parse_header(data, done)
        refuse_implausible(header, position + done, size, expected)
        if done + header.size > len(data) and done:
            break
        done += header.size
        expected = header.last_offset + 1
        records += 0 if header.is_control else header.count
    if not done:
        raise Broken(position, offset, f"{counted(size - position, 'byte is', 'bytes are')} no whole batch")
    return Window(position, done, offset, expected, records)


def batches_in(file: File, window: Window) -> Iterator[tuple[int, BatchHeader, bytes]]:
    """Position, header and bytes of each batch; Broken where one is not as it was written."""
    data = file.read(window.length, window.position)
    done, expected = 0, window.offset
    while done < window.length:
        position = window.position + done
        try:
            header = parse_header(data, done)
            refuse_implausible(header, position, window.position + window.length, expected)
            validate_body(data, done, header)
        except CorruptBatch as error:
            raise Broken(position, expected, error.what) from error
        yield position, header, data[done : done + header.size]
        done += header.size
        expected = header.last_offset + 1
