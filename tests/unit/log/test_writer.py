import errno
import logging
import struct

import pytest

from runnel.errors import DamagedLog, InvalidBatch, PartitionFailed
from runnel.log import TopicSettings
from runnel.records import Codec, Producer, Record, build_batch, parse_header
from runnel.records.batch import HEADER_SIZE, _checksummed
from tests.unit.log.stage import DATA, Stage, batch, fill, offsets


def bases(stage: Stage) -> list[int]:
    return sorted(int(name[:20]) for name in stage.files.list(f"{DATA}/orders-0") if name.endswith(".log"))


def fail_a_commit(stage: Stage, operation: str = "sync", error: int = errno.EIO) -> PartitionFailed:
    """One append meets a failing disk; the answer is its error."""
    append = stage.partition().submit(batch(b"lost"))
    stage.files.fail(operation, ".log", error)
    stage.log.commit()
    assert isinstance(append.error, PartitionFailed)
    return append.error


# --- rolling


def test_a_segment_is_full_when_the_next_batch_would_not_fit() -> None:
    stage = Stage()
    size = len(batch(b"." * 400))
    partition = stage.partition(segment_bytes=3 * size)
    for _ in range(7):
        partition.append_batch(batch(b"." * 400))

    assert bases(stage) == [0, 3, 6]


def test_a_round_may_fill_several_segments() -> None:
    stage = Stage()
    partition = stage.partition(segment_bytes=1_024)
    appends = [partition.submit(batch(b"%d." % number + b"." * 400)) for number in range(9)]
    stage.log.commit()

    assert [append.result(timeout=0).base_offset for append in appends] == list(range(9))
    assert len(bases(stage)) == 5
    assert offsets(partition) == list(range(9))


def test_a_segment_is_rolled_when_it_is_as_old_as_allowed() -> None:
    stage = Stage()
    partition = stage.partition(segment_ms=10_000)
    fill(partition, 1)
    stage.clock.advance(9_999)
    fill(partition, 1)
    assert bases(stage) == [0]

    stage.clock.advance(1)
    fill(partition, 1)

    assert bases(stage) == [0, 2]


def test_maintenance_rolls_an_old_segment() -> None:
    stage = Stage()
    partition = stage.partition(segment_ms=10_000)
    fill(partition, 1)
    stage.clock.advance(10_000)
    stage.log.maintain()

    assert bases(stage) == [0, 1]


def test_an_empty_segment_is_not_rolled() -> None:
    stage = Stage()
    partition = stage.partition(segment_ms=10_000)
    stage.clock.advance(10**9)
    stage.log.maintain()
    partition.roll()

    assert bases(stage) == [0]


def test_the_age_of_a_segment_counts_from_its_first_batch() -> None:
    stage = Stage()
    partition = stage.partition(segment_ms=10_000)
    stage.clock.advance(60_000)
    fill(partition, 1)
    stage.clock.advance(9_999)
    fill(partition, 1)
    stage.log.maintain()

    assert bases(stage) == [0]


def test_the_age_of_a_segment_is_known_after_a_restart() -> None:
    stage = Stage()
    fill(stage.partition(segment_ms=10_000), 1)
    stage.clock.advance(9_000)
    stage.stop_and_start()
    partition = stage.partition(segment_ms=10_000)
    stage.clock.advance(1_000)
    fill(partition, 1)

    assert bases(stage) == [0, 1]


def test_jitter_rolls_some_segments_earlier_and_none_later() -> None:
    ages: set[int] = set()
    for number in range(20):
        stage = Stage()
        stage.log._home.chance.seed(number)
        partition = stage.partition(segment_ms=10_000, segment_jitter_ms=4_000)
        fill(partition, 1)
        for age in range(0, 10_001, 500):
            partition.roll_if_due()
            if len(bases(stage)) > 1:
                ages.add(age)
                break
            stage.clock.advance(500)

    assert len(ages) > 3
    assert min(ages) >= 6_000
    assert max(ages) <= 10_000


def test_no_jitter_is_longer_than_the_time_of_a_segment() -> None:
    for number in range(20):
        stage = Stage()
        stage.log._home.chance.seed(number)
        partition = stage.partition(segment_ms=10_000, segment_jitter_ms=2**60)
        fill(partition, 1)
        partition.roll_if_due()

        assert bases(stage) == [0]


def test_a_segment_is_rolled_before_its_offsets_outgrow_the_index() -> None:
    stage = Stage()
    partition = stage.partition()
    fill(partition, 1)
    partition.append_batch(many_offsets(2**31 - 2))
    assert partition.end_offset == 2**31 - 1
    partition.append_batch(batch(b"the last that fits"))
    partition.append_batch(batch(b"one more"))

    assert bases(stage) == [0, 2**31]


def many_offsets(count: int) -> bytes:
    """A batch that claims so many records; what is inside of a batch is its readers' affair."""
    data = build_batch([Record(b"")])
    return _checksummed(parse_header(data)._replace(last_offset_delta=count - 1, count=count), data[HEADER_SIZE:])


def test_a_full_segment_is_synced_with_its_indexes_before_the_next_one_exists() -> None:
    stage = Stage()
    partition = stage.partition(flush_messages=10**6)
    fill(partition, 50)
    before = len(stage.files.history)
    partition.roll()
    steps = [f"{line.split()[0]} {line.partition('.')[2]}" for line in stage.files.history[before:]]

    synced = [steps.index(f"sync {suffix}") for suffix in ("log", "index.tmp", "timeindex.tmp")]
    assert max(synced) < steps.index("create log.tmp")


def test_a_segment_that_turns_out_to_be_damaged_takes_no_more_writes() -> None:
    stage = Stage(tail_cache_bytes=0)
    partition = stage.partition()
    fill(partition, 5)
    stage.files.open(f"{DATA}/orders-0/{0:020d}.log").write([b"?"], 100)
    with pytest.raises(DamagedLog):
        list(partition.records())
    fill(partition, 2)

    assert bases(stage) == [0, 5]
    assert offsets(partition, 1) == [1, 2, 3, 4, 5, 6]


def test_new_settings_hold_from_the_next_batch_on() -> None:
    stage = Stage()
    partition = stage.partition()
    fill(partition, 20)
    partition.settings = TopicSettings(segment_bytes=1_024)
    fill(partition, 1)

    assert bases(stage) == [0, 20]


# --- refusals


def test_a_refused_batch_takes_no_offset_and_touches_no_disk() -> None:
    stage = Stage()
    partition = stage.partition()
    before = stage.files.operations
    with pytest.raises(InvalidBatch):
        partition.append_batch(b"tea")

    assert stage.files.operations == before
    assert partition.append_batch(batch(b"tea")).base_offset == 0


# --- when the disk fails


@pytest.mark.parametrize(
    ("operation", "error", "text"),
    [
        ("sync", errno.EIO, "a sync failed: [Errno 5] Input/output error"),
        ("write", errno.ENOSPC, "a write failed: [Errno 28] No space left on device"),
    ],
)
def test_a_failure_names_its_cause(operation: str, error: int, text: str) -> None:
    failure = fail_a_commit(Stage(), operation, error)

    assert failure.what == f"partition orders-0 refuses writes: {text}: '/data/orders-0/00000000000000000000.log'"


def test_a_full_disk_fails_the_write() -> None:
    stage = Stage(retry_after_failure_ms=0)
    partition = stage.partition()
    fill(partition, 3)
    stage.files.capacity = stage.files.used + 50
    with pytest.raises(PartitionFailed, match="No space left on device"):
        fill(partition, 1)
    assert offsets(partition) == [0, 1, 2]

    stage.files.capacity = None
    fill(partition, 1)

    assert offsets(partition) == [0, 1, 2, 3]


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_what_was_synced_can_be_read_while_writes_are_refused(operation: str) -> None:
    stage = Stage(tail_cache_bytes=0)
    fill(stage.partition(), 5)
    fail_a_commit(stage, operation)

    assert offsets(stage.partition()) == [0, 1, 2, 3, 4]
    assert stage.partition().failed


def test_what_relaxed_readers_saw_is_dropped_when_its_sync_fails() -> None:
    stage = Stage()
    partition = stage.partition(flush_messages=8)
    fill(partition, 7)
    assert offsets(partition) == list(range(7))
    fail_a_commit(stage)

    assert (partition.end_offset, offsets(partition)) == (0, [])


def test_all_who_wait_hear_of_the_failure() -> None:
    stage = Stage()
    partition = stage.partition()
    appends = [partition.submit(batch(b"tea")) for _ in range(5)]
    stage.files.fail("sync", ".log")
    stage.log.commit()

    assert len({append.error for append in appends}) == 1
    assert isinstance(appends[0].error, PartitionFailed)


def test_a_failed_partition_refuses_writes_with_the_first_cause() -> None:
    stage = Stage(retry_after_failure_ms=1_000)
    failure = fail_a_commit(stage)

    with pytest.raises(PartitionFailed) as refused:
        stage.partition().submit(batch(b"tea"))
    assert refused.value is failure


def test_an_append_tries_again_only_after_a_while() -> None:
    stage = Stage(retry_after_failure_ms=1_000)
    fail_a_commit(stage)
    stage.clock.advance(999)
    with pytest.raises(PartitionFailed):
        stage.partition().append_batch(batch(b"tea"))
    stage.clock.advance(1)

    assert stage.partition().append_batch(batch(b"tea")).base_offset == 0


def test_a_disk_that_is_still_ill_is_tried_again_after_another_while(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(retry_after_failure_ms=1_000)
    fail_a_commit(stage)
    stage.clock.advance(1_000)
    stage.files.fail("sync_directory", "orders-0")
    with pytest.raises(PartitionFailed):
        stage.partition().append_batch(batch(b"tea"))
    assert "partition orders-0 is still refusing writes" in caplog.text
    stage.clock.advance(999)
    with pytest.raises(PartitionFailed):
        stage.partition().append_batch(batch(b"tea"))
    stage.clock.advance(1)

    assert stage.partition().append_batch(batch(b"tea")).base_offset == 0


def test_maintenance_heals_a_failed_partition() -> None:
    stage = Stage()
    fail_a_commit(stage)
    stage.log.maintain()

    assert not stage.partition().failed


def test_healing_begins_a_new_segment_under_a_new_epoch(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    partition = stage.partition()
    fill(partition, 3)
    fail_a_commit(stage)
    with caplog.at_level(logging.WARNING):
        assert partition.heal()

    assert bases(stage) == [0, 3]
    assert partition.leader_epoch == 1
    assert "partition orders-0 takes writes again, from offset 3" in caplog.text


def test_a_well_partition_needs_no_healing() -> None:
    stage = Stage()
    before = stage.files.operations

    assert stage.partition().heal()
    assert stage.partition().leader_epoch == 0
    assert bases(stage) == [0]
    assert before < stage.files.operations  # opening it


def test_a_lost_batch_is_not_in_the_log_after_healing_and_a_restart() -> None:
    stage = Stage()
    partition = stage.partition()
    fill(partition, 3)
    fail_a_commit(stage)
    partition.heal()
    fill(partition, 2)
    for stop in (stage.stop_and_start, stage.kill):
        stop()
        assert offsets(stage.partition()) == list(range(5))


def test_a_lost_batch_of_a_process_that_died_may_be_there_or_not() -> None:
    """Its writer was told that it is lost, and asks again; an idempotent one finds out."""
    stage = Stage()
    fill(stage.partition(), 3)
    sent = batch(b"3.", producer=Producer(7, 0, 0))
    append = stage.partition().submit(sent)
    stage.files.fail("sync", ".log")
    stage.log.commit()
    assert append.error is not None
    stage.kill()

    assert stage.partition().append_batch(sent).base_offset == 3
    assert offsets(stage.partition()) == [0, 1, 2, 3]


def test_a_roll_that_fails_loses_nothing() -> None:
    stage = Stage(retry_after_failure_ms=0)
    partition = stage.partition()
    fill(partition, 5)
    stage.files.fail("create", ".log.tmp")
    partition.roll()
    assert partition.failed

    fill(partition, 1)

    assert offsets(partition) == list(range(6))


def test_a_checkpoint_that_fails_loses_nothing() -> None:
    stage = Stage(retry_after_failure_ms=0)
    partition = stage.partition()
    fill(partition, 5)
    stage.files.fail("write", ".snapshot", errno.ENOSPC)
    stage.log.checkpoint()
    assert partition.failed
    assert offsets(partition) == list(range(5))

    fill(partition, 1)

    assert offsets(partition) == list(range(6))


def test_a_log_closes_with_an_ill_disk(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    fill(stage.partition(), 5)
    stage.files.fail("write", ".snapshot", errno.ENOSPC, times=99)
    stage.log.close()
    stage.files.heal()

    assert "partition orders-0 could not be closed cleanly" in caplog.text
    stage.log = stage.open()
    assert not stage.log.was_clean
    assert offsets(stage.partition()) == list(range(5))


# --- checkpoints


def test_a_checkpoint_is_written_in_its_time() -> None:
    stage = Stage(checkpoint_ms=60_000)
    fill(stage.partition(), 5)
    stage.clock.advance(59_999)
    stage.log.maintain()
    assert stage.count("rename", "recovery-point") == 0

    stage.clock.advance(1)
    stage.log.maintain()

    assert stage.count("rename", "recovery-point") == 1


def test_a_checkpoint_syncs_a_relaxed_topic() -> None:
    stage = Stage()
    partition = stage.partition(flush_messages=1_000)
    fill(partition, 5)
    stage.log.checkpoint()

    assert partition.synced_offset == 5


def test_a_checkpoint_of_what_did_not_change_writes_no_snapshot() -> None:
    stage = Stage()
    fill(stage.partition(), 5)
    stage.log.checkpoint()
    before = stage.count("write", ".snapshot")
    stage.log.checkpoint()

    assert stage.count("write", ".snapshot") == before


def test_the_offset_index_in_a_file_leads_to_batches() -> None:
    stage = Stage()
    partition = stage.partition(index_interval_bytes=0)
    fill(partition, 5)
    stage.log.checkpoint()
    content = stage.files.open(f"{DATA}/orders-0/{0:020d}.index").read(1_000, 0)
    size = len(partition.read(0, max_bytes=1).data)

    assert list(struct.iter_unpack(">ii", content)) == [(number, number * size) for number in range(1, 5)]


def test_an_offset_that_was_given_out_and_lost_fails_the_partition_instead_of_leaving_a_gap() -> None:
    """As when the caller is interrupted between getting its offset and joining those who wait."""
    stage = Stage()
    partition = stage.partition()
    fill(partition, 2)
    partition._writer.next_offset += 1
    with pytest.raises(PartitionFailed, match="offset 2 got lost on its way"):
        partition.append_batch(batch(b"tea"))

    assert partition.heal()
    assert partition.append_batch(batch(b"tea")).base_offset == 2
    assert [record.offset for record in partition.records()] == [0, 1, 2]


def test_a_topic_can_have_its_batches_compressed_its_own_way() -> None:
    stage = Stage()
    partition = stage.partition(compression_type="zstd")
    partition.append([Record(b"tea" * 100), Record(b"coffee")], codec=Codec.GZIP)

    assert parse_header(partition.read(0).data).codec is Codec.ZSTD
    assert [record.value for record in partition.records()] == [b"tea" * 100, b"coffee"]
