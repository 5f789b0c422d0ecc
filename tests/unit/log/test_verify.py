"""`verify` reads every segment, names the place of whatever is wrong, and changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runnel.errors import DirectoryOwned, UnusableDirectory
from runnel.log.verify import Severity, Totals, verify
from runnel.records import Record, build_batch, parse_header
from runnel.testing import FaultyFiles
from tests.unit.log.data_directory import (
    AUDIT,
    ORDERS,
    ORDERS_END,
    SETTINGS,
    Found,
    add,
    clean_directory,
    cut,
    files_of,
    filled,
    flip,
    killed_directory,
    last_batch_position,
    opened,
    problems_in,
    rechecked,
    segments_of,
)

LENGTH, LEADER_EPOCH, MAGIC, CHECKSUM, ATTRIBUTES, COUNT = 11, 15, 16, 20, 21, 60  # one byte of each field of a batch


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return clean_directory(tmp_path / "data")


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    return killed_directory(tmp_path / "killed")


def problems(path: Path) -> list[Found]:
    return problems_in(verify(path), path)


def notes(path: Path) -> list[Found]:
    return problems_in(verify(path), path, Severity.NOTE)


def name(segment: Path) -> str:
    return f"{segment.parent.name}/{segment.name}"


# --- what is well


def test_a_directory_that_was_stopped_cleanly_has_no_problems(directory):
    report = verify(directory)
    segments = segments_of(directory / ORDERS) + segments_of(directory / AUDIT)
    assert len(segments) > 3
    assert report.problems == []
    assert report.is_well
    assert report.totals == Totals(2, len(segments), 36, 66, sum(segment.stat().st_size for segment in segments))


def test_a_directory_whose_process_died_has_no_problems(killed):
    assert verify(killed).problems == []


def test_one_partition_is_checked_with_what_its_directory_knows(directory):
    segment = directory / AUDIT / "00000000000000000000.log"
    cut(segment, parse_header(segment.read_bytes()).size)
    assert verify(directory / ORDERS).problems == []
    assert verify(directory / ORDERS).totals.partitions == 1
    assert "the file ends before offset 6, which was synced" in [found.what for found in problems(directory / AUDIT)]


def test_a_partition_that_stands_alone_can_be_checked(directory, tmp_path):
    alone = shutil.copytree(directory / ORDERS, tmp_path / "copy")
    assert verify(alone).problems == []
    cut(segments_of(alone)[-1], -1)
    assert problems(alone)[0].path == segments_of(alone)[-1].name


def test_records_that_were_deleted_are_not_missed(directory):
    second = segments_of(directory / ORDERS)[1]
    with opened(directory) as log:
        log.partition("orders", 0, SETTINGS).delete_before(int(second.stem) + 3)
    assert segments_of(directory / ORDERS)[0] == second
    assert verify(directory).problems == []


def test_nothing_is_changed(directory):
    flip(segments_of(directory / ORDERS)[0], 70)
    (directory / ORDERS / "00000000000000000099.log.tmp").touch()
    before = files_of(directory)
    assert not verify(directory).is_well
    assert files_of(directory) == before


def test_the_progress_ends_with_all_bytes(directory):
    told: list[tuple[int, int]] = []
    report = verify(directory, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (report.totals.bytes, report.totals.bytes)


def test_the_disk_is_an_argument():
    files = FaultyFiles()
    files.make_directory("/data")
    with pytest.raises(UnusableDirectory):
        verify("/data", files=files)


# --- who may be checked


def test_a_directory_in_use_is_refused(tmp_path):
    with filled(tmp_path / "data"):
        for path in (tmp_path / "data", tmp_path / "data" / ORDERS):
            with pytest.raises(DirectoryOwned, match="in use by process"):
                verify(path)


def test_a_directory_in_use_is_read_on_demand_and_the_report_says_so(tmp_path):
    with filled(tmp_path / "data"):
        report = verify(tmp_path / "data", force=True)
    assert report.is_well
    assert report.totals.records == 66
    assert [(found.path, found.what.partition(":")[2]) for found in problems_in(report, tmp_path, Severity.NOTE)] == [
        ("data/.lock", " what changed meanwhile may be told as a problem")
    ]


def test_a_lock_that_cannot_be_taken_is_told(directory):
    (directory / ".lock").unlink()
    (directory / ".lock").mkdir()
    with pytest.raises(UnusableDirectory, match="its lock cannot be taken: Is a directory"):
        verify(directory)


def test_a_directory_without_a_lock_file_gets_none(directory):
    (directory / ".lock").unlink()
    assert verify(directory).is_well
    assert not (directory / ".lock").exists()


def test_the_lock_is_given_back(directory):
    verify(directory)
    opened(directory).close()


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: None], ids=["a file", "empty", "missing"])
def test_what_is_no_data_directory_is_refused(tmp_path, make):
    make(tmp_path / "stranger")
    with pytest.raises(UnusableDirectory, match="stranger cannot be used as a data directory") as caught:
        verify(tmp_path / "stranger")
    assert caught.value.hint == "name a data directory, or the folder of a partition"


def test_a_newer_format_is_refused(directory):
    (directory / "runnel-log.json").write_text('{"format": 2, "epoch": 0}\n')
    with pytest.raises(UnusableDirectory, match="it has format 2, this version of Runnel knows 1"):
        verify(directory)


# --- batches


@pytest.mark.parametrize("position", [0, 7, LENGTH, MAGIC, CHECKSUM, ATTRIBUTES, COUNT, 70])
def test_a_flipped_bit_of_a_batch_is_found_and_its_offsets_are_named(directory, position):
    segment = segments_of(directory / ORDERS)[1]
    base, second = int(segment.stem), parse_header(segment.read_bytes()).size
    flip(segment, second + position)
    (found,) = problems(directory)
    assert found[:3] == (name(segment), second, base + 2)
    assert found.what.endswith(f"records from offset {base + 2} to {base + 3} cannot be read")


def test_what_stands_behind_a_broken_batch_is_checked_too(directory):
    segment = segments_of(directory / ORDERS)[0]
    content = segment.read_bytes()
    second = parse_header(content).size
    third = second + parse_header(content, second).size
    flip(segment, CHECKSUM)
    flip(segment, third + CHECKSUM)
    assert [found[:3] for found in problems(directory)] == [(name(segment), 0, 0), (name(segment), third, 4)]


def test_a_leader_epoch_that_changed_is_found(directory):
    segment = segments_of(directory / ORDERS)[0]
    flip(segment, LEADER_EPOCH)
    what = "batch with leader epoch 1, but leader-epoch-checkpoint says 0"
    assert problems(directory) == [(name(segment), 0, 0, what)]


def test_records_that_do_not_decode_are_found_although_their_checksum_is_right(tmp_path):
    batch = bytearray(build_batch([Record(b"whole")]))
    batch[61] ^= 0x02  # the record's length
    with filled(tmp_path / "data") as log:
        log.partition("audit").append_batch(rechecked(bytes(batch)))
    segment = segments_of(tmp_path / "data" / AUDIT)[0]
    (found,) = problems(tmp_path / "data")
    assert found[:3] == (name(segment), last_batch_position(segment), 6)
    assert found.what == "record of 10 bytes whose fields have 11"


# --- between segments, and the end


def test_a_segment_that_lost_its_end_is_found(directory):
    segment, following = segments_of(directory / ORDERS)[:2]
    cut(segment, last_batch_position(segment))
    end = int(following.stem)
    what = f"the segment ends with offset {end - 3}, but the next one begins at {end}"
    assert (name(segment), segment.stat().st_size, end - 2, what) in problems(directory)


def test_a_log_that_lost_its_end_is_found(directory):
    segment = segments_of(directory / ORDERS)[-1]
    cut(segment, last_batch_position(segment))
    what = f"the file ends before offset {ORDERS_END}, which was synced"
    assert (name(segment), segment.stat().st_size, ORDERS_END - 2, what) in problems(directory)


def test_a_log_that_grew_after_it_was_stopped_is_found(directory):
    segment = segments_of(directory / ORDERS)[-1]
    size = segment.stat().st_size
    add(segment, build_batch([Record(b"strange")], base_offset=ORDERS_END, leader_epoch=0))
    what = f"the log ended at offset {ORDERS_END} when it was stopped; more was added since"
    assert problems(directory) == [(name(segment), None, ORDERS_END, what)]
    assert size < segment.stat().st_size


@pytest.mark.parametrize(
    ("number", "what"),
    [
        (0, "the first segment begins at offset {next}, the partition at 0: what stood between is missing"),
        (1, "the segment ends with offset {last}, but the next one begins at {next}"),
        (-1, "the file ends before offset 60, which was synced"),
    ],
)
def test_a_segment_that_is_gone_is_found(directory, number, what):
    segments = segments_of(directory / ORDERS)
    segment = segments[number]
    segment.unlink()
    following = int(segments[number + 1].stem) if number >= 0 else ORDERS_END
    expected = what.format(last=int(segment.stem) - 1, next=following)
    assert expected in [found.what for found in problems(directory)]


def test_a_segment_that_cannot_be_opened_is_found(directory):
    segment = segments_of(directory / ORDERS)[1]
    segment.unlink()
    segment.symlink_to("nowhere")
    what = "it cannot be read: No such file or directory"
    assert (name(segment), None, int(segment.stem), what) in problems(directory)


def test_a_partition_without_any_segment_is_found(directory):
    for file in (directory / ORDERS).iterdir():
        file.unlink()
    assert (ORDERS, None, 0, "no segment is left of offsets up to 60") in problems(directory)


def test_what_a_failed_write_left_behind_a_sealed_segment_is_a_note(directory):
    segment, following = segments_of(directory / ORDERS)[:2]
    size, limit = segment.stat().st_size, int(following.stem)
    what = "{} bytes of a failed write, which nobody reads: the next segment begins before them"
    for left_over in (build_batch([Record(b"lost")], base_offset=limit), b"\x00" * 10):
        add(segment, left_over)
        added = segment.stat().st_size - size
        assert verify(directory).is_well
        assert notes(directory) == [(name(segment), size, limit, what.format(added))]


# --- after an unclean stop


def test_a_torn_tail_is_a_note_and_the_next_start_cuts_it(killed):
    segment = segments_of(killed / ORDERS)[-1]
    size = segment.stat().st_size
    add(segment, build_batch([Record(b"torn")], base_offset=ORDERS_END, leader_epoch=0)[:-3])
    torn = segment.stat().st_size - size
    what = f"{torn} bytes of a torn write, will be cut at the next start: "
    assert verify(killed).is_well
    assert [(found[:3], found.what.startswith(what)) for found in notes(killed)] == [
        ((name(segment), size, ORDERS_END), True)
    ]
    opened(killed).close()
    assert segment.stat().st_size == size
    assert verify(killed).problems == []


def test_a_broken_batch_that_was_synced_is_a_problem(killed):
    segment = segments_of(killed / ORDERS)[-1]
    position = last_batch_position(segment)
    flip(segment, position + 70)
    (found,) = problems(killed)
    assert found[:3] == (name(segment), position, ORDERS_END - 2)
    assert found.what.endswith(f"records from offset {ORDERS_END - 2} on cannot be read")


def test_a_torn_tail_after_a_clean_stop_is_a_problem(directory):
    segment = segments_of(directory / ORDERS)[-1]
    size = segment.stat().st_size
    add(segment, b"\x00" * 7)
    (found,) = problems(directory)
    assert found[:3] == (name(segment), size, ORDERS_END)
