"""One partition: an append-only log of records with consecutive offsets.

What it promises:
- an append is answered when it is synced, unless the topic's flush setting relaxes that;
- nobody reads an offset at or after `end_offset`, and what is before it survives any crash, with the same exception;
- an offset never changes its record; the first ones may be deleted, then `start_offset` moves on;
- a batch that an idempotent producer sends twice is written once;
- readers and the writer never wait for each other's disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from runnel.errors import Closed, OffsetOutOfRange
from runnel.files import Buffer
from runnel.log.aborted import AbortedTransactions
from runnel.log.admission import as_created
from runnel.log.appends import Append, Appended, Told
from runnel.log.checkpoints import TopicPartition
from runnel.log.compaction.compactor import Compaction, Compactor
from runnel.log.compaction.planning import Plan
from runnel.log.directory import DataDirectory
from runnel.log.epochs import EpochStart
from runnel.log.group_commit import GroupCommit, attempt
from runnel.log.opening import Finding, PartitionState
from runnel.log.producers import ProducerState
from runnel.log.reader import Batches, Reader
from runnel.log.retention import SegmentFacts, expired
from runnel.log.segment import Replaced, Segment
from runnel.log.snapshots import remove_snapshots
from runnel.log.txn_index import Aborted
from runnel.log.writer import Writer
from runnel.records import (
    APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    Codec,
    Marker,
    Record,
    build_batch,
    parse_header,
    with_timestamps,
)
from runnel.settings import MIB, TopicSettings


class OpenTransaction(NamedTuple):
    """A producer's open transaction: where it begins, its epoch, and the producer's last batch by its own timestamp
    and by the log's clock."""

    first_offset: int
    epoch: int
    last_timestamp: int
    last_seen: int


class Partition:
    __slots__ = (
        *("_aborted", "_commits", "_compactor", "_home", "_left", "_reader", "_writer"),
        *("findings", "id", "start_offset"),
    )

    def __init__(
        self,
        home: DataDirectory,
        commits: GroupCommit,
        partition: TopicPartition,
        settings: TopicSettings,
        state: PartitionState,
    ) -> None:
        self.id = partition
        self.start_offset = state.start_offset
        self.findings: tuple[Finding, ...] = tuple(state.findings)
        self._home = home
        self._commits = commits
        self._writer = Writer(home, str(partition), settings, state)
        self._reader = Reader(str(partition), state.segments, home.tails)
        self._aborted = AbortedTransactions(home.files, self._writer.directory, state.segments)
        self._compactor = Compactor(home, commits, partition, self._writer)
        self._left: tuple[Segment, ...] = ()  # dropped, and the disk did not let their files be removed

    def __repr__(self) -> str:
        return f"<Partition {self.id} {self.start_offset}..{self.end_offset}>"

    @property
    def settings(self) -> TopicSettings:
        return self._writer.settings

    @settings.setter
    def settings(self, settings: TopicSettings) -> None:
        self._writer.change_settings(settings)

    @property
    def end_offset(self) -> int:
        """The offset after the last record that readers may see: Kafka's high watermark."""
        return self._writer.segments.active.next_offset

    @property
    def leader_epoch(self) -> int:
        return self._writer.leader_epoch

    @property
    def size(self) -> int:
        """The bytes of its batches."""
        try:
            return sum(segment.size for segment in self._writer.segments)
        except (FileNotFoundError, Replaced):
            self._writer.segments.refuse_if_gone()
            raise

    @property
    def growing(self) -> tuple[int, int]:
        """The base offset of the segment that takes writes, and the bytes of its batches: touches no disk."""
        active = self._writer.segments.active
        return active.base_offset, active.size

    def epoch_end(self, epoch: int) -> EpochStart:
        """The largest epoch that is at most `epoch`, and the offset after its last record.

        Of an epoch before all that are known: itself, and where these begin.
        """
        return self._writer.epochs.end_of(epoch, self.end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch that wrote the record at `offset`; -1 if none is known."""
        return self._writer.epochs.epoch_of(offset)

    def producers(self) -> dict[int, ProducerState]:
        """The idempotent producers that are remembered, by id."""
        return self._writer.written_producers.states()

    # --- transactions

    @property
    def last_stable_offset(self) -> int:
        """Up to before it every transaction has ended: there readers of committed records stop."""
        return max(self.start_offset, self._writer.last_stable_offset)

    def transaction_of(self, producer_id: int) -> int | None:
        """The first offset of this producer's open transaction, also if it is only accepted and not durable yet."""
        return self._writer.transaction_of(producer_id)

    def has_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether it is open and of this epoch, also if it is only accepted: then the next batch may follow."""
        known = self._writer.producers.get(producer_id)
        return known is not None and known.epoch == epoch and self.transaction_of(producer_id) is not None

    def open_transactions(self) -> dict[int, OpenTransaction]:
        """Those that readers can see, by producer id, the earliest first."""
        producers = self._writer.written_producers
        states = producers.states()
        return {
            producer_id: OpenTransaction(start, state.epoch, state.last_timestamp, state.last_seen)
            for producer_id, start in producers.transactions.starts().items()
            if (state := states.get(producer_id)) is not None
        }

    def aborted(self, first_offset: int, end_offset: int) -> list[Aborted]:
        """The aborted transactions that concern a reader from `first_offset` up to before `end_offset`, by their first
        offsets. Ask after `last_stable_offset`: what has ended before it is among them.
        """
        return self._aborted.between(first_offset, end_offset)

    def submit_marker(
        self, producer_id: int, producer_epoch: int, *, committed: bool, coordinator_epoch: int
    ) -> Append:
        """End the producer's transaction here, and return at once. It is written when the disk is low, too.

        A newer epoch than the producer's begins that epoch. StaleProducerEpoch if it is older, CoordinatorFenced if a
        newer coordinator has written a marker for this producer.
        """
        append = self._writer.submit_marker(producer_id, producer_epoch, Marker(committed, coordinator_epoch))
        self._commits.enlist(self._writer, wake=True)
        return append

    # --- writing

    def append(self, records: Sequence[Record], *, codec: Codec = Codec.NONE) -> Appended:
        """Append the records as one batch and return when they are durable."""
        stamped = with_timestamps(records, self._home.clock.now())
        return self.append_batch(build_batch(stamped, codec=codec))

    def append_batch(self, batch: Buffer) -> Appended:
        """Append a batch as a producer built it and return when it is durable."""
        if self._writer.failure is not None:
            self._heal_if_time()
        header = parse_header(batch)
        if header.attributes & APPEND_TIME:
            batch, header = as_created(batch, self.settings, header)
        append = self._writer.submit(batch, header=header)
        self._commits.enlist(self._writer, wake=False)
        self._commits.settle(append)
        return append.result()

    def submit(
        self,
        batch: Buffer,
        *,
        reserved: bool = False,
        unnumbered: bool = False,
        header: BatchHeader | None = None,
        told: Told | None = None,
    ) -> Append:
        """Accept a batch and return at once; the answer comes when it is durable. `told` hears of it, too.

        `reserved` writes go on when the disk is low: they are for a broker's own state. An `unnumbered` one is written
        by a coordinator in a producer's name, such as offsets in a transaction: it needs no sequence. The `header` may
        be given by who has parsed it already.
        """
        header = parse_header(batch) if header is None else header
        if header.attributes & APPEND_TIME:
            batch, header = as_created(batch, self.settings, header)
        append = self._writer.submit(batch, reserved=reserved, unnumbered=unnumbered, header=header, told=told)
        # A producer sends what it has of a transaction for several partitions at once, in requests of their own: those
        # that are read first would have a round for themselves, and the others wait for it.
        self._commits.enlist(self._writer, wake=True, more=bool(header.attributes & TRANSACTIONAL))
        return append

    def gather(self, header: BatchHeader, batch: memoryview, told: Told) -> bool:
        """The same for one of many small batches, on the event loop: they are looked at together, in the next round.
        False if it is to be submitted, as what is not usual.
        """
        if not self._writer.gather(header, batch, told):
            return False
        self._commits.enlist(self._writer, wake=True)
        return True

    def submit_own(self, records: Sequence[Record]) -> Append:
        """The same for records of a broker's own state, as one batch: it is written when the disk is low, too."""
        append = self._writer.submit_own(records)
        self._commits.enlist(self._writer, wake=True)
        return append

    # --- reading

    def read(self, offset: int, max_bytes: int = MIB) -> Batches:
        """Batches from the one that holds `offset`, at most `max_bytes` but at least one; none at the end.

        The checksums are left to the reader, as they are on Kafka's wire; `records` checks them.
        """
        start, end = self.start_offset, self.end_offset
        if offset == end:
            return Batches(b"", end)
        if not start <= offset < end:
            raise OffsetOutOfRange(str(self.id), offset, start, end)
        try:
            return self._reader.read(offset, max_bytes)
        except FileNotFoundError:
            self._writer.segments.refuse_if_gone()
            if offset >= self.start_offset:
                raise
            # Retention removed the segment while we were about to read it.
            raise OffsetOutOfRange(str(self.id), offset, self.start_offset, self.end_offset) from None

    def read_in_memory(self, offset: int, max_bytes: int = MIB) -> Batches | None:
        """The same, but None if it would have to touch the disk."""
        start, end = self.start_offset, self.end_offset
        if offset == end:
            return Batches(b"", end)
        if not start <= offset < end:
            raise OffsetOutOfRange(str(self.id), offset, start, end)
        return self._reader.read_in_memory(offset, max_bytes)

    def records(self, offset: int | None = None) -> Iterator[Record]:
        """The records from `offset`, or from the start, up to the end as it is when they are reached."""
        offset = self.start_offset if offset is None else offset
        while True:
            batches = self.read(offset)
            if not batches.data:
                return
            try:
                for record in self._reader.records_in(batches):
                    if record.offset >= offset:
                        yield record
                        offset = record.offset + 1
            except Replaced:
                continue
            offset = batches.next_offset

    def batches(self, offset: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """The batches from the one that holds `offset`, markers too, up to the end as it is when they are reached."""
        while True:
            batches = self.read(offset)
            if not batches.data:
                return
            yield from self._reader.each_in(batches)
            offset = batches.next_offset

    def follow(self, offset: int | None = None, *, idle: float | None = None) -> Iterator[Record]:
        """The records from `offset`, or from the start, and then every new one as it becomes durable.

        Ends when the log is closed, or when nothing came for `idle` seconds.
        """
        offset = self.start_offset if offset is None else offset
        while True:
            for record in self.records(offset):
                offset = record.offset + 1
                yield record
            if not self.wait_beyond(offset, idle):
                return

    def wait_beyond(self, offset: int, timeout: float | None = None) -> bool:
        """Wait until `end_offset` is after `offset`; False after `timeout` seconds or when the log was closed."""
        changed = threading.Event()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.watched(changed.set):
            while self.end_offset <= offset:
                left = None if deadline is None else deadline - time.monotonic()
                if self._writer.closed or (left is not None and left <= 0):
                    return False
                changed.wait(left)
                changed.clear()
        return True

    @contextmanager
    def watched(self, callback: Callable[[], None]) -> Iterator[None]:
        """Inside, call back whenever readers may see more, and when the log is closed."""
        self._writer.watchers.append(callback)
        try:
            yield
        finally:
            self._writer.watchers.remove(callback)

    def watch(self, callback: Callable[[], None]) -> None:
        """From now on, call back whenever readers may see more, and when the log is closed or the partition deleted."""
        self._writer.watchers.append(callback)

    def find_time(self, timestamp: int) -> Record | None:
        """The first record that has at least this timestamp, in milliseconds."""
        return self._from_start(lambda start: self._reader.find_time(timestamp, start))

    def find_largest_time(self) -> Record | None:
        """The first of the records with the largest timestamp."""
        return self._from_start(self._reader.find_largest_time)

    def _from_start(self, find: Callable[[int], Record | None]) -> Record | None:
        while True:
            start = self.start_offset
            try:
                return find(start)
            except FileNotFoundError:
                self._writer.segments.refuse_if_gone()
                if start == self.start_offset:
                    raise
                # Retention removed a segment while we were about to look into it.

    # --- care; the log calls these in the background, and anybody may

    def delete_before(self, offset: int) -> int:
        """Delete the records before `offset`; -1 deletes all. The answer is the new start, and is durable."""
        with self._commits.exclusive():
            if self._writer.closed:
                raise Closed(f"partition {self.id}")
            end = self.end_offset
            offset = end if offset == -1 else offset
            if not 0 <= offset <= end:
                raise OffsetOutOfRange(str(self.id), offset, self.start_offset, end)
            # A power cut must not leave a log that ends before it starts.
            if offset > self.synced_offset and not attempt(self._writer, "a sync", self._writer.flush):
                self._writer.refuse_if_unfit()
            dropped = self._move_start(offset)
        self._remove(dropped)
        return self.start_offset

    def apply_retention(self) -> int:
        """Delete the segments that are too old or too many; the answer is how many went. OSError if files of them, or
        of others before, could not be removed: they are the next time.
        """
        dropped = self._drop_expired()
        self._remove(dropped, and_left=True)
        return len(dropped)

    def _drop_expired(self) -> tuple[Segment, ...]:
        with self._commits.exclusive():
            writer = self._writer
            if writer.failure is not None or writer.closed:
                return ()
            segments = [segment for segment in writer.segments if segment.size]
            now = self._home.clock.now()
            count = expired([self._facts(segment) for segment in segments], writer.settings, now)
            if count == 0:
                return ()
            last = segments[count - 1].base_offset
            if last == writer.segments.active.base_offset and not attempt(writer, "a roll", writer.roll):
                return ()
            return self._move_start(next(base for base in writer.segments.base_offsets if base > last))

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty."""
        with self._commits.exclusive():
            if self._writer.segments.active.size and self._writer.failure is None and not self._writer.closed:
                attempt(self._writer, "a roll", self._writer.roll)

    def compact(self, *, roll: bool = True) -> Compaction:
        """Keep of every key the newest record alone, in all that may be cleaned, whatever the topic's policy says.

        Without `roll` the active segment is left out. It can take long, and any thread but an event loop's may call
        it. CompactionFailed if it cannot be done now: then nothing has changed, or a part of the work is done.
        """
        with self._home.workers.one_at_a_time:
            if self._writer.closed:
                raise Closed(f"partition {self.id}")
            if roll:
                self.roll()
            plan = self.compaction_plan()
            if not self._compactor.has_work(plan):
                return Compaction(plan.first_dirty, plan.first_dirty)
            return self._compactor.run(plan, self._aborted)

    def compaction_plan(self) -> Plan:
        """What may be cleaned now, and how much of it is dirty."""
        return self._compactor.plan(self.start_offset, self.last_stable_offset)

    def compaction_is_due(self, plan: Plan) -> bool:
        """Whether the topic's settings ask for it."""
        return self.settings.compacts and self._compactor.is_due(plan)

    @property
    def cleaned_up_to(self) -> int:
        """Before this offset no key has two records."""
        return self._compactor.cleaned_up_to(self.start_offset)

    @property
    def dirty_since(self) -> int | None:
        """The time of the oldest record that was not cleaned yet, in milliseconds; None if there is none."""
        return self._compactor.dirty_since(self.start_offset)

    def heal(self) -> bool:
        """After a disk failure, try to go on; True if the partition takes writes."""
        with self._commits.exclusive():
            return not self._writer.closed and self._writer.heal()

    def roll_if_due(self) -> None:
        """Begin a new segment if the active one is as old as the settings allow."""
        if self._writer.segments.active.size and self._home.clock.now() >= self._writer.roll_at:
            self.roll()

    def checkpoint(self) -> None:
        """Make the next start after a crash short."""
        with self._commits.exclusive():
            writer = self._writer
            if writer.closed or writer.failure is not None:
                return
            if attempt(writer, "a checkpoint", writer.checkpoint):
                self._home.recovery_points[self.id] = writer.synced.offset

    def expire_producers(self) -> None:
        """Forget the idempotent producers that have been silent for too long."""
        with self._commits.exclusive():  # a round takes note of producers too
            self._writer.expire_producers(self._home.clock.now() - self._home.settings.producer_expiration_ms)

    @property
    def closed(self) -> bool:
        """Whether the log was closed, or the partition deleted."""
        return self._writer.closed

    @property
    def failed(self) -> bool:
        return self._writer.failure is not None

    @property
    def synced_offset(self) -> int:
        return self._writer.synced.offset

    def refuse_writes(self) -> None:
        """Take no more and let the waiting go: the partition is being deleted."""
        self._writer.abandon()

    def close(self) -> None:
        """The log's part: use `Log.close`."""
        self._writer.close()
        if not self.failed:
            self._home.recovery_points[self.id] = self._writer.synced.offset

    def _heal_if_time(self) -> None:
        if self._home.clock.elapsed() >= self._writer.retry_at:
            self.heal()

    def _facts(self, segment: Segment) -> SegmentFacts:
        newest = segment.largest.timestamp
        return SegmentFacts(segment.size, newest if newest >= 0 else self._home.files.modified(segment.path))

    def _move_start(self, offset: int) -> tuple[Segment, ...]:
        """The new start is on the disk before anything disappears: a file that comes back is known as a left-over."""
        if offset <= self.start_offset:
            return ()
        self._home.save_start_offset(self.id, offset)
        self.start_offset = offset
        self._writer.forget_epochs_before(offset)
        return self._writer.segments.drop_before(offset)

    def _remove(self, segments: tuple[Segment, ...], *, and_left: bool = False) -> None:
        """And those that could not be removed before, if so said."""
        if not segments and not (and_left and self._left):
            return
        with self._home.swapping:  # one of them may be about to get its name
            if self._writer.closed:  # deleted, and the folder may be another one's; or the next start does it
                return
            if and_left:
                segments, self._left = (*self._left, *segments), ()
            failures = [(segment, error) for segment in segments if (error := _removal_error(segment)) is not None]
            self._left += tuple(segment for segment, _ in failures)
            first = self._writer.segments.base_offsets[0]
            remove_snapshots(self._home.files, self._writer.directory, before=first)
            self._home.files.sync_directory(self._writer.directory)
        for _, error in failures:
            raise error  # the first one


def _removal_error(segment: Segment) -> OSError | None:
    try:
        segment.remove()
    except OSError as error:
        return error
    return None
