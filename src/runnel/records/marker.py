"""The marker that ends a transaction in a partition, byte for byte as Kafka writes it.

It is a control batch of one record, in the name of the producer whose transaction ends:

    key    version i16 = 0 | type i16: 0 aborts, 1 commits
    value  version i16 = 0 | epoch of the coordinator i32

Of a later version the fields that are known here are read, as Kafka does.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from crc32c import crc32c

from runnel.counted import counted
from runnel.errors import CorruptBatch, InvalidBatch
from runnel.records.batch import (
    CONTROL,
    LENGTH_PREFIX,
    MAGIC,
    NO_SEQUENCE,
    TRANSACTIONAL,
    Producer,
    build_batch,
    parse_header,
    records_of,
)
from runnel.records.codecs import Buffer
from runnel.records.record import INT64_MAX, Record

KEY = struct.Struct(">hh")
VALUE = struct.Struct(">hi")
VERSION = 0
ABORT, COMMIT = 0, 1

# A marker as we write it, whole: several end each transaction, so they are not put together from records.
START = struct.Struct(">qiibI")  # up to the checksum
CHECKED = struct.Struct(">hiqqqhii5shhshis")  # the rest of the header, and the record
BEFORE_KEY = b"\x20\x00\x00\x00\x08"  # lengths of the record and of its key; no attributes, no deltas
BEFORE_VALUE = b"\x0c"
NO_HEADERS = b"\x00"
ATTRIBUTES = TRANSACTIONAL | CONTROL
SIZE = START.size + CHECKED.size
LENGTH = SIZE - LENGTH_PREFIX
OUR_OWN = (ATTRIBUTES, 0, 1, BEFORE_KEY, VERSION, BEFORE_VALUE, VERSION, NO_HEADERS)


class Marker(NamedTuple):
    """How a transaction ended, and by the word of which coordinator."""

    committed: bool
    coordinator_epoch: int


def build_marker(
    producer_id: int,
    producer_epoch: int,
    *,
    committed: bool,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The batch that ends this producer's transaction; InvalidBatch if a number does not fit into it."""
    kind = COMMIT if committed else ABORT
    try:
        checked, checksum = _checked(producer_id, producer_epoch, kind, coordinator_epoch, timestamp)
    except struct.error:
        return _put_together(producer_id, producer_epoch, kind, coordinator_epoch, timestamp)  # tells which number
    return START.pack(base_offset, LENGTH, leader_epoch, MAGIC, checksum) + checked


@lru_cache(maxsize=16)
def _checked(
    producer_id: int, producer_epoch: int, kind: int, coordinator_epoch: int, timestamp: int
) -> tuple[bytes, int]:
    """What follows the checksum, and the checksum: the markers of one transaction differ in their places alone."""
    checked = CHECKED.pack(
        ATTRIBUTES, 0, timestamp, timestamp, producer_id, producer_epoch, NO_SEQUENCE, 1,
        BEFORE_KEY, VERSION, kind, BEFORE_VALUE, VERSION, coordinator_epoch, NO_HEADERS,
    )  # fmt: skip
    return checked, crc32c(checked)


def _put_together(producer_id: int, producer_epoch: int, kind: int, coordinator_epoch: int, timestamp: int) -> bytes:
    try:
        value = VALUE.pack(VERSION, coordinator_epoch)
    except struct.error as error:
        raise InvalidBatch(f"no coordinator epoch of 32 bits: {coordinator_epoch!r}") from error
    record = Record(value, KEY.pack(VERSION, kind), timestamp)
    return build_batch([record], producer=Producer(producer_id, producer_epoch), attributes=ATTRIBUTES)


def parse_marker(batch: Buffer, position: int = 0) -> Marker:
    """What the marker at `position` says; CorruptBatch if it is not whole, InvalidBatch if it is none."""
    marker = _of_our_own(batch, position)
    if marker is not None:
        return marker
    records = records_of(batch, position)
    if not parse_header(batch, position).is_control or len(records) != 1:
        raise InvalidBatch(f"a batch of {len(records)} records is no marker of a transaction")
    return marker_in(records[0])


def _of_our_own(batch: Buffer, position: int) -> Marker | None:
    """What it says, if it is whole and looks as we write it."""
    if len(batch) < position + SIZE:
        return None
    base_offset, length, _, magic, checksum = START.unpack_from(batch, position)
    if length != LENGTH or magic != MAGIC or not 0 <= base_offset < INT64_MAX:
        return None
    attributes, delta, _, _, _, _, _, count, *record = CHECKED.unpack_from(batch, position + START.size)
    before_key, version, kind, before_value, value_version, coordinator_epoch, headers = record
    if (attributes, delta, count, before_key, version, before_value, value_version, headers) != OUR_OWN:
        return None
    if kind not in (ABORT, COMMIT) or crc32c(memoryview(batch)[position + START.size : position + SIZE]) != checksum:
        return None
    return Marker(kind == COMMIT, coordinator_epoch)


def marker_in(record: Record) -> Marker:
    """What the one record of a marker says."""
    key, value = record.key or b"", record.value or b""
    try:
        version, kind = KEY.unpack_from(key)
        value_version, coordinator_epoch = VALUE.unpack_from(value)
    except struct.error as error:
        raise CorruptBatch(f"a marker with a key of {len(key)} and a value of {counted(len(value), 'byte')}") from error
    if version < VERSION or value_version < VERSION or kind not in (ABORT, COMMIT):
        raise InvalidBatch(f"a control record of type {kind}, version {version}, is no marker of a transaction")
    return Marker(kind == COMMIT, coordinator_epoch)
