"""What a start finds, and what it makes of it."""

import errno
import shutil
from pathlib import Path
from random import Random

import pytest

from runnel.counted import counted
from runnel.errors import DamagedLog, OffsetOutOfRange, PartitionUnopened
from runnel.log import Log, Partition, Record, TopicSettings, open_log
from runnel.records import Producer, batches_of, build_batch
from runnel.testing import FaultyFiles
from tests.unit.log.stage import (
    DATA,
    Stage,
    batch,
    fill,
    flip,
    left_by_kill,
    offsets,
    open_on_disk,
    segment_path,
)

SMALL = TopicSettings(segment_bytes=2_000, index_interval_bytes=300)
COUNT = 30  # batches of one record, eleven to a segment
SEGMENTS = [0, 11, 22]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments, all synced, as they are left by a kill, by a kill after a checkpoint, and by a clean stop."""
    path = tmp_path_factory.mktemp("made")
    with open_on_disk(path / "stopped") as log:
        fill(log.partition("orders", 0, SMALL), COUNT)
        shutil.copytree(log.path, path / "killed")
        log.checkpoint()
        shutil.copytree(log.path, path / "killed after a checkpoint")
    return path


@pytest.fixture
def data(request: pytest.FixtureRequest, made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / request.param, tmp_path / "data"))


EITHER = pytest.mark.parametrize("data", ["killed", "killed after a checkpoint", "stopped"], indirect=True)
KILLED = pytest.mark.parametrize("data", ["killed"], indirect=True)
STOPPED = pytest.mark.parametrize("data", ["stopped"], indirect=True)


def segment(data: Path, base: int, suffix: str = ".log") -> Path:
    return data / "orders-0" / f"{base:020d}{suffix}"


def position_of(data: Path, offset: int) -> int:
    """Where its batch stands in its segment."""
    base = max(base for base in SEGMENTS if base <= offset)
    found = batches_of(segment(data, base).read_bytes())
    return next(position for position, header in found if header.last_offset >= offset)


def orders(log: Log) -> Partition:
    return log.partition("orders", 0, SMALL)


def readable(partition: Partition) -> list[int]:
    """All that can be read, going on where errors say."""
    found: list[int] = []
    offset = partition.start_offset
    while offset < partition.end_offset:
        try:
            for record in partition.records(offset):
                found.append(record.offset)
                offset = record.offset + 1
        except DamagedLog as error:
            damage = error
        else:
            continue
        if damage.next_offset is None:
            return found
        assert damage.first_offset <= offset < damage.next_offset, "only who asks for damaged records is told"
        offset = damage.next_offset
    return found


# --- nothing is wrong


@EITHER
def test_a_whole_log_opens_without_findings(data: Path) -> None:
    with open_on_disk(data) as log:
        assert offsets(orders(log)) == list(range(COUNT))
        assert log.findings == []


def test_after_a_clean_stop_older_segments_are_not_looked_at() -> None:
    stage = Stage()
    fill(stage.partition(segment_bytes=1_024), 50)
    stage.log.close()
    stage.files.fail("read", segment_path_of(0), times=99)
    stage.log = stage.open()

    assert stage.partition().end_offset == 50


def segment_path_of(base: int) -> str:
    return f"orders-0/{base:020d}.log"


def test_after_a_clean_stop_partitions_are_opened_when_they_are_asked_for() -> None:
    stage = Stage()
    fill(stage.partition(), 5)
    stage.log.close()
    stage.files.fail("open", "orders-0", times=99)

    stage.log = stage.open()

    with pytest.raises(PartitionUnopened, match="Input/output error"):
        stage.partition()


def test_after_a_kill_what_is_before_the_recovery_point_is_not_checked() -> None:
    stage = Stage()
    partition = stage.partition(index_interval_bytes=200)
    fill(partition, 100)
    stage.log.checkpoint()
    fill(partition, 3)
    checkpointed = stage.files.open(f"{DATA}/{segment_path(partition, 0)}")
    checkpointed.write([b"?"], 100)
    stage.kill()

    assert stage.log.findings == []
    assert offsets(stage.partition(), 50) == list(range(50, 103))
    with pytest.raises(DamagedLog):
        list(stage.partition().records())


# --- a torn end


@KILLED
@pytest.mark.parametrize("size", [1, 30, 61, 100])
def test_a_torn_write_is_cut_off_and_told(data: Path, size: int, caplog: pytest.LogCaptureFixture) -> None:
    whole = segment(data, 22).stat().st_size
    torn = segment(data, 22).read_bytes()[:size]
    with open(segment(data, 22), "ab") as file:
        file.write(torn)
    with open_on_disk(data) as log:
        (finding,) = log.findings
        assert (finding.path, finding.position, finding.size) == (str(segment(data, 22)), whole, size)
        assert (finding.offset, finding.damage) == (COUNT, False)
        assert f"cut {counted(size, 'byte')} of a torn write at position {whole}, before offset {COUNT}" in caplog.text
        assert segment(data, 22).stat().st_size == whole
        assert offsets(orders(log)) == list(range(COUNT))


def test_a_batch_whose_bytes_did_not_all_arrive_is_cut_off() -> None:
    stage = Stage()
    partition = stage.partition()
    fill(partition, 3)
    partition.submit(batch(b"never synced"))
    stage.files.fail("sync", ".log")
    stage.log.commit()
    file = stage.files.open(f"{DATA}/{segment_path(partition, 0)}")
    file.write([b"?" * 200], file.size())
    stage.kill()

    assert [finding.offset for finding in stage.log.findings] == [3]
    fill(stage.partition(), 1)
    assert offsets(stage.partition()) == [0, 1, 2, 3]


@KILLED
def test_after_a_torn_write_was_cut_the_next_start_finds_nothing(data: Path) -> None:
    with open(segment(data, 22), "ab") as file:
        file.write(b"torn")
    open_on_disk(data).close()
    with open_on_disk(data) as log:
        assert offsets(orders(log)) == list(range(COUNT))
        assert log.findings == []


# --- damage in what was synced


@EITHER
@pytest.mark.parametrize("offset", [0, 5, 11, 22, 25, 29])
def test_damage_is_told_with_path_position_and_offsets(data: Path, offset: int) -> None:
    base = max(base for base in SEGMENTS if base <= offset)
    position = position_of(data, offset)
    flip(segment(data, base), position + 70)
    with open_on_disk(data) as log, pytest.raises(DamagedLog) as damaged:
        list(orders(log).records(offset))
    error = damaged.value
    assert (error.path, error.position, error.first_offset) == (str(segment(data, base)), position, offset)
    assert error.reason.startswith("checksum of the batch is 0x")
    assert error.next_offset in (offset + 1, None)
    assert error.hint == (
        f"restore the file from a backup, or read on from offset {offset + 1}"
        if error.next_offset
        else "restore the file from a backup, or read another segment"
    )


@EITHER
@pytest.mark.parametrize("offset", [0, 5, 10, 11, 22, 25, 29])
@pytest.mark.parametrize(
    "byte",
    [3, 10, 11, 16, 20, 40, 70],
    ids=["offset", "longer", "shorter", "format", "checksum", "header", "record"],
)
def test_what_is_before_and_behind_the_damage_can_be_read(data: Path, offset: int, byte: int) -> None:
    flip(segment(data, max(base for base in SEGMENTS if base <= offset)), position_of(data, offset) + byte)
    with open_on_disk(data) as log:
        assert set(readable(orders(log))) == set(range(COUNT)) - {offset}


@EITHER
@pytest.mark.parametrize("offset", [5, 25])
def test_writes_go_on_after_damage(data: Path, offset: int) -> None:
    flip(segment(data, max(base for base in SEGMENTS if base <= offset)), position_of(data, offset) + 70)
    with open_on_disk(data) as log:
        assert set(readable(orders(log))) == set(range(COUNT)) - {offset}
        fill(orders(log), 5)
        assert set(readable(orders(log))) == set(range(COUNT + 5)) - {offset}


@pytest.mark.parametrize("data", ["killed", "stopped"], indirect=True)
def test_damage_in_the_last_segment_is_found_by_the_start_and_a_new_segment_begins(data: Path) -> None:
    position = position_of(data, 29)
    flip(segment(data, 22), position + 16)
    with open_on_disk(data) as log:
        partition = orders(log)
        (finding,) = log.findings
        assert (finding.path, finding.position, finding.offset) == (str(segment(data, 22)), position, 29)
        assert finding.damage
        assert segment(data, COUNT).exists()
        fill(partition, 1)
        assert offsets(partition, COUNT) == [COUNT]


@KILLED
def test_the_damaged_file_is_left_as_it_is(data: Path) -> None:
    flip(segment(data, 22), position_of(data, 25) + 70)
    before = segment(data, 22).read_bytes()
    with open_on_disk(data) as log:
        readable(orders(log))
        fill(orders(log), 5)

    assert segment(data, 22).read_bytes() == before


@EITHER
def test_damage_is_remembered_over_restarts(data: Path) -> None:
    flip(segment(data, 0), position_of(data, 5) + 70)
    with open_on_disk(data) as log, pytest.raises(DamagedLog) as first:
        list(orders(log).records())
    assert segment(data, 0, ".damage").exists()
    for _ in range(2):
        with open_on_disk(data) as log:
            with pytest.raises(DamagedLog) as again:
                orders(log).read(5)
            assert str(again.value) == str(first.value)
            assert set(readable(orders(log))) == set(range(COUNT)) - {5}


@STOPPED
def test_a_segment_that_was_restored_is_whole_when_its_damage_file_is_removed(data: Path) -> None:
    backup = segment(data, 0).read_bytes()
    flip(segment(data, 0), position_of(data, 5) + 70)
    with open_on_disk(data) as log:
        readable(orders(log))
    segment(data, 0).write_bytes(backup)
    segment(data, 0, ".damage").unlink()
    with open_on_disk(data) as log:
        assert offsets(orders(log)) == list(range(COUNT))


def test_damage_that_cannot_be_written_down_is_told_all_the_same() -> None:
    stage = Stage(tail_cache_bytes=0)
    partition = stage.partition()
    fill(partition, 5)
    stage.files.open(f"{DATA}/{segment_path(partition, 0)}").write([b"?"], 100)
    stage.files.fail("write", ".damage", errno.ENOSPC, times=99)
    for _ in range(2):
        with pytest.raises(DamagedLog):
            list(partition.records())


@STOPPED
def test_two_damages_of_a_segment_are_told_as_one(data: Path) -> None:
    for position in [position_of(data, offset) for offset in (3, 7)]:
        flip(segment(data, 0), position + 70)
    with open_on_disk(data) as log:
        assert set(readable(orders(log))) == set(range(COUNT)) - {3, 7}
    with open_on_disk(data) as log:
        with pytest.raises(DamagedLog) as damaged:
            orders(log).read(5)
        assert (damaged.value.first_offset, damaged.value.next_offset) == (3, 8)
        assert set(readable(orders(log))) == set(range(COUNT)) - {3, 4, 5, 6, 7}


def test_known_damage_is_no_torn_write_even_if_a_power_cut_took_the_synced_offsets(tmp_path: Path) -> None:
    log = open_on_disk(tmp_path / "living")
    fill(log.partition("orders"), 10)
    living = Path(log.path)
    flip(living / "orders-0" / f"{0:020d}.log", 400)
    log._home.tails.forget("orders-0")
    with pytest.raises(DamagedLog):
        list(log.partition("orders").records())
    data = left_by_kill(log, tmp_path / "data")
    (data / "synced-offsets").unlink()
    with open_on_disk(data) as log:
        assert log.partition("orders").end_offset == 10
        assert set(readable(log.partition("orders"))) == set(range(10)) - {2}


# --- files that are shorter or gone


@EITHER
@pytest.mark.parametrize("base", SEGMENTS)
@pytest.mark.parametrize("kept", [0, 3], ids=["nothing left", "some batches left"])
def test_a_truncated_segment_is_damage(data: Path, base: int, kept: int) -> None:
    size = position_of(data, base + kept)
    with open(segment(data, base), "r+b") as file:
        file.truncate(size)
    after = {0: 11, 11: 22, 22: COUNT}[base]
    with open_on_disk(data) as log:
        with pytest.raises(DamagedLog) as damaged:
            list(orders(log).records(base + kept))
        error = damaged.value
        assert (error.position, error.first_offset, error.next_offset) == (size, base + kept, after)
        assert "ends before offset" in error.reason
        assert set(readable(orders(log))) == set(range(COUNT)) - set(range(base + kept, after))
        fill(orders(log), 1)
        assert offsets(orders(log), COUNT) == [COUNT]


@EITHER
@pytest.mark.parametrize("base", SEGMENTS)
def test_a_missing_segment_is_damage(data: Path, base: int) -> None:
    segment(data, base).unlink()
    after = {0: 11, 11: 22, 22: COUNT}[base]
    with open_on_disk(data) as log:
        assert orders(log).start_offset == 0
        with pytest.raises(DamagedLog) as damaged:
            orders(log).read(base + 2)
        assert damaged.value.next_offset == after
        assert set(readable(orders(log))) == set(range(COUNT)) - set(range(base, after))
        fill(orders(log), 1)
        assert offsets(orders(log), COUNT) == [COUNT]
    with open_on_disk(data) as log:
        assert set(readable(orders(log))) == set(range(COUNT + 1)) - set(range(base, after))


@STOPPED
def test_a_log_without_any_segment_goes_on_behind_what_was_synced(data: Path) -> None:
    for base in SEGMENTS:
        segment(data, base).unlink()
    with open_on_disk(data) as log:
        assert orders(log).end_offset == COUNT
        assert [finding.damage for finding in log.findings] == [True]


def test_a_segment_that_becomes_shorter_while_the_log_is_open_is_damage(tmp_path: Path) -> None:
    with open_on_disk(tmp_path / "data") as log:
        partition = orders(log)
        fill(partition, COUNT)
        log._home.tails.forget("orders-0")
        with open(segment(tmp_path / "data", 0), "r+b") as file:
            file.truncate(400)
        with pytest.raises(DamagedLog):
            partition.read(9)
        assert offsets(partition, 11) == list(range(11, COUNT))


# --- what can be made anew


DERIVED = [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"]


def destroy(paths: list[Path], how: str) -> None:
    assert paths
    for path in paths:
        if how == "missing":
            path.unlink()
        elif how == "empty":
            path.write_bytes(b"")
        elif how == "cut":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        else:
            path.write_bytes(b"\x07garbage" * 20)


@EITHER
@pytest.mark.parametrize("suffix", DERIVED)
@pytest.mark.parametrize("how", ["missing", "empty", "cut", "garbage"])
def test_files_that_can_be_made_anew_are(data: Path, suffix: str, how: str) -> None:
    destroy(list((data / "orders-0").glob(f"*{suffix}")), how)
    with open_on_disk(data) as log:
        partition = orders(log)
        assert log.findings == []
        assert offsets(partition) == list(range(COUNT))
        records = list(partition.records())
        for record in records:
            expected = next(known for known in records if known.timestamp >= record.timestamp)
            assert partition.find_time(record.timestamp) == expected
        assert partition.find_time(records[-1].timestamp + 10**6) is None
        assert partition.epoch_end(0).offset == COUNT


@STOPPED
@pytest.mark.parametrize("suffixes", [(".index",), (".timeindex",), (".index", ".timeindex")])
@pytest.mark.parametrize("how", ["missing", "empty", "garbage"])
def test_an_index_that_was_made_anew_is_saved(data: Path, suffixes: tuple[str, ...], how: str) -> None:
    indexes = [segment(data, base, suffix) for base in (0, 11) for suffix in suffixes]
    before = [path.read_bytes() for path in indexes]
    destroy(indexes, how)
    with open_on_disk(data) as log:
        assert offsets(orders(log)) == list(range(COUNT))

    assert [path.read_bytes() for path in indexes] == before


@pytest.mark.parametrize("how", ["missing", "empty", "garbage"])
def test_producers_are_known_without_snapshots(tmp_path: Path, how: str) -> None:
    data = tmp_path / "data"
    sent = [batch(b"." * 300, producer=Producer(7, 0, number)) for number in range(12)]
    with open_on_disk(data) as log:
        for each in sent:
            orders(log).append_batch(each)
    destroy(list((data / "orders-0").glob("*.snapshot")), how)
    with open_on_disk(data) as log:
        assert [orders(log).append_batch(each).base_offset for each in sent[-5:]] == [7, 8, 9, 10, 11]


@pytest.mark.parametrize("how", ["missing", "garbage"])
def test_epochs_are_known_without_their_file(tmp_path: Path, how: str) -> None:
    log = open_on_disk(tmp_path / "first")
    fill(orders(log), 5)
    log = open_on_disk(left_by_kill(log, tmp_path / "second"))
    fill(orders(log), 5)
    data = left_by_kill(log, tmp_path / "third")
    destroy([data / "orders-0" / "leader-epoch-checkpoint"], how)
    with open_on_disk(data) as log:
        assert [orders(log).epoch_end(epoch) for epoch in (0, 1)] == [(0, 5), (1, 10)]


@STOPPED
def test_damage_that_is_met_while_producers_are_looked_for_is_quarantined(data: Path) -> None:
    for snapshot in (data / "orders-0").glob("*.snapshot"):
        snapshot.unlink()
    flip(segment(data, 0), position_of(data, 5) + 16)
    with open_on_disk(data) as log:
        orders(log)
        assert [(finding.offset, finding.damage) for finding in log.findings] == [(5, True)]
        assert set(readable(orders(log))) == set(range(COUNT)) - {5}


# --- left-overs


@STOPPED
def test_segments_before_the_start_that_came_back_are_removed(tmp_path: Path, data: Path) -> None:
    backup = tmp_path / "backup"
    shutil.copytree(data / "orders-0", backup)
    with open_on_disk(data) as log:
        orders(log).delete_before(15)
    shutil.copy(backup / f"{0:020d}.log", segment(data, 0))
    with open_on_disk(data) as log:
        assert offsets(orders(log)) == list(range(15, COUNT))
        assert not segment(data, 0).exists()


@STOPPED
def test_indexes_without_a_segment_and_half_written_files_are_removed(data: Path) -> None:
    segment(data, 5, ".index").write_bytes(b"")
    segment(data, 5, ".timeindex").write_bytes(b"")
    (data / "orders-0" / "leader-epoch-checkpoint.tmp").write_bytes(b"0")
    with open_on_disk(data) as log:
        assert offsets(orders(log)) == list(range(COUNT))
    assert not list((data / "orders-0").glob("*.tmp"))
    assert not list((data / "orders-0").glob(f"{5:020d}*"))


def test_snapshots_after_the_end_are_removed() -> None:
    stage = Stage()
    partition = stage.partition(flush_messages=1_000)
    for number in range(5):
        partition.append_batch(batch(b"tea", producer=Producer(7, 0, number)))
    ahead = stage.files.open(f"{DATA}/orders-0/{50:020d}.snapshot", create=True)
    ahead.write([b"from a life that never was"], 0)
    stage.kill()
    stage.partition()

    assert not stage.files.exists(f"{DATA}/orders-0/{50:020d}.snapshot")


@STOPPED
def test_offsets_that_were_deleted_stay_out_of_range_after_damage(data: Path) -> None:
    with open_on_disk(data) as log:
        orders(log).delete_before(3)
    flip(segment(data, 0), position_of(data, 5) + 70)
    with open_on_disk(data) as log:
        with pytest.raises(OffsetOutOfRange):
            orders(log).read(2)
        assert set(readable(orders(log))) == set(range(3, COUNT)) - {5}


def test_a_partition_that_never_held_a_record_opens_after_a_kill() -> None:
    stage = Stage()
    stage.partition()
    stage.kill()

    assert stage.log.findings == []
    assert stage.partition().append([Record(b"tea")]).base_offset == 0


def test_what_a_failed_sync_has_left_in_memory_is_written_again_before_it_is_believed(seed: int) -> None:
    """The kernel takes those pages for saved: without another write, the next sync would save nothing."""
    for number in range(40):
        files = FaultyFiles(chance=Random(seed + number))
        log = open_log("/data", files=files, background=False)
        partition = log.partition("orders")
        partition.append([Record(b"one", timestamp=1)])
        partition.submit(build_batch([Record(b"two" * 500, timestamp=1)]))
        files.fail("sync")
        files.fail("truncate")
        log.commit()
        assert partition.failed
        files = files.kill()
        log = open_log("/data", files=files, background=False)
        log.partition("orders").append([Record(b"three", timestamp=1)])
        log = open_log("/data", files=files.crash(Random(seed + number)), background=False)

        assert [record.value for record in log.partition("orders").records()] == [b"one", b"two" * 500, b"three"]
