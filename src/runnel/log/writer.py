"""The writing side of one partition: from an accepted batch to a durable one.

`submit` runs in the caller's thread and touches no disk: it checks the batch, gives it its offsets and lets it wait.
`gather` only lets it wait: the next round, or whoever submits before that, checks all that were gathered.
A round of the group commit then calls `write`, `sync` and `publish`, one thread at a time; while the disk syncs,
`expect` gets ready. What readers see moves on in `publish` alone: after the sync, or after the write where the topic
relaxes it.

If the disk fails, nothing is tried again and called good. `fail` drops all that is not synced and answers those who
wait with the cause; from then on the partition refuses writes and reads go on. `heal` starts a new segment at the last
synced offset, under a new leader epoch, because readers of a relaxed topic may have seen what was dropped.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from runnel.errors import Closed, PartitionFailed, RunnelError
from runnel.files import Buffer, File, Syncs, replace_file
from runnel.log.admission import admit, as_kept, refuse_nobodys_marker
from runnel.log.appends import Append, Appended, Bunch, Step, Told, refuse
from runnel.log.directory import DataDirectory
from runnel.log.epochs import FILE_NAME as EPOCHS_FILE
from runnel.log.opening import PartitionState, replayed_producers
from runnel.log.place import Place
from runnel.log.producers import Producers
from runnel.log.segment import Growth, Segment
from runnel.log.segments import Segments
from runnel.log.snapshots import remove_snapshots, snapshot_path, write_snapshot
from runnel.log.txn_index import Entry
from runnel.records import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    Marker,
    Record,
    build_batch,
    build_marker,
    parse_header,
    place_parts,
    with_append_time,
)
from runnel.records.batch import CODEC_MASK
from runnel.settings import INT32_MAX, TimestampType, TopicSettings

logger = logging.getLogger(__name__)


class Shown(NamedTuple):
    """What readers are to see of a run: the segment's growth, and each batch with the offset after it."""

    growth: Growth
    batches: list[tuple[Buffer, ...]]
    ends: list[int]


Gathered = tuple[BatchHeader, memoryview, Told]  # a batch that is to be looked at


class Writer:
    __slots__ = (
        "_file",
        "_gathered",
        "_home",
        "_lock",
        "_pending",
        "_prepared",
        "_run",
        "_shown",
        "_started",
        "_synced_largest",
        "_taken",
        "_unsynced_records",
        "_unsynced_since",
        "closed",
        "dirty",
        "epochs",
        "failure",
        "leader_epoch",
        "name",
        "next_offset",
        "producers",
        "retry_at",
        "roll_at",
        "segments",
        "settings",
        "synced",
        "watchers",
        "written_producers",
    )

    def __init__(self, home: DataDirectory, name: str, settings: TopicSettings, state: PartitionState) -> None:
        self._home = home
        self.name = name
        self.settings = settings
        self.segments: Segments = state.segments
        self.epochs = state.epochs
        self.leader_epoch = max(state.epochs.latest, home.epoch)
        self._adopt(state.producers)
        self.next_offset = self.segments.active.next_offset
        self.synced = Place(self.segments.active.size, self.next_offset)
        self._synced_largest = self.segments.active.largest
        self.roll_at = self._roll_time(state.active_started)
        self.failure: PartitionFailed | None = None
        self.retry_at = 0
        self.closed = False
        self.dirty = not state.indexes_are_saved  # something is to be saved at the next checkpoint
        self.watchers: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._pending: list[Append] = []
        self._gathered: list[Gathered] = []  # behind these
        self._taken: list[Append] = []  # by the round under way
        self._prepared: int | None = None  # when they were taken, if that was before the write
        self._file: File | None = None  # the active segment's, from `prepare` on: it must not be opened again
        self._run: list[Append] = []  # those of them that go into the active segment
        self._shown: Shown | None = None  # what is to be seen of them, once somebody has looked
        self._unsynced_records = 0
        self._unsynced_since: int | None = None

    # --- the callers' side

    def submit(
        self,
        batch: Buffer,
        *,
        reserved: bool = False,
        unnumbered: bool = False,
        header: BatchHeader | None = None,
        told: Told | None = None,
    ) -> Append:
        header, batch = self._as_written(batch, header, reserved=reserved, unnumbered=unnumbered)
        with self._lock:
            self._begin_append()
            return self._accept(header, batch, told)

    def _as_written(
        self, batch: Buffer, header: BatchHeader | None, *, reserved: bool = False, unnumbered: bool = False
    ) -> tuple[BatchHeader, Buffer]:
        settings = self.settings
        header = admit(batch, settings, unnumbered=unnumbered, header=header)
        if not reserved:
            self._home.refuse_if_disk_low(len(batch))
        if not settings.keeps_batches:
            batch, header = as_kept(batch, settings, self._home.clock.now(), unnumbered=unnumbered)
        return header, batch

    def gather(self, header: BatchHeader, batch: memoryview, told: Told) -> bool:
        """Take it, to be looked at with all that are gathered before the next round; False if it is to be submitted.

        That is half of the work of `submit`: most of that is the same for all of them.
        """
        if header[5] & ~CODEC_MASK or header[6] < 0:  # its attributes; its offsets, which the round counts first
            return False
        with self._lock:
            if self.closed or self.failure is not None:
                return False
            self._gathered.append((header, batch, told))
        return True

    def submit_own(self, records: Sequence[Record]) -> Append:
        """One batch of a broker's own state: built at its place like a marker, and written when the disk is low too."""
        settings = self.settings
        if not settings.keeps_batches:
            return self.submit(build_batch(records), reserved=True)
        with self._lock:
            self._begin_append()
            base, epoch = self.next_offset, self.leader_epoch
            batch = build_batch(records, base_offset=base, leader_epoch=epoch)
            if len(batch) > min(settings.max_message_bytes, settings.segment_bytes):
                admit(batch, settings)  # says which limit it is
            header = parse_header(batch)
            self.next_offset = base + len(records)
            append = Append(header, (batch,), Appended(base, self.next_offset - 1, header.max_timestamp, epoch))
            self._pending.append(append)
        return append

    def submit_marker(self, producer_id: int, producer_epoch: int, marker: Marker) -> Append:
        """It is built here, at its place: nothing in its bytes has to be checked."""
        now = self._home.clock.now()
        refuse_nobodys_marker(producer_id, producer_epoch)
        with self._lock:
            self._begin_append()
            self.producers.check_marker(producer_id, producer_epoch, marker)
            base, epoch = self.next_offset, self.leader_epoch
            batch = build_marker(
                producer_id,
                producer_epoch,
                committed=marker.committed,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp=now,
                base_offset=base,
                leader_epoch=epoch,
            )
            if self.settings.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
                batch = with_append_time(batch, now)
            header = parse_header(batch)
            self.producers.replay(header, now, marker)
            self.next_offset = base + 1
            append = Append(header, (batch,), Appended(base, base, now, epoch), marker)
            self._pending.append(append)
        return append

    def _adopt(self, producers: Producers) -> None:
        """The state of producers as the log implies it; what is accepted goes beyond it."""
        self.producers = producers.copy()
        producers.transactions.tracks = True
        self.written_producers = producers

    def transaction_of(self, producer_id: int) -> int | None:
        """Where this producer's transaction begins, also if that is not written yet."""
        known = self.producers if self.failure is None else self.written_producers
        return known.transactions.start_of(producer_id)

    def _begin_append(self) -> None:
        """What was gathered comes first."""
        if self.closed or self.failure is not None:
            self.refuse_if_unfit()
        if self._gathered:
            self._accept_gathered()

    def refuse_if_unfit(self) -> None:
        if self.closed:
            raise Closed(f"partition {self.name}")
        if self.failure is not None:
            raise self.failure

    def _repeated(self, header: BatchHeader, told: Told | None) -> Append | None:
        if self.producers.is_next(header):
            return None
        known = self.producers.duplicate_of(header)
        if known is None:
            self.producers.check(header)
            return None
        appended = Appended(known.base_offset, known.last_offset, known.timestamp, self.leader_epoch, duplicate=True)
        return Append(header, None, appended, told=told)

    def _accept(self, header: BatchHeader, batch: Buffer, told: Told | None) -> Append:
        append = self._repeated(header, told) if header.producer_id != NO_PRODUCER_ID else None
        if append is None:
            append = self._accepted(header, batch, told)
        self._pending.append(append)
        return append

    def _accepted(self, header: BatchHeader, batch: Buffer, told: Told | None) -> Append:
        base, epoch = self.next_offset, self.leader_epoch
        placed = tuple.__new__(BatchHeader, (base, header.length, epoch, *header[3:]))  # without a call in Python
        if header.producer_id != NO_PRODUCER_ID:
            self.producers.replay(placed, self._home.clock.now())
        self.next_offset = base + header.last_offset_delta + 1
        facts = (base, self.next_offset - 1, header.max_timestamp, epoch, False)
        appended = tuple.__new__(Appended, facts)
        return Append(placed, place_parts(batch, base, epoch), appended, None, told)

    def _accept_gathered(self) -> None:
        """One by one."""
        gathered, self._gathered = self._gathered, []
        for sent, data, told in gathered:
            try:
                header, batch = self._as_written(data, sent)
                self._accept(header, batch, told)
            except Exception:  # whoever submits it is told what it is
                refuse(told)

    def _accept_together(self) -> None:
        """As one append, but for those that repeat others. There is room for them."""
        gathered, self._gathered = self._gathered, []
        settings, now = self.settings, self._home.clock.now()
        base, epoch = self.next_offset, self.leader_epoch
        first: BatchHeader | None = None
        batches: list[tuple[Buffer, ...]] = []
        steps: list[Step] = []
        numbered: list[BatchHeader] = []
        tolds: list[tuple[Told, int]] = []
        for header, batch, told in gathered:
            is_numbered = header[9] != NO_PRODUCER_ID
            try:
                admit(batch, settings, header=header)
                repeated = self._repeated(header, told) if is_numbered else None
            except Exception:  # whoever submits it is told what it is
                refuse(told)
                continue
            if repeated is not None:
                self._pending.append(repeated)
                continue
            if first is None or is_numbered:
                placed = tuple.__new__(BatchHeader, (base, header[1], epoch, *header[3:]))
                first = first or placed
                if is_numbered:
                    self.producers.replay(placed, now)
                    numbered.append(placed)
            batches.append(place_parts(batch, base, epoch))
            tolds.append((told, base))
            base += header[6]
            steps.append((base, len(batch), header[8]))
            base += 1
        self.next_offset = base
        if first is not None:
            self._pending.append(Bunch(first, batches, steps, numbered, tolds))

    # --- a round: write, sync, publish

    def prepare(self, syncs: Syncs) -> int | None:
        """Take what waits, for `write`, if that only has to append to an open file; the answer is how many bytes.

        None if it would have to do more, or if these cannot sync the file. Nothing is taken then.
        """
        segment, now = self.segments.active, self._home.clock.now()
        with self._lock:
            file = segment.open_file()
            if file is None or not syncs.takes(file):
                return None
            gathered = sum([len(batch) for _, batch, _ in self._gathered])
            size = sum([append.size for append in self._pending]) + gathered
            offsets = sum([header[6] + 1 for header, _, _ in self._gathered])
            if not self._fits(segment, size, offsets, now):
                return None
            if gathered:
                if not self.settings.keeps_batches or not self._home.has_room(gathered):
                    return None
                self._accept_together()
            self._taken, self._pending = self._pending, []
            self._prepared, self._file = now, file
        return size

    def _fits(self, segment: Segment, size: int, offsets: int, now: int) -> bool:
        return (
            segment.size + size <= self.settings.segment_bytes
            and self.next_offset + offsets - segment.base_offset <= INT32_MAX
            and (now < self.roll_at or not segment.size)
            and segment.damage is None
            and self.leader_epoch <= self.epochs.latest
        )

    def put_back(self) -> None:
        """What was prepared is not written after all: it waits again."""
        with self._lock:
            if self._prepared is not None:
                self._prepared = self._file = None
                self._taken, self._pending = [], self._taken + self._pending

    def write(self) -> bool:
        """Write all that waits, or what was prepared; True if a sync is to follow."""
        now, self._prepared = self._prepared, None
        fits = now is not None
        if now is None:
            now = self._home.clock.now()
            with self._lock:
                if self._gathered:
                    self._accept_gathered()
                self._taken, self._pending = self._pending, []
        self._run = []
        segment = self.segments.active
        position, offset = segment.size, segment.next_offset
        for append in self._taken:
            if append.data is not None:
                header = append.header
                if header.base_offset != offset:
                    raise RuntimeError(f"offset {offset} got lost on its way")  # its caller was interrupted
                if position and not fits and self._must_roll(position, append, now):
                    self._finish_segment()
                    position = 0
                if not position:
                    self.roll_at = self._roll_time(now)  # an empty segment does not grow old
                append.position = position
                position += append.size
                offset = append.appended.last_offset + 1
            self._run.append(append)
        self._write_run()
        return self._sync_is_due()

    def file(self) -> File:
        """Where the run is written."""
        return self._file or self.segments.active.file()

    def sync(self) -> None:
        self.file().sync()

    def expect(self) -> None:
        """Get ready for `publish` while the disk syncs, and let those get ready who wait."""
        if not _has_marker(self._run):  # that is over when it is seen
            self._shown = self._foreseen(self._run)
        for append in self._run:
            append.expect()

    def publish(self, *, synced: bool) -> list[Append]:
        """Let readers see the run; the answer is who is to be told, before the watchers are."""
        run, self._run = self._run, []
        shown, self._shown = self._shown, None
        self._file = None
        segment = self.segments.active
        first = segment.next_offset
        if _has_marker(run):
            batches, ends = self._publish_each(segment, run)
        else:
            growth, batches, ends = shown or self._foreseen(run)
            segment.grow(growth)
        if synced:
            self._note_synced()
        if batches:
            self._home.tails.add(self.name, first, batches, ends)
        return run

    def _foreseen(self, run: Sequence[Append]) -> Shown:
        """Of producers' batches alone."""
        steps: list[Step] = []
        batches: list[tuple[Buffer, ...]] = []
        numbered: list[BatchHeader] = []
        for append in run:
            if isinstance(append, Bunch):
                steps += append.steps
                batches += append.batches
                numbered += append.numbered
            elif append.data is not None:
                steps.append(append.step)
                batches.append(append.data)
                numbered.append(append.header)
        if numbered:
            now = self._home.clock.now()
            for header in numbered:
                # First: a reader of committed records must not see the batch before it sees the transaction.
                self.written_producers.replay(header, now)
        return Shown(self.segments.active.foresee(steps), batches, [last_offset + 1 for last_offset, _, _ in steps])

    def _publish_each(self, segment: Segment, run: Sequence[Append]) -> tuple[list[tuple[Buffer, ...]], list[int]]:
        now = self._home.clock.now()
        batches: list[tuple[Buffer, ...]] = []
        ends: list[int] = []
        for append in run:
            if append.marker is None:
                growth, some, their_ends = self._foreseen([append])
                segment.grow(growth)
                batches += some
                ends += their_ends
            elif append.data is not None:
                self._publish_marker(segment, append, append.marker, now)
                batches.append(append.data)
                ends.append(append.appended.last_offset + 1)
        return batches, ends

    def _publish_marker(self, segment: Segment, append: Append, marker: Marker, now: int) -> None:
        """Whoever sees that the transaction has ended must also find that it was aborted: that comes first."""
        header = append.header
        ended = None if marker.committed else self.written_producers.ended_by(header, marker)
        if ended is not None and not ended.committed:
            segment.aborted.add(Entry(*ended[:4]))
        segment.note(header, append.position)
        self.written_producers.replay(header, now, marker)

    @property
    def last_stable_offset(self) -> int:
        end = self.segments.active.next_offset  # first: a transaction that begins meanwhile begins there or after it
        return self.written_producers.stable_before(end)

    def tell_watchers(self) -> None:
        """That readers may see more. After those who wait for an answer: that is one step, and to read takes many."""
        for callback in tuple(self.watchers):
            try:
                callback()
            except Exception:  # it must not pass for a failure of the disk
                logger.exception("a watcher of partition %s failed", self.name)

    def _write_run(self) -> None:
        written = [append for append in self._run if append.data is not None]
        if not written:
            return
        first = written[0]
        self._begin_epoch(first.header.leader_epoch, first.header.base_offset)
        data = [part for append in written if append.data is not None for part in append.data]
        self.file().write(data, first.position)
        self.dirty = True
        self._unsynced_records += written[-1].appended.last_offset + 1 - first.appended.base_offset
        if self._unsynced_since is None:
            self._unsynced_since = self._home.clock.elapsed()

    def _begin_epoch(self, epoch: int, offset: int) -> None:
        """A reader must find an epoch's start, so it stands on the disk before the epoch's first record."""
        if self.epochs.begin(epoch, offset):
            self._save_epochs()

    def _save_epochs(self) -> None:
        replace_file(self._home.files, f"{self.directory}/{EPOCHS_FILE}", self.epochs.encode())

    def _sync_is_due(self) -> bool:
        if self._unsynced_since is None:
            return False
        settings = self.settings
        by_count = settings.flush_messages is not None and self._unsynced_records >= settings.flush_messages
        # Whoever ends a transaction writes down that it is ended: a marker that gets lost is never written again.
        return settings.durable or by_count or self.flush_at <= self._home.clock.elapsed() or _has_marker(self._run)

    @property
    def flush_at(self) -> int:
        """When what was written is to be synced at the latest."""
        if self._unsynced_since is None or self.settings.flush_ms is None:
            return 2**63
        return self._unsynced_since + self.settings.flush_ms

    @property
    def is_under_way(self) -> bool:
        """Whether a round took appends and did not answer them yet."""
        return any(not append.done for append in self._taken)

    @property
    def has_unsynced(self) -> bool:
        return self._unsynced_since is not None

    def flush(self) -> None:
        """Sync what a relaxed topic has written."""
        if self._unsynced_since is not None:
            self.sync()
            self._note_synced()

    def _note_synced(self) -> None:
        segment = self.segments.active
        self.synced = Place(segment.size, segment.next_offset)
        self._synced_largest = segment.largest
        self._unsynced_records = 0
        self._unsynced_since = None
        self.written_producers.transactions.settle()
        self._home.synced.note(self.name, segment.next_offset)

    # --- rolling

    def _must_roll(self, position: int, append: Append, now: int) -> bool:
        segment = self.segments.active
        return (
            position + append.size > self.settings.segment_bytes
            or append.appended.last_offset - segment.base_offset > INT32_MAX
            or now >= self.roll_at
            or segment.damage is not None
        )

    def _finish_segment(self) -> None:
        """In the middle of a round: what is written so far is synced and told, then a new segment begins."""
        self._write_run()
        self.sync()
        for append in self.publish(synced=True):
            append.answer()
        self.tell_watchers()
        self.roll()

    def roll(self) -> None:
        """Begin a new segment. The old one is synced whole before the new one exists: only the last can be torn."""
        old = self.segments.active
        self.flush()
        old.seal()
        self._begin_segment(old.next_offset)

    def _begin_segment(self, base_offset: int) -> None:
        self._save_snapshot(base_offset)
        self.segments.active.aborted.stable_end = self.written_producers.stable_before(base_offset)
        segment = Segment(self._home.open_files, self.directory, base_offset, self.settings.index_interval_bytes)
        segment.create()
        self._home.files.sync_directory(self.directory)
        self.segments.add(segment)
        self._file = None
        self.synced = Place(0, base_offset)
        self._synced_largest = segment.largest
        self.roll_at = self._roll_time(self._home.clock.now())

    def _save_snapshot(self, offset: int) -> None:
        """That at the beginning of the active segment stands since then, and tells of the index of the one before."""
        active, files = self.segments.active, self._home.files
        if offset > active.base_offset:
            write_snapshot(files, self.directory, offset, self.written_producers, active.aborted.content)
        elif not files.exists(snapshot_path(self.directory, offset)):
            write_snapshot(files, self.directory, offset, self.written_producers)

    def _roll_time(self, started: int) -> int:
        jitter = min(self.settings.segment_jitter_ms, self.settings.segment_ms)
        longest = started + self.settings.segment_ms - (self._home.chance.randrange(jitter) if jitter else 0)
        self._started = started
        # What is in the active segment cannot be compacted, so it must not stay there for longer than allowed.
        return min(longest, started + self.settings.max_compaction_lag_ms) if self.settings.compacts else longest

    def change_settings(self, settings: TopicSettings) -> None:
        """From now on; the active segment is rolled when these say so."""
        times = (settings.segment_ms, settings.segment_jitter_ms, settings.max_compaction_lag_ms, settings.compacts)
        old = self.settings
        self.settings = settings
        if times != (old.segment_ms, old.segment_jitter_ms, old.max_compaction_lag_ms, old.compacts):
            self.roll_at = self._roll_time(self._started)

    # --- when the disk fails

    def fail(self, doing: str, cause: BaseException) -> tuple[list[Append], RunnelError]:
        """Drop what is not synced; the answer is who is to be told, and what."""
        failure = PartitionFailed(self.name, doing, cause)
        with self._lock:
            self.failure = failure
            lost = [append for append in self._taken if not append.done] + self._pending + self._given_up()
            self._taken, self._run, self._pending = [], [], []
            self._prepared = self._file = self._shown = None
            self.retry_at = self._home.clock.elapsed() + self._home.settings.retry_after_failure_ms
            self._drop_unsynced()
        logger.error("%s", failure)
        return lost, failure

    def _drop_unsynced(self) -> None:
        segment = self.segments.active
        if segment.size > self.synced.position:
            self._home.tails.forget(self.name)
        transactions = self.written_producers.transactions
        transactions.hold(self.synced.offset)
        segment.size, segment.next_offset = self.synced
        segment.aborted.cut_from(segment.next_offset)
        transactions.undo()
        segment.largest = self._synced_largest
        self.next_offset = self.synced.offset
        self.epochs.cut_from(self.next_offset)
        self._unsynced_records = 0
        self._unsynced_since = None
        with contextlib.suppress(OSError):  # the disk is ill; heal() cuts again
            segment.file().truncate(segment.size)

    def heal(self) -> bool:
        """Try to go on after a failure; False while the disk is still ill."""
        if self.failure is None:
            return True
        try:
            old = self.segments.active
            old.cut_back()
            self._adopt(replayed_producers(self._home, self.directory, self.segments))
            self.leader_epoch = self._home.next_epoch()
            self._begin_epoch(self.leader_epoch, self.next_offset)
            if old.size:
                old.seal()
            self._begin_segment(self.next_offset)
        except OSError as error:
            self.retry_at = self._home.clock.elapsed() + self._home.settings.retry_after_failure_ms
            logger.warning("partition %s is still refusing writes: %s", self.name, error)
            return False
        self.failure = None
        logger.warning("partition %s takes writes again, from offset %d", self.name, self.next_offset)
        return True

    # --- checkpoints

    @property
    def directory(self) -> str:
        return f"{self._home.path}/{self.name}"

    def checkpoint(self) -> None:
        """Make the next start short: up to `synced` it will have nothing to check."""
        if self.dirty:
            self.flush()
            self.segments.active.save_indexes()
            self._save_snapshot(self.synced.offset)
            keep = {self.synced.offset, *self.segments.base_offsets}
            remove_snapshots(self._home.files, self.directory, keep=keep)
            self.dirty = False

    def stop(self) -> None:
        """Take no more, and wake those who follow."""
        with self._lock:
            self.closed = True
            lost, self._pending = self._pending + self._given_up(), []
        for append in lost:
            append.answer(Closed(f"partition {self.name}"))
        self.tell_watchers()

    def _given_up(self) -> list[Append]:
        """What was gathered, as appends of nothing."""
        gathered, self._gathered = self._gathered, []
        nowhere = Appended(-1, -1, NO_TIMESTAMP, self.leader_epoch)
        return [Append(header, None, nowhere, told=told) for header, _, told in gathered]

    def abandon(self) -> None:
        """Stop for good: what another partition of this name will hold is not ours to sync, nor to call synced."""
        self.segments.abandon(self.name)
        self.stop()
        self._unsynced_since = None

    def close(self) -> None:
        """Stop, with a last checkpoint unless the disk is ill."""
        self.stop()
        if self.failure is not None:
            return
        if self.dirty:
            self.segments.active.times.add(*self.segments.active.largest)
        self.checkpoint()

    def forget_epochs_before(self, offset: int) -> None:
        if self.epochs.cut_before(offset):
            self._save_epochs()

    def expire_producers(self, before: int) -> None:
        with self._lock:
            self.producers.expire(before)
            self.written_producers.expire(before)


def _has_marker(run: Sequence[Append]) -> bool:
    return any(append.marker is not None for append in run)
