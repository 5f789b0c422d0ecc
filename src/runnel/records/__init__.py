"""Kafka's record batches as pure functions over bytes. No files, no sockets, no clock."""

from runnel.records.batch import (
    APPEND_TIME,
    CONTROL,
    HEADER_SIZE,
    NO_PRODUCER_ID,
    SEQUENCES,
    TRANSACTIONAL,
    BatchHeader,
    Producer,
    batches_of,
    build_batch,
    parse_header,
    place,
    place_parts,
    records_of,
    validate,
    with_append_time,
    with_timestamps,
)
from runnel.records.codecs import Codec, compress, decompress
from runnel.records.record import NO_TIMESTAMP, Record

__all__ = [
    "APPEND_TIME",
    "CONTROL",
    "HEADER_SIZE",
    "NO_PRODUCER_ID",
    "NO_TIMESTAMP",
    "SEQUENCES",
    "TRANSACTIONAL",
    "BatchHeader",
    "Codec",
    "Producer",
    "Record",
    "batches_of",
    "build_batch",
    "compress",
    "decompress",
    "parse_header",
    "place",
    "place_parts",
    "records_of",
    "validate",
    "with_append_time",
    "with_timestamps",
]
