import struct

import pytest
from crc32c import crc32c

from runnel.errors import CorruptBatch, InvalidTransactionState, OutOfOrderSequence, StaleProducerEpoch
from runnel.log.producers import Producers, Remembered
from runnel.records import CONTROL, SEQUENCES, TRANSACTIONAL, BatchHeader, Producer, Record, build_batch, parse_header
from tests.unit.log.stage import Stage, batch

PRODUCER = 7
LAST = SEQUENCES - 1
SEEN = 5_000  # by the log's clock


def header(sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0, attributes: int = 0) -> BatchHeader:
    records = [Record(b"tea", None, 1_000)] * count
    producer = Producer(PRODUCER, epoch, sequence)
    return parse_header(build_batch(records, base_offset=offset, producer=producer, attributes=attributes))


def producers_after(*headers: BatchHeader) -> Producers:
    producers = Producers()
    for known in headers:
        producers.replay(known, SEEN)
    return producers


def sent(count: int) -> list[BatchHeader]:
    """So many batches of two records, one after the other."""
    return [header(2 * number, 2, offset=2 * number) for number in range(count)]


# --- which batch may come next


def test_an_unknown_producer_may_begin_anywhere() -> None:
    producers_after().check(header(1_234, epoch=5))


def test_the_next_sequence_follows_the_last_record_of_the_last_batch() -> None:
    producers = producers_after(header(0, 3))

    producers.check(header(3))
    with pytest.raises(OutOfOrderSequence) as refused:
        producers.check(header(4))
    error = refused.value
    assert (error.producer_id, error.epoch, error.sequence, error.expected) == (PRODUCER, 0, 4, 3)


def test_a_batch_that_was_sent_before_the_last_one_is_out_of_order() -> None:
    with pytest.raises(OutOfOrderSequence):
        producers_after(header(0, 3)).check(header(0, 2))


def test_sequences_begin_again_after_the_largest_one() -> None:
    producers_after(header(LAST)).check(header(0))


def test_a_batch_may_cross_the_largest_sequence() -> None:
    crossing = header(LAST - 1, 5)
    producers = producers_after(header(LAST - 2), crossing)

    assert crossing.last_sequence == 2
    producers.check(header(3))
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(LAST))


def test_a_batch_across_the_largest_sequence_is_known_when_it_comes_again() -> None:
    producers = producers_after(header(LAST - 1, 5, offset=40))

    duplicate = producers.duplicate_of(header(LAST - 1, 5))

    assert duplicate is not None
    assert (duplicate.base_offset, duplicate.last_offset, duplicate.first_sequence) == (40, 44, LAST - 1)


def test_a_new_epoch_begins_with_sequence_zero() -> None:
    producers = producers_after(header(0, 3))

    producers.check(header(0, epoch=1))
    with pytest.raises(OutOfOrderSequence) as refused:
        producers.check(header(3, epoch=1))
    assert refused.value.expected == 0


def test_an_epoch_that_is_over_is_refused() -> None:
    with pytest.raises(StaleProducerEpoch) as refused:
        producers_after(header(0, epoch=3)).check(header(1, epoch=2))
    error = refused.value
    assert (error.producer_id, error.epoch, error.current) == (PRODUCER, 2, 3)


def test_an_epoch_that_is_over_is_refused_whatever_its_sequence() -> None:
    with pytest.raises(StaleProducerEpoch):
        producers_after(header(0, epoch=3)).check(header(0, epoch=2))


def test_a_batch_is_the_next_one_if_it_follows_the_last_one() -> None:
    producers = producers_after(header(0, 3))

    assert producers.is_next(header(3))
    assert producers_after(header(LAST)).is_next(header(0))


@pytest.mark.parametrize(
    "other",
    [header(0, 3), header(2), header(4), header(-1), header(3, epoch=1), header(0, epoch=1)],
    ids=["the last one again", "a part of it", "with a gap", "without a sequence", "a newer epoch", "its first one"],
)
def test_what_has_to_be_looked_at_is_not_just_the_next_one(other: BatchHeader) -> None:
    assert not producers_after(header(0, 3)).is_next(other)


def test_nothing_is_the_next_batch_of_a_producer_that_is_unknown_or_has_sent_none() -> None:
    marked = producers_after(header(0, attributes=TRANSACTIONAL | CONTROL))

    assert not producers_after().is_next(header(0))
    assert not marked.is_next(header(0))


def test_a_batch_outside_of_the_open_transaction_is_not_just_the_next_one() -> None:
    producers = producers_after(header(0, attributes=TRANSACTIONAL))

    assert producers.is_next(header(1, attributes=TRANSACTIONAL))
    assert not producers.is_next(header(1))
    with pytest.raises(InvalidTransactionState):
        producers.check(header(1))


# --- duplicates


@pytest.mark.parametrize("number", range(5))
def test_each_of_the_last_five_batches_is_known_again(number: int) -> None:
    batches = sent(7)

    duplicate = producers_after(*batches).duplicate_of(batches[2 + number])

    assert duplicate == Remembered(2 * number + 5, 2 * number + 5, 1, 1_000)


def test_a_batch_before_the_last_five_is_out_of_order() -> None:
    batches = sent(6)
    producers = producers_after(*batches)

    assert producers.duplicate_of(batches[0]) is None
    with pytest.raises(OutOfOrderSequence):
        producers.check(batches[0])


@pytest.mark.parametrize("again", [header(2, 1), header(2, 3), header(1, 2), header(3, 2)])
def test_a_batch_with_other_sequences_is_no_duplicate(again: BatchHeader) -> None:
    assert producers_after(*sent(3)).duplicate_of(again) is None


def test_a_batch_of_another_epoch_is_no_duplicate() -> None:
    assert producers_after(header(0)).duplicate_of(header(0, epoch=1)) is None


def test_a_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    producers = producers_after(header(0), header(0, epoch=1))

    assert producers.duplicate_of(header(0)) is None


def test_a_batch_without_a_producer_is_not_remembered() -> None:
    assert len(producers_after(parse_header(build_batch([Record(b"tea")])))) == 0


def test_a_copy_goes_its_own_way() -> None:
    original = producers_after(header(0))
    copy = original.copy()
    copy.replay(header(1), SEEN)

    original.check(header(1))
    copy.check(header(2))


# --- transactions


def test_an_open_transaction_is_remembered_until_its_marker() -> None:
    first, second = (header(number, offset=10 + number, attributes=TRANSACTIONAL) for number in range(2))
    producers = producers_after(first, second)
    state = producers.get(PRODUCER)
    assert state is not None
    assert state.transaction_start == 10

    producers.replay(header(-1, offset=12, attributes=TRANSACTIONAL | CONTROL), SEEN)

    assert state.transaction_start == -1
    producers.check(header(2))


def test_a_marker_of_a_newer_epoch_begins_the_sequences_anew() -> None:
    producers = producers_after(header(0), header(-1, epoch=1, attributes=TRANSACTIONAL | CONTROL))

    producers.check(header(0, epoch=1))
    with pytest.raises(StaleProducerEpoch):
        producers.check(header(1))


# --- expiry


def test_a_producer_that_was_silent_for_long_is_forgotten() -> None:
    producers = producers_after(header(0))

    assert producers.expire(before=SEEN + 1) == 1
    producers.check(header(99))


def test_a_producer_that_wrote_lately_is_kept() -> None:
    producers = producers_after(header(0))

    assert producers.expire(before=SEEN) == 0
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(99))


def test_a_producer_with_an_open_transaction_is_kept() -> None:
    assert producers_after(header(0, attributes=TRANSACTIONAL)).expire(before=10**15) == 0


# --- snapshots


def states(producers: Producers) -> list[object]:
    state = producers.get(PRODUCER)
    assert state is not None
    return [
        state.epoch,
        state.batches,
        state.last_timestamp,
        state.last_seen,
        state.coordinator_epoch,
        state.transaction_start,
    ]


@pytest.mark.parametrize("count", range(1, 8))
def test_a_snapshot_keeps_all_that_is_remembered(count: int) -> None:
    producers = producers_after(*sent(count))

    assert states(Producers.decode(producers.encode())) == states(producers)


def test_a_snapshot_keeps_an_open_transaction() -> None:
    producers = producers_after(header(0, offset=10, attributes=TRANSACTIONAL))

    assert states(Producers.decode(producers.encode())) == states(producers)


def test_a_snapshot_keeps_a_producer_that_has_only_a_marker() -> None:
    producers = producers_after(header(-1, epoch=2, attributes=TRANSACTIONAL | CONTROL))

    assert states(Producers.decode(producers.encode())) == states(producers)


def test_a_snapshot_of_nobody_is_empty() -> None:
    assert len(Producers.decode(Producers().encode())) == 0


def test_a_snapshot_begins_as_kafkas_do() -> None:
    content = producers_after(*sent(3)).encode()

    assert struct.unpack_from(">h", content) == (1,)
    assert struct.unpack_from(">I", content, 2) == (crc32c(content[6:]),)
    assert struct.unpack_from(">iqhiqiqiq", content, 6) == (1, PRODUCER, 0, 5, 5, 1, 1_000, -1, -1)


def test_a_snapshot_that_kafka_wrote_is_read() -> None:
    entries = struct.pack(">i", 2)
    entries += struct.pack(">qhiqiqiq", PRODUCER, 3, 11, 41, 1, 2_000, 5, -1)
    entries += struct.pack(">qhiqiqiq", 8, 0, -1, -1, 0, 1_000, -1, 17)
    producers = Producers.decode(struct.pack(">hI", 1, crc32c(entries)) + entries)

    assert states(producers) == [3, [Remembered(11, 41, 1, 2_000)], 2_000, 2_000, 5, -1]
    silent = producers.get(8)
    assert silent is not None
    assert (silent.batches, silent.transaction_start) == ([], 17)
    producers.check(header(12, epoch=3))


@pytest.mark.parametrize("position", [0, 3, 10, -1])
def test_a_snapshot_with_a_changed_byte_is_refused(position: int) -> None:
    content = bytearray(producers_after(*sent(3)).encode())
    content[position] ^= 1

    with pytest.raises(CorruptBatch, match="producer snapshot"):
        Producers.decode(bytes(content))


@pytest.mark.parametrize("size", [0, 5, 6, 9, 40])
def test_a_snapshot_that_ends_too_early_is_refused(size: int) -> None:
    with pytest.raises(CorruptBatch, match="producer snapshot"):
        Producers.decode(producers_after(*sent(3)).encode()[:size])


def test_a_snapshot_that_speaks_of_more_than_it_holds_is_refused() -> None:
    entries = struct.pack(">i", 3)
    with pytest.raises(CorruptBatch, match="producer snapshot of 10 bytes"):
        Producers.decode(struct.pack(">hI", 1, crc32c(entries)) + entries)


# --- over a restart


@pytest.mark.parametrize("stop", ["stop_and_start", "kill", "lose_power"])
@pytest.mark.parametrize("checkpoint", [True, False])
def test_the_last_five_batches_are_known_again_after_a_restart(stop: str, checkpoint: bool) -> None:
    stage = Stage()
    batches = [batch(b"a", b"b", producer=Producer(PRODUCER, 0, 2 * number)) for number in range(8)]
    for data in batches[:6]:
        stage.partition().append_batch(data)
    if checkpoint:
        stage.log.checkpoint()
    for data in batches[6:]:
        stage.partition().append_batch(data)
    getattr(stage, stop)()

    again = [stage.partition().append_batch(data) for data in batches[3:]]

    assert [(appended.base_offset, appended.duplicate) for appended in again] == [(2 * n, True) for n in range(3, 8)]
    assert stage.partition().end_offset == 16


def test_a_duplicate_is_answered_with_the_time_of_the_first_one() -> None:
    stage = Stage()
    partition = stage.partition()
    data = batch(b"tea", timestamp=123, producer=Producer(PRODUCER, 0, 0))
    first = partition.append_batch(data)

    assert partition.append_batch(data) == first._replace(duplicate=True)


def test_a_batch_that_the_disk_lost_can_be_sent_again() -> None:
    stage = Stage(retry_after_failure_ms=0)
    partition = stage.partition()
    data = batch(b"tea", producer=Producer(PRODUCER, 0, 0))
    append = partition.submit(data)
    stage.files.fail("sync", ".log")
    stage.log.commit()
    assert append.error is not None

    appended = partition.append_batch(data)

    assert (appended.base_offset, appended.duplicate) == (0, False)


def test_silent_producers_expire_in_the_course_of_maintenance() -> None:
    stage = Stage(producer_expiration_ms=1_000, retention_check_ms=1)
    partition = stage.partition(retention_ms=-1)
    partition.append_batch(batch(b"tea", producer=Producer(PRODUCER, 0, 0)))
    stage.clock.advance(1_001)
    stage.log.maintain()

    assert partition.append_batch(batch(b"tea", producer=Producer(PRODUCER, 0, 50))).base_offset == 1


def test_silent_producers_expire_over_a_restart() -> None:
    stage = Stage(producer_expiration_ms=1_000)
    data = batch(b"tea", producer=Producer(PRODUCER, 0, 0))
    stage.partition().append_batch(data)
    stage.log.close()
    stage.clock.advance(1_001)
    stage.log = stage.open()

    assert not stage.partition().append_batch(data).duplicate


@pytest.mark.parametrize("stop", ["stop_and_start", "kill"])
def test_old_times_in_its_records_do_not_cost_a_producer_its_memory(stop: str) -> None:
    stage = Stage(producer_expiration_ms=1_000)
    data = batch(b"tea", timestamp=5, producer=Producer(PRODUCER, 0, 0))
    stage.partition().append_batch(data)
    getattr(stage, stop)()
    stage.partition().expire_producers()

    assert stage.partition().append_batch(data).duplicate
