"""Records on their way into a partition, encoded and cut into batches, for `runnel.client.writing`.

A `Body` is what a batch holds, before it is numbered, and most often before it is compressed. `bodies` makes them of
records, one by one; `runnel.client.column_bodies` makes them of Arrow's columns, many times faster.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runnel.records import NO_TIMESTAMP, Codec, Contents, Record, with_timestamps
from runnel.records.codecs import Buffer, compress
from runnel.records.record import encode_records

BATCH_BYTES = 900_000  # a broker's default limit for a batch is 1,048,588
OVERHEAD_BYTES = 24  # of a record without headers, at most: lengths and differences


class Body(NamedTuple):
    """`codec` is the one that the data was compressed with already."""

    data: Buffer
    contents: Contents
    codec: Codec = Codec.NONE

    def compressed(self, codec: Codec) -> Body:
        """For a writer in another place, which has less to receive and nothing to compress."""
        return Body(compress(codec, self.data), self.contents, codec)


def bodies(records: Iterable[Record], *, batch_bytes: int = BATCH_BYTES) -> Iterator[Body]:
    """The records in their order; those without a time get the present one."""
    gathered: list[Record] = []
    room = batch_bytes
    for record in records:
        size = _size(record)
        if gathered and size > room:
            yield _body(gathered)
            gathered, room = [], batch_bytes
        gathered.append(record)
        room -= size
    if gathered:
        yield _body(gathered)


def now() -> int:
    return time.time_ns() // 1_000_000


def _size(record: Record) -> int:
    size = OVERHEAD_BYTES + len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers:
        size += len(name) * 4 + len(value or b"") + 2 * OVERHEAD_BYTES
    return size


def _body(records: list[Record]) -> Body:
    if any(record.timestamp == NO_TIMESTAMP for record in records):
        records = with_timestamps(records, now())
    times = [record.timestamp for record in records]
    return Body(encode_records(records, times[0]), Contents(len(records), times[0], max(times)))
