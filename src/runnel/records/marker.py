"""The marker that ends a transaction in a partition, byte for byte as Kafka writes it.

It is a control batch of one record, in the name of the producer whose transaction ends:

    key    version i16 = 0 | type i16: 0 aborts, 1 commits
    value  version i16 = 0 | epoch of the coordinator i32

Of a later version the fields that are known here are read, as Kafka does.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from runnel.errors import CorruptBatch, InvalidBatch
from runnel.records.batch import CONTROL, TRANSACTIONAL, Producer, build_batch, parse_header, records_of
from runnel.records.codecs import Buffer
from runnel.records.record import Record

KEY = struct.Struct(">hh")
VALUE = struct.Struct(">hi")
VERSION = 0
ABORT, COMMIT = 0, 1


class Marker(NamedTuple):
    """How a transaction ended, and by the word of which coordinator."""

    committed: bool
    coordinator_epoch: int


def build_marker(
    producer_id: int, producer_epoch: int, *, committed: bool, coordinator_epoch: int, timestamp: int
) -> bytes:
    """The batch that ends this producer's transaction; InvalidBatch if a number does not fit into it."""
    try:
        value = VALUE.pack(VERSION, coordinator_epoch)
    except struct.error as error:
        raise InvalidBatch(f"no coordinator epoch of 32 bits: {coordinator_epoch!r}") from error
    key = KEY.pack(VERSION, COMMIT if committed else ABORT)
    producer = Producer(producer_id, producer_epoch)
    return build_batch([Record(value, key, timestamp)], producer=producer, attributes=TRANSACTIONAL | CONTROL)


def parse_marker(batch: Buffer, position: int = 0) -> Marker:
    """What the marker at `position` says; CorruptBatch if it is not whole, InvalidBatch if it is none."""
    records = records_of(batch, position)
    if not parse_header(batch, position).is_control or len(records) != 1:
        raise InvalidBatch(f"a batch of {len(records)} records is no marker of a transaction")
    return marker_in(records[0])


def marker_in(record: Record) -> Marker:
    """What the one record of a marker says."""
    key, value = record.key or b"", record.value or b""
    try:
        version, kind = KEY.unpack_from(key)
        value_version, coordinator_epoch = VALUE.unpack_from(value)
    except struct.error as error:
        raise CorruptBatch(f"a marker with a key of {len(key)} and a value of {len(value)} bytes") from error
    if version < VERSION or value_version < VERSION or kind not in (ABORT, COMMIT):
        raise InvalidBatch(f"a control record of type {kind}, version {version}, is no marker of a transaction")
    return Marker(kind == COMMIT, coordinator_epoch)
