"""A compacted log beside a list of all that was ever written to it: whatever happens, both tell the same table.

`World(seed).run()` lives through one history of puts, deletes, transactions, rolls, compactions and crashes. Every
choice comes from the seed; `World(seed, crash_at=n)` loses its power at the n-th file operation of its compactions.

What must be true at any time, for whoever reads from the start:
    the newest committed record of each key is there, unless it is a tombstone that was compacted long enough ago
    every record that is there is the one that was written at its offset
    up to where the partition says that it is clean, no key has two records
and a reader that goes on step by step while all this happens ends with the same table.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from runnel.errors import OffsetOutOfRange
from runnel.log import Log, LogSettings, Partition, TopicSettings, open_log
from runnel.log.compaction import windows
from runnel.log.verify import Severity, verify
from runnel.records import Codec, Producer, Record, batches_of, build_batch, parse_marker, records_of
from runnel.records.batch import TRANSACTIONAL
from runnel.testing import Crashed, FaultyFiles, StoppedClock

STEPS = 30
DATA = "/data"
KEYS = [b"", *(b"key-%d" % number for number in range(6)), b"a key that is too long to be its own number"]


@dataclass
class Written:
    record: Record
    producer_id: int | None = None  # of a transaction
    ended: str = "committed"
    cleaned_at: int | None = None  # when a compaction first passed it


@dataclass
class Numbered:
    """A producer: its next sequence, and what it sent last."""

    id: int
    transactional: bool
    sequence: int = 0
    last: tuple[bytes, int] | None = None
    open: list[Written] = field(default_factory=list)


class Follower:
    """Reads committed records as a consumer does: batches, and with them the aborted transactions."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.table: dict[bytes, bytes] = {}
        self.found: list[Record] = []

    def step(self, partition: Partition, max_bytes: int) -> bool:
        """One fetch; False at the last stable offset."""
        stable = partition.last_stable_offset
        if self.offset >= stable:
            return False
        read = partition.read(self.offset, max_bytes)
        aborted = partition.aborted(self.offset, read.next_offset)
        for record in committed_records(read.data, aborted):
            if self.offset <= record.offset < stable:
                self._take(record)
        self.offset = min(stable, read.next_offset)
        return True

    def _take(self, record: Record) -> None:
        self.found.append(record)
        assert record.key is not None
        if record.value is None:
            self.table.pop(record.key, None)
        else:
            self.table[record.key] = record.value


def committed_records(data: bytes, aborted: list) -> Iterator[Record]:
    """As Kafka's consumers filter them."""
    waiting = sorted(aborted, key=lambda known: known.first_offset)
    inside: set[int] = set()
    for position, header in batches_of(data):
        while waiting and waiting[0].first_offset <= header.last_offset:
            inside.add(waiting.pop(0).producer_id)
        if header.is_control:
            if header.count and not parse_marker(data, position).committed:
                inside.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in inside:
            continue
        yield from (record for record in records_of(data, position) if record.key is not None)


class World:
    def __init__(self, seed: int, crash_at: int | None = None) -> None:
        self.chance = random.Random(seed)
        self.seed = seed
        self.crash_at = crash_at
        self.in_compactions = 0  # file operations
        self.crashes = 0
        self.clock = StoppedClock()
        self.files = FaultyFiles(chance=random.Random(seed + 1), clock=self.clock)
        self.story: list[str] = []
        self.written: dict[int, Written] = {}
        self.end = 0
        self.start = 0
        self.producers = [Numbered(number, transactional=number % 2 == 1) for number in range(5)]
        self.retention = self.chance.choice([0, 5_000, 10**9])
        self.settings = TopicSettings(
            cleanup_policy="compact",
            segment_bytes=self.chance.choice([1_024, 3_000, 100_000]),
            index_interval_bytes=self.chance.choice([0, 200, 4_096]),
            min_cleanable_dirty_ratio=self.chance.choice([0.0, 0.5]),
            min_compaction_lag_ms=self.chance.choice([0, 0, 3_000]),
            max_compaction_lag_ms=self.chance.choice([4_000, 10**12]),
            delete_retention_ms=self.retention,
        )
        self.log_settings = LogSettings(
            low_disk_bytes=0,
            sync_workers=1,
            open_files=8,
            tail_cache_bytes=self.chance.choice([0, 10**6]),
            cleaner_backoff_ms=1_000,
            cleaner_dedupe_buffer_bytes=self.chance.choice([1_024, 10**8]),
        )
        self.window = self.chance.choice([200, 600, windows.WINDOW])
        self.log: Log = self._opened()
        assert self.partition.end_offset == 0
        self.follower = Follower(0)

    # --- one history

    def run(self, steps: int = STEPS) -> World:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(windows, "WINDOW", self.window)
            try:
                for _ in range(steps):
                    self.chance.choices(*zip(*self._actions(), strict=True))[0]()
                self._end_transactions()
                self._compact()
                self.check()
                self._check_files()
            except Exception as error:
                raise AssertionError(self._explained(error)) from error
        return self

    def _explained(self, error: Exception) -> str:
        crash = f", crash_at={self.crash_at}" if self.crash_at is not None else ""
        story, last = "\n  ".join(self.story), "\n  ".join(self.files.history[-12:])
        return f"World({self.seed}{crash}): {error!r}\nstory:\n  {story}\nlast file operations:\n  {last}"

    def _actions(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self._put, 30), (self._produce, 25), (self._end_a_transaction, 12), (self._roll, 8), (self._compact, 12),
            (self._pass_time, 8), (self._follow, 15), (self._stop_and_start, 3), (self._be_killed, 4),
            (self._lose_power, 3), (self._delete_before, 2), (self.check, 6), (self._send_again, 6),
        ]  # fmt: skip

    def _opened(self) -> Log:
        return open_log(
            DATA, settings=self.log_settings, files=self.files, clock=self.clock, chance=random.Random(0),
            background=False,
        )  # fmt: skip

    @property
    def partition(self) -> Partition:
        return self.log.partition("table", 0, self.settings)

    # --- writing

    def _records(self) -> list[Record]:
        times = self.clock.now() - self.chance.randrange(1_000)
        return [
            Record(
                self.chance.choice([None, b"", b"value %d" % self.chance.randrange(1_000), b"v" * 200]),
                self.chance.choice(KEYS) if self.chance.random() < 0.95 else None,
                times + self.chance.randrange(100),
                self.chance.choice([(), (("h", b"1"),)]),
            )
            for _ in range(self.chance.randrange(1, 5))
        ]

    def _note(self, records: list[Record], producer: Numbered | None = None) -> None:
        for record in records:
            written = Written(record._replace(offset=self.end))
            self.written[self.end] = written
            if producer is not None and producer.transactional:
                written.producer_id, written.ended = producer.id, "open"
                producer.open.append(written)
            self.end += 1

    def _put(self) -> None:
        records = self._records()
        self.story.append(f"put {len(records)} at {self.end}")
        self.partition.append_batch(build_batch(records, codec=self.chance.choice(list(Codec))))
        self._note(records)

    def _produce(self) -> None:
        producer = self.chance.choice(self.producers)
        records = self._records()
        self.story.append(f"producer {producer.id} puts {len(records)} at {self.end}")
        batch = build_batch(
            records,
            codec=self.chance.choice(list(Codec)),
            producer=Producer(producer.id, 0, producer.sequence),
            attributes=TRANSACTIONAL if producer.transactional else 0,
        )
        appended = self.partition.append_batch(batch)
        assert (appended.base_offset, appended.duplicate) == (self.end, False)
        producer.sequence += len(records)
        producer.last = (batch, self.end)
        self._note(records, producer)

    def _send_again(self) -> None:
        """What a producer sent last is recognised, whatever has become of its records."""
        for producer in self.producers:
            if producer.last is not None:
                self.story.append(f"producer {producer.id} sends its last batch again")
                batch, base = producer.last
                appended = self.partition.append_batch(batch)
                assert (appended.base_offset, appended.duplicate) == (base, True), f"{appended}"

    def _end_a_transaction(self) -> None:
        producer = self.chance.choice(self.producers)
        if producer.open:
            self._end_transaction(producer, committed=self.chance.random() < 0.6)

    def _end_transactions(self) -> None:
        for producer in self.producers:
            if producer.open:
                self._end_transaction(producer, committed=True)

    def _end_transaction(self, producer: Numbered, *, committed: bool) -> None:
        self.story.append(f"producer {producer.id} {'commits' if committed else 'aborts'} at {self.end}")
        append = self.partition.submit_marker(producer.id, 0, committed=committed, coordinator_epoch=0)
        self.log.commit()
        assert append.result(timeout=0).base_offset == self.end
        for written in producer.open:
            written.ended = "committed" if committed else "aborted"
        producer.open = []
        self.end += 1

    # --- care

    def _roll(self) -> None:
        self.story.append(f"roll at {self.end}")
        self.partition.roll()

    def _compact(self) -> None:
        self.story.append(f"compact at {self.end}")
        self._in_compaction(self.partition.compact)

    def _pass_time(self) -> None:
        self.clock.advance(self.chance.choice([500, 2_000, 6_000]))
        self.story.append(f"time passes, maintenance at {self.clock.now()}")
        self._in_compaction(self.log.maintain)

    def _in_compaction(self, action: Callable[[], object]) -> None:
        """Do it, and lose the power in it if it is time to."""
        before = self.files.operations
        if self.crash_at is not None and not self.crashes and self.crash_at > self.in_compactions:
            self.files.crash_at = before + self.crash_at - self.in_compactions
        try:
            action()
        except Crashed:
            self.story.append(f"the power goes out before: {self.files.history[-1]}")
            self.crashes += 1
            self._restart(self.files.crash(random.Random(self.seed + self.chance.randrange(1_000))))
            self._note_cleaned(at_most=True)
            self.check()
            return
        self.in_compactions += self.files.operations - before
        self.files.crash_at = None
        self._note_cleaned()

    def _note_cleaned(self, *, at_most: bool = False) -> None:
        """A round that was cut off may have passed more than the partition says."""
        clean = self.end if at_most else self.partition.cleaned_up_to
        for offset, written in self.written.items():
            if offset < clean and written.cleaned_at is None:
                written.cleaned_at = self.clock.now()

    def _delete_before(self) -> None:
        partition = self.partition
        offset = self.chance.randrange(self.start, self.end + 1)
        self.story.append(f"delete before {offset}")
        self.start = partition.delete_before(offset)
        self.follower = Follower(self.start)

    # --- stopping and starting

    def _stop_and_start(self) -> None:
        self.story.append("clean stop")
        self.log.close()
        self.log = self._opened()

    def _be_killed(self) -> None:
        self.story.append("kill -9")
        self._restart(self.files.kill())

    def _lose_power(self) -> None:
        self.story.append("power cut")
        self._restart(self.files.crash(random.Random(self.chance.randrange(2**32))))

    def _restart(self, files: FaultyFiles) -> None:
        self.files = files
        if self.chance.random() < 0.5 and self.start == 0:  # else they alone know of transactions that were cut off
            self.story.append("and the snapshots of producers are lost")
            for name in files.list(f"{DATA}/table-0"):
                if name.endswith(".snapshot"):
                    files.remove(f"{DATA}/table-0/{name}")
        if self.chance.random() < 0.3:
            files.crash_at = files.operations + self.chance.randrange(1, 15)  # and again, while the log recovers
        try:
            self.log = self._opened()
        except Crashed:
            self.story.append("power cut in the recovery")
            return self._restart(files.crash(random.Random(self.chance.randrange(2**32))))
        files.crash_at = None
        assert self.log.findings == [], f"nothing was torn or damaged: {self.log.findings}"
        self._send_again()
        return None

    # --- what must be true

    def _follow(self) -> None:
        self.story.append(f"follow from {self.follower.offset}")
        for _ in range(self.chance.randrange(1, 4)):
            self._checked(self.follower, self.follower.step(self.partition, self.chance.choice([1, 500, 10**6])))

    def _checked(self, follower: Follower, more: bool) -> bool:
        for record in follower.found:
            assert record == self.written[record.offset].record, f"{record} is not what was written"
            assert self.written[record.offset].ended == "committed", f"{record} was not committed"
        follower.found = []
        return more

    def check(self) -> None:
        self.story.append("check")
        partition = self.partition
        assert (partition.start_offset, partition.end_offset) == (self.start, self.end)
        open_ones = [written.record.offset for producer in self.producers for written in producer.open]
        assert partition.last_stable_offset == max(self.start, min(open_ones, default=self.end))
        found = {record.offset: record for record in partition.records()}
        for offset, record in found.items():
            assert record == self.written[offset].record, f"{record} is not {self.written[offset].record}"
        self._check_newest(found)
        self._check_clean_part(partition, found)
        self._check_tables()
        self._check_times(found)

    def _newest(self) -> dict[bytes, Written]:
        """The last committed record of each key that a reader of committed records can reach."""
        stable = self.partition.last_stable_offset
        return {
            written.record.key: written
            for offset, written in sorted(self.written.items())
            if written.ended == "committed" and self.start <= offset < stable and written.record.key is not None
        }

    def _may_be_gone(self, written: Written) -> bool:
        cleaned = written.cleaned_at
        return written.record.value is None and cleaned is not None and self.clock.now() >= cleaned + self.retention

    def _check_newest(self, found: dict[int, Record]) -> None:
        for written in self._newest().values():
            there = written.record.offset in found
            assert there or self._may_be_gone(written), f"{written} is gone"

    def _check_clean_part(self, partition: Partition, found: dict[int, Record]) -> None:
        keys = [record.key for offset, record in found.items() if offset < partition.cleaned_up_to]
        assert None not in keys, "a record without a key is still there"
        assert len(keys) == len(set(keys)), "a key has two records in the clean part"
        aborted = [offset for offset in found if self.written[offset].ended == "aborted"]
        assert all(offset >= partition.cleaned_up_to for offset in aborted), f"aborted records {aborted} are there"

    def _check_tables(self) -> None:
        expected = {
            key: written.record.value for key, written in self._newest().items() if written.record.value is not None
        }
        fresh = Follower(self.start)
        while self._checked(fresh, fresh.step(self.partition, self.chance.choice([1, 500, 10**6]))):
            pass
        assert fresh.table == expected, f"a new reader has {fresh.table}, not {expected}"
        if self.retention >= 10**9:  # else it may come too late for a tombstone
            while self._checked(self.follower, self.follower.step(self.partition, 500)):
                pass
            assert self.follower.table == expected, f"the old reader has {self.follower.table}, not {expected}"

    def _check_times(self, found: dict[int, Record]) -> None:
        if found:
            time = self.chance.choice(list(found.values())).timestamp
            first = min(offset for offset, record in found.items() if record.timestamp >= time)
            earliest = self.partition.find_time(time)
            assert earliest is not None
            marker = earliest.offset < first and earliest.offset not in self.written  # which has a time, too
            assert marker or earliest == found[first], f"{earliest} is the first at {time}, not {found[first]}"
            latest = max(record.timestamp for record in found.values())
            largest = self.partition.find_largest_time()
            assert largest is not None
            assert largest.offset not in self.written or largest.timestamp == latest
            assert largest.timestamp >= latest
        with pytest.raises(OffsetOutOfRange):
            self.partition.read(self.end + 1)

    def _check_files(self) -> None:
        self.log.close()
        names = self.files.list(f"{DATA}/table-0")
        assert [name for name in names if ".swap" in name or ".cleaned" in name] == []
        report = verify(DATA, files=self.files)
        # A note may say that an index lacks a transaction whose data was deleted: it concerns nobody any more.
        problems = [problem for problem in report.problems if problem.severity is Severity.PROBLEM]
        assert problems == [], f"{problems}"
