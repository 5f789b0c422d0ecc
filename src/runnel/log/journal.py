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
from runnel.records import HEADER_SIZE, TRANSACTIONAL, Producer, Record, build_batch, marker_in
from runnel.replay import Entry, Transacted
from runnel.settings import MIB, MINUTE, CleanupPolicy, TimestampType

MOST_BYTES_OF_A_DECISION = 16 * MIB  # such as a commit for ten thousand partitions, or a group of thousands of members
MOST_BYTES_AROUND_AN_ENTRY = 32  # of its record: lengths, deltas and attributes


class PartitionJournal:
    """Takes a partition over: each append is answered when it is synced, and the timestamps are the entries' own.

    A `keyed` journal is one in which only the newest entry of each key counts, and none is without: it is compacted, in
    small segments and at least once an hour, so that replaying it is short. The entries of another one stay until
    `delete_before`.
    """

    def __init__(self, partition: Partition, *, keyed: bool = False) -> None:
        self._partition = partition
        settings = replace(
            partition.settings,
            retention_ms=-1,
            retention_bytes=-1,
            flush_messages=None,
            flush_ms=None,
            message_timestamp_type=TimestampType.CREATE_TIME,
        )
        if keyed:
            settings = replace(
                settings,
                cleanup_policy=(CleanupPolicy.COMPACT,),
                max_message_bytes=MOST_BYTES_OF_A_DECISION,
                segment_bytes=MOST_BYTES_OF_A_DECISION,
                max_compaction_lag_ms=60 * MINUTE,
            )
        partition.settings = settings

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
        for entry in entries:
            size += len(entry.key or b"") + len(entry.value or b"") + MOST_BYTES_AROUND_AN_ENTRY
        settings = self._partition.settings
        if size > min(settings.max_message_bytes, settings.segment_bytes):
            admit(_batch(entries), settings)

    def append(self, entries: Sequence[Entry]) -> Append:
        transaction = entries[0].transaction
        if transaction is None:
            return self._partition.submit_own(_records(entries))
        if transaction.committed is None:
            return self._partition.submit(_batch(entries), reserved=True, unnumbered=True)
        return self._partition.submit_marker(
            transaction.producer_id,
            transaction.epoch,
            committed=transaction.committed,
            coordinator_epoch=self._partition.leader_epoch,
        )

    def read(self, offset: int) -> Iterator[tuple[int, Entry]]:
        for header, records in self._partition.batches(offset):
            transaction = Transacted(header.producer_id, header.producer_epoch) if header.is_transactional else None
            for record in records:
                if record.offset < offset:
                    continue
                if header.is_control:
                    committed = marker_in(record).committed
                    ended = Transacted(header.producer_id, header.producer_epoch, committed)
                    yield record.offset, Entry(None, None, record.timestamp, ended)
                else:
                    yield record.offset, Entry(record.key, record.value, record.timestamp, transaction)

    def delete_before(self, offset: int) -> int:
        return self._partition.delete_before(offset)


def _batch(entries: Sequence[Entry]) -> bytes:
    transaction = entries[0].transaction
    if transaction is None:
        return build_batch(_records(entries))
    producer = Producer(transaction.producer_id, transaction.epoch)
    return build_batch(_records(entries), producer=producer, attributes=TRANSACTIONAL)


def _records(entries: Sequence[Entry]) -> list[Record]:
    return [Record(value, key, timestamp) for key, value, timestamp, _ in entries]
