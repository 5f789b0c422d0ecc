"""What is compacted: batches of records with keys of 16 bytes and values of 100, of the size of Java's producer.

They are made once and sent to every topic of a run, so each cleaner has the same work: 16 KiB, and not compressed.

The bytes are put together by hand, because millions of records would take a builder of single records too long.
"""

import random
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from crc32c import crc32c

from benchmarks import broker_wire as wire
from runnel.protocol.versions import Api
from runnel.records import BatchHeader, parse_header
from runnel.records.batch import CHECKED_FROM, CHECKSUM, CHECKSUM_POSITION, HEADER, HEADER_SIZE, LENGTH_PREFIX, MAGIC
from runnel.records.record import write_varint

KEY_SIZE = 16
VALUE_SIZE = 100
RECORDS_OF_A_BATCH = 128
IN_FLIGHT = 8
NOBODY = -1


def keyed_batches(records: int, keys: int, seed: int = 1) -> Iterator[bytes]:
    """Batches with so many records in all, each with one of so many keys, drawn by chance; the last may be smaller.

    A value begins with the number of its record.
    """
    chance, now = random.Random(seed), time.time_ns() // 1_000_000
    names = [b"%0*d" % (KEY_SIZE, number) for number in range(keys)]
    heads = [_head(position) for position in range(RECORDS_OF_A_BATCH)]
    fill = b"." * (VALUE_SIZE - KEY_SIZE) + b"\0"  # no headers
    before_value = _varint(VALUE_SIZE)
    for first in range(0, records, RECORDS_OF_A_BATCH):
        count = min(RECORDS_OF_A_BATCH, records - first)
        drawn = chance.choices(names, k=count)
        parts = [
            b"%b%b%b%016d%b" % (head, key, before_value, number, fill)
            for head, key, number in zip(heads[:count], drawn, range(first, first + count), strict=True)
        ]
        yield _batch(b"".join(parts), count, now)


def _head(position: int) -> bytes:
    """What comes before the key of the record at this position of a batch."""
    rest = b"\0\0" + _varint(position) + _varint(KEY_SIZE)  # no attributes; as old as the batch
    value = len(_varint(VALUE_SIZE)) + VALUE_SIZE + 1
    return _varint(len(rest) + KEY_SIZE + value) + rest


def _varint(number: int) -> bytes:
    written = bytearray()
    write_varint(written, number)
    return bytes(written)


def _batch(body: bytes, count: int, now: int) -> bytes:
    header = BatchHeader(
        base_offset=0,
        length=HEADER_SIZE - LENGTH_PREFIX + len(body),
        leader_epoch=-1,
        magic=MAGIC,
        checksum=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=now,
        max_timestamp=now,
        producer_id=NOBODY,
        producer_epoch=NOBODY,
        base_sequence=NOBODY,
        count=count,
    )
    start = HEADER.pack(*header)
    checksum = CHECKSUM.pack(crc32c(body, crc32c(start[CHECKED_FROM:])))
    return b"".join((start[:CHECKSUM_POSITION], checksum, start[CHECKED_FROM:], body))


def read_batches(path: Path) -> Iterator[bytes]:
    """The batches of a file, one after the other."""
    with path.open("rb") as file:
        while start := file.read(HEADER_SIZE):
            yield start + file.read(parse_header(start, 0).size - HEADER_SIZE)


def send(connection: socket.socket, topic: str, batches: Iterable[bytes]) -> None:
    """To partition 0, a few requests in flight; BrokerRefused if one is not taken."""
    waiting = 0
    for batch in batches:
        connection.sendall(wire.produce_frame(topic, {0: batch}))
        waiting += 1
        if waiting == IN_FLIGHT:
            _take(connection)
            waiting -= 1
    for _ in range(waiting):
        _take(connection)


def _take(connection: socket.socket) -> None:
    answer = wire.answer_of(connection, Api.PRODUCE, wire.PRODUCE_VERSION)
    (result,) = answer["responses"][0]["partition_responses"]
    if result["error_code"]:
        raise wire.BrokerRefused(f"a batch was refused with error {result['error_code']}")
