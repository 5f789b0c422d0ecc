"""Which batches a partition takes. Pure: the batch and the settings decide.

The records inside are not unpacked: their readers check them. What is checked is all that the log itself relies on.
"""

from __future__ import annotations

from crc32c import crc32c

from runnel.counted import counted
from runnel.errors import BatchTooLarge, CorruptBatch, InvalidBatch, InvalidTimestamp, InvalidTransactionState
from runnel.files import Buffer
from runnel.records import (
    CHECKED_FROM,
    CONTROL,
    HEADER_SIZE,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Codec,
    parse_header,
    recompressed,
    validate,
    with_append_time,
)
from runnel.records.batch import CODEC_MASK, LAST_CODEC, LENGTH_PREFIX, NO_SEQUENCE, without_append_time
from runnel.settings import CompressionType, TimestampType, TopicSettings

CODECS = {  # but for batches that stay as they were sent
    CompressionType.UNCOMPRESSED: Codec.NONE,
    CompressionType.GZIP: Codec.GZIP,
    CompressionType.SNAPPY: Codec.SNAPPY,
    CompressionType.LZ4: Codec.LZ4,
    CompressionType.ZSTD: Codec.ZSTD,
}


def admit(
    batch: Buffer, settings: TopicSettings, *, unnumbered: bool = False, header: BatchHeader | None = None
) -> BatchHeader:
    """The header of a batch that may be appended; InvalidBatch says why another one may not.

    `unnumbered` admits a batch that a coordinator writes in a producer's name, without a sequence. The `header` may be
    given by who has parsed it already.
    """
    if header is None:
        return look_closely(batch, settings, unnumbered=unnumbered)
    # One look for what nearly all are; the reasons against another one are found below, where it may still be good.
    base_offset, length, _, magic, checksum, attributes, delta, _, _, producer_id, epoch, sequence, count = header[:]
    if (
        length + LENGTH_PREFIX == len(batch) <= settings.max_message_bytes
        and len(batch) <= settings.segment_bytes
        and magic == MAGIC
        and not attributes & ~(CODEC_MASK | TRANSACTIONAL)
        and attributes & CODEC_MASK <= LAST_CODEC
        and base_offset == 0 < count == delta + 1
        and (sequence >= 0 <= epoch if producer_id != NO_PRODUCER_ID else not attributes & TRANSACTIONAL)
        and checksum == crc32c(memoryview(batch)[CHECKED_FROM:])
    ):
        return header
    return look_closely(batch, settings, unnumbered=unnumbered)


def look_closely(batch: Buffer, settings: TopicSettings, *, unnumbered: bool = False) -> BatchHeader:
    """The same, check by check."""
    try:
        header = validate(batch)
    except CorruptBatch as error:
        raise _by_its_maker(batch, error) from None
    base_offset, _, _, _, _, attributes, delta, _, _, producer_id, epoch, sequence, count = header[:]
    size = len(batch)
    if header.size != size:
        raise InvalidBatch(f"{counted(size - header.size, 'byte')} after the batch: exactly one batch can be appended")
    if size > settings.max_message_bytes:
        raise BatchTooLarge(size, settings.max_message_bytes, "max.message.bytes")
    if size > settings.segment_bytes:
        raise BatchTooLarge(size, settings.segment_bytes, "segment.bytes")
    if base_offset != 0:
        raise InvalidBatch(f"batch with base offset {base_offset}", hint="the log gives the offsets: send 0")
    if count == 0 or count != delta + 1:
        raise InvalidBatch(f"batch of {count} records over {delta + 1} offsets")
    if attributes & CONTROL:
        raise InvalidBatch("a control batch cannot be appended by a client")
    if producer_id != NO_PRODUCER_ID:
        if not (unnumbered and sequence == NO_SEQUENCE and epoch >= 0):
            _refuse_unnumbered(header)
    elif attributes & TRANSACTIONAL:
        raise InvalidTransactionState("a transactional batch without a producer id", hint="see to the producer")
    return header


def as_created(batch: Buffer, settings: TopicSettings, header: BatchHeader) -> tuple[bytes, BatchHeader]:
    """A batch that claims to have the log's time, with its producer's own ones, and its header: only the log gives its
    time.

    As Kafka does: InvalidTimestamp if the log will give it, or there are no times.
    """
    admit(batch, settings, header=header)  # what is rewritten gets a new checksum, so the old one has to be right
    if settings.message_timestamp_type is TimestampType.LOG_APPEND_TIME or header.max_timestamp == NO_TIMESTAMP:
        raise InvalidTimestamp(
            "a batch that claims to have the log's time: only the log can give that",
            hint="a producer does not set the attribute LogAppendTime",
        )
    created = without_append_time(batch)
    return created, parse_header(created)


def as_kept(batch: Buffer, settings: TopicSettings, now: int, *, unnumbered: bool = False) -> tuple[bytes, BatchHeader]:
    """An admitted batch in its topic's own compression, and with the log's time if the topic wants that; its header."""
    codec = CODECS.get(settings.compression_type)
    kept = bytes(batch) if codec is None else bytes(recompressed(batch, codec))
    if settings.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        kept = with_append_time(kept, now)
    return kept, admit(kept, settings, unnumbered=unnumbered)


def refuse_nobodys_marker(producer_id: int, producer_epoch: int) -> None:
    """InvalidBatch unless there is a producer whose transaction a marker can end. No limit of sizes keeps one out."""
    if producer_id < 0 or producer_epoch < 0:
        raise InvalidBatch(f"a marker for producer {producer_id} with epoch {producer_epoch}")


def _by_its_maker(batch: Buffer, error: CorruptBatch) -> InvalidBatch:
    """Bytes that changed on their way can be sent again; what was built wrongly will be wrong again."""
    if len(batch) < HEADER_SIZE:
        return error
    header = parse_header(batch)
    built_so = header.magic != MAGIC or header.checksum == crc32c(memoryview(batch)[CHECKED_FROM : header.size])
    return InvalidBatch(error.what) if built_so else error


def _refuse_unnumbered(header: BatchHeader) -> None:
    if header.base_sequence < 0 or header.producer_epoch < 0:
        raise InvalidBatch(
            f"batch of producer {header.producer_id} with epoch {header.producer_epoch} "
            f"and sequence {header.base_sequence}"
        )
