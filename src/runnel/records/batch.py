"""Record batches in Kafka's format v2, byte for byte: parse, validate, build, place. Pure functions.

    0 base offset i64  | 8 length i32: the bytes after this field | 12 leader epoch i32 | 16 magic i8 = 2
    17 checksum u32: CRC-32C of byte 21 to the end
    21 attributes i16  | 23 last offset delta i32 | 27 base timestamp i64 | 35 max timestamp i64
    43 producer id i64 | 51 producer epoch i16    | 53 base sequence i32  | 57 count i32 | 61 records

The base offset and the leader epoch are outside of the checksum: the log sets them without touching the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from runnel.counted import counted
from runnel.errors import CorruptBatch, InvalidBatch
from runnel.records.codecs import DECOMPRESSED_LIMIT, Buffer, Codec, compress, decompress
from runnel.records.mistakes import mistake_in
from runnel.records.record import INT64_MAX, NO_TIMESTAMP, Record, decode_records, encode_records

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size  # 61
START = struct.Struct(">qiibI")  # up to the checksum
CHECKED = struct.Struct(">hiqqqhii")  # the rest of the header
LENGTH_PREFIX = 12  # the bytes that the length field does not count
PLACE = struct.Struct(">qii")  # base offset, length, leader epoch
CHECKSUM = struct.Struct(">I")
CHECKSUM_POSITION = 17
TIMESTAMPS = struct.Struct(">qqq")
CHECKED_FROM = 21
MAGIC = 2
COPIED_SIZE = 4096

CODEC_MASK = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
FLAGS = APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON
KNOWN_ATTRIBUTES = CODEC_MASK | FLAGS

LAST_CODEC = int(max(Codec))
NO_CODEC = Codec.NONE  # a name of the module is found in a tenth of the time that a member of an enum takes

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
SEQUENCES = 2**31  # sequence numbers count modulo this


class Producer(NamedTuple):
    """Who wrote a batch, for recognising what is sent twice."""

    id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    sequence: int = NO_SEQUENCE


NO_PRODUCER = Producer()


class Contents(NamedTuple):
    """What a batch's header tells of its records: how many, the first one's time, and the latest."""

    count: int  # type: ignore[assignment]  # the word of the format; it hides tuple.count
    base_timestamp: int
    max_timestamp: int


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    checksum: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # the word of the format; it hides tuple.count

    @property
    def size(self) -> int:
        """The whole batch in bytes."""
        return self.length + LENGTH_PREFIX

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % SEQUENCES

    @property
    def codec(self) -> Codec:
        return Codec(self.attributes & CODEC_MASK)

    @property
    def is_append_time(self) -> bool:
        return bool(self.attributes & APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)


def parse_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header as it stands there, unchecked; CorruptBatch if the bytes end before it does."""
    try:
        return tuple.__new__(BatchHeader, HEADER.unpack_from(data, position))  # `_make` counts the fields again
    except struct.error as error:
        raise CorruptBatch(
            f"{counted(max(0, len(data) - position), 'byte is', 'bytes are')} left, a batch's header has {HEADER_SIZE}"
        ) from error


def validate(data: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`, or CorruptBatch unless the batch is whole and as it was built.

    Everything but the records themselves is checked: `records_of` checks those.
    """
    return validate_body(data, position, parse_header(data, position))


def validate_body(data: Buffer, position: int, header: BatchHeader) -> BatchHeader:
    """The same for a header that was parsed already. Every append and every recovery pays for each line here."""
    # `[:]` gives a plain tuple: with it this takes two thirds of the time.
    base_offset, length, _, magic, expected, attributes, delta, _, _, _, _, _, count = header[:]
    if magic != MAGIC:
        raise CorruptBatch(f"batch of format {magic}, only format {MAGIC} is known")
    if length < HEADER_SIZE - LENGTH_PREFIX:
        raise CorruptBatch(f"batch says that it has {counted(length, 'byte')}, fewer than its own header")
    end = position + length + LENGTH_PREFIX
    if end > len(data):
        raise CorruptBatch(f"batch of {end - position} bytes in {len(data) - position} that are left")
    checksum = crc32c(memoryview(data)[position + CHECKED_FROM : end])
    if checksum != expected:
        raise CorruptBatch(f"checksum of the batch is {checksum:#010x}, its header says {expected:#010x}")
    if attributes & ~KNOWN_ATTRIBUTES or attributes & CODEC_MASK > LAST_CODEC:
        raise CorruptBatch(f"batch with unknown attributes {attributes & 0xFFFF:#06x}")
    if count < 0 or delta < 0 or count > delta + 1:
        raise CorruptBatch(f"batch of {count} records over {delta + 1} offsets")
    if base_offset < 0 or base_offset + delta >= INT64_MAX:  # the offset after it must be one too
        raise CorruptBatch(f"batch at offsets {base_offset} to {base_offset + delta}")
    return header


def batches_of(data: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every batch, validated; CorruptBatch where the bytes stop being batches."""
    while position < len(data):
        header = validate(data, position)
        yield position, header
        position += header.size


def records_of(data: Buffer, position: int = 0, *, limit: int = DECOMPRESSED_LIMIT) -> list[Record]:
    """The records of the batch at `position`, batch and records validated."""
    header = validate(data, position)
    body = memoryview(data)[position + HEADER_SIZE : position + header.size]
    append_time = header.max_timestamp if header.is_append_time else None
    records = decode_records(
        decompress(header.codec, body, limit=limit),
        header.count,
        header.base_offset,
        header.base_timestamp,
        append_time,
    )
    if records and records[-1].offset > header.last_offset:
        raise CorruptBatch(f"record at offset {records[-1].offset} after the batch's last, {header.last_offset}")
    return records


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    producer: Producer = NO_PRODUCER,
    attributes: int = 0,
) -> bytes:
    """A batch of the records, in their order, at consecutive offsets.

    `attributes` adds flags such as TRANSACTIONAL or CONTROL to the codec. InvalidBatch says which record or
    number cannot be written.
    """
    if not records:
        raise InvalidBatch("a batch needs at least one record")
    if attributes & ~FLAGS:
        raise InvalidBatch(f"{attributes:#x} holds more than flags", hint="name the compression with codec=")
    if base_offset < 0:
        raise InvalidBatch(f"base offset {base_offset} is below 0")
    try:
        base_timestamp, max_timestamp = _base_and_max_timestamp(records)
        body = encode_records(records, base_timestamp)
    except (AttributeError, TypeError, ValueError, struct.error) as error:
        raise mistake_in(records, error) from error
    return batch_around(
        body,
        Contents(len(records), base_timestamp, max_timestamp),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        codec=codec,
        producer=producer,
        attributes=attributes,
    )


def batch_around(
    body: Buffer,
    contents: Contents,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    producer: Producer = NO_PRODUCER,
    attributes: int = 0,
) -> bytes:
    """A batch of records that are encoded already, at consecutive offsets, and are compressed here."""
    if codec is not NO_CODEC:
        body = compress(codec, body)
    count, base_timestamp, max_timestamp = contents
    header = (
        base_offset, HEADER_SIZE - LENGTH_PREFIX + len(body), leader_epoch, MAGIC, 0,
        attributes | codec, count - 1, base_timestamp, max_timestamp, *producer, count,
    )  # fmt: skip
    return _checksummed(tuple.__new__(BatchHeader, header), body)  # without a call in Python


def _base_and_max_timestamp(records: Sequence[Record]) -> tuple[int, int]:
    base = earliest = latest = records[0].timestamp
    if len(records) > 1:
        times = [record.timestamp for record in records]
        earliest, latest = min(times), max(times)
    TIMESTAMPS.pack(base, earliest, latest)  # struct.error unless they are whole numbers of 64 bits
    if latest - earliest > INT64_MAX:
        raise InvalidBatch(
            f"timestamps {earliest} and {latest} are too far apart for one batch",
            hint="a timestamp counts whole milliseconds since 1970",
        )
    return base, latest


def place(batch: Buffer, base_offset: int, leader_epoch: int) -> bytes:
    """The same batch at its place in a log. The checksum does not cover what changes."""
    return b"".join(place_parts(batch, base_offset, leader_epoch))


def place_parts(batch: Buffer, base_offset: int, leader_epoch: int) -> tuple[Buffer, ...]:
    """The same in parts. A large batch's own bytes are copied only if somebody could change them.

    A small one is copied: a view costs more than the bytes, keeps alive what it is a view of, and whoever keeps many
    gives Python's garbage collector as many things to look through.
    """
    start = PLACE.pack(base_offset, len(batch) - LENGTH_PREFIX, leader_epoch)
    if len(batch) <= COPIED_SIZE:
        return (b"".join((start, memoryview(batch)[PLACE.size :])),)
    return start, memoryview(batch if isinstance(batch, bytes) else bytes(batch))[PLACE.size :]


def with_append_time(batch: Buffer, now: int) -> bytes:
    """The same batch with the log's own time for all of its records."""
    header = parse_header(batch)
    header = header._replace(max_timestamp=now, attributes=header.attributes | APPEND_TIME)
    return _checksummed(header, memoryview(batch)[HEADER_SIZE:])


def without_append_time(batch: Buffer) -> bytes:
    """The same batch with the times that its producer gave to its records."""
    header = parse_header(batch)
    return _checksummed(header._replace(attributes=header.attributes & ~APPEND_TIME), memoryview(batch)[HEADER_SIZE:])


def recompressed(batch: Buffer, codec: Codec) -> Buffer:
    """The same batch with its records compressed by `codec`; itself if they are already."""
    header = parse_header(batch)
    if header.codec is codec:
        return batch
    body = compress(codec, decompress(header.codec, memoryview(batch)[HEADER_SIZE:]))
    attributes = header.attributes & ~CODEC_MASK | codec
    return _checksummed(header._replace(length=HEADER_SIZE - LENGTH_PREFIX + len(body), attributes=attributes), body)


def _checksummed(header: BatchHeader, body: Buffer) -> bytes:
    try:
        checked = CHECKED.pack(*header[5:])
        start = START.pack(*header[:4], crc32c(body, crc32c(checked)))
    except struct.error as error:
        raise InvalidBatch(f"no numbers that a batch's header can hold: {_misfits(header)}") from error
    return b"".join((start, checked, body))


def _misfits(header: BatchHeader) -> str:
    fields = zip(header._fields, header, HEADER.format.lstrip(">"), strict=True)
    return ", ".join(f"{name} = {value!r}" for name, value, code in fields if not _fits(code, value))


def _fits(code: str, value: int) -> bool:
    try:
        struct.pack(f">{code}", value)
    except struct.error:
        return False
    return True


def with_timestamps(records: Sequence[Record], now: int) -> list[Record]:
    """The records, with `now` for those that have no time of their own."""
    return [r if r.timestamp != NO_TIMESTAMP else r._replace(timestamp=now) for r in records]
