import pytest

from runnel.errors import OffsetOutOfRange, PartitionFailed
from runnel.log import Appended, Codec, Record
from runnel.records import parse_header
from runnel.testing import FaultyFiles
from tests.unit.log.stage import DATA, Stage, batch, fill, offsets


def bases(stage: Stage) -> list[int]:
    return sorted(int(name[:20]) for name in stage.files.list(f"{DATA}/orders-0") if name.endswith(".log"))


# --- appending


def test_records_get_consecutive_offsets() -> None:
    partition = Stage().partition()

    first = partition.append([Record(b"tea"), Record(b"milk")])
    second = partition.append([Record(b"sugar")])

    assert (first.base_offset, first.last_offset, second.base_offset) == (0, 1, 2)
    assert partition.end_offset == 3


def test_records_come_back_as_they_were_given() -> None:
    partition = Stage().partition()
    records = [Record(b"tea", b"key", 5, (("kind", b"green"), ("none", None))), Record(None, None, 6)]
    partition.append(records)

    assert list(partition.records()) == [record._replace(offset=number) for number, record in enumerate(records)]


@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_back_from_every_codec(codec: Codec) -> None:
    partition = Stage(tail_cache_bytes=0).partition()
    partition.append([Record(b"tea" * 100, None, 5)] * 3, codec=codec)

    assert [record.value for record in partition.records()] == [b"tea" * 100] * 3


def test_records_without_a_time_get_that_of_the_log() -> None:
    stage = Stage()
    partition = stage.partition()
    appended = partition.append([Record(b"tea"), Record(b"milk", None, 5)])

    assert [record.timestamp for record in partition.records()] == [stage.clock.now(), 5]
    assert appended.timestamp == stage.clock.now()


def test_a_batch_of_a_client_keeps_its_times() -> None:
    partition = Stage().partition()
    appended = partition.append_batch(batch(b"tea", timestamp=5))

    assert appended == Appended(0, 0, 5, 0)


def test_the_log_stamps_all_records_with_its_own_time_if_the_topic_says_so() -> None:
    stage = Stage(tail_cache_bytes=0)
    partition = stage.partition(message_timestamp_type="LogAppendTime")
    appended = partition.append_batch(batch(b"tea", b"milk", timestamp=5))

    assert appended.timestamp == stage.clock.now()
    assert [record.timestamp for record in partition.records()] == [stage.clock.now()] * 2


def test_a_batch_in_the_file_carries_its_offset_and_epoch() -> None:
    stage = Stage()
    stage.kill()
    partition = stage.partition()
    fill(partition, 2)
    header = parse_header(partition.read(1, max_bytes=1).data)

    assert (header.base_offset, header.leader_epoch) == (1, 1)


def test_the_size_is_that_of_all_batches() -> None:
    stage = Stage()
    partition = stage.partition(segment_bytes=1_024)
    fill(partition, 30)
    expected = sum(len(partition.read(offset, max_bytes=1).data) for offset in range(30))

    assert partition.size == expected
    stage.stop_and_start()
    assert stage.partition().size == expected


def test_a_partition_is_shown_with_its_offsets() -> None:
    partition = Stage().partition()
    fill(partition, 5)
    partition.delete_before(2)

    assert repr(partition) == "<Partition orders-0 2..5>"


# --- deleting


def test_records_before_an_offset_are_deleted() -> None:
    partition = Stage().partition()
    fill(partition, 10)

    assert partition.delete_before(4) == 4
    assert offsets(partition) == list(range(4, 10))


def test_whole_segments_go_with_their_records() -> None:
    stage = Stage()
    partition = stage.partition(segment_bytes=1_024)
    fill(partition, 30)
    before = bases(stage)
    partition.delete_before(20)

    assert bases(stage) == [base for number, base in enumerate(before) if [*before, 99][number + 1] > 20]


def test_minus_one_deletes_all() -> None:
    stage = Stage()
    partition = stage.partition(segment_bytes=1_024)
    fill(partition, 30)

    assert partition.delete_before(-1) == 30
    assert offsets(partition) == []
    fill(partition, 1)
    assert offsets(partition) == [30]


@pytest.mark.parametrize("offset", [-2, 11, 10**9])
def test_an_offset_outside_of_the_log_deletes_nothing(offset: int) -> None:
    partition = Stage().partition()
    fill(partition, 10)
    with pytest.raises(OffsetOutOfRange):
        partition.delete_before(offset)

    assert offsets(partition) == list(range(10))


def test_a_start_never_moves_back() -> None:
    partition = Stage().partition()
    fill(partition, 10)
    partition.delete_before(6)

    assert partition.delete_before(3) == 6


@pytest.mark.parametrize("stop", ["stop_and_start", "kill", "lose_power"])
def test_deleted_records_stay_deleted(stop: str) -> None:
    stage = Stage()
    partition = stage.partition(segment_bytes=1_024)
    fill(partition, 30)
    partition.delete_before(17)
    getattr(stage, stop)()

    assert offsets(stage.partition()) == list(range(17, 30))


@pytest.mark.parametrize("seed", range(8))
def test_a_partition_whose_unsynced_records_were_deleted_goes_on_after_a_power_cut(seed: int) -> None:
    stage = Stage(files=FaultyFiles())
    partition = stage.partition(flush_messages=1_000)
    fill(partition, 10)
    partition.delete_before(-1)
    stage.lose_power(seed)
    partition = stage.partition()

    assert partition.start_offset == partition.end_offset == 10
    fill(partition, 1)
    assert offsets(partition) == [10]


def test_nothing_is_deleted_when_what_was_seen_cannot_be_synced() -> None:
    stage = Stage()
    partition = stage.partition(flush_messages=1_000)
    fill(partition, 10)
    stage.log.checkpoint()
    fill(partition, 5)
    stage.files.fail("sync", ".log")
    with pytest.raises(PartitionFailed, match="a sync failed"):
        partition.delete_before(12)
    assert offsets(partition) == list(range(10))


def test_what_waits_is_not_deleted() -> None:
    stage = Stage()
    partition = stage.partition()
    fill(partition, 3)
    waiting = partition.submit(batch(b"3."))
    partition.delete_before(-1)
    stage.log.commit()

    assert waiting.result(timeout=0).base_offset == 3
    assert offsets(partition) == [3]


# --- epochs


def test_epochs_end_where_the_next_one_began() -> None:
    stage = Stage()
    fill(stage.partition(), 5)
    stage.kill()
    fill(stage.partition(), 3)
    stage.kill()
    partition = stage.partition()

    assert partition.leader_epoch == 2
    assert [partition.epoch_end(epoch) for epoch in (0, 1, 2, 9)] == [(0, 5), (1, 8), (1, 8), (1, 8)]


def test_a_clean_stop_begins_no_epoch() -> None:
    stage = Stage()
    fill(stage.partition(), 5)
    stage.stop_and_start()
    fill(stage.partition(), 3)

    assert stage.partition().epoch_end(0) == (0, 8)


def test_epochs_of_deleted_records_are_forgotten() -> None:
    stage = Stage()
    fill(stage.partition(), 5)
    stage.kill()
    fill(stage.partition(), 3)
    stage.partition().delete_before(6)

    assert stage.partition().epoch_end(0) == (0, 6)
    assert stage.partition().epoch_end(1) == (1, 8)


def test_a_reader_of_a_relaxed_topic_can_tell_that_its_records_were_taken_back() -> None:
    stage = Stage(retry_after_failure_ms=0)
    partition = stage.partition(flush_messages=100)
    fill(partition, 5)
    stage.log.checkpoint()
    fill(partition, 3)
    stage.files.fail("sync", ".log")
    stage.log.checkpoint()
    assert partition.failed

    fill(partition, 1)

    assert partition.epoch_end(0) == (0, 5)
    assert partition.leader_epoch == 1


def test_a_batch_that_waited_while_another_partition_healed_belongs_to_its_own_epoch() -> None:
    stage = Stage(retry_after_failure_ms=0)
    ill, partition = stage.partition("ill"), stage.partition()
    fill(partition, 5)
    ill.submit(batch(b"lost"))
    stage.files.fail("sync", "ill-0")
    stage.log.commit()
    waiting = partition.submit(batch(b"5."))
    assert ill.heal()
    stage.log.commit()

    assert parse_header(partition.read(5).data).leader_epoch == waiting.appended.leader_epoch
    assert partition.epoch_end(waiting.appended.leader_epoch).offset == 6
