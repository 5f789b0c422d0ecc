"""What is left of one batch. Pure: a batch and the fates of its records in, bytes out.

Offsets, sequences and the producer stay; the records that stay keep their bytes and so their offsets and times. A
batch that loses nothing is left as it is. One that keeps a tombstone, or a marker whose transaction is empty, gets a
delete horizon the first time: its base timestamp is then the time from which it may go, which attribute bit 6 tells,
and the records' differences to it are written anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from crc32c import crc32c

from runnel.files import Buffer
from runnel.log.compaction.newest import TOMBSTONE, plain_body
from runnel.log.compaction.scanning import ends_of, shifted, time_delta_of
from runnel.records import HEADER_SIZE, NO_PRODUCER_ID, NO_TIMESTAMP, BatchHeader, compress
from runnel.records.batch import (
    APPEND_TIME,
    CHECKED_FROM,
    CHECKSUM,
    CHECKSUM_POSITION,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    LENGTH_PREFIX,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL,
)
from runnel.records.record import INT64_MIN
from runnel.settings import INT64_MAX


def horizon_of(header: BatchHeader) -> int | None:
    """From when on its tombstones may go, or the marker that it is; None if no round has met them yet."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None


def rewritten(header: BatchHeader, batch: bytes, fates: Sequence[int], horizon: int) -> tuple[BatchHeader, bytes]:
    """The batch with those records whose fate is not 0; at least one is.

    `horizon` is for tombstones that have none yet.
    """
    stays = 0 not in fates
    sets_horizon = TOMBSTONE in fates and horizon_of(header) is None
    if stays and not sets_horizon:
        return header, batch
    body = plain_body(header, batch)
    records = _records_that_stay(body, fates)
    if sets_horizon:
        header, records = _with_horizon(header, records, horizon)
    if not stays and not header.is_append_time:
        latest = max(map(time_delta_of, records))
        header = header._replace(max_timestamp=header.base_timestamp + latest)
    return _built(header._replace(count=len(records)), b"".join(records))


def with_horizon(header: BatchHeader, batch: bytes, horizon: int) -> tuple[BatchHeader, bytes]:
    """A marker, with the time from which it may go."""
    header, records = _with_horizon(header, [batch[HEADER_SIZE:]], horizon)
    return _built(header, b"".join(records))


def emptied(header: BatchHeader) -> tuple[BatchHeader, bytes]:
    """The batch without its records: what is left tells the producer's last sequence. It has no time any more."""
    attributes = header.attributes & (APPEND_TIME | TRANSACTIONAL | CONTROL)
    header = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, max_timestamp=NO_TIMESTAMP, count=0)
    return _built(header, b"")


def filler(first_offset: int, last_offset: int, leader_epoch: int) -> tuple[BatchHeader, bytes]:
    """An empty batch of nobody that stands for offsets whose records are gone."""
    header = BatchHeader(
        base_offset=first_offset,
        length=HEADER_SIZE - LENGTH_PREFIX,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        checksum=0,
        attributes=0,
        last_offset_delta=last_offset - first_offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        count=0,
    )
    return _built(header, b"")


def stretched(header: BatchHeader, batch: bytes, last_offset: int) -> tuple[BatchHeader, bytes]:
    """The batch, which now also stands for the offsets up to `last_offset`.

    Its last sequence would be another one then, so it belongs to no producer any more.
    """
    header = header._replace(
        last_offset_delta=last_offset - header.base_offset,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
    )
    return header, _checksummed(header, memoryview(batch)[HEADER_SIZE:])


def _records_that_stay(body: bytes, fates: Sequence[int]) -> list[bytes]:
    records: list[bytes] = []
    start = 0
    for end, fate in zip(ends_of(body, len(fates)), fates, strict=True):
        if fate:
            records.append(body[start:end])
        start = end
    return records


def _with_horizon(header: BatchHeader, records: list[bytes], horizon: int) -> tuple[BatchHeader, list[bytes]]:
    """With times that are too far away to be told from there, all stays as it is."""
    shift = header.base_timestamp - horizon
    deltas = [time_delta_of(record) + shift for record in records]
    if not INT64_MIN <= min(deltas) <= max(deltas) <= INT64_MAX or horizon > INT64_MAX:
        return header, records
    header = header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon)
    return header, [shifted(record, shift) for record in records]


def _built(header: BatchHeader, body: bytes) -> tuple[BatchHeader, bytes]:
    if header.attributes & CODEC_MASK:
        body = compress(header.codec, body)
    header = header._replace(length=HEADER_SIZE - LENGTH_PREFIX + len(body))
    return header, _checksummed(header, body)


def _checksummed(header: BatchHeader, body: Buffer) -> bytes:
    start = HEADER.pack(*header)
    checksum = CHECKSUM.pack(crc32c(body, crc32c(start[CHECKED_FROM:])))
    return b"".join((start[:CHECKSUM_POSITION], checksum, start[CHECKED_FROM:], body))
