"""One partition's compaction, as its owner sees it: what may be cleaned, the work by somebody else, and the swap.

The work touches nothing that readers or the writer use. The swap is a few renames beside the commits; only the moment
in which readers are shown the new segment is exclusive. If anything fails the old segments stay, or the swap is
finished later: by the next round, or by the next start.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise

from runnel.errors import Closed, CompactionFailed
from runnel.log.aborted import AbortedTransactions
from runnel.log.checkpoints import TopicPartition
from runnel.log.compaction.job import Cleaned, Damaged, Done, Job, LastBatch, Source
from runnel.log.compaction.output import CLEANED
from runnel.log.compaction.planning import Plan, SealedSegment, planned
from runnel.log.compaction.swap import SWAP, Folder
from runnel.log.directory import DataDirectory
from runnel.log.group_commit import GroupCommit
from runnel.log.producers import IndexContent
from runnel.log.segment import LOG_SUFFIX, Segment
from runnel.log.snapshots import read_snapshot, write_snapshot
from runnel.log.walk import Broken
from runnel.log.writer import Writer

DELETED = "its segments were deleted meanwhile"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a round has done: it made all clean from `first_offset` up to before `end_offset`.

    The counts are those of all segments that were looked at, also of those that were clean before.
    """

    first_offset: int
    end_offset: int
    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    unreadable_batches: int = 0


class Compactor:
    __slots__ = ("_commits", "_folder", "_home", "_id", "_unfinished", "_writer")

    def __init__(self, home: DataDirectory, commits: GroupCommit, partition: TopicPartition, writer: Writer) -> None:
        self._home = home
        self._commits = commits
        self._id = partition
        self._writer = writer
        self._folder = Folder(home.files, writer.directory)
        self._unfinished: Segment | None = None  # shown to readers under its .swap names

    def cleaned_up_to(self, start_offset: int) -> int:
        """Before this offset no key has two records."""
        known = self._home.clean_offsets.get(self._id, start_offset)
        end = self._writer.segments.active.next_offset
        return start_offset if known > end else max(known, start_offset)

    def dirty_since(self, start_offset: int) -> int | None:
        """The time of the oldest record that was not cleaned yet; None if there is none."""
        first = self.cleaned_up_to(start_offset)
        found = (self._oldest(segment) for segment in self._writer.segments.from_offset(first) if segment.size)
        if first >= self._writer.segments.active.next_offset:
            return None
        return min(found, default=None)

    def plan(self, start_offset: int, stable_offset: int) -> Plan:
        first_dirty = self.cleaned_up_to(start_offset)
        segments = list(self._writer.segments)
        sealed = [
            SealedSegment(
                segment.base_offset,
                after.base_offset,
                segment.size,
                self._oldest(segment) if after.base_offset > first_dirty else segment.largest.timestamp,
                segment.largest.timestamp,
                segment.damage is not None,
            )
            for segment, after in pairwise(segments)
        ]
        return planned(sealed, first_dirty, stable_offset, self._writer.settings, self._home.clock.now())

    def is_due(self, plan: Plan) -> bool:
        return plan.is_due(self._writer.settings, self._home.clock.now(), self._horizon())

    def has_work(self, plan: Plan) -> bool:
        horizon = self._horizon()
        return plan.dirty_bytes > 0 or (horizon is not None and horizon <= self._home.clock.now())

    def _horizon(self) -> int | None:
        return self._home.horizons.get(self._id)

    def _oldest(self, segment: Segment) -> int:
        """A producer whose clock is ahead does not hold back for longer what is to be forgotten."""
        header = next(iter(segment.headers_from(segment.base_offset)), None)
        if header is None or header.max_timestamp < 0:
            return self._home.files.modified(segment.path)
        try:
            return min(header.max_timestamp, self._home.files.modified(segment.path))
        except FileNotFoundError:  # the work will tell
            return header.max_timestamp

    # --- a round

    def run(self, plan: Plan, aborted: AbortedTransactions) -> Compaction:
        """Clean what is planned; call it inside of `workers.one_at_a_time`."""
        if not self._finish_former_swap():
            raise CompactionFailed(str(self._id), "a swap of segments could not be finished, see to the disk")
        segments = list(self._writer.segments)[: plan.segments]
        if not segments:
            return Compaction(plan.first_dirty, plan.first_dirty)
        self._throw_leftovers_away()
        job = self._job(plan, segments, aborted)
        done: Done | None = None
        cleaned: list[Cleaned] = []
        with closing(self._home.workers.run(job)) as answers, self._telling_of_deletion(segments[0].base_offset):
            for answer in answers:
                match answer:
                    case Cleaned():
                        self._take_over(answer)
                        cleaned.append(answer)
                    case Damaged():
                        self._quarantine(answer, segments)
                    case Done():
                        done = answer
        if done is None:
            raise CompactionFailed(str(self._id), "the worker ended too early")
        horizons = [part.horizon for part in cleaned if part.horizon is not None]
        with self._home.swapping:
            self._refuse_if_closed()  # a new partition of the same name is not clean
            self._home.tails.forget(str(self._id))  # what is in memory is as it was before
            self._home.save_clean_offset(self._id, done.end, min(horizons, default=None))
        return Compaction(
            plan.first_dirty,
            done.end,
            records_before=sum(part.records_before for part in cleaned),
            records_after=sum(part.records_after for part in cleaned),
            bytes_before=sum(part.bytes_before for part in cleaned),
            bytes_after=sum(part.size for part in cleaned),
            unreadable_batches=done.unreadable,
        )

    def _job(self, plan: Plan, segments: list[Segment], aborted: AbortedTransactions) -> Job:
        settings, own = self._writer.settings, self._home.settings
        bases = [segment.base_offset for segment in segments] + [plan.end]
        states = self._writer.written_producers.states()
        return Job(
            folder=self._folder.path,
            sources=tuple(
                Source(segment.base_offset, after, segment.size)
                for segment, after in zip(segments, bases[1:], strict=True)
            ),
            first_dirty=plan.first_dirty,
            now=self._home.clock.now(),
            segment_bytes=settings.segment_bytes,
            index_interval_bytes=settings.index_interval_bytes,
            delete_retention_ms=settings.delete_retention_ms,
            buffer_bytes=own.cleaner_dedupe_buffer_bytes,
            cpu_percent=own.cleaner_cpu_percent,
            producers={
                producer_id: LastBatch(state.epoch, state.batches[-1].last_offset if state.batches else -1)
                for producer_id, state in states.items()
            },
            aborted=tuple((known[0], known[1], known[2]) for known in aborted.between(bases[0], plan.end)),
        )

    def _throw_leftovers_away(self) -> None:
        """Of a round that failed. A swap that readers were not shown is as if it had not been committed."""
        with self._home.swapping:
            self._refuse_if_closed()
            if self._folder.discard(SWAP) | self._folder.discard(CLEANED):
                self._folder.sync()

    @contextlib.contextmanager
    def _telling_of_deletion(self, base_offset: int) -> Iterator[None]:
        """Whoever reads a segment that retention has removed, or that went with its topic, tells of a missing file."""
        try:
            yield
        except (CompactionFailed, OSError) as error:
            self._refuse_if_closed()
            if self._writer.segments.base_offsets[0] > base_offset:
                raise CompactionFailed(str(self._id), DELETED) from error
            raise

    def _quarantine(self, damaged: Damaged, segments: list[Segment]) -> None:
        """Readers would find it, too. From now on what is before it is cleaned without it."""
        self._refuse_if_closed()  # deleted, and what the worker has read may be another partition's
        segment = next(known for known in segments if known.base_offset == damaged.base_offset)
        segment.quarantine(segment.damage_found(Broken(damaged.position, damaged.offset, damaged.reason)))
        raise CompactionFailed(str(self._id), f"{segment.path} is damaged at position {damaged.position:,}")

    def _refuse_if_closed(self) -> None:
        if self._writer.closed:
            raise Closed(f"partition {self._id}")

    # --- the swap

    def _take_over(self, cleaned: Cleaned) -> None:
        if cleaned.unchanged:
            return
        with self._home.swapping:
            self._refuse_if_closed()
            base, folder = cleaned.base_offset, self._folder
            old = [known for known in self._writer.segments if base <= known.base_offset < cleaned.next_offset]
            if self._home.files.open(folder.name(base, LOG_SUFFIX, CLEANED)).size() != cleaned.size:
                raise CompactionFailed(str(self._id), f"the cleaned segment {base} has not the size it should have")
            folder.commit(base)
            self._forget_files(base)
            if not self._show(old, SWAP, base, cleaned.next_offset):
                # Retention removed some of them meanwhile.
                if folder.discard(SWAP):
                    folder.sync()
                raise CompactionFailed(str(self._id), DELETED)
            self._finish()

    def _show(self, old: list[Segment], state: str, base_offset: int, next_offset: int) -> bool:
        new = self._segment(base_offset, state)
        new.load(next_offset)
        with self._commits.exclusive():
            if not old or old[0].base_offset != base_offset or not self._writer.segments.replace(old, new):
                return False
        self._unfinished = new if state else None
        return True

    def _finish_former_swap(self) -> bool:
        if self._unfinished is None:
            return True
        with self._home.swapping:
            self._refuse_if_closed()
            self._finish()
        return self._unfinished is None

    def _finish(self) -> None:
        """Bring the files under their own names. If that fails readers stay with what is there, and it is all there."""
        segment, folder = self._unfinished, self._folder
        if segment is None:
            return
        base, end = segment.base_offset, segment.next_offset
        if segment not in tuple(self._writer.segments):
            self._unfinished = None  # retention removed it
            return
        try:
            self._tell_snapshot(segment, end)
            for path in folder.remove_old(base, end):
                self._home.open_files.forget(path)
            segment.retired = True  # before its files move: whoever misses them looks again
            folder.rename_indexes(base)
            folder.rename_log(base)
            self._show_again(segment)
            folder.sync()
        except OSError as error:
            logger.warning("%s: the swap of a compacted segment will be finished later: %s", segment.path, error)
            with contextlib.suppress(OSError):
                if self._unfinished is segment:
                    self._show_again(segment)
            segment.retired = self._unfinished is not segment

    def _show_again(self, segment: Segment) -> None:
        """Under the names that its files have now."""
        base = segment.base_offset
        state = SWAP if self._folder.exists(base, LOG_SUFFIX, SWAP) else ""
        self._forget_files(base)
        if not self._show([segment], state, base, segment.next_offset):
            self._unfinished = None  # retention removed it

    def _tell_snapshot(self, segment: Segment, end: int) -> None:
        """The snapshot at the segment's end says what its index of aborted transactions holds."""
        index = segment.aborted
        held = index.believable(None, end) or IndexContent(0, 0)
        snapshot = read_snapshot(self._home.files, self._folder.path, end)
        if snapshot is not None and snapshot.indexed is not None and snapshot.indexed != held:
            write_snapshot(self._home.files, self._folder.path, end, snapshot, held)

    def _forget_files(self, base_offset: int) -> None:
        for state in (SWAP, ""):
            stem = self._segment(base_offset, state)
            for path in (stem.path, stem.stem + ".index", stem.stem + ".timeindex", stem.aborted.path):
                self._home.open_files.forget(path)

    def _segment(self, base_offset: int, state: str) -> Segment:
        interval = self._writer.settings.index_interval_bytes
        return Segment(self._home.open_files, self._folder.path, base_offset, interval, state)
