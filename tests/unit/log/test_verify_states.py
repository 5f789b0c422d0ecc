"""`verify` checks the small files too: indexes, snapshots, epochs, checkpoints, and what is left over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runnel.errors import DamagedLog, UnusableDirectory
from runnel.files import DISK
from runnel.log import TopicSettings
from runnel.log.damage import Damage, write_damage
from runnel.log.dump.segments import INDEX_ENTRY, TIME_INDEX_ENTRY
from runnel.log.place import Place
from runnel.log.verify import Severity, verify
from runnel.records import Record, build_batch, parse_header
from tests.unit.log.data_directory import (
    AUDIT,
    NOW,
    ORDERS,
    ORDERS_END,
    Found,
    add,
    clean_directory,
    cut,
    files_of,
    flip,
    killed_directory,
    last_batch_position,
    opened,
    problems_in,
    segments_of,
)

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
EPOCHS = f"{ORDERS}/leader-epoch-checkpoint"


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


def index_of(directory: Path, suffix: str = ".index", number: int = 0) -> Path:
    return segments_of(directory / ORDERS)[number].with_suffix(suffix)


# --- a flipped bit anywhere

CHANGED_WITHOUT_A_TRACE = {".lock", "synced-offsets", "runnel-log.json"}


def test_a_flipped_bit_anywhere_is_found(directory):
    for name, content in files_of(directory).items():
        if name in CHANGED_WITHOUT_A_TRACE:
            continue
        for position in range(0, len(content), 19 if name.endswith(".log") else 1):
            flip(directory / name, position, bit=position % 8)
            found = problems(directory)
            assert found, f"{name} at position {position}"
            assert all(item.position is not None or item.offset is not None for item in found), found
            (directory / name).write_bytes(content)


# --- indexes


def test_a_wrong_entry_of_an_index_is_named(directory):
    index = index_of(directory)
    first, second = list(INDEX_ENTRY.iter_unpack(index.read_bytes()))[:2]
    flip(index, 7)
    what = f"entry for offset {first[0]} at position {first[1] ^ 1} points to no batch"
    assert problems(directory) == [(f"{ORDERS}/{index.name}", 0, first[0], what)]
    index.write_bytes(INDEX_ENTRY.pack(*second) + INDEX_ENTRY.pack(*first))
    what = f"entry for offset {first[0]} at position {first[1]} follows offset {second[0]} at position {second[1]}"
    assert problems(directory) == [(f"{ORDERS}/{index.name}", 8, first[0], what)]
    index.write_bytes(INDEX_ENTRY.pack(first[0] + 1, first[1]))
    what = f"entry for offset {first[0] + 1} at position {first[1]} points to a batch that ends with offset {first[0]}"
    assert problems(directory) == [(f"{ORDERS}/{index.name}", 0, first[0] + 1, what)]


def test_a_wrong_entry_of_a_time_index_is_named(directory):
    index = index_of(directory, ".timeindex")
    timestamp, relative = TIME_INDEX_ENTRY.unpack_from(index.read_bytes())
    flip(index, 7)
    (found,) = problems(directory)
    assert found[:3] == (f"{ORDERS}/{index.name}", 0, relative)
    assert found.what == (
        f"entry for timestamp {timestamp ^ 1} at offset {relative} "
        f"is not the largest so far, {timestamp} at offset {relative}"
    )


def test_a_time_index_that_lost_an_entry_is_found(directory):
    index = index_of(directory, ".timeindex")
    entries = list(TIME_INDEX_ENTRY.iter_unpack(index.read_bytes()))
    for missing, (timestamp, relative) in enumerate(entries):
        index.write_bytes(b"".join(TIME_INDEX_ENTRY.pack(*entry) for entry in entries if entry[1] != relative))
        what = f"no entry for timestamp {timestamp} at offset {relative}"
        assert problems(directory) == [(f"{ORDERS}/{index.name}", missing * 12, relative, what)]


def test_an_entry_for_a_later_batch_with_the_same_time_is_wrong(directory):
    index = directory / AUDIT / "00000000000000000000.timeindex"
    assert list(TIME_INDEX_ENTRY.iter_unpack(index.read_bytes())) == [(NOW, 0)]
    index.write_bytes(TIME_INDEX_ENTRY.pack(NOW, 1))
    (found,) = problems(directory)
    assert "no entry for timestamp" in found.what or "not the largest so far" in found.what


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_the_odd_end_of_an_index_is_found(directory, suffix):
    index = index_of(directory, suffix)
    size = index.stat().st_size
    add(index, b"\x00\x00\x00")
    entry = 8 if suffix == ".index" else 12
    assert problems(directory) == [(f"{ORDERS}/{index.name}", size, None, f"3 bytes are left, an entry has {entry}")]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_is_missing_is_a_note_because_it_is_made_anew(directory, suffix):
    index = index_of(directory, suffix)
    index.unlink()
    assert verify(directory).is_well
    what = "it is missing, and is made anew when the segment is read"
    assert notes(directory) == [(f"{ORDERS}/{index.name}", None, None, what)]


def test_index_entries_after_the_recovery_point_of_an_unclean_stop_are_notes(killed):
    index = index_of(killed, ".index", -1)
    index.write_bytes(INDEX_ENTRY.pack(1, 5))
    (note,) = notes(killed)
    assert note[:2] == (f"{ORDERS}/{index.name}", 0)
    assert note.what.endswith("made anew at the next start")
    assert problems(killed) == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_index_entries_before_the_recovery_point_of_an_unclean_stop_are_problems(directory, suffix):
    with opened(directory) as log:
        bills = log.partition("bills", 0, TopicSettings(index_interval_bytes=100))
        for number in range(12):
            bills.submit(build_batch([Record(b"bill", None, NOW + number)]))
        log.commit()
    (directory / ".clean").unlink()
    index = directory / "bills-0" / f"00000000000000000000{suffix}"
    assert verify(directory).problems == []
    flip(index, 7)
    (found,) = problems(directory)
    assert found[:2] == (f"bills-0/{index.name}", 0)


def test_an_empty_time_index_of_an_unclean_stop_is_a_note_because_it_is_noticed(directory):
    (directory / ".clean").unlink()
    index = index_of(directory, ".timeindex", -1)
    cut(index, 0)
    assert [note.path for note in notes(directory)] == [f"{ORDERS}/{index.name}"]
    assert verify(directory).is_well


# --- snapshots


def test_a_snapshot_that_does_not_decode_is_found(directory):
    snapshot = directory / AUDIT / "00000000000000000006.snapshot"
    flip(snapshot, 30)
    what = "producer snapshot of version 1 with a wrong checksum"
    assert problems(directory) == [(f"{AUDIT}/{snapshot.name}", 0, 6, what)]
    cut(snapshot, 3)
    (found,) = problems(directory)
    assert found.what.startswith("producer snapshot of 3 bytes")


def test_a_snapshot_after_the_end_is_found(directory):
    snapshot = directory / AUDIT / "00000000000000000006.snapshot"
    late = snapshot.rename(snapshot.with_name("00000000000000000007.snapshot"))
    what = "a snapshot of the state before offset 7, after the end of the log at 6"
    assert problems(directory) == [(f"{AUDIT}/{late.name}", None, 7, what)]


def test_a_snapshot_that_knows_the_future_is_found(directory):
    snapshot = directory / AUDIT / "00000000000000000006.snapshot"
    early = snapshot.rename(snapshot.with_name("00000000000000000004.snapshot"))
    what = "producer 7 wrote offset 5, which is not before 4"
    assert problems(directory) == [(f"{AUDIT}/{early.name}", 10, 4, what)]


# --- leader epochs


@pytest.mark.parametrize(
    ("content", "position", "what"),
    [
        (b"1\n1\n0 0\n", 0, "version b'1', only version 0 is known"),
        (b"0\n2\n0 0\n", 8, "b'' is no line of 2 fields"),
        (b"0\n1\n0 0 0\n", 4, "b'0 0 0' is no line of 2 fields"),
        (b"0\n1\n0 x\n", 4, "b'x' is no number"),
        (b"0\n2\n0 0\n0 5\n", 8, "epoch 0 from offset 5 after epoch 0 from offset 0"),
        (b"", 0, "version b'', only version 0 is known"),
    ],
)
def test_leader_epochs_that_do_not_decode_or_do_not_rise_are_found(directory, content, position, what):
    (directory / EPOCHS).write_bytes(content)
    assert problems(directory) == [(EPOCHS, position, None, what)]


def test_leader_epochs_that_do_not_agree_with_the_batches_are_found_in_each_segment(directory):
    (directory / EPOCHS).write_bytes(b"0\n1\n1 0\n")
    found = problems(directory)
    segments = segments_of(directory / ORDERS)
    assert [item[:3] for item in found[:-1]] == [(f"{ORDERS}/{path.name}", 0, int(path.stem)) for path in segments]
    assert found[0].what.startswith("batch with leader epoch 0, but leader-epoch-checkpoint says 1 (the first of ")
    assert found[-1].what == "leader epoch 1 is in use, but the data directory is at epoch 0"


def test_leader_epochs_that_are_missing_are_a_note_because_they_are_made_anew(directory):
    (directory / EPOCHS).unlink()
    assert notes(directory) == [(EPOCHS, None, None, "it is missing, and is made anew from the batches")]
    assert verify(directory).is_well


def test_an_epoch_whose_records_were_lost_is_a_note(directory):
    (directory / "runnel-log.json").write_text('{"format": 1, "epoch": 1}\n')
    (directory / EPOCHS).write_bytes(b"0\n2\n0 0\n1 99\n")
    what = "epoch 1 begins at offset 99, after the end of the log at 60"
    assert notes(directory) == [(EPOCHS, 8, 99, what)]
    assert verify(directory).is_well


# --- checkpoints of the directory


def test_a_recovery_point_after_the_end_is_found(directory):
    text = (directory / RECOVERY_POINTS).read_text()
    (directory / RECOVERY_POINTS).write_text(text.replace(f"orders 0 {ORDERS_END}", "orders 0 61"))
    segment = segments_of(directory / ORDERS)[-1]
    what = "the file ends before offset 61, which was synced"
    assert problems(directory) == [(f"{ORDERS}/{segment.name}", segment.stat().st_size, ORDERS_END, what)]


@pytest.mark.parametrize(
    ("content", "position", "what"),
    [
        (b"0\n1\norders 0\n", 4, "b'orders 0' is no line of 3 fields"),
        (b"0\n1\n\xff 0 60\n", 4, "a topic with the name b'\\xff'"),
        (b"0\n1\norders 0 60\nmore", 16, "4 bytes are left after 1 line"),
        (b"0\n1\norders 0 60", 4, "b'orders 0 60' is no line of 3 fields"),
    ],
)
def test_recovery_points_that_do_not_decode_are_found(directory, content, position, what):
    (directory / RECOVERY_POINTS).write_bytes(content)
    assert problems(directory) == [(RECOVERY_POINTS, position, None, what)]


def test_recovery_points_that_are_missing_are_found(directory):
    (directory / RECOVERY_POINTS).unlink()
    assert {found.path.partition("/")[0] for found in problems(directory)} == {AUDIT, ORDERS}


def test_a_partition_that_lost_its_folder_is_found(directory):
    (directory / AUDIT).rename(directory / f"{AUDIT}.0123-delete")
    what = "audit-0 is to be there up to offset 6, but it has no folder"
    assert problems(directory) == [(RECOVERY_POINTS, 4, 6, what)]
    assert [note.path for note in notes(directory)] == [f"{AUDIT}.0123-delete"]


def test_start_offsets_outside_of_the_partition_are_found(directory):
    (directory / "log-start-offset-checkpoint").write_text("0\n1\norders 0 61\n")
    last = segments_of(directory / ORDERS)[-1]
    what = "the file ends before offset 61, where the partition begins"
    assert problems(directory) == [(f"{ORDERS}/{last.name}", last.stat().st_size, ORDERS_END, what)]


def test_segments_before_the_start_offset_are_left_over(directory):
    second, third = segments_of(directory / ORDERS)[1:3]
    (directory / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {third.stem.lstrip('0')}\n")
    what = "left over from an interrupted deletion; it will be removed"
    assert (f"{ORDERS}/{second.name}", None, None, what) in notes(directory)
    assert verify(directory).is_well


def test_a_torn_entry_of_the_synced_offsets_is_a_note(directory):
    flip(directory / "synced-offsets", 7)
    what = "an entry is torn: up to where its partition was synced counts as unknown"
    assert notes(directory) == [("synced-offsets", 0, None, what)]
    assert verify(directory).is_well


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"format": "1", "epoch": 0}', '{"format": 1, "epoch": -1}', "[" * 9999]
)
def test_a_description_of_the_directory_that_cannot_be_read_is_found(directory, content):
    (directory / "runnel-log.json").write_text(content)
    (found,) = problems(directory)
    assert found[:3] == ("runnel-log.json", 0, None)
    assert found.what.startswith("it is not what the log writes: ")


def test_every_flipped_bit_of_the_description_is_found_or_refused_but_for_a_larger_epoch(directory):
    path = directory / "runnel-log.json"
    content = path.read_bytes()
    for position in range(len(content) * 8):
        flip(path, position // 8, position % 8)
        try:
            well = verify(directory).is_well
        except UnusableDirectory:
            well = False
        assert not well or json.loads(path.read_bytes())["epoch"] > 0
        path.write_bytes(content)


# --- quarantine and left-overs


def test_a_quarantined_segment_is_reported(directory):
    segment = segments_of(directory / ORDERS)[0]
    second = parse_header(segment.read_bytes()).size
    write_damage(DISK, str(segment.with_suffix("")), Damage(Place(second, 2), Place(999, 4), "a bad sector"))
    path = f"{ORDERS}/{segment.stem}.damage"
    what = f"quarantined from position {second}: a bad sector"
    assert problems(directory) == [(path, None, 2, f"{what}; all batches that are there are whole")]
    flip(segment, second + 70)
    assert [found[:3] for found in problems(directory)] == [(f"{ORDERS}/{segment.name}", second, 2), (path, None, 2)]
    assert problems(directory)[1].what == what


def test_a_quarantine_that_cannot_be_read_is_reported(directory):
    path = segments_of(directory / ORDERS)[0].with_suffix(".damage")
    path.write_text("{")
    (found,) = problems(directory)
    assert found[:3] == (f"{ORDERS}/{path.name}", None, 0)
    assert "its .damage file cannot be read" in found.what


def test_what_the_log_itself_quarantined_is_reported(directory):
    segment = segments_of(directory / ORDERS)[-1]
    cut(segment, last_batch_position(segment))
    with opened(directory) as log:
        log.partition("orders")
    assert f"{ORDERS}/{segment.stem}.damage" in [found.path for found in problems(directory)]


def test_left_overs_and_strangers_are_notes(directory):
    left_over = {
        f"{ORDERS}/00000000000000000099.log.tmp": "left over from an interrupted write; it will be removed",
        f"{ORDERS}/00000000000000000099.index": "left over from an interrupted deletion; it will be removed",
        f"{ORDERS}/letter.txt": "not a file of a log; it is left alone",
        "letter.txt": "not a file of a log; it is left alone",
        "runnel-log.json.tmp": "left over from an interrupted write; it is harmless",
    }
    for name in left_over:
        (directory / name).touch()
    assert verify(directory).is_well
    assert {note.path: note.what for note in notes(directory)} == left_over


def test_a_file_in_the_place_of_a_partition_is_a_problem(directory):
    (directory / "payments-0").touch()
    assert problems(directory) == [("payments-0", None, None, "it cannot be read: Not a directory")]


# --- what docs/howto/check-a-log.md advises


def everything(directory: Path) -> list[Record]:
    with opened(directory) as log:
        return [*log.partition("orders").records(), *log.partition("audit").records()]


@pytest.mark.parametrize(
    ("harmed", "removed"),
    [
        (".index", (".index", ".timeindex")),
        (".timeindex", (".index", ".timeindex")),
        (".snapshot", (".snapshot",)),
    ],
)
def test_what_can_be_made_anew_is_repaired_by_removing_it(directory, harmed, removed):
    written = everything(directory)
    flip(index_of(directory, harmed, 1), 5)
    assert not verify(directory).is_well
    for suffix in removed:
        index_of(directory, suffix, 1).unlink()
    assert verify(directory).is_well
    assert everything(directory) == written
    assert verify(directory).problems == []


def test_leader_epochs_are_repaired_by_removing_them(directory):
    written = everything(directory)
    flip(directory / EPOCHS, 5)
    assert not verify(directory).is_well
    (directory / EPOCHS).unlink()
    assert everything(directory) == written
    assert verify(directory).is_well


def test_a_quarantined_segment_is_repaired_by_restoring_it(directory):
    written = everything(directory)
    segment = segments_of(directory / ORDERS)[1]
    backup = segment.read_bytes()
    flip(segment, 70)
    with pytest.raises(DamagedLog):
        everything(directory)
    assert not verify(directory).is_well
    segment.write_bytes(backup)
    for suffix in (".damage", ".index", ".timeindex"):
        segment.with_suffix(suffix).unlink()
    assert verify(directory).is_well
    assert everything(directory) == written
    assert verify(directory).problems == []
