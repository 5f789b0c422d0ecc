"""The files of a log as rows, in their order, up to where they stop making sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from runnel.log.dump import (
    BatchRow,
    CheckpointRow,
    EpochRow,
    IndexRow,
    Malformed,
    ProducerRow,
    Row,
    SyncedRow,
    TimeIndexRow,
    UnreadableFile,
    checkpoint_rows,
    epoch_rows,
    has_offsets,
    rows_of,
)
from runnel.log.dump.segments import INDEX_ENTRY, TIME_INDEX_ENTRY
from runnel.log.producers import Remembered
from runnel.log.read_only import READ_ONLY_DISK
from runnel.records import Record, build_batch
from tests.unit.log.data_directory import AUDIT, NOW, ORDERS, clean_directory, cut, flip, rechecked, segments_of


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clean_directory(tmp_path_factory.mktemp("dump") / "data")


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Three batches of two records each."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(two_records(number) for number in range(3)))
    return path


def two_records(number: int) -> bytes:
    return build_batch([Record(b"tea"), Record(b"milk", b"k", 5)], base_offset=2 * number, leader_epoch=0)


def rows(path: Path, *, offset: int = 0, records: bool = True) -> list[Row]:
    return list(rows_of(READ_ONLY_DISK, str(path), offset=offset, records=records))


def rows_and_error(path: Path) -> tuple[list[Row], UnreadableFile]:
    """The rows before the damage, and the error that ends them."""
    found: list[Row] = []
    with pytest.raises(UnreadableFile) as caught:
        found.extend(rows_of(READ_ONLY_DISK, str(path)))
    return found, caught.value


# --- segments


def test_a_segment_shows_its_batches_with_their_records(segment):
    first, second, third = rows(segment)
    assert isinstance(second, BatchRow)
    assert (first.position, second.position, third.position) == (0, len(two_records(0)), 2 * len(two_records(0)))
    assert second.header.base_offset == 2
    assert second.records == (Record(b"tea", None, -1, (), 2), Record(b"milk", b"k", 5, (), 3))


def test_without_records_only_the_batches_are_shown(segment):
    assert [row.records for row in rows(segment, records=False) if isinstance(row, BatchRow)] == [(), (), ()]


def test_an_offset_begins_inside_of_a_batch(segment):
    shown = rows(segment, offset=3)
    assert [[record.offset for record in row.records] for row in shown if isinstance(row, BatchRow)] == [[3], [4, 5]]
    assert rows(segment, offset=6) == []


def test_gaps_between_batches_are_shown_as_they_are(segment):
    segment.write_bytes(two_records(0) + two_records(7))
    assert [row.header.base_offset for row in rows(segment) if isinstance(row, BatchRow)] == [0, 14]


def test_every_codec_is_shown(directory):
    shown = [row for segment in segments_of(directory / ORDERS) for row in rows(segment)]
    assert {row.header.codec for row in shown if isinstance(row, BatchRow)} == {0, 1, 2, 3, 4}
    assert sum(len(row.records) for row in shown if isinstance(row, BatchRow)) == 60


def test_what_stands_before_a_broken_batch_is_shown(segment):
    second = len(two_records(0))
    flip(segment, second + 65)
    shown, error = rows_and_error(segment)
    assert [row.position for row in shown] == [0]
    assert error.position == second
    assert error.what.startswith(f"{segment} is damaged at position {second}: checksum of the batch is 0x")
    assert error.hint == "what stands before it is whole"


@pytest.mark.parametrize(
    ("size", "reason"),
    [(-1, "batch of 83 bytes in 82 that are left"), (-80, "3 bytes are left, a batch's header has 61")],
)
def test_what_stands_before_a_torn_end_is_shown(segment, size, reason):
    cut(segment, size)
    shown, error = rows_and_error(segment)
    assert len(shown) == 2
    assert (error.position, error.reason) == (2 * len(two_records(0)), reason)


def test_offsets_that_go_back_are_damage(segment):
    segment.write_bytes(two_records(1) + two_records(0))
    shown, error = rows_and_error(segment)
    assert len(shown) == 1
    assert error.reason == "batch with base offset 0 after offset 3"


def test_a_length_without_sense_is_not_read(segment):
    segment.write_bytes(two_records(0) + b"\x00" * 8 + b"\x7f\xff\xff\xff" + b"\x00" * 60)
    assert rows_and_error(segment)[1].reason == "batch of 2147483659 bytes in 72 that are left"
    segment.write_bytes(b"\x00" * 70)
    assert rows_and_error(segment)[1].reason == "batch of format 0, only format 2 is known"


def test_an_empty_segment_has_no_rows(segment):
    segment.write_bytes(b"")
    assert rows(segment) == []


def test_records_that_do_not_decode_end_the_rows(segment):
    batch = bytearray(two_records(0))
    batch[61] ^= 0x02  # the first record's length
    segment.write_bytes(two_records(0) + rechecked(bytes(batch[:7] + b"\x02" + batch[8:])))
    shown, error = rows_and_error(segment)
    assert (len(shown), error.position) == (1, len(two_records(0)))
    assert "record of" in error.reason
    assert len(rows(segment, records=False)) == 2


# --- indexes


def test_an_index_shows_offsets_and_positions(tmp_path):
    path = tmp_path / "00000000000000001000.index"
    path.write_bytes(INDEX_ENTRY.pack(5, 300) + INDEX_ENTRY.pack(9, 700))
    assert rows(path) == [IndexRow(0, 1005, 300), IndexRow(8, 1009, 700)]
    assert rows(path, offset=1006) == [IndexRow(8, 1009, 700)]


def test_a_time_index_shows_timestamps_and_offsets(tmp_path):
    path = tmp_path / "00000000000000001000.timeindex"
    path.write_bytes(TIME_INDEX_ENTRY.pack(NOW, 5) + b"\x00\x00")
    shown, error = rows_and_error(path)
    assert shown == [TimeIndexRow(0, NOW, 1005)]
    assert (error.position, error.reason) == (12, "2 bytes are left, an entry has 12")


def test_an_index_of_more_than_one_chunk_is_shown_whole(tmp_path):
    path = tmp_path / "00000000000000000000.timeindex"
    path.write_bytes(b"".join(TIME_INDEX_ENTRY.pack(number, number) for number in range(20_000)))
    assert [row.position for row in rows(path)] == list(range(0, 240_000, 12))


def test_an_index_under_another_name_cannot_be_shown(tmp_path):
    path = tmp_path / "copy.index"
    path.write_bytes(b"")
    _, error = rows_and_error(path)
    assert error.what == f"{path} cannot be shown: its name is no base offset, from which an index counts"
    assert error.hint == "name the copy as the file was named, such as 00000000000000001042.index"


# --- the small files


def test_a_snapshot_shows_what_is_remembered_of_each_producer(directory):
    last_five = tuple(Remembered(number, number, 0, NOW) for number in range(1, 6))
    path = directory / AUDIT / "00000000000000000006.snapshot"
    assert rows(path) == [ProducerRow(10, 7, 1, NOW, -1, -1, last_five)]


def test_a_broken_snapshot_has_no_rows(directory, tmp_path):
    path = tmp_path / "00000000000000000006.snapshot"
    path.write_bytes((directory / AUDIT / path.name).read_bytes())
    flip(path, 40)
    shown, error = rows_and_error(path)
    assert shown == []
    assert (error.position, error.reason) == (0, "producer snapshot of version 1 with a wrong checksum")


def test_checkpoints_show_a_partition_and_its_offset(directory):
    assert rows(directory / "recovery-point-offset-checkpoint") == [
        CheckpointRow(4, "audit", 0, 6),
        CheckpointRow(14, "orders", 0, 60),
    ]


def test_synced_offsets_are_shown_and_a_torn_one_is_unknown(directory, tmp_path):
    path = tmp_path / "synced-offsets"
    path.write_bytes((directory / path.name).read_bytes())
    assert rows(path) == [SyncedRow(0, "orders-0", 60), SyncedRow(22, "audit-0", 6)]
    flip(path, 3)
    assert rows(path)[0] == SyncedRow(0, "orders-0", None)
    cut(path, 30)
    assert rows_and_error(path)[1].position == 22


def test_leader_epochs_show_where_each_begins():
    assert list(epoch_rows(b"0\n2\n0 0\n3 70\n")) == [EpochRow(4, 0, 0), EpochRow(8, 3, 70)]


def test_lines_before_a_broken_one_are_shown():
    found = checkpoint_rows(b"0\n2\na 0 10\nb 0\n")
    assert next(found) == CheckpointRow(4, "a", 0, 10)
    with pytest.raises(Malformed, match="position 11: b'b 0' is no line of 3 fields"):
        next(found)


# --- files that cannot be shown


def test_a_missing_file_a_directory_and_a_stranger_cannot_be_shown(tmp_path):
    stranger = tmp_path / "letter.txt"
    stranger.touch()
    assert rows_and_error(tmp_path / "gone.log")[1].reason == "there is no such file"
    assert rows_and_error(tmp_path)[1].reason == "it is a directory"
    assert rows_and_error(stranger)[1].what == f"{stranger} cannot be shown: its name is of no kind that is known"
    assert rows_and_error(stranger)[1].hint == (
        "files that can be shown end in .log, .index, .timeindex, .txnindex, .snapshot, -offset-checkpoint, "
        "leader-epoch-checkpoint, synced-offsets"
    )


def test_only_segments_and_indexes_have_offsets():
    assert [has_offsets(name) for name in ("0.log", "0.index", "0.timeindex", "0.snapshot", "synced-offsets")] == [
        True, True, True, False, False,
    ]  # fmt: skip
