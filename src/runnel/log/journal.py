"""A partition as the journal of a state: what `runnel.replay` asks for, over `Partition`.

One decision is one batch, because a batch is what a crash leaves whole or not at all. It is written even when the disk
is low: it is a broker's own state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from runnel.errors import Transient
from runnel.log.admission import admit
from runnel.log.appends import Append
from runnel.log.partition import Partition
from runnel.records import HEADER_SIZE, Record, build_batch
from runnel.replay import Entry
from runnel.settings import TimestampType

MOST_BYTES_AROUND_AN_ENTRY = 32  # of its record: lengths, deltas and attributes


class PartitionJournal:
    """Takes a partition over: its records are deleted by `delete_before` alone, each append is answered when it is
    synced, and the timestamps are the entries' own."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        partition.settings = replace(
            partition.settings,
            retention_ms=-1,
            retention_bytes=-1,
            flush_messages=None,
            flush_ms=None,
            message_timestamp_type=TimestampType.CREATE_TIME,
        )

    def __str__(self) -> str:
        return f"partition {self._partition.id}"

    @property
    def start_offset(self) -> int:
        return self._partition.start_offset

    @property
    def end_offset(self) -> int:
        return self._partition.end_offset

    def check(self, entries: Sequence[Entry]) -> None:
        if self._partition.failed:
            raise Transient(
                f"{self} refuses writes after a disk failure", hint="writes go on by themselves when the disk is well"
            )
        size = HEADER_SIZE
        for key, value, _ in entries:
            size += len(key or b"") + len(value or b"") + MOST_BYTES_AROUND_AN_ENTRY
        settings = self._partition.settings
        if size > min(settings.max_message_bytes, settings.segment_bytes):
            admit(_batch(entries), settings)

    def append(self, entries: Sequence[Entry]) -> Append:
        return self._partition.submit(_batch(entries), reserved=True)

    def read(self, offset: int) -> Iterator[tuple[int, Entry]]:
        for record in self._partition.records(offset):
            yield record.offset, Entry(record.key, record.value, record.timestamp)

    def delete_before(self, offset: int) -> int:
        return self._partition.delete_before(offset)


def _batch(entries: Sequence[Entry]) -> bytes:
    return build_batch([Record(value, key, timestamp) for key, value, timestamp in entries])
