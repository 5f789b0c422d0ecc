"""Batches that are noted when they come, and looked at together by the round that takes them."""

import asyncio
import errno
import logging
import threading
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pytest

from runnel.errors import Closed, InvalidBatch, PartitionFailed, RunnelError
from runnel.files import DiskFiles
from runnel.log import Log, LogSettings, Partition, TopicSettings, open_log
from runnel.log.loop_rounds import MOST_BYTES
from runnel.records import (
    APPEND_TIME,
    CONTROL,
    TRANSACTIONAL,
    Codec,
    Producer,
    Record,
    build_batch,
    parse_header,
)
from runnel.records.batch import HEADER_SIZE, _checksummed
from runnel.testing import StoppedClock
from tests.threaded_syncs import ThreadedSyncs
from tests.unit.log.loop_stage import LoopStage
from tests.unit.log.stage import batch

PATIENCE = 60
NO_TIME = -1


class Heard:
    """Who is told of a batch, and what he heard."""

    def __init__(self, sent: bytes = b"", *, fails_at: str = "") -> None:
        self.sent = sent
        self.said: list[str] = []
        self.expected: tuple[int, int] | None = None
        self.told: tuple[int, int] | None = None
        self.error: RunnelError | None = None
        self.threads: dict[str, int] = {}
        self._fails_at = fails_at

    def expect(self, base_offset: int, timestamp: int) -> None:
        self.expected = base_offset, timestamp
        self._note("expect")

    def tell(self, base_offset: int, timestamp: int, error: RunnelError | None) -> None:
        self.told, self.error = (base_offset, timestamp), error
        self._note("tell")

    def refuse(self) -> None:
        self._note("refuse")

    def _note(self, what: str) -> None:
        self.said.append(what)
        self.threads[what] = threading.get_ident()
        if what == self._fails_at:
            raise RuntimeError("a defect")

    @property
    def offset(self) -> int:
        """Where its batch stands."""
        assert self.error is None
        assert self.told is not None
        return self.told[0]

    @property
    def is_done(self) -> bool:
        return self.said[-1:] in (["tell"], ["refuse"])


def gather(partition: Partition, *sent: bytes) -> list[Heard]:
    return [gather_for(partition, Heard(each)) for each in sent]


def gather_for(partition: Partition, heard: Heard) -> Heard:
    assert partition.gather(parse_header(heard.sent), memoryview(heard.sent), heard), "it is to be submitted"
    return heard


def of(producer_id: int, sequence: int, *values: bytes, epoch: int = 0) -> bytes:
    return batch(*(values or (b"tea",)), producer=Producer(producer_id, epoch, sequence))


def in_transaction(producer_id: int, sequence: int) -> bytes:
    return build_batch([Record(b"tea", None, 1)], producer=Producer(producer_id, 0, sequence), attributes=TRANSACTIONAL)


def values(partition: Partition) -> list[bytes | None]:
    return [record.value for record in partition.records()]


@pytest.fixture
def stage() -> LoopStage:
    return LoopStage()


@pytest.fixture
def partition(stage: LoopStage) -> Any:
    return stage.partition_with_a_record()


# --- the same log as of what is submitted

VARIANTS = {
    "one segment": {"segment_bytes": 2**28, "index_interval_bytes": 500},
    "many segments": {"segment_bytes": 100_000, "index_interval_bytes": 200},
    "an entry for each batch": {"index_interval_bytes": 0},
    "relaxed": {"flush_messages": 50, "index_interval_bytes": 1_000},
}


class ThreadedFiles(DiskFiles):
    def syncs(self) -> ThreadedSyncs:  # type: ignore[override]
        return ThreadedSyncs()


def assorted(chance: Random, count: int) -> list[bytes]:
    """Of three producers and of none, and now and then a producer's last one again."""
    made: list[bytes] = []
    last: dict[int, bytes] = {}
    sequences = dict.fromkeys((7, 8, 9), 0)
    now = 1_600_000_000_000
    for _ in range(count):
        producer_id = chance.choice([-1, -1, 7, 8, 9])
        if producer_id in last and chance.random() < 0.1:
            made.append(last[producer_id])
            continue
        now += chance.choice([0, 0, 1, 5_000, -3_000])
        size = chance.choice([0, 10, 300, 3_000, 20_000])
        records = [
            Record(chance.randbytes(size // 2) + bytes(size // 2), None, now + chance.choice([0, number]))
            for number in range(chance.choice([1, 1, 3]))
        ]
        producer = Producer()
        if producer_id >= 0:
            producer = Producer(producer_id, 1, sequences[producer_id])
            sequences[producer_id] += len(records)
        made.append(build_batch(records, producer=producer, codec=chance.choice([Codec.NONE, Codec.NONE, *Codec])))
        if producer_id >= 0:
            last[producer_id] = made[-1]
    return made


Outcome = tuple[list[int], bytes, bytes, object, dict[str, bytes]]


def outcome(path: Path, log: Log, partition: Partition, offsets: list[int]) -> Outcome:
    """The offsets that were told, the producers as they are written and as they are known, and after a close the
    largest time and all files."""
    writer = partition._writer
    written, known = writer.written_producers.encode(), writer.producers.encode()
    largest = writer.segments.active.largest
    log.close()
    folder = path / "orders-0"
    return offsets, written, known, largest, {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def submitted(path: Path, sent: list[bytes], settings: TopicSettings, chance: Random) -> Outcome:
    log = open_log(
        path, settings=LogSettings(low_disk_bytes=0), clock=StoppedClock(), chance=Random(0), background=False
    )
    partition = log.partition("orders", 0, settings)
    appends = []
    for each in sent:
        appends.append(partition.submit(each))
        if chance.random() < 0.1:
            log.commit()
    log.commit()
    return outcome(path, log, partition, [append.result(0).base_offset for append in appends])


def gathered(path: Path, sent: list[bytes], settings: TopicSettings, chance: Random) -> Outcome:
    async def run() -> Outcome:
        log = open_log(
            path,
            settings=LogSettings(low_disk_bytes=0),
            files=ThreadedFiles(),
            clock=StoppedClock(),
            chance=Random(0),
        )
        log.commit_on(asyncio.get_running_loop(), nullcontext)
        partition = log.partition("orders", 0, settings)
        heard: list[Heard] = []
        for each in sent:
            heard += gather(partition, each)
            for _ in range(chance.choice([0, 0, 0, 0, 1, 3])):
                await asyncio.sleep(0)
            while chance.random() < 0.05 and not heard[-1].is_done:
                await asyncio.sleep(0.001)
        while not all(each.is_done for each in heard):
            await asyncio.sleep(0.001)
        return await asyncio.to_thread(outcome, path, log, partition, [each.offset for each in heard])

    return asyncio.run(asyncio.wait_for(run(), PATIENCE))


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_gathered_leaves_the_same_files_as_what_is_submitted(tmp_path: Path, seed: int, variant: str) -> None:
    chance = Random(f"{seed}/{variant}")
    sent, settings = assorted(chance, 300), TopicSettings(**VARIANTS[variant])
    usual = submitted(tmp_path / "submitted", sent, settings, chance)
    again = gathered(tmp_path / "gathered", sent, settings, chance)

    assert again[:4] == usual[:4]
    assert again[4].keys() == usual[4].keys()
    assert [name for name, content in again[4].items() if content != usual[4][name]] == []
    assert len(again[4]["00000000000000000000.index"]) >= 8


@pytest.mark.parametrize("index_interval_bytes", [0, 200, 2**20])
def test_a_round_as_a_whole_is_indexed_as_its_batches_would_be(index_interval_bytes: int) -> None:
    """In one write, and with times that rise, fall and stay."""
    sent = [batch(bytes(70), timestamp=time) for time in (5, 5, 9, 3, 9, 10, 1, 1, 12, 4)]
    indexes: list[tuple[object, ...]] = []
    for together in (True, False):
        stage = LoopStage()
        partition = stage.partition_with_a_record(index_interval_bytes=index_interval_bytes)
        writes = stage.count("write", ".log")
        if together:
            gather(partition, *sent)
            stage.answer()
            assert stage.count("write", ".log") == writes + 1
        else:
            for each in sent:
                partition.append_batch(each)
        segment = partition._writer.segments.active
        entries = [
            [index.entries[number] for number in range(len(index.entries))]
            for index in (segment.offsets, segment.times)
        ]
        indexes.append((segment.size, segment.next_offset, segment.largest, segment._since_index, entries))

    assert indexes[0] == indexes[1]


def test_what_is_gathered_is_seen_by_readers_in_memory_batch_by_batch(stage: LoopStage, partition: Partition) -> None:
    sent = [batch(b"tea", b"milk"), batch(b"sugar"), batch(b"lemon")]
    gather(partition, *sent)
    stage.answer()
    found = partition.read_in_memory(3, max_bytes=1)

    assert found is not None
    assert parse_header(found.data).base_offset == 3
    assert found.next_offset == 4
    assert values(partition)[1:] == [b"tea", b"milk", b"sugar", b"lemon"]


def test_all_that_is_gathered_in_one_turn_is_one_write_and_one_sync(stage: LoopStage, partition: Partition) -> None:
    writes, syncs = stage.count("write", "orders-0/"), stage.count("sync", "orders-0/")
    heard = gather(partition, *[batch(b"tea")] * 20)
    stage.answer()

    assert [each.told for each in heard] == [(number, NO_TIME) for number in range(1, 21)]
    assert (stage.count("write", "orders-0/"), stage.count("sync", "orders-0/")) == (writes + 1, syncs + 1)


def test_nothing_is_told_or_seen_before_the_sync_is_answered(stage: LoopStage, partition: Partition) -> None:
    (heard,) = gather(partition, batch(b"tea"))
    stage.loop.turn_until_idle()

    assert heard.said == ["expect"]
    assert heard.expected == (1, NO_TIME)
    assert partition.end_offset == 1
    assert partition.read_in_memory(1) is not None
    stage.answer()
    assert heard.said == ["expect", "tell"]
    assert partition.end_offset == 2


def test_what_is_gathered_during_a_round_is_the_next_one(stage: LoopStage, partition: Partition) -> None:
    (first,) = gather(partition, of(7, 0))
    stage.loop.turn_until_idle()
    second, again = gather(partition, of(7, 1), of(7, 0))
    stage.loop.turn_until_idle()

    assert (first.said, second.said) == (["expect"], [])
    stage.answer()
    stage.answer()
    assert [each.offset for each in (first, second, again)] == [1, 2, 1]


def test_those_who_follow_hear_of_it_after_those_who_wait(stage: LoopStage, partition: Partition) -> None:
    heard = Heard(batch(b"tea"))
    seen: list[tuple[list[str], int]] = []
    partition.watch(lambda: seen.append((list(heard.said), partition.end_offset)))
    gather_for(partition, heard)
    stage.answer()

    assert seen == [(["expect", "tell"], 2)]
    gather(partition, changed(batch(b"milk")))
    stage.answer()
    assert len(seen) == 1, "there is nothing more to see"


def test_those_who_follow_hear_of_what_a_round_wrote_before_it_failed() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record(segment_bytes=1_200)
    seen: list[int] = []
    partition.watch(lambda: seen.append(partition.end_offset))
    first, second = gather(partition, batch(bytes(800)), batch(bytes(800)))
    stage.files.fail("write", "00000000000000000002.log", errno.EIO)
    stage.log.commit()

    assert (first.offset, type(second.error)) == (1, PartitionFailed)
    assert seen == [2]


@pytest.mark.parametrize("attributes", [TRANSACTIONAL, CONTROL, APPEND_TIME])
def test_what_is_not_usual_is_to_be_submitted(stage: LoopStage, partition: Partition, attributes: int) -> None:
    sent = build_batch([Record(b"tea", None, 1)], producer=Producer(7, 0, 0), attributes=attributes)
    heard = Heard(sent)

    assert not partition.gather(parse_header(sent), memoryview(sent), heard)
    stage.answer()
    assert heard.said == []


# --- order


def test_what_is_gathered_and_what_is_submitted_keep_their_order(stage: LoopStage, partition: Partition) -> None:
    open_one = partition.submit(in_transaction(5, 0))
    other = partition.submit(in_transaction(6, 0))
    before = gather(partition, of(7, 0), batch(b"milk", b"sugar"))
    submitted = partition.submit(of(7, 1))
    between = gather(partition, of(7, 2))
    own = partition.submit_own([Record(b"own", None, 1)])
    behind = gather(partition, of(7, 3))
    marker = partition.submit_marker(5, 0, committed=True, coordinator_epoch=0)
    last = gather(partition, of(7, 4), batch(b"end"))
    stage.answer()

    offsets = [append.result(0).base_offset for append in (open_one, other, submitted, own, marker)]
    assert offsets == [1, 2, 6, 8, 10]
    assert [each.offset for each in (*before, *between, *behind, *last)] == [3, 4, 7, 9, 11, 12]
    assert [record.offset for record in partition.records()] == [*range(10), 11, 12]
    assert partition.last_stable_offset == 2
    partition.submit_marker(6, 0, committed=False, coordinator_epoch=0)
    stage.answer()
    assert partition.last_stable_offset == partition.end_offset == 14
    assert [(each.first_offset, each.producer_id) for each in partition.aborted(0, 14)] == [(2, 6)]


def test_a_marker_is_synced_at_once_in_a_relaxed_topic_and_what_comes_after_it_is_not(stage: LoopStage) -> None:
    partition = stage.partition_with_a_record(flush_messages=1_000)
    gather(partition, batch(b"tea"))
    partition.submit_marker(5, 0, committed=True, coordinator_epoch=0)
    stage.answer()
    assert partition.synced_offset == 3

    (heard,) = gather(partition, batch(b"tea"))
    stage.loop.turn_until_idle()
    assert heard.said == ["tell"]
    assert partition.synced_offset == 3


def test_a_round_after_one_with_a_marker_lets_its_waiters_get_ready(stage: LoopStage, partition: Partition) -> None:
    (first,) = gather(partition, batch(b"tea"))
    partition.submit_marker(5, 0, committed=True, coordinator_epoch=0)
    stage.answer()
    (second,) = gather(partition, batch(b"tea"))
    stage.loop.turn_until_idle()

    assert partition._writer._shown is not None
    stage.answer()
    assert (first.said, second.said) == (["expect", "tell"], ["expect", "tell"])
    assert (first.offset, second.offset, partition.end_offset) == (1, 3, 4)


def test_an_append_that_waits_takes_along_what_was_gathered_before(stage: LoopStage, partition: Partition) -> None:
    (heard,) = gather(partition, batch(b"tea"))

    assert partition.append_batch(batch(b"milk")).base_offset == 2
    assert heard.offset == 1
    assert heard.said == ["tell"]


# --- refusals in the middle of a round


def changed(sent: bytes) -> bytes:
    return sent[:-1] + bytes([sent[-1] ^ 0xFF])


def claiming(count: int, *, delta: int | None = None) -> bytes:
    """A batch that says that it has so many records."""
    data = build_batch([Record(b"tea", None, 1)])
    delta = count - 1 if delta is None else delta
    return _checksummed(parse_header(data)._replace(last_offset_delta=delta, count=count), data[HEADER_SIZE:])


REFUSED = {
    "a changed byte": changed(batch(b"tea")),
    "more bytes than the batch has": batch(b"tea") + b"more",
    "fewer offsets than records": claiming(2, delta=0),
    "more offsets than records": claiming(1, delta=5),
    "no records": claiming(0, delta=0),
    "another base offset": build_batch([Record(b"tea", None, 1)], base_offset=3),
    "a sequence too far": of(7, 9),
    "a stale epoch": of(8, 1, epoch=1),
    "a producer without an epoch": of(9, 0, epoch=-1),
    "too large": batch(bytes(2_000)),
}


@pytest.mark.parametrize("is_thread_s", [False, True], ids=["by the loop", "one by one"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_takes_no_offset_from_the_others(stage: LoopStage, case: str, is_thread_s: bool) -> None:
    partition = stage.partition_with_a_record()
    partition.append_batch(of(8, 0, epoch=2))
    partition.settings = TopicSettings(max_message_bytes=1_000)
    good, bad, fine, numbered, fair = gather(
        partition, of(7, 0, b"a"), REFUSED[case], batch(b"b", b"c"), of(7, 1, b"d"), batch(b"e")
    )
    if is_thread_s:
        stage.log.commit()
    stage.answer()

    assert (bad.said, bad.told) == (["refuse"], None)
    assert [each.offset for each in (good, fine, numbered, fair)] == [2, 3, 5, 6]
    assert values(partition)[2:] == [b"a", b"b", b"c", b"d", b"e"]
    with pytest.raises(RunnelError):
        partition.submit(bad.sent)


def test_a_round_of_which_all_is_refused_writes_nothing(stage: LoopStage, partition: Partition) -> None:
    writes = stage.count("write")
    heard = gather(partition, *[changed(batch(b"tea"))] * 3)
    stage.answer()

    assert [each.said for each in heard] == [["refuse"]] * 3
    assert stage.count("write") == writes
    assert partition.append_batch(batch(b"tea")).base_offset == 1


def test_a_refused_batch_before_a_submitted_one_does_not_concern_that(stage: LoopStage, partition: Partition) -> None:
    bad, good = gather(partition, changed(batch(b"tea")), batch(b"milk"))
    append = partition.submit(batch(b"sugar"))

    assert (bad.said, good.said) == (["refuse"], [])
    stage.answer()
    assert (good.offset, append.result(0).base_offset) == (1, 2)


def test_a_submitted_batch_that_is_refused_leaves_alone_what_was_gathered(
    stage: LoopStage, partition: Partition
) -> None:
    (heard,) = gather(partition, of(7, 0))
    with pytest.raises(InvalidBatch):
        partition.submit(changed(batch(b"tea")))
    with pytest.raises(RunnelError):
        partition.submit(of(7, 5))
    stage.answer()

    assert heard.offset == 1


def test_offsets_that_no_batch_has_make_no_room_for_others(stage: LoopStage, partition: Partition) -> None:
    """A segment's index counts from its base offset, in 31 bits."""
    bad = Heard(claiming(1, delta=-(2**31)))
    assert not partition.gather(parse_header(bad.sent), memoryview(bad.sent), bad)
    large, small = gather(partition, claiming(2**31 - 1), batch(b"tea"))
    stage.answer()
    stage.log.commit()

    assert (bad.said, large.offset, small.offset) == ([], 1, 2**31)
    assert partition._writer.segments.base_offsets == [0, 2**31]


@pytest.mark.parametrize("is_thread_s", [False, True], ids=["by the loop", "one by one"])
def test_what_repeats_another_one_is_told_where_that_stands(stage: LoopStage, is_thread_s: bool) -> None:
    partition = stage.partition_with_a_record()
    partition.append_batch(of(7, 0, b"a", b"b"))
    size = partition.size
    sent = [of(7, 0, b"a", b"b"), batch(b"x"), of(7, 2, b"c"), of(7, 2, b"c"), of(8, 0, b"d"), of(8, 0, b"d")]
    heard = gather(partition, *sent)
    if is_thread_s:
        stage.log.commit()
    else:
        stage.loop.turn_until_idle()
        assert [each.said for each in heard] == [["expect"]] * 6, "the first ones are not durable yet"
    stage.answer()

    assert [each.offset for each in heard] == [1, 3, 4, 4, 5, 5]
    assert all(each.expected in (None, each.told) for each in heard)
    assert values(partition)[1:] == [b"a", b"b", b"x", b"c", b"d"]
    assert partition.size == size + len(sent[1]) + len(sent[2]) + len(sent[4])


def test_a_round_of_which_all_repeats_others_is_told_without_a_write(stage: LoopStage, partition: Partition) -> None:
    partition.append_batch(of(7, 0))
    writes = stage.count("write")
    heard = gather(partition, of(7, 0), of(7, 0))
    stage.answer()

    assert [each.offset for each in heard] == [1, 1]
    assert stage.count("write") == writes


def test_while_the_disk_is_low_what_is_too_large_is_refused_and_the_rest_is_taken() -> None:
    stage = LoopStage(low_disk_bytes=10_000)
    partition = stage.partition_with_a_record()
    partition.submit_own([Record(b"own")])
    stage.log.commit()
    stage.files.capacity = stage.files.used + 12_000
    stage.log._home._room = 0
    small, large, other = gather(partition, batch(b"a"), batch(bytes(3_000)), batch(b"b"))
    stage.answer()
    assert [each.said for each in (small, large, other)] == [[], [], []], "it is the thread's"
    stage.log.commit()

    assert (small.offset, large.said, other.offset) == (2, ["refuse"], 3)


def test_where_there_is_room_the_loop_takes_it() -> None:
    stage = LoopStage(low_disk_bytes=10_000)
    partition = stage.partition_with_a_record()
    stage.files.capacity = stage.files.used + 30_000
    stage.log._home._room = 0
    heard = gather(partition, batch(b"a"), batch(b"b"))
    stage.answer()

    assert [each.offset for each in heard] == [1, 2]


# --- the fate of a round


def assert_lost(heard: list[Heard], kind: type[RunnelError], *, expected: bool) -> None:
    assert [each.said for each in heard] == [["expect", "tell"] if expected else ["tell"]] * len(heard)
    assert all(isinstance(each.error, kind) for each in heard)


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_what_the_disk_loses_is_told_to_all_and_is_not_seen(stage: LoopStage, operation: str) -> None:
    partition, well = stage.partition_with_a_record("ill"), stage.partition_with_a_record("well")
    first = gather(partition, of(7, 0), of(7, 0), batch(b"milk"))
    (other,) = gather(well, batch(b"tea"))
    stage.files.fail(operation, "ill-0/0", errno.EIO)
    stage.loop.turn()
    if operation == "sync":
        late = gather(partition, of(7, 1))
        stage.answer()
        assert_lost(late, PartitionFailed, expected=False)
    stage.answer()

    assert_lost(first, PartitionFailed, expected=operation == "sync")
    assert other.offset == 1
    assert (partition.end_offset, len(values(partition))) == (1, 1)
    (refused,) = [Heard(batch(b"tea"))]
    assert not partition.gather(parse_header(refused.sent), memoryview(refused.sent), refused)
    assert partition.heal()
    assert partition.producers() == {}
    again = gather(partition, of(7, 0, b"again"), batch(b"milk"))
    stage.log.commit()
    assert [each.offset for each in again] == [1, 2]
    assert values(partition)[1:] == [b"again", b"milk"]


def test_after_a_failure_a_round_shows_nothing_of_the_one_before(stage: LoopStage, partition: Partition) -> None:
    gather(partition, batch(bytes(500)), batch(bytes(500)))
    stage.files.fail("sync", "orders-0/0", errno.EIO)
    stage.answer()
    assert partition.heal()
    stage.log.commit()
    gather(partition, batch(b"a"))
    stage.log.commit()
    (second,) = gather(partition, batch(b"b"))
    stage.answer()

    assert second.said == ["expect", "tell"]
    assert (second.offset, partition.end_offset) == (2, 3)
    assert values(partition)[1:] == [b"a", b"b"]


@pytest.mark.parametrize("ends", ["stop", "abandon"])
def test_a_partition_that_ends_before_the_round_tells_all(stage: LoopStage, partition: Partition, ends: str) -> None:
    submitted = partition.submit(batch(b"milk"))
    heard = gather(partition, of(7, 0), batch(b"tea"))
    getattr(partition._writer, ends)()
    stage.answer()

    assert_lost(heard, Closed, expected=False)
    assert [each.told for each in heard] == [(-1, NO_TIME)] * 2
    assert isinstance(submitted.error, Closed)
    late = Heard(batch(b"tea"))
    assert not partition.gather(parse_header(late.sent), memoryview(late.sent), late)
    stage.answer()
    assert late.said == []


def test_a_partition_that_is_deleted_during_the_sync_tells_all_once(stage: LoopStage, partition: Partition) -> None:
    heard = gather(partition, of(7, 0), batch(b"tea"))
    append = partition.submit(batch(b"milk"))
    stage.loop.turn_until_idle()
    late = gather(partition, batch(b"sugar"))
    partition.refuse_writes()
    assert_lost(late, Closed, expected=False)
    stage.answer()

    assert [each.said for each in heard] == [["expect", "tell"]] * 2
    assert {type(each.error) for each in heard} == {type(append.error)}


def test_a_log_that_closes_commits_what_was_gathered(stage: LoopStage, partition: Partition) -> None:
    first = gather(partition, batch(b"a"))
    stage.loop.turn_until_idle()
    second = gather(partition, batch(b"b"), changed(batch(b"c")))
    stage.log.close()

    assert (first[0].offset, second[0].offset, second[1].said) == (1, 2, ["refuse"])
    stage.log = stage.open()
    assert values(stage.partition())[1:] == [b"a", b"b"]


def test_who_is_told_is_let_get_ready_first_and_in_the_loop_s_thread_alone(
    stage: LoopStage, partition: Partition
) -> None:
    (by_loop,) = gather(partition, batch(b"a"))
    stage.answer()
    (by_other,) = gather(partition, batch(b"b"))
    thread = threading.Thread(target=stage.log.commit)
    thread.start()
    thread.join(PATIENCE)

    assert by_loop.said == ["expect", "tell"]
    assert by_loop.threads["expect"] == threading.get_ident()
    assert by_other.said == ["tell"]
    assert by_other.offset == 2


def test_a_submitted_batch_lets_its_waiter_get_ready_too(stage: LoopStage, partition: Partition) -> None:
    heard = Heard()
    partition.submit(batch(b"tea"), told=heard)
    stage.answer()

    assert heard.said == ["expect", "tell"]
    assert heard.expected == heard.told == (1, NO_TIME)


@pytest.mark.parametrize("fails_at", ["expect", "tell"])
def test_a_defect_of_one_who_is_told_concerns_no_other(
    stage: LoopStage, partition: Partition, fails_at: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard = [Heard(batch(b"a")), Heard(batch(b"b"), fails_at=fails_at), Heard(of(7, 0)), Heard(of(7, 0))]
    for each in heard:
        gather_for(partition, each)
    submitted = Heard(fails_at=fails_at)
    partition.submit(batch(b"c"), told=submitted)
    with caplog.at_level(logging.ERROR):
        stage.answer()

    assert [each.said for each in (*heard, submitted)] == [["expect", "tell"]] * 5
    assert [each.offset for each in (*heard, submitted)] == [1, 2, 3, 3, 4]
    assert caplog.text.count("RuntimeError: a defect") == 2
    assert partition.end_offset == 5


@pytest.mark.parametrize("is_thread_s", [False, True], ids=["by the loop", "one by one"])
def test_a_defect_of_one_who_is_refused_concerns_no_other(
    stage: LoopStage, partition: Partition, is_thread_s: bool, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = Heard(batch(b"a")), Heard(batch(b"b"))
    ill = Heard(changed(batch(b"x")), fails_at="refuse")
    for each in (first, ill, second):
        gather_for(partition, each)
    with caplog.at_level(logging.ERROR):
        if is_thread_s:
            stage.log.commit()
        stage.answer()

    assert (first.offset, ill.said, second.offset) == (1, ["refuse"], 2)
    assert caplog.text.count("RuntimeError: a defect") == 1


# --- settings that change before the round


def test_what_was_gathered_is_compressed_as_the_settings_say_by_then(stage: LoopStage, partition: Partition) -> None:
    heard = gather(partition, batch(b"tea" * 100), of(7, 0, b"milk" * 100), changed(batch(b"x")))
    partition.settings = TopicSettings(compression_type="zstd")
    stage.answer()
    assert [each.said for each in heard] == [[], [], []], "it is the thread's"
    stage.log.commit()

    assert [each.offset for each in heard[:2]] == [1, 2]
    assert heard[2].said == ["refuse"]
    assert [parse_header(partition.read(offset, 1).data).codec for offset in (1, 2)] == [Codec.ZSTD] * 2
    assert values(partition)[1:] == [b"tea" * 100, b"milk" * 100]


def test_what_was_gathered_gets_the_log_s_time_as_the_settings_say_by_then(
    stage: LoopStage, partition: Partition
) -> None:
    heard = gather(partition, batch(b"tea", timestamp=5), of(7, 0, b"milk"))
    partition.settings = TopicSettings(message_timestamp_type="LogAppendTime")
    append = partition.submit(batch(b"sugar", timestamp=5))
    stage.log.commit()

    now = stage.clock.now()
    assert [each.told for each in heard] == [(1, now), (2, now)]
    assert append.outcome == (3, now, None)
    assert [record.timestamp for record in partition.records()][1:] == [now] * 3


def test_what_was_gathered_is_checked_by_the_limits_that_hold_by_then(stage: LoopStage, partition: Partition) -> None:
    large, small = gather(partition, batch(bytes(2_000)), batch(b"tea"))
    partition.settings = TopicSettings(max_message_bytes=1_000)
    stage.answer()

    assert (large.said, small.offset) == (["refuse"], 1)


# --- rounds that are not the loop's


@pytest.mark.parametrize("way", ["commit", "append", "roll"])
def test_a_round_of_another_thread_takes_what_was_gathered(stage: LoopStage, partition: Partition, way: str) -> None:
    heard = gather(partition, of(7, 0), of(7, 0), changed(batch(b"x")), batch(b"tea"))
    own: list[object] = []
    work = {
        "commit": stage.log.commit,
        "append": lambda: own.append(partition.append_batch(batch(b"own")).base_offset),
        "roll": partition.roll,
    }[way]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE)
    stage.log.commit()
    stage.answer()

    assert [each.offset for each in (heard[0], heard[1], heard[3])] == [1, 1, 2]
    assert heard[2].said == ["refuse"]
    assert own in ([], [3])
    assert values(partition)[1:3] == [b"tea", b"tea"]


def left_to_the_thread(stage: LoopStage, partition: Partition, *sent: bytes) -> list[int]:
    """Here nothing runs in the background, so it waits until `commit`."""
    heard = gather(partition, *sent)
    writes = stage.count("write")
    stage.answer()
    assert ([each.said for each in heard], stage.count("write")) == ([[]] * len(heard), writes)
    stage.log.commit()
    assert [each.said for each in heard] == [["tell"]] * len(heard)
    return [each.offset for each in heard]


def test_what_would_roll_by_size_is_left_to_the_thread_and_fills_each_segment(stage: LoopStage) -> None:
    partition = stage.partition_with_a_record(segment_bytes=1_200)

    assert left_to_the_thread(stage, partition, *[batch(bytes(400))] * 5) == [1, 2, 3, 4, 5]
    assert partition._writer.segments.base_offsets == [0, 3, 5]


def test_what_would_roll_by_time_is_left_to_the_thread(stage: LoopStage) -> None:
    partition = stage.partition_with_a_record(segment_ms=1_000)
    stage.clock.advance(1_000)

    assert left_to_the_thread(stage, partition, batch(b"a"), batch(b"b")) == [1, 2]
    assert partition._writer.segments.base_offsets == [0, 1]


def test_a_file_that_is_not_open_is_left_to_the_thread(stage: LoopStage, partition: Partition) -> None:
    stage.log._home.open_files.forget_folder("/data/orders-0")

    assert left_to_the_thread(stage, partition, batch(b"a"), of(7, 0)) == [1, 2]


def test_the_first_batches_of_an_epoch_are_left_to_the_thread(stage: LoopStage) -> None:
    assert left_to_the_thread(stage, stage.partition(), batch(b"a"), batch(b"b")) == [0, 1]


def test_a_large_round_that_was_accepted_already_is_left_to_the_thread_as_it_is(stage: LoopStage) -> None:
    partition = stage.partition_with_a_record(max_message_bytes=2 * MOST_BYTES)
    size = MOST_BYTES // 2 + 1_000

    assert left_to_the_thread(stage, partition, batch(b"a"), batch(bytes(size)), of(7, 0, bytes(size))) == [1, 2, 3]
    (last,) = gather(partition, of(7, 1))
    stage.answer()
    assert last.offset == 4
    assert len(values(partition)) == 5


def test_a_round_that_another_partition_keeps_from_the_loop_is_put_back_whole(stage: LoopStage) -> None:
    """What is submitted and gathered meanwhile comes behind it."""
    partition, new = stage.partition_with_a_record(), stage.partition("new")
    heard = gather(partition, of(7, 0), of(7, 0), batch(b"tea"))
    (other,) = gather(new, batch(b"tea"))
    stage.answer()
    assert [each.said for each in (*heard, other)] == [[]] * 4
    late = gather(partition, of(7, 1))
    append = partition.submit(of(7, 2))
    later = gather(partition, of(7, 2), of(7, 3))
    stage.log.commit()

    assert [each.offset for each in (*heard, other, *late, *later)] == [1, 1, 2, 0, 3, 4, 5]
    assert append.result(0).base_offset == 4


def test_a_round_that_was_put_back_may_roll_and_fits_the_index_of_its_segment(stage: LoopStage) -> None:
    partition, new = stage.partition_with_a_record(), stage.partition("new")
    heard = gather(partition, batch(b"a"), claiming(2**31 - 10), batch(b"b"))
    gather(new, batch(b"tea"))
    stage.answer()
    stage.clock.advance(partition.settings.segment_ms)
    stage.log.commit()

    assert [each.offset for each in heard] == [1, 2, 2**31 - 8]
    assert partition._writer.segments.base_offsets == [0, 1]


def test_what_is_put_back_stands_before_what_came_meanwhile(stage: LoopStage, partition: Partition) -> None:
    heard = gather(partition, of(7, 0), batch(b"a"))
    writer = partition._writer
    assert writer.prepare(stage.held.given) == sum(len(each.sent) for each in heard)
    append = partition.submit(of(7, 1))
    writer.put_back()
    stage.log.commit()

    assert ([each.offset for each in heard], append.result(0).base_offset) == ([1, 2], 3)
