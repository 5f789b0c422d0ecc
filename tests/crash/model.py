"""A model of a log beside the real one: random histories on a disk that fails and forgets, and what must be true after.

`World(seed).run()` lives through one history. Every choice comes from the seed, so `World(seed, crash_at=n).run()`
lives through the same one up to the n-th file operation, where the power goes out: then the log is opened again from
what the disk kept, compared with the model, and the history goes on.

`World(seed, n, whole)` does not look again, before its crash, at what `whole`, the history without a crash, has looked
at; `file_operations` tells whether both went the same way.

The model keeps, for each partition, the batches in three states:
    visible   answered and readable; after a crash they must be there (of a relaxed topic: those that were synced)
    waiting   submitted and not answered: after a crash they may be there, in their order, without a gap
    lost      refused because of the disk: gone for good once the partition healed, until then like waiting
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

from runnel.errors import OffsetOutOfRange, OutOfOrderSequence, RunnelError
from runnel.log import Log, LogSettings, Partition, TopicSettings, open_log
from runnel.log.appends import Append
from runnel.log.checkpoints import TopicPartition
from runnel.records import Codec, Producer, Record, build_batch
from runnel.testing import Crashed, FaultyFiles, StoppedClock
from tests.turned_loop import TurnedLoop

STEPS = 9
NOBODY = Producer()
SETTINGS = LogSettings(
    checkpoint_ms=5_000, retention_check_ms=20_000, retry_after_failure_ms=0, low_disk_bytes=0, open_files=8,
    tail_cache_bytes=8_000, sync_workers=1,
)  # fmt: skip
FAULTS = [
    ("write", ".log", errno.EIO),
    ("write", ".log", errno.ENOSPC),
    *[("sync", ".log", errno.EIO)] * 4,
    ("truncate", ".log", errno.EIO),
    ("create", "", errno.ENOSPC),
    ("rename", "", errno.EIO),
    ("sync_directory", "", errno.EIO),
    ("write", "", errno.ENOSPC),
    ("sync", "index", errno.EIO),
    ("write", "snapshot", errno.ENOSPC),
    ("write", "checkpoint", errno.ENOSPC),
    ("write", "synced-offsets", errno.EIO),
    ("remove", "", errno.EIO),
]


@dataclass
class Batch:
    base: int
    records: list[Record]
    raw: bytes
    producer: Producer

    @property
    def end(self) -> int:
        return self.base + len(self.records)


@dataclass
class Modelled:
    """What is known of one partition."""

    durable: bool
    start: int = 0
    start_at_most: int = 0  # a deletion that was not answered may have moved it this far
    visible: list[Batch] = field(default_factory=list)
    waiting: list[Batch] = field(default_factory=list)
    lost: list[Batch] = field(default_factory=list)
    lost_in: int = -1  # the epoch in which they were lost
    synced: int = 0
    epoch: int = -1

    @property
    def end(self) -> int:
        return self.visible[-1].end if self.visible else self.base_end

    base_end: int = 0  # the end when no batch is left

    @property
    def next_offset(self) -> int:
        return self.waiting[-1].end if self.waiting else self.end


class World:
    def __init__(self, seed: int, crash_at: int | None = None, whole: World | None = None) -> None:
        self.chance = random.Random(seed)
        self.whole = whole
        self.looks = 0
        self.acting: set[int] = set()  # looks that changed files: what was found damaged is made anew when it is read
        self.seed = seed
        self.crash_at = crash_at
        self.earlier: list[str] = []  # file operations of the disks before the present one
        self.before_crash: list[str] | None = None  # file operations until the first power cut
        self.crashes = 0
        self.faulty = False
        self.clock = StoppedClock()
        self.files = FaultyFiles(chance=random.Random(seed + 1), clock=self.clock, crash_at=crash_at)
        self.story: list[str] = []
        self.sequences: dict[int, int] = {}
        self.models: dict[str, Modelled] = {}
        self.relaxed = self.chance.random() < 0.6
        self.settings = {
            "steady": self._settings(),
            "second": self._settings(),
            "hasty": self._settings(flush_messages=7, flush_ms=3_000) if self.relaxed else self._settings(),
        }
        self.log: Log

    def _settings(self, **flush: int) -> TopicSettings:
        return TopicSettings(
            segment_bytes=self.chance.choice([2_048, 5_000, 100_000]),
            segment_ms=self.chance.choice([8_000, 10**9]),
            segment_jitter_ms=self.chance.choice([0, 1_000]),
            index_interval_bytes=self.chance.choice([0, 300, 4_096]),
            retention_ms=self.chance.choice([-1, 30_000]),
            retention_bytes=self.chance.choice([-1, 5_000]),
            **flush,
        )

    # --- one history

    def run(self, steps: int = STEPS) -> World:
        try:
            self._surviving(self._open)
            for _ in range(steps):
                self._surviving(self.chance.choices(*zip(*self._actions(), strict=True))[0])
            self._surviving(self._check_all)
            self._surviving(self._stop_cleanly)
        except Exception as error:
            raise AssertionError(self._explained(error)) from error
        return self

    @property
    def file_operations(self) -> list[str]:
        """Until the power went out, or until the end."""
        return self.before_crash if self.before_crash is not None else self.earlier + self.files.history

    def _actions(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self._append, 30), (self._submit_and_commit, 12), (self._produce, 14), (self._read, 10),
            (self._roll, 12), (self._checkpoint, 5), (self._pass_time, 8), (self._delete_before, 4),
            (self._retain, 5), (self._stop_cleanly, 4), (self._be_killed, 5), (self._lose_power, 3),
            (self._meet_a_fault, 24), (self._fill_the_disk, 3), (self._delete_partition, 1),
        ]  # fmt: skip

    def _surviving(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Crashed:
            self.story.append(f"the power goes out before operation {self.files.operations}")
            self._after_power_cut()

    def _explained(self, error: Exception) -> str:
        crash = f", crash_at={self.crash_at}" if self.crash_at is not None else ""
        story = "\n  ".join(self.story)
        last = "\n  ".join(self.files.history[-12:])
        return f"World({self.seed}{crash}): {error}\nstory:\n  {story}\nlast file operations:\n  {last}"

    # --- stopping and starting

    def _open(self, *, unclean: bool = False) -> None:
        self.log = open_log(
            "/data",
            settings=SETTINGS,
            files=self.files,
            clock=self.clock,
            chance=self.chance_of_log(),
            background=False,
        )
        self.loop = TurnedLoop()
        self.log.commit_on(self.loop, nullcontext)
        if unclean:
            assert not any(finding.damage for finding in self.log.findings), f"no damage: {self.log.findings}"

    def chance_of_log(self) -> random.Random:
        return random.Random(self.seed + 2)

    def _after_power_cut(self) -> None:
        self._replace_disk(self._after_a_crash())
        if self.chance.random() < 0.3:
            self.files.crash_at = self.chance.randrange(1, 12)  # and again, while the log recovers
        try:
            self._open(unclean=True)
        except Crashed:
            return self._after_power_cut()
        self.files.crash_at = None
        return self._check_survivors()

    def _after_a_crash(self) -> FaultyFiles:
        """What the disk kept after a power cut; or only the process died, and what it wrote is not lost yet."""
        self.before_crash = self.file_operations
        self.crashes += 1
        if self.chance.random() < 0.3:
            return self.files.kill()
        return self.files.crash(random.Random(self.seed * 1_000_003 + self.crashes))

    def _replace_disk(self, files: FaultyFiles) -> None:
        self.earlier += self.files.history
        self.files = files
        self.files.capacity = None
        self.faulty = False
        if self.crash_at is not None and not self.crashes:
            self.files.crash_at = self.crash_at - len(self.earlier)

    def _lose_power(self) -> None:
        self.story.append("power cut")
        self._after_power_cut()

    def _be_killed(self) -> None:
        self.story.append("kill -9")
        self._replace_disk(self.files.kill())
        self._open(unclean=True)
        for name in self.models:
            assert self.models[name].end <= self.log.partition(name).end_offset, (
                "kill -9 loses nothing that was written"
            )
        self._check_survivors()

    def _stop_cleanly(self) -> None:
        self.story.append("clean stop")
        for partition in self.log.partitions():
            self._heal(partition.topic)
        self.log.close()
        self._open()
        assert self.log.was_clean, "a clean stop is known as one"
        self._check_all()

    # --- writing

    def _partition(self, name: str) -> Partition:
        partition = self.log.partition(name, 0, self.settings[name])
        model = self.models.setdefault(name, Modelled(durable=self.settings[name].durable))
        model.epoch = max(model.epoch, partition.leader_epoch)
        return partition

    def _pick(self) -> str:
        return self.chance.choice(list(self.settings))

    def _new_batch(self, name: str, producer: Producer = NOBODY) -> Batch:
        base = self.models[name].next_offset
        now = self.clock.now()
        records = [
            Record(
                self.chance.randbytes(self.chance.choice([0, 10, 60, 400])),
                self.chance.choice([None, b"k", b"key-%d" % self.chance.randrange(9)]),
                now + self.chance.randrange(-2_000, 2_000),
                self.chance.choice([(), (("h", b"1"), ("none", None))]),
            )
            for _ in range(self.chance.randrange(1, 5))
        ]
        raw = build_batch(records, codec=self.chance.choice(list(Codec)), producer=producer)
        placed = [record._replace(offset=base + number) for number, record in enumerate(records)]
        return Batch(base, placed, raw, producer)

    def _append(self) -> None:
        name = self._pick()
        partition = self._partition(name)
        batch = self._new_batch(name)
        self._appended(name, partition, batch)

    def _appended(self, name: str, partition: Partition, batch: Batch) -> None:
        self.story.append(f"append {len(batch.records)} records to {name} at {batch.base}")
        model = self.models[name]
        model.waiting.append(batch)
        appended = partition.append_batch(batch.raw)
        assert (appended.base_offset, appended.duplicate) == (batch.base, False)
        model.lost = []  # if it had failed, it healed itself
        self._answered(name)

    def _answered(self, name: str) -> None:
        model = self.models[name]
        model.visible += model.waiting
        model.waiting = []
        model.synced = self.log.partition(name).synced_offset

    def _submit_and_commit(self) -> None:
        self.story.append("submit to several and commit")
        answers: list[tuple[str, Append]] = []
        names = self.chance.choices(list(self.settings), k=self.chance.randrange(2, 7))
        if not self.faulty:
            for name in names:
                self._heal(name)
        for name in names:
            partition = self._partition(name)
            batch = self._new_batch(name, self._next_of_a_producer(name) if self.chance.random() < 0.5 else NOBODY)
            answers.append((name, partition.submit(batch.raw)))
            self._sent(batch)
            self.models[name].waiting.append(batch)
        if self.chance.random() < 0.2:
            self._check_all()  # nobody sees what is on its way
        if self.chance.random() < 0.5:
            self.story.append("the event loop commits what it can")
            self.loop.turn_until_idle()
        self.log.commit()
        for name, append in answers:
            append.result(timeout=0)
            self._answered(name)

    def _produce(self) -> None:
        """An idempotent producer sends a batch, sends one of its last five again, and skips a sequence."""
        name = self._pick()
        partition = self._partition(name)
        producer = self._next_of_a_producer(name)
        batch = self._new_batch(name, producer)
        known = [sent for sent in self.models[name].visible if sent.producer.id == producer.id]
        if known and self.chance.random() < 0.5:
            self._repeat(partition, self.chance.choice(known[-5:]))
        if known and self.chance.random() < 0.3:
            self._skip(partition, producer._replace(sequence=producer.sequence + 1))
        self.story.append(f"producer {producer.id} sends sequence {producer.sequence}")
        self._appended(name, partition, batch)
        self._sent(batch)

    def _next_of_a_producer(self, name: str) -> Producer:
        producer_id = self.chance.randrange(2) * 10 + list(self.settings).index(name)
        return Producer(producer_id, 0, self.sequences.get(producer_id, 0))

    def _sent(self, batch: Batch) -> None:
        if batch.producer.id >= 0:
            self.sequences[batch.producer.id] = batch.producer.sequence + len(batch.records)

    def _repeat(self, partition: Partition, sent: Batch) -> None:
        self.story.append(f"producer {sent.producer.id} sends sequence {sent.producer.sequence} again")
        appended = partition.append_batch(sent.raw)
        assert (appended.base_offset, appended.duplicate) == (sent.base, True), f"{appended} for {sent.base}"

    def _skip(self, partition: Partition, producer: Producer) -> None:
        try:
            partition.append_batch(build_batch([Record(b"early")], producer=producer))
        except OutOfOrderSequence:
            return
        raise AssertionError(f"{producer} was accepted out of order")

    # --- care

    def _roll(self) -> None:
        name = self._pick()
        self.story.append(f"roll {name}")
        self._partition(name).roll()

    def _checkpoint(self) -> None:
        self.story.append("checkpoint")
        self.log.checkpoint()
        self._note_synced()

    def _pass_time(self) -> None:
        self.clock.advance(self.chance.choice([500, 4_000, 12_000]))
        self.story.append(f"time passes, maintenance at {self.clock.now()}")
        for model in self.models.values():
            model.start_at_most = model.end
        self.log.commit()
        self.log.maintain()
        self._note_starts()

    def _note_synced(self) -> None:
        for name, model in self.models.items():
            model.synced = self.log.partition(name).synced_offset

    def _note_starts(self) -> None:
        self._note_synced()
        for name, model in self.models.items():
            start = self.log.partition(name).start_offset
            assert model.start <= start <= model.end
            model.start = start
            model.start_at_most = start

    def _delete_before(self) -> None:
        name = self._pick()
        partition = self._partition(name)
        model = self.models[name]
        offset = self.chance.randrange(model.start, model.end + 1)
        self.story.append(f"delete {name} before {offset}")
        model.start_at_most = max(model.start, offset)
        assert partition.delete_before(offset) == offset
        model.start = offset

    def _retain(self) -> None:
        name = self._pick()
        partition = self._partition(name)
        self.story.append(f"retention of {name}")
        self.models[name].start_at_most = self.models[name].end
        partition.apply_retention()
        self._note_starts()

    def _delete_partition(self) -> None:
        name = self._pick()
        self._partition(name)
        self.story.append(f"delete partition {name}")
        old = self.models.pop(name)
        try:
            self.log.delete(name)
        except Crashed:
            self._after_power_cut_in_deletion(name, old)
        for producer_id in [known for known in self.sequences if known % 10 == list(self.settings).index(name)]:
            del self.sequences[producer_id]

    def _after_power_cut_in_deletion(self, name: str, old: Modelled) -> None:
        self.story.append(f"the power goes out in the deletion of {name}")
        self._replace_disk(self._after_a_crash())
        self._open(unclean=True)
        is_there = TopicPartition(name, 0) in self.log.partitions()
        if is_there:
            self.models[name] = old
        self._check_survivors()
        if is_there:
            del self.models[name]
            self.log.delete(name)

    # --- faults

    def _meet_a_fault(self) -> None:
        operation, path_part, error = self.chance.choice(FAULTS)
        times, after = self.chance.randrange(1, 4), self.chance.randrange(0, 3)
        self.story.append(f"{operation} {path_part} fails {times} times after {after}")
        self.files.fail(operation, path_part, error, times, after)
        self._under_fault(self.chance.choice([self._append, self._submit_and_commit, self._roll, self._produce,
                                              self._checkpoint, self._retain, self._pass_time]))  # fmt: skip
        self.files.heal()
        self._recover_from_faults()

    def _fill_the_disk(self) -> None:
        self.story.append("the disk is full")
        self.files.capacity = self.files.used + self.chance.randrange(0, 300)
        self._under_fault(self._submit_and_commit)
        self._under_fault(self._append)
        self.files.capacity = None
        self._recover_from_faults()

    def _under_fault(self, action: Callable[[], None]) -> None:
        self.faulty = True
        try:
            action()
        except (RunnelError, OSError) as error:
            self.story.append(f"  refused: {type(error).__name__}: {error}")
        self.log.commit()
        for name, model in self.models.items():
            partition = self._partition(name)
            if partition.failed:
                self._dropped(model, partition)
            else:
                self._settled(model, partition)
            model.start = model.start_at_most = partition.start_offset
        self.faulty = False

    def _recover_from_faults(self) -> None:
        self._check_all()  # what is synced can be read while writes are refused
        if self.chance.random() < 0.5:
            for name in list(self.models):
                self._heal(name)

    def _dropped(self, model: Modelled, partition: Partition) -> None:
        """All that was not synced is gone from sight."""
        everything = model.visible + model.waiting
        lost = [batch for batch in everything if batch.end > partition.end_offset]
        self._see_only(model, everything, partition.end_offset)
        if partition.leader_epoch != model.lost_in:  # else it failed before, and took nothing since
            model.lost, model.lost_in = lost, partition.leader_epoch
        model.synced = partition.synced_offset
        self._forget_sequences(lost)

    def _settled(self, model: Modelled, partition: Partition) -> None:
        """The fault met something else, or the partition healed itself: what waited was answered or refused."""
        everything = model.visible + model.waiting
        self._see_only(model, everything, partition.end_offset)
        self._forget_sequences([batch for batch in everything if batch not in model.visible])
        model.synced = partition.synced_offset

    def _see_only(self, model: Modelled, everything: list[Batch], end: int) -> None:
        model.visible = [batch for batch in everything if batch.end <= end]
        model.waiting = []
        if everything and not model.visible:
            model.base_end = everything[0].base

    def _forget_sequences(self, lost: list[Batch]) -> None:
        for batch in lost:
            if batch.producer.id >= 0:
                sequence = self.sequences.get(batch.producer.id, 0)
                self.sequences[batch.producer.id] = min(sequence, batch.producer.sequence)

    def _heal(self, name: str) -> None:
        partition = self._partition(name)
        epoch = partition.leader_epoch
        if partition.failed:
            assert partition.heal(), "a well disk heals the partition"
            assert partition.leader_epoch > epoch, "healing begins a new epoch"
            lost, self.models[name].lost = self.models[name].lost, []
            self._check(name)
            self._send_again(name, lost)

    def _send_again(self, name: str, lost: list[Batch]) -> None:
        """As a client does that was told that its batches were lost: the log must not take them for repetitions."""
        for batch in lost:
            if batch.producer.id >= 0:
                model = self.models[name]
                base = model.next_offset
                again = [record._replace(offset=base + number) for number, record in enumerate(batch.records)]
                self._appended(name, self._partition(name), Batch(base, again, batch.raw, batch.producer))
                self._sent(batch)

    # --- what must be true

    def _read(self) -> None:
        self.story.append("read")
        self._check(self._pick())

    def _check_all(self) -> None:
        for name in list(self.models):
            self._check(name)

    def _check_survivors(self) -> None:
        """After a crash: find out what survived, and whether it may be that."""
        for name, model in list(self.models.items()):
            before = model.epoch
            partition = self._partition(name)
            grown = partition.leader_epoch > before or self.log.was_clean  # nothing was written since a clean stop
            assert grown, f"{name}: an unclean start begins a new epoch"
            kept = model.visible if model.durable else [batch for batch in model.visible if batch.end <= model.synced]
            least = max(kept[-1].end if kept else 0, model.synced)
            assert partition.end_offset >= least, f"{name} ends at {partition.end_offset}, {least} was promised"
            assert model.start <= partition.start_offset <= max(model.start, model.start_at_most)
            held = list(partition.records())
            for possible in (model.visible + model.waiting, kept + model.lost):
                survived = [batch for batch in possible if batch.end <= partition.end_offset]
                if held == self._records(survived, partition.start_offset):
                    break
            else:
                raise AssertionError(f"{name} holds what nobody wrote: {held}")
            self._forget_sequences(
                [batch for batch in model.visible + model.waiting + model.lost if batch not in survived]
            )
            model.base_end = partition.end_offset
            model.visible = survived
            self._learn_sequences(model)
            model.waiting, model.lost = [], []
            model.start = model.start_at_most = partition.start_offset
            model.synced = partition.end_offset
            self._check(name)

    def _records(self, batches: list[Batch], start: int) -> list[Record]:
        return [record for batch in batches for record in batch.records if record.offset >= start]

    def _learn_sequences(self, model: Modelled) -> None:
        """A batch that was not answered may have survived: its producer goes on after it."""
        for batch in model.visible:
            if batch.producer.id >= 0:
                after = batch.producer.sequence + len(batch.records)
                self.sequences[batch.producer.id] = max(self.sequences.get(batch.producer.id, 0), after)

    def _check(self, name: str) -> None:
        partition, model = self._partition(name), self.models[name]
        visible = self._records(model.visible, model.start)
        model.visible = [batch for batch in model.visible if batch.end > model.start] or model.visible[-1:]
        self.looks += 1
        if self.whole is None or self.crashes or self.looks in self.whole.acting:
            before = self.files.operations
            try:
                self._look_at(name, partition, model, visible)
            finally:  # also where a fault comes in between
                if self.files.operations > before:
                    self.acting.add(self.looks)

    def _look_at(self, name: str, partition: Partition, model: Modelled, visible: list[Record]) -> None:
        chance = random.Random(f"{self.seed} {self.looks}")  # of its own: who does not look changes no history
        assert (partition.start_offset, partition.end_offset) == (model.start, model.end)
        assert list(partition.records()) == visible, f"{name} does not hold what was written"
        for offset in {model.start, model.end, chance.randint(model.start, model.end)}:
            self._check_read(partition, model, offset, max_bytes=chance.choice([1, 500, 10_000]))
        for offset in (model.start - 1, model.end + 1):
            self._check_out_of_range(partition, offset)
        times = [record.timestamp for record in visible]
        for time in chance.sample(times, min(1, len(times))):
            for asked in (time, time + 1):
                expected = next((record for record in visible if record.timestamp >= asked), None)
                assert partition.find_time(asked) == expected, f"{name} at time {asked}"
        largest = max(times, default=None)
        expected = next((record for record in visible if record.timestamp == largest), None)
        assert partition.find_largest_time() == expected

    def _check_read(self, partition: Partition, model: Modelled, offset: int, max_bytes: int) -> None:
        batches = partition.read(offset, max_bytes)
        if offset == model.end:
            assert not batches.data
            return
        holding = next(batch for batch in model.visible if batch.end > offset)
        assert int.from_bytes(bytes(batches.data[:8]), "big") == holding.base, (
            "a read begins with the batch of the offset"
        )
        assert batches.next_offset in [batch.end for batch in model.visible]

    def _check_out_of_range(self, partition: Partition, offset: int) -> None:
        try:
            partition.read(offset)
        except OffsetOutOfRange:
            return
        raise AssertionError(f"offset {offset} can be read")
