"""What a partition remembers of idempotent producers, so that a batch sent twice is written once.

For each producer: its epoch and its last five batches, since a client has at most five under way. A batch is checked
in this order: is it one of the five (then it is answered like the first time); is its epoch in force; does its
sequence follow the last one. An unknown producer may begin anywhere: what it wrote before has expired.

The state lives in the log: batches carry producer, epoch and sequence. A snapshot file only shortens the way:

    version i16 = 1 | checksum u32: CRC-32C of the rest | entries, an i32 count first:
        producer id i64 | epoch i16 | last sequence i32 | last offset i64 | offset delta i32 | timestamp i64
        | coordinator epoch i32 | first offset of the open transaction i64, or -1

This is Kafka's format, which keeps one batch of each producer. The other four stand after it, where Kafka's readers
stop reading: a client that retries five batches over a restart must find all five.

    for each entry: when it was last seen i64 | how many older batches i8, and of each:
        last sequence i32 | last offset i64 | offset delta i32 | timestamp i64

A snapshot that the log writes when it begins a segment, or at a checkpoint, ends with what the `.txnindex` of the
segment before it holds at that moment, so that a file that is missing or wrong is noticed:

    entries i32 | checksum u32: CRC-32C of these entries

A transaction begins with a producer's first transactional batch and ends with its marker. Batches of a newer epoch
belong to it too: whether they may is for the coordinator to say, as in Kafka. A marker of a newer epoch begins that
epoch, with sequence 0.

A producer expires when the log has not seen it for long, by the log's own clock: the times in its records may be years
old, and it may still send its last batch again.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from runnel.counted import counted
from runnel.errors import (
    CoordinatorFenced,
    CorruptBatch,
    InvalidTransactionState,
    OutOfOrderSequence,
    StaleProducerEpoch,
)
from runnel.log.open_transactions import OpenTransactions
from runnel.records import NO_PRODUCER_ID, SEQUENCES, BatchHeader, Marker
from runnel.records.batch import CONTROL, NO_SEQUENCE, TRANSACTIONAL

REMEMBERED = 5
NO_OFFSET = -1
SNAPSHOT_START = struct.Struct(">hI")
SNAPSHOT_VERSION = 1
COUNT = struct.Struct(">i")
ENTRY = struct.Struct(">qhiqiqiq")
SEEN_AND_COUNT = struct.Struct(">qb")
OLDER = struct.Struct(">iqiq")
CONTENT = struct.Struct(">iI")


class IndexContent(NamedTuple):
    """What a `.txnindex` held when a snapshot was written."""

    entries: int
    checksum: int


class Ended(NamedTuple):
    """A transaction that a marker ends, and the last stable offset from then on."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int
    committed: bool


class Remembered(NamedTuple):
    """One batch: its sequences are `last_sequence - offset_delta` to `last_sequence`."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % SEQUENCES

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerState:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_seen", "last_timestamp", "transaction_start")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[Remembered] = []
        self.last_timestamp = -1
        self.last_seen = -1  # by the log's clock
        self.coordinator_epoch = -1
        self.transaction_start = NO_OFFSET

    def copy(self) -> ProducerState:
        copied = ProducerState(self.epoch)
        copied.batches = self.batches  # never changed in place
        copied.last_timestamp = self.last_timestamp
        copied.last_seen = self.last_seen
        copied.coordinator_epoch = self.coordinator_epoch
        copied.transaction_start = self.transaction_start
        return copied


class Producers:
    """`indexed` is what a snapshot says of the `.txnindex` of the segment before it; None if it says nothing."""

    __slots__ = ("_states", "indexed", "transactions")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self.transactions = OpenTransactions()
        self.indexed: IndexContent | None = None

    def __len__(self) -> int:
        return len(self._states)

    def copy(self) -> Producers:
        copied = Producers()
        copied._states = {producer_id: state.copy() for producer_id, state in self._states.items()}
        copied.transactions = self.transactions.copy()
        return copied

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def states(self) -> dict[int, ProducerState]:
        """All of them by producer id, as they are now."""
        return dict(self._states)

    def is_next(self, header: BatchHeader) -> bool:
        """Whether it follows its producer's last batch, as nearly all do: then it repeats none, and `check` has nothing
        against it."""
        state = self._states.get(header.producer_id)
        if state is None or state.epoch != header.producer_epoch or not state.batches:
            return False
        if state.transaction_start != NO_OFFSET and not header.attributes & TRANSACTIONAL:
            return False
        return header.base_sequence == (state.batches[-1].last_sequence + 1) % SEQUENCES

    def duplicate_of(self, header: BatchHeader) -> Remembered | None:
        """The remembered batch that this one repeats."""
        state = self._states.get(header.producer_id)
        if state is None or state.epoch != header.producer_epoch or not state.batches:
            return None
        for batch in state.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        return None

    def check(self, header: BatchHeader) -> None:
        """SequenceError or InvalidTransactionState unless the batch may come next."""
        state = self._states.get(header.producer_id)
        if state is None:
            return
        if header.producer_epoch < state.epoch:
            raise StaleProducerEpoch(header.producer_id, header.producer_epoch, state.epoch)
        follows = header.producer_epoch == state.epoch and state.batches
        expected = (state.batches[-1].last_sequence + 1) % SEQUENCES if follows else 0
        if header.base_sequence not in (expected, NO_SEQUENCE):  # without one it is a coordinator's
            raise OutOfOrderSequence(header.producer_id, header.producer_epoch, header.base_sequence, expected)
        if state.transaction_start != NO_OFFSET and not header.attributes & TRANSACTIONAL:
            raise InvalidTransactionState(
                f"producer {header.producer_id} sent a batch outside of its transaction, "
                f"which is open from offset {state.transaction_start} on",
                hint="commit or abort the transaction first",
            )

    def check_marker(self, producer_id: int, epoch: int, marker: Marker) -> None:
        """StaleProducerEpoch or CoordinatorFenced unless the marker may come next."""
        state = self._states.get(producer_id)
        if state is None:
            return
        if epoch < state.epoch:
            raise StaleProducerEpoch(producer_id, epoch, state.epoch)
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise CoordinatorFenced(producer_id, marker.coordinator_epoch, state.coordinator_epoch)

    def ended_by(self, header: BatchHeader, marker: Marker) -> Ended | None:
        """The transaction that this marker will end; None if none is open."""
        start = self.transactions.start_of(header.producer_id)
        if start is None:
            return None
        end = header.last_offset
        stable = min(self.transactions.first_without(header.producer_id), end + 1)
        return Ended(header.producer_id, start, end, stable, marker.committed)

    def replay(self, header: BatchHeader, now: int, marker: Marker | None = None) -> None:
        """Take note of a batch that stands in the log. A marker that compaction has emptied says nothing any more."""
        base_offset, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, count = header[:]
        if producer_id == NO_PRODUCER_ID:
            return
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
        if epoch != state.epoch:
            state.epoch = epoch
            state.batches = []
        state.last_timestamp = timestamp
        state.last_seen = now
        if attributes & CONTROL:
            if marker is not None:
                state.coordinator_epoch = marker.coordinator_epoch
            if state.transaction_start != NO_OFFSET:
                state.transaction_start = NO_OFFSET
                self.transactions.end(producer_id)
            return
        # Compaction leaves no batch of an open transaction empty: an empty one's transaction has ended.
        if attributes & TRANSACTIONAL and state.transaction_start == NO_OFFSET and count:
            state.transaction_start = base_offset
            self.transactions.begin(producer_id, base_offset)
        if sequence == NO_SEQUENCE:
            return
        facts = ((sequence + delta) % SEQUENCES, base_offset + delta, delta, timestamp)
        batch = tuple.__new__(Remembered, facts)  # without a call in Python: each batch is noted twice
        state.batches = [*state.batches[1 - REMEMBERED :], batch]

    def stable_before(self, offset: int) -> int:
        """The last stable offset of a log that ends at `offset`."""
        return min(self.transactions.first, offset)

    def expire(self, before: int) -> int:
        """Forget the producers that were not seen since `before` and have no open transaction."""
        gone = [
            producer_id
            for producer_id, state in self._states.items()
            if state.last_seen < before and state.transaction_start == NO_OFFSET
        ]
        for producer_id in gone:
            del self._states[producer_id]
        return len(gone)

    def encode(self, indexed: IndexContent | None = None) -> bytes:
        body = bytearray(COUNT.pack(len(self._states)))
        older = bytearray()
        for producer_id, state in self._states.items():
            last = state.batches[-1] if state.batches else Remembered(-1, NO_OFFSET, 0, state.last_timestamp)
            body += ENTRY.pack(
                producer_id,
                state.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                state.last_timestamp,
                state.coordinator_epoch,
                state.transaction_start,
            )
            older += SEEN_AND_COUNT.pack(state.last_seen, len(state.batches[:-1]))
            for batch in state.batches[:-1]:
                older += OLDER.pack(*batch)
        body += older
        if indexed is not None:
            body += CONTENT.pack(*indexed)
        return SNAPSHOT_START.pack(SNAPSHOT_VERSION, crc32c(body)) + bytes(body)

    @classmethod
    def decode(cls, content: bytes) -> Producers:
        """CorruptBatch if the content is no whole snapshot."""
        try:
            version, checksum = SNAPSHOT_START.unpack_from(content)
            body = memoryview(content)[SNAPSHOT_START.size :]
            if version != SNAPSHOT_VERSION or crc32c(body) != checksum:
                raise CorruptBatch(f"producer snapshot of version {version} with a wrong checksum")
            return _decode_states(cls(), body)
        except struct.error as error:
            raise CorruptBatch(f"producer snapshot of {counted(len(content), 'byte')}: {error}") from error


def _decode_states(producers: Producers, body: memoryview) -> Producers:
    (count,) = COUNT.unpack_from(body)
    position = COUNT.size
    states: list[ProducerState] = []
    for _ in range(count):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator, start = ENTRY.unpack_from(body, position)
        position += ENTRY.size
        state = producers._states[producer_id] = ProducerState(epoch)
        if sequence >= 0:
            state.batches = [Remembered(sequence, offset, delta, timestamp)]
        state.last_timestamp = state.last_seen = timestamp
        state.coordinator_epoch, state.transaction_start = coordinator, start
        states.append(state)
    if position < len(body):  # not in files that Kafka itself wrote
        for state in states:
            position = _decode_older(state, body, position)
    if position < len(body):
        producers.indexed = IndexContent(*CONTENT.unpack_from(body, position))
    for producer_id, state in sorted(producers._states.items(), key=lambda known: known[1].transaction_start):
        if state.transaction_start != NO_OFFSET:
            producers.transactions.begin(producer_id, state.transaction_start)
    return producers


def _decode_older(state: ProducerState, body: memoryview, position: int) -> int:
    state.last_seen, count = SEEN_AND_COUNT.unpack_from(body, position)
    position += SEEN_AND_COUNT.size
    older: list[Remembered] = []
    for _ in range(count):
        older.append(Remembered._make(OLDER.unpack_from(body, position)))
        position += OLDER.size
    state.batches = older + state.batches
    return position
