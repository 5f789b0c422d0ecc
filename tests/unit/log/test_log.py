import threading
from pathlib import Path

import pytest

from runnel.errors import Closed, InvalidSetting, PartitionFailed, PartitionUnopened
from runnel.log import Log, Partition, Record, TopicPartition, TopicSettings, open_log
from runnel.log.segment import Segment
from tests.unit.log.stage import DATA, Stage, batch, fill, offsets, open_on_disk

# --- partitions


def test_a_partition_is_the_same_object_for_everybody() -> None:
    log = Stage().log

    assert log.partition("orders", 2) is log.partition("orders", 2)
    assert log.partition("orders", 2) is not log.partition("orders", 3)


def test_partitions_have_their_own_offsets() -> None:
    stage = Stage()
    fill(stage.log.partition("orders", 0), 3)
    fill(stage.log.partition("orders", 1), 1)

    assert [stage.log.partition("orders", number).end_offset for number in (0, 1)] == [3, 1]


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a b", "ä", "a" * 250, "a\n"])
def test_a_topic_has_a_name_that_can_be_a_folder(topic: str) -> None:
    with pytest.raises(InvalidSetting, match="setting topic = "):
        Stage().log.partition(topic)


@pytest.mark.parametrize("topic", ["a", "A.b_c-9", "a" * 249, "...", "-"])
def test_every_name_that_kafka_allows_is_taken(topic: str) -> None:
    stage = Stage()
    fill(stage.log.partition(topic, 7), 1)
    stage.kill()

    assert stage.log.partitions() == [TopicPartition(topic, 7)]
    assert offsets(stage.log.partition(topic, 7)) == [0]


@pytest.mark.parametrize("number", [-1, 2**31, 2**80])
def test_a_partition_number_that_no_client_could_name_is_refused(number: int) -> None:
    with pytest.raises(InvalidSetting, match=f"setting partition = {number}"):
        Stage().log.partition("orders", number)


def test_settings_can_be_given_to_a_partition_that_is_open() -> None:
    stage = Stage()
    partition = stage.partition()
    again = stage.partition(segment_bytes=1_024)

    assert again is partition
    assert partition.settings == TopicSettings(segment_bytes=1_024)


def test_settings_that_are_not_given_stay() -> None:
    stage = Stage()
    stage.partition(segment_bytes=1_024)

    assert stage.partition().settings.segment_bytes == 1_024


def test_a_new_partition_survives_a_power_cut() -> None:
    stage = Stage()
    stage.partition("orders")
    stage.lose_power(seed=1)

    assert stage.log.partitions() == [TopicPartition("orders", 0)]


# --- deleting


def test_a_deleted_partition_is_gone() -> None:
    stage = Stage()
    fill(stage.partition("orders"), 3)
    fill(stage.partition("other"), 3)
    stage.log.delete("orders")

    assert stage.log.partitions() == [TopicPartition("other", 0)]
    assert not any(name.startswith("orders") for name in stage.files.list(DATA))
    assert offsets(stage.partition("other")) == [0, 1, 2]


@pytest.mark.parametrize("number", [0, 99_999])
def test_a_partition_with_the_longest_name_can_be_deleted(tmp_path: Path, number: int) -> None:
    with open_on_disk(tmp_path) as log:
        fill(log.partition("a" * 249, number), 3)
        log.delete("a" * 249, number)
        assert log.partitions() == []
        assert not any(name.name.startswith("a") for name in tmp_path.iterdir())


@pytest.mark.parametrize("stop", [None, "stop_and_start", "kill", "lose_power"])
def test_a_new_partition_of_a_deleted_ones_name_knows_nothing_of_it(stop: str | None) -> None:
    stage = Stage()
    partition = stage.partition(segment_bytes=1_024)
    fill(partition, 30)
    partition.delete_before(20)
    stage.log.checkpoint()
    stage.log.delete("orders")
    if stop is not None:
        getattr(stage, stop)()
    partition = stage.partition()

    assert (partition.start_offset, partition.end_offset, partition.findings) == (0, 0, ())
    fill(partition, 2)
    assert offsets(partition) == [0, 1]


def test_what_a_deleted_relaxed_partition_had_not_synced_is_not_held_against_a_new_one() -> None:
    stage = Stage()
    fill(stage.partition(flush_ms=1000), 3)
    stage.log.delete("orders")
    stage.partition(flush_ms=1000)
    stage.clock.advance(1000)
    stage.log.commit()
    stage.kill()

    assert (stage.partition().end_offset, stage.log.findings) == (0, [])


def test_what_waits_in_a_deleted_partition_is_answered() -> None:
    stage = Stage()
    append = stage.partition().submit(batch(b"tea"))
    stage.log.delete("orders")

    with pytest.raises(Closed):
        append.result(timeout=0)


def test_a_deleted_partition_refuses_writes() -> None:
    stage = Stage()
    partition = stage.partition()
    stage.log.delete("orders")

    with pytest.raises(Closed):
        partition.append_batch(batch(b"tea"))


@pytest.mark.parametrize("count", [0, 1, 9], ids="{} records".format)
@pytest.mark.parametrize("tail", [0, 10_000], ids=["on the disk", "in memory"])
def test_whoever_still_reads_a_deleted_partition_meets_nothing_of_a_new_one_of_its_name(tail: int, count: int) -> None:
    stage = Stage(tail_cache_bytes=tail)
    old = stage.partition()
    fill(old, 5)
    stage.log.delete("orders")
    fill(stage.partition(), count)

    for read in (old.read, old.read_in_memory, old.records, old.find_time):
        with pytest.raises(Closed):
            list(read(3) or ())  # type: ignore[operator]
    with pytest.raises(Closed):
        old.find_largest_time()
    with pytest.raises(Closed):
        old.aborted(0, 5)
    fill(stage.partition(), 1)
    stage.stop_and_start()
    assert offsets(stage.partition()) == [*range(count + 1)]


@pytest.mark.parametrize("by", ["retention", "delete_before"])
def test_what_is_about_to_be_removed_is_not_removed_from_a_new_partition(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    old = stage.partition(segment_bytes=1_024, retention_bytes=1_024)
    fill(old, 30)
    remove = Partition._remove

    def made_again_before(partition: Partition, segments: tuple[Segment, ...], **how: bool) -> None:
        monkeypatch.undo()
        stage.log.delete("orders")
        fill(stage.partition(), 3)
        remove(partition, segments, **how)

    monkeypatch.setattr(Partition, "_remove", made_again_before)
    if by == "retention":
        old.apply_retention()
    else:
        old.delete_before(25)
    stage.kill()
    assert offsets(stage.partition()) == [0, 1, 2]


# --- closing


def test_a_closed_log_gives_out_no_partitions() -> None:
    stage = Stage()
    stage.log.close()

    with pytest.raises(Closed, match="log /data is closed"):
        stage.partition()


def test_a_log_may_be_closed_twice() -> None:
    stage = Stage()
    stage.log.close()
    stage.log.close()


def test_leaving_the_block_closes_the_log(tmp_path: Path) -> None:
    with open_on_disk(tmp_path / "data") as log:
        fill(log.partition("orders"), 3)
    with open_on_disk(tmp_path / "data") as log:
        assert log.was_clean


def test_an_error_in_the_block_closes_the_log_too(tmp_path: Path) -> None:
    def fail() -> None:
        with open_on_disk(tmp_path / "data") as log:
            fill(log.partition("orders"), 3)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with open_on_disk(tmp_path / "data") as log:
        assert offsets(log.partition("orders")) == [0, 1, 2]


def test_closing_ends_all_threads(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with open_log(tmp_path / "data") as log:
        appends = [log.partition("orders", number).submit(batch(b"tea")) for number in range(3)]
        for append in appends:
            append.result(60)
        assert set(threading.enumerate()) > before

    assert set(threading.enumerate()) == before


def test_a_log_without_a_background_has_no_threads(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with open_on_disk(tmp_path / "data") as log:
        log.partition("orders").submit(batch(b"tea"))
        log.partition("orders").append([Record(b"milk")])
        assert set(threading.enumerate()) == before


# --- findings


def test_findings_name_all_partitions_that_have_some() -> None:
    stage = Stage()
    for topic in ("a", "b", "c"):
        fill(stage.partition(topic), 2)
    for topic in ("a", "c"):
        file = stage.files.open(f"{DATA}/{topic}-0/{0:020d}.log")
        file.write([b"torn"], file.size())
    stage.kill()

    assert [finding.path for finding in stage.log.findings] == [f"{DATA}/{topic}-0/{0:020d}.log" for topic in "ac"]


# --- maintenance


def test_maintenance_goes_on_with_the_other_partitions_when_one_is_ill() -> None:
    stage = Stage(retention_check_ms=1)
    ill, well = stage.partition("ill", retention_ms=1_000), stage.partition("well", retention_ms=1_000)
    for partition in (ill, well):
        fill(partition, 3)
    stage.clock.advance(10_000)
    stage.files.fail("create", "ill-0", times=99)
    stage.log.maintain()

    assert ill.failed
    assert well.start_offset == 3
    stage.files.heal()
    stage.log.maintain()
    assert not ill.failed


def test_files_that_retention_could_not_remove_go_when_the_disk_lets_them(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(retention_check_ms=1)
    partition = stage.partition("ill", retention_ms=1_000)
    for _ in range(3):
        fill(partition, 1)
        partition.roll()
    stage.clock.advance(10_000)
    stage.files.fail("remove", f"ill-0/{1:020d}.log", times=99)
    stage.log.maintain()
    left = sorted(name for name in stage.files.list(f"{DATA}/ill-0") if name.endswith(".log"))
    assert left == [f"{1:020d}.log", f"{3:020d}.log"]  # the others went all the same
    assert partition.delete_before(3) == 3  # which is not about them
    stage.clock.advance(10)
    stage.log.maintain()
    said = [each for each in caplog.messages if each.startswith("retention of partition ill-0 left files")]
    assert len(said) == 2

    stage.files.heal()
    stage.clock.advance(10)
    stage.log.maintain()
    assert [name for name in stage.files.list(f"{DATA}/ill-0") if name.endswith(".log")] == [f"{3:020d}.log"]
    assert (partition.start_offset, partition.end_offset) == (3, 3)


def test_files_that_cannot_be_removed_do_not_keep_those_of_other_partitions(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(retention_check_ms=1)
    ill, well = stage.partition("ill", retention_ms=1_000), stage.partition("well", retention_ms=1_000)
    for partition in (ill, well):
        fill(partition, 3)
    stage.clock.advance(10_000)
    stage.files.fail("remove", "ill-0", times=99)
    stage.log.maintain()

    assert (ill.start_offset, well.start_offset) == (3, 3)
    assert f"{0:020d}.log" not in stage.files.list(f"{DATA}/well-0")
    assert any(said.startswith("retention of partition ill-0 left files") for said in caplog.messages)
    assert f"{0:020d}.log" in stage.files.list(f"{DATA}/ill-0")

    stage.files.heal()
    stage.stop_and_start()
    stage.partition("ill")
    assert f"{0:020d}.log" not in stage.files.list(f"{DATA}/ill-0")


def test_the_background_maintains_the_log(tmp_path: Path) -> None:
    done = threading.Event()

    class WatchedLog(Log):
        def maintain(self) -> None:
            super().maintain()
            done.set()

    with open_on_disk(tmp_path / "data") as log:
        home = log._home
    watched = WatchedLog(home, background=True)
    try:
        assert done.wait(60)
    finally:
        watched.close()


def test_a_failure_of_maintenance_is_logged_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tries: list[int] = []
    twice = threading.Event()

    class FailingLog(Log):
        def maintain(self) -> None:
            tries.append(len(tries))
            if len(tries) == 2:
                twice.set()
            raise OSError("no")

    with open_on_disk(tmp_path / "data") as log:
        home = log._home
    failing = FailingLog(home, background=True)
    try:
        assert twice.wait(60)
    finally:
        failing.close()
    assert "failed and will be tried again" in caplog.text


def test_a_partition_that_cannot_be_made_leaves_the_log_usable() -> None:
    stage = Stage()
    stage.files.fail("make_directory", "orders-0")
    with pytest.raises(PartitionUnopened, match="Input/output error"):
        stage.partition("orders")
    fill(stage.partition("orders"), 1)

    assert offsets(stage.partition("orders")) == [0]


def test_a_failed_partition_can_be_deleted() -> None:
    stage = Stage()
    partition = stage.partition()
    stage.files.fail("sync", ".log")
    append = partition.submit(batch(b"tea"))
    stage.log.commit()
    assert isinstance(append.error, PartitionFailed)
    stage.log.delete("orders")
    fill(stage.partition(), 1)

    assert offsets(stage.partition()) == [0]
