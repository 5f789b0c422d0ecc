import errno
import os
from pathlib import Path

import pytest

from runnel.errors import DirectoryOwned, DiskLow, PartitionUnopened, UnusableDirectory
from runnel.log import open_log
from runnel.log.directory import ROOM_BETWEEN_LOOKS
from runnel.settings import MIB
from tests.unit.log.stage import DATA, Stage, batch, fill, offsets, open_on_disk


def replace(stage: Stage, name: str, content: bytes) -> None:
    """Write a file of a stopped log anew."""
    file = stage.files.open(f"{DATA}/{name}", create=True)
    file.truncate(0)
    file.write([content], 0)


def stopped() -> Stage:
    stage = Stage()
    fill(stage.partition(), 3)
    stage.log.close()
    return stage


def refusal(stage: Stage) -> str:
    with pytest.raises(UnusableDirectory) as refused:
        stage.open()
    return str(refused.value)


# --- who may have it


def test_a_missing_directory_is_made(tmp_path: Path) -> None:
    with open_on_disk(tmp_path / "data") as log:
        assert Path(log.path).is_dir()


def test_a_directory_whose_parent_is_missing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "data"
    with pytest.raises(UnusableDirectory) as refused:
        open_on_disk(path)
    assert refused.value.what == (
        f"{path} cannot be used as a data directory: it cannot be made: [Errno 2] No such file or directory: '{path}'"
    )
    assert refused.value.hint == f"make {tmp_path / 'missing'} and give yourself access"


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(
        UnusableDirectory, match=r"data cannot be used as a data directory: it is a file \(name another"
    ):
        open_on_disk(tmp_path / "data")
    with pytest.raises(UnusableDirectory, match=r"a file is above it \(name another one, or move the file away\)"):
        open_on_disk(tmp_path / "data" / "below")


def test_a_second_owner_is_told_the_first_ones_process(tmp_path: Path) -> None:
    with open_on_disk(tmp_path / "data"), pytest.raises(DirectoryOwned) as refused:
        open_on_disk(tmp_path / "data")
    assert str(refused.value) == (
        f"data directory {tmp_path / 'data'} is in use by process {os.getpid()} "
        "(stop that process, or use another directory)"
    )
    assert refused.value.pid == os.getpid()


def test_a_second_owner_that_was_refused_leaves_the_first_one_alone(tmp_path: Path) -> None:
    with open_on_disk(tmp_path / "data") as log:
        with pytest.raises(DirectoryOwned):
            open_on_disk(tmp_path / "data")
        fill(log.partition("orders"), 1)
        assert offsets(log.partition("orders")) == [0]


def test_an_owner_whose_process_id_cannot_be_read_is_another_process() -> None:
    stage = Stage()
    replace(stage, ".lock", b"?")
    with pytest.raises(DirectoryOwned, match="is in use by another process"):
        stage.open()


def test_a_closed_directory_can_be_owned_again(tmp_path: Path) -> None:
    open_on_disk(tmp_path / "data").close()
    open_on_disk(tmp_path / "data").close()


def test_a_directory_that_was_refused_is_not_owned(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    stranger = tmp_path / "data" / "photo.jpg"
    stranger.write_text("")
    with pytest.raises(UnusableDirectory):
        open_on_disk(tmp_path / "data")
    stranger.unlink()
    open_on_disk(tmp_path / "data").close()


# --- what it says of itself


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_text("")
    with pytest.raises(UnusableDirectory) as refused:
        open_on_disk(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path} cannot be used as a data directory: it is no data directory of Runnel, but holds photo.jpg "
        "(name an empty or a new directory)"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]  # nothing of ours is left in it


def test_a_new_file_system_with_its_lost_and_found_is_empty(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    open_on_disk(tmp_path).close()


def test_a_directory_of_a_newer_format_is_refused() -> None:
    stage = stopped()
    replace(stage, "runnel-log.json", b'{"format": 2, "epoch": 0}\n')

    assert refusal(stage) == (
        "/data cannot be used as a data directory: it has format 2, this version of Runnel knows 1 "
        "(use the version of Runnel that wrote it, or a newer one)"
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b"{}", "'format'"),
        (b'{"format": "1", "epoch": 0}', "format and epoch are no numbers"),
        (b'{"format": 1, "epoch": null}', "format and epoch are no numbers"),
        (b'{"format": 1, "epoch": 99999999999}', "epoch 99999999999"),
        (b'{"format": 1, "epoch": -1}', "epoch -1"),
    ],
)
def test_a_directory_whose_description_cannot_be_read_is_refused(content: bytes, reason: str) -> None:
    stage = stopped()
    replace(stage, "runnel-log.json", content)

    assert refusal(stage) == (
        f"/data cannot be used as a data directory: its runnel-log.json cannot be read: {reason} "
        "(restore that file from a backup)"
    )


def test_a_directory_without_its_description_is_not_taken_for_a_new_one() -> None:
    stage = stopped()
    stage.files.remove(f"{DATA}/runnel-log.json")

    assert "it is no data directory of Runnel, but holds .clean" in refusal(stage)


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_checkpoint_that_cannot_be_read_is_refused(name: str) -> None:
    stage = stopped()
    replace(stage, name, b"0\n1\norders 0\n")

    assert refusal(stage) == (
        f"/data cannot be used as a data directory: its {name} cannot be read: "
        "not enough values to unpack (expected 3, got 2) (restore that file from a backup)"
    )


def test_a_start_offset_after_the_end_is_refused_and_nothing_is_removed() -> None:
    stage = Stage()
    fill(stage.partition(segment_bytes=1_024), 30)
    stage.log.close()
    before = sorted(stage.files.list(f"{DATA}/orders-0"))
    replace(stage, "log-start-offset-checkpoint", b"0\n1\norders 0 31\n")
    stage.log = stage.open()

    with pytest.raises(UnusableDirectory) as refused:
        stage.partition()
    assert refused.value.reason == (
        "its log-start-offset-checkpoint says that orders-0 begins at offset 31, but it ends at 30"
    )
    assert sorted(stage.files.list(f"{DATA}/orders-0")) == before


def test_a_disk_that_fails_while_opening_is_named() -> None:
    stage = stopped()
    stage.files.fail("open", "runnel-log.json")

    assert refusal(stage) == (
        "/data cannot be used as a data directory: "
        "it cannot be opened: [Errno 5] Input/output error: '/data/runnel-log.json' "
        "(free some space or see to the disk; what is there is left as it is)"
    )
    stage.log = stage.open()
    assert offsets(stage.partition()) == [0, 1, 2]


def test_a_file_that_may_not_be_read_is_told_with_what_helps() -> None:
    stage = stopped()
    stage.files.fail("open", "runnel-log.json", errno.EACCES)
    assert refusal(stage).endswith(
        "(give the user that runs this process access to it; what is there is left as it is)"
    )
    stage.files.fail("open", "runnel-log.json", errno.EROFS)
    assert "(see to the disk, which can only be read; " in refusal(stage)


def test_a_partition_that_cannot_be_opened_is_told_and_can_be_asked_for_again() -> None:
    stage = stopped()
    stage.log = stage.open()
    stage.files.fail("open", "orders-0", errno.EACCES)
    with pytest.raises(PartitionUnopened) as refused:
        stage.partition()
    assert str(refused.value) == (
        "partition orders-0 cannot be opened: "
        "[Errno 13] Permission denied: '/data/orders-0/00000000000000000000.index' "
        "(give the user that runs this process access to it; it is opened when it is asked for again)"
    )
    assert offsets(stage.partition()) == [0, 1, 2]


# --- clean or not


def test_a_new_directory_counts_as_clean() -> None:
    assert Stage().log.was_clean


def test_a_log_is_new_once() -> None:
    stage = Stage()
    assert stage.log.is_new
    assert not stage.stop_and_start().is_new


def test_a_closed_log_was_clean() -> None:
    assert Stage().stop_and_start().was_clean


def test_a_killed_log_was_not_clean() -> None:
    assert not Stage().kill().was_clean


def test_a_log_that_was_started_and_killed_after_a_clean_stop_was_not_clean() -> None:
    stage = Stage()
    stage.stop_and_start()

    assert not stage.kill().was_clean


def test_a_log_with_a_failed_partition_does_not_stop_cleanly() -> None:
    stage = Stage()
    partition = stage.partition()
    stage.files.fail("sync", ".log")
    append = partition.submit(batch(b"tea"))
    stage.log.commit()
    assert append.error is not None

    assert not stage.stop_and_start().was_clean


@pytest.mark.parametrize(("stops", "epoch"), [((), 0), (("stop_and_start",), 0), (("kill",), 1), (("kill", "kill"), 2)])
def test_each_unclean_start_begins_an_epoch(stops: tuple[str, ...], epoch: int) -> None:
    stage = Stage()
    for stop in stops:
        getattr(stage, stop)()

    assert stage.partition().leader_epoch == epoch


# --- the low-disk mark


def low() -> Stage:
    """A disk with less free space than the mark."""
    stage = Stage(low_disk_bytes=10_000)
    stage.files.capacity = stage.files.used + 5_000
    return stage


def test_writes_are_refused_when_the_disk_is_low() -> None:
    stage = low()
    partition = stage.partition()
    free = stage.files.free_space(DATA)
    with pytest.raises(DiskLow) as refused:
        partition.append_batch(batch(b"tea"))
    assert str(refused.value) == (
        f"the disk of /data has {free:,} bytes free, below the low-disk mark of 10,000 "
        "(free some space or lower the retention; writes go on by themselves afterwards)"
    )


def test_a_refused_write_takes_no_offset_and_writes_go_on_when_there_is_space_again() -> None:
    stage = low()
    partition = stage.partition()
    with pytest.raises(DiskLow):
        partition.append_batch(batch(b"tea"))
    stage.files.capacity = None

    assert partition.append_batch(batch(b"tea")).base_offset == 0


def test_reserved_writes_go_on_when_the_disk_is_low() -> None:
    stage = low()
    append = stage.partition().submit(batch(b"state"), reserved=True)
    stage.log.commit()

    assert append.result(timeout=0).base_offset == 0


def test_reads_go_on_when_the_disk_is_low() -> None:
    stage = Stage(low_disk_bytes=10_000)
    fill(stage.partition(), 3)
    stage.files.capacity = stage.files.used

    assert offsets(stage.partition()) == [0, 1, 2]


def test_a_disk_that_others_fill_is_noticed_after_some_writes() -> None:
    stage = Stage(low_disk_bytes=10_000)
    partition = stage.partition()
    partition.append_batch(batch(b"tea"))
    stage.files.capacity = stage.files.used + 10_100
    home = stage.log._home
    for _ in range(ROOM_BETWEEN_LOOKS // MIB):
        home.refuse_if_disk_low(MIB)
    with pytest.raises(DiskLow):
        home.refuse_if_disk_low(MIB)


def test_what_is_written_between_two_looks_counts() -> None:
    stage = Stage(low_disk_bytes=10_000)
    stage.files.capacity = stage.files.used + 12_000
    partition = stage.partition()
    partition.append_batch(batch(bytes(1_500)))

    with pytest.raises(DiskLow):
        partition.append_batch(batch(bytes(1_500)))


def test_a_mark_of_nothing_lets_the_disk_fill_up() -> None:
    stage = Stage(low_disk_bytes=0)
    stage.files.capacity = stage.files.used + 5_000

    assert stage.partition().append_batch(batch(b"tea")).base_offset == 0


# --- partitions


def test_the_partitions_of_a_directory_are_listed_in_order() -> None:
    stage = Stage()
    for topic, number in [("orders", 10), ("orders", 9), ("a", 0)]:
        stage.log.partition(topic, number)

    assert [str(name) for name in stage.log.partitions()] == ["a-0", "orders-9", "orders-10"]


def test_what_an_interrupted_deletion_left_is_removed() -> None:
    stage = stopped()
    stage.files.rename(f"{DATA}/orders-0", f"{DATA}/orders-0.00ff-delete")
    stage.open()

    assert not any("delete" in name for name in stage.files.list(DATA))


def test_a_relative_path_is_kept_when_the_process_moves_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_log("data", background=False) as log:
        monkeypatch.chdir("/")
        fill(log.partition("orders"), 1)
        assert log.path == str(tmp_path / "data")
