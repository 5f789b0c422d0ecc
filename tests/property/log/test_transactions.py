"""Whatever transactional and other producers do, and whatever happens to the log meanwhile, it knows the transactions
that its batches imply: which are open, up to where all have ended, and which were aborted. So a reader of committed
records sees those and no others.

The model is a list of the batches in the log. Everything is computed from it anew each time.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from runnel.errors import InvalidTransactionState, PartitionFailed, StaleProducerEpoch
from runnel.log import Aborted, LogSettings, Partition, TopicSettings, open_log
from runnel.records import TRANSACTIONAL, Producer, Record, batches_of, build_batch, parse_marker, records_of
from runnel.testing import FaultyFiles, StoppedClock

DATA = "/data"
NOBODY = -1
PRODUCERS = (1, 2, 3)
SETTINGS = LogSettings(low_disk_bytes=0, sync_workers=1, tail_cache_bytes=1_500)
TOPIC = {"segment_bytes": 1024, "index_interval_bytes": 200, "retention_ms": -1, "retention_bytes": 2500}
LEAST_STEPS, MOST_STEPS = 20, 50  # left to itself, hypothesis tries short lists


@dataclass(frozen=True)
class Batch:
    """A batch in the log. A marker has `committed`; one without a producer has NOBODY."""

    base: int
    count: int
    producer_id: int = NOBODY
    epoch: int = -1
    transactional: bool = False
    committed: bool | None = None

    @property
    def end(self) -> int:
        return self.base + self.count

    @property
    def offsets(self) -> range:
        return range(self.base, self.end)


@dataclass(frozen=True)
class Transaction:
    producer_id: int
    first: int
    last: int | None = None  # its marker's offset; None while it is open
    committed: bool | None = None


@dataclass
class Model:
    batches: list[Batch] = field(default_factory=list)  # that readers can see
    waiting: list[Batch] = field(default_factory=list)  # accepted and not committed
    start: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    @property
    def next_offset(self) -> int:
        return self.waiting[-1].end if self.waiting else self.end

    def epoch_and_sequence(self, producer_id: int) -> tuple[int, int]:
        epoch = sequence = 0
        for batch in self.batches + self.waiting:
            if batch.producer_id == producer_id:
                if batch.epoch != epoch:
                    epoch, sequence = batch.epoch, 0
                sequence += batch.count if batch.committed is None else 0
        return epoch, sequence

    def transactions(self, batches: list[Batch]) -> list[Transaction]:
        """All of them, by their beginning."""
        found: list[Transaction] = []
        begun: dict[int, int] = {}
        for batch in batches:
            if batch.committed is not None:
                first = begun.pop(batch.producer_id, None)
                if first is not None:
                    found.append(Transaction(batch.producer_id, first, batch.base, batch.committed))
            elif batch.transactional:
                begun.setdefault(batch.producer_id, batch.base)
        found += (Transaction(producer_id, first) for producer_id, first in begun.items())
        return sorted(found, key=lambda transaction: transaction.first)

    @property
    def stable(self) -> int:
        firsts = [known.first for known in self.transactions(self.batches) if known.last is None]
        return max(self.start, min([self.end, *firsts]))

    def aborted(self, first: int, end: int) -> list[Aborted]:
        return [
            Aborted(known.producer_id, known.first, known.last)
            for known in self.transactions(self.batches)
            if known.last is not None and not known.committed and known.last >= first and known.first < end
        ]

    def committed(self, first: int) -> list[int]:
        """The offsets of the records that a reader of committed ones must see from `first` on."""
        hidden = {
            offset
            for known in self.transactions(self.batches)
            if not known.committed
            for batch in self.batches
            if batch.producer_id == known.producer_id and batch.transactional
            for offset in batch.offsets
            if known.first <= offset < (known.last if known.last is not None else self.end)
        }
        seen = [offset for batch in self.batches if batch.committed is None for offset in batch.offsets]
        return [offset for offset in seen if first <= offset < self.stable and offset not in hidden]

    def cut(self, end: int) -> None:
        """Only what is before `end` has survived."""
        assert end in {0, *(batch.end for batch in self.batches + self.waiting)}, "batches survive as a whole"
        self.batches = [batch for batch in self.batches + self.waiting if batch.end <= end]
        self.waiting = []


class World:
    def __init__(self, *, relaxed: bool) -> None:
        self.clock = StoppedClock()
        self.files = FaultyFiles(clock=self.clock)
        self.topic = TopicSettings(**TOPIC, **({"flush_messages": 1000} if relaxed else {}))
        self.relaxed = relaxed
        self.model = Model()
        self.chance = Random(0)
        self.open()

    def open(self) -> None:
        self.log = open_log(
            DATA, settings=SETTINGS, files=self.files, clock=self.clock, chance=Random(0), background=False
        )
        self.partition: Partition = self.log.partition("orders", 0, self.topic)

    def take(self, step: str, number: int) -> None:
        self.chance = Random(number)
        getattr(self, step)()
        self.check()

    # --- writing

    def write_plain(self) -> None:
        self.send(Batch(self.model.next_offset, self.chance.randint(1, 3)))

    def write_idempotent(self) -> None:
        producer_id = self.chance.choice(PRODUCERS)
        epoch, _ = self.model.epoch_and_sequence(producer_id)
        batch = Batch(self.model.next_offset, self.chance.randint(1, 3), producer_id, epoch)
        if self.begun(producer_id) is None:
            self.send(batch)
        else:
            with pytest.raises(InvalidTransactionState):
                self.partition.submit(self.encoded(batch))

    def write_in_transaction(self) -> None:
        producer_id = self.chance.choice(PRODUCERS)
        epoch, _ = self.model.epoch_and_sequence(producer_id)
        epoch += self.chance.random() < 0.1
        self.send(Batch(self.model.next_offset, self.chance.randint(1, 3), producer_id, epoch, transactional=True))

    def end_transaction(self) -> None:
        producer_id = self.chance.choice(PRODUCERS)
        epoch, _ = self.model.epoch_and_sequence(producer_id)
        if epoch > 0 and self.chance.random() < 0.2:
            with pytest.raises(StaleProducerEpoch):
                self.partition.submit_marker(producer_id, epoch - 1, committed=True, coordinator_epoch=0)
        epoch += self.chance.random() < 0.5
        committed = self.chance.random() < 0.4
        self.send(Batch(self.model.next_offset, 1, producer_id, epoch, transactional=True, committed=committed))

    def send(self, batch: Batch) -> None:
        if batch.committed is None:
            append = self.partition.submit(self.encoded(batch))
        else:
            append = self.partition.submit_marker(
                batch.producer_id, batch.epoch, committed=batch.committed, coordinator_epoch=0
            )
        assert append.appended.base_offset == batch.base
        self.model.waiting.append(batch)
        if self.chance.random() < 0.7:
            self.commit()

    def encoded(self, batch: Batch) -> bytes:
        epoch, sequence = self.model.epoch_and_sequence(batch.producer_id)
        producer = Producer(batch.producer_id, batch.epoch, sequence if batch.epoch == epoch else 0)
        if batch.producer_id == NOBODY:
            producer = Producer()
        records = [Record(b"%d" % offset + b"." * 60, None, self.clock.now()) for offset in batch.offsets]
        return build_batch(records, producer=producer, attributes=TRANSACTIONAL if batch.transactional else 0)

    def begun(self, producer_id: int) -> int | None:
        transactions = self.model.transactions(self.model.batches + self.model.waiting)
        return next(
            (known.first for known in transactions if known.producer_id == producer_id and known.last is None), None
        )

    def commit(self) -> None:
        self.log.commit()
        self.model.batches += self.model.waiting
        self.model.waiting = []

    # --- care

    def roll(self) -> None:
        self.commit()
        self.partition.roll()

    def checkpoint(self) -> None:
        self.log.checkpoint()

    def delete_some(self) -> None:
        self.commit()
        self.model.start = self.partition.delete_before(self.chance.randint(self.model.start, self.model.end))

    def retain(self) -> None:
        self.commit()
        self.partition.apply_retention()
        assert self.model.start <= self.partition.start_offset <= self.model.end
        self.model.start = self.partition.start_offset

    # --- stops

    def stop_cleanly(self) -> None:
        self.commit()
        self.log.close()
        self.open()

    def lose_an_index(self) -> None:
        """As somebody may, who cleans up while the log is stopped."""
        self.commit()
        self.log.close()
        for name in self.files.list(f"{DATA}/orders-0"):
            if name.endswith(".txnindex") and self.chance.random() < 0.5:
                path = f"{DATA}/orders-0/{name}"
                file = self.files.open(path)
                spoil: Callable[[], None] = self.chance.choice(
                    [
                        lambda path=path: self.files.remove(path),
                        lambda file=file: file.truncate(self.chance.randrange(file.size())),
                        lambda file=file: file.write([b"\x01\x02"], self.chance.randrange(file.size() - 2)),
                    ]
                )
                spoil()
        self.open()

    def kill(self) -> None:
        self.files = self.files.kill()
        self.open()
        assert self.partition.end_offset == self.model.end
        self.model.waiting = []

    def lose_power(self) -> None:
        synced = self.partition.synced_offset
        self.files = self.files.crash(self.chance)
        self.open()
        assert self.partition.end_offset >= (synced if self.relaxed else self.model.end)
        self.model.waiting = []
        self.model.cut(self.partition.end_offset)

    def fail_a_sync(self) -> None:
        """All that is not synced is forgotten at once, and stays forgotten when the partition takes writes again."""
        self.commit()
        self.write_in_transaction()
        self.end_transaction()
        self.files.fail("sync", ".log", errno.EIO, times=1)
        self.log.commit()
        self.partition.checkpoint()
        self.files.heal()
        self.model.cut(self.partition.synced_offset if self.partition.failed else self.model.next_offset)
        self.check()
        if self.partition.failed:
            with pytest.raises(PartitionFailed):
                self.partition.submit(build_batch([Record(b"early")]))
            assert self.partition.heal()

    # --- what must be true

    def check(self) -> None:
        partition, model = self.partition, self.model
        assert (partition.start_offset, partition.end_offset) == (model.start, model.end)
        assert partition.last_stable_offset == model.stable
        assert {producer_id: known.first_offset for producer_id, known in partition.open_transactions().items()} == {
            known.producer_id: known.first for known in model.transactions(model.batches) if known.last is None
        }
        for producer_id in PRODUCERS:
            assert partition.transaction_of(producer_id) == self.begun(producer_id)
        for first in {model.start, self.chance.randint(model.start, model.end)}:
            for end in {first + 1, self.chance.randint(first, model.end), model.end}:
                assert partition.aborted(first, end) == model.aborted(first, end), f"from {first} up to {end}"
            assert list(self.read_committed(first)) == model.committed(first)

    def read_committed(self, offset: int) -> Iterator[int]:
        """As clients do it: they leave out the batches of a producer from where its transaction was aborted, up to the
        marker."""
        end = self.partition.last_stable_offset
        while offset < end:
            batches = self.partition.read(offset, self.chance.choice([1, 400, 5_000]))
            aborted = self.partition.aborted(offset, batches.next_offset)
            left_out: set[int] = set()
            for position, header in batches_of(batches.data):
                while aborted and aborted[0].first_offset <= header.last_offset:
                    left_out.add(aborted.pop(0).producer_id)
                if header.is_control:
                    if not parse_marker(batches.data, position).committed:
                        left_out.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in left_out):
                    for record in records_of(batches.data, position):
                        assert record.value is not None
                        assert record.value.startswith(b"%d." % record.offset)
                        if offset <= record.offset < end:
                            yield record.offset
            offset = batches.next_offset


STEPS = {
    "write_plain": 2,
    "write_idempotent": 2,
    "write_in_transaction": 6,
    "end_transaction": 5,
    "roll": 1,
    "checkpoint": 1,
    "delete_some": 1,
    "retain": 1,
    "stop_cleanly": 1,
    "lose_an_index": 1,
    "kill": 1,
    "lose_power": 2,
    "fail_a_sync": 1,
}
steps = st.sampled_from([step for step, weight in STEPS.items() for _ in range(weight)])
histories = st.lists(st.tuples(steps, st.integers(0, 2**16)), min_size=LEAST_STEPS, max_size=MOST_STEPS)


@settings(max_examples=150, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # to shrink them takes minutes
@given(relaxed=st.booleans(), history=histories)
def test_the_log_knows_the_transactions_that_its_batches_imply(relaxed: bool, history: list[tuple[str, int]]) -> None:
    world = World(relaxed=relaxed)
    for step, number in history:
        world.take(step, number)
    world.take("commit", 0)
    world.take("stop_cleanly", 0)
    world.take("lose_power", 0)
