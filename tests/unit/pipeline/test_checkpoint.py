"""What a repeat of a batch needs is on the disk when it is said to be, and what a power cut left by half is removed."""

from __future__ import annotations

import errno
import os
import struct
from unittest.mock import Mock

import pytest

from runnel.pipeline.checkpoint import Checkpoint
from runnel.pipeline.checkpoint_file import CheckpointFile

PIECE = 512


def write(path, content=b"v1\n"):
    """With sums beside it, as Hadoop writes them; their values do not matter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    pieces = -(-len(content) // PIECE)
    path.with_name(f".{path.name}.crc").write_bytes(struct.pack(f">4si{pieces}i", b"crc\0", PIECE, *range(pieces)))


def cut(path):
    path.write_bytes(b"")


def names(path):
    return sorted(each.name for each in path.iterdir() if each.name.isdigit())


@pytest.fixture
def path(tmp_path):
    """Of a query that has done batches 0 and 1, and has planned batch 2."""
    path = tmp_path / "data" / "queries" / "counts" / "checkpoint"
    write(path / "metadata", b'{"id":"a"}')
    for batch in range(3):
        write(path / "offsets" / str(batch))
    for batch in range(2):
        write(path / "commits" / str(batch))
        for partition in range(2):
            write(path / "state" / "0" / str(partition) / f"{batch + 1}.changelog", b"x" * 1500)
    write(path / "state" / "0" / "_metadata" / "metadata")
    return path


@pytest.fixture
def checkpoint(path):
    return Checkpoint(path)


@pytest.fixture
def synced(monkeypatch, path):
    """What is synced, in order, by its path below the checkpoint, or its name above it."""
    found = []

    def tell(descriptor):
        place = os.readlink(f"/proc/self/fd/{descriptor}")
        inside = place.startswith(str(path))
        found.append(os.path.relpath(place, path) if inside else os.path.basename(place))

    monkeypatch.setattr(os, "fsync", tell)
    monkeypatch.setattr(os, "fdatasync", tell)
    return found


ROOT = ["metadata", ".metadata.crc", ".", "counts", "queries", "data"]


def test_what_a_repeat_needs_is_synced_and_names_come_last(checkpoint, synced):
    checkpoint.begin_sync(2).result()
    assert synced[:8] == [*ROOT, "offsets/2", "offsets/.2.crc"]
    files = {"commits/1", "commits/.1.crc", "state/0/_metadata/metadata", "state/0/_metadata/.metadata.crc"}
    files |= {f"state/0/{each}/{name}" for each in range(2) for name in ("2.changelog", ".2.changelog.crc")}
    directories = {"offsets", "commits", ".", "state", "state/0", "state/0/0", "state/0/1", "state/0/_metadata"}
    assert len(synced) == 8 + len(files) + len(directories)
    assert set(synced[8 : 8 + len(files)]) == files
    assert set(synced[8 + len(files) :]) == directories
    assert set(synced[-2:]) == {"commits", "offsets"}  # an entry's name without its state would stop Spark


def test_what_is_on_the_disk_is_not_synced_again(checkpoint, path, synced):
    checkpoint.sync(2)
    synced.clear()
    write(path / "offsets" / "3")
    write(path / "commits" / "2")
    write(path / "state" / "0" / "0" / "3.changelog")
    write(path / "state" / "0" / "1" / "3.changelog")
    write(path / "state" / "0" / "1" / "2.zip")
    write(path / "state" / "0" / "1" / "SSTs" / "1.sst")
    (path / "state" / "0" / "1" / ".3.zip.d2c0.TID3.tmp").write_bytes(b"half")
    checkpoint.sync(3)
    assert sorted(synced) == [
        "commits",
        "commits/.2.crc",
        "commits/2",
        "offsets",
        "offsets/.3.crc",
        "offsets/3",
        "state/0/0",
        "state/0/0/.3.changelog.crc",
        "state/0/0/3.changelog",
        "state/0/1",
        "state/0/1/.2.zip.crc",
        "state/0/1/.3.changelog.crc",
        "state/0/1/2.zip",
        "state/0/1/3.changelog",
        "state/0/1/SSTs",
        "state/0/1/SSTs/.1.sst.crc",
        "state/0/1/SSTs/1.sst",
    ]


def test_a_file_that_spark_removes_meanwhile_is_passed_over(checkpoint, path, synced):
    found = checkpoint._state.unsynced(2)
    (path / "state" / "0" / "0" / "2.changelog").unlink()
    checkpoint._state.unsynced = lambda _: found
    checkpoint.sync(2)
    assert "state/0/1/2.changelog" in synced
    assert "state/0/0/2.changelog" not in synced


def test_a_sync_that_fails_is_told_to_who_waits(checkpoint, monkeypatch):
    def fail(_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        checkpoint.begin_sync(2).result()


def test_a_file_whose_sync_has_failed_is_written_anew(checkpoint, path, monkeypatch):
    """To ask once more proves nothing: the machine may have dropped what it could not write."""
    state = path / "state" / "0" / "1" / "2.changelog"
    before = state.stat().st_ino
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", Mock(side_effect=OSError(errno.EIO, "no")))
        with pytest.raises(OSError, match="no"):
            checkpoint.sync(2)
    checkpoint.sync(2)
    assert state.stat().st_ino != before
    assert state.read_bytes() == b"x" * 1500
    after = state.stat().st_ino
    checkpoint.sync(2)
    assert state.stat().st_ino == after


def test_an_entry_that_is_not_there_is_an_error(checkpoint):
    with pytest.raises(FileNotFoundError):
        checkpoint.sync(3)


# --- after a power cut


def test_what_is_whole_stays(checkpoint, path):
    before = sorted(path.rglob("*"))
    checkpoint.mend()
    assert sorted(path.rglob("*")) == before


@pytest.mark.parametrize("which", ["{}", ".{}.crc"])
def test_entries_that_are_empty_are_removed(checkpoint, path, which):
    cut(path / "offsets" / which.format(2))
    cut(path / "commits" / which.format(1))
    checkpoint.mend()
    assert names(path / "offsets") == ["0", "1"]
    assert names(path / "commits") == ["0"]
    assert not [each for each in path.rglob("*") if each.is_file() and not each.stat().st_size]


@pytest.fixture
def first(tmp_path):
    """Of a query that has planned its first batch."""
    path = tmp_path / "first"
    for name in ("metadata", "offsets/0", "state/0/0/_metadata/schema", "state/0/_metadata/metadata"):
        write(path / name)
    return path


@pytest.mark.parametrize("which", ["metadata", ".metadata.crc"])
def test_a_first_batch_without_an_id_is_begun_anew(first, which):
    cut(first / which)
    Checkpoint(first).mend()
    assert not [each for each in first.rglob("*") if each.is_file()]


def test_it_is_also_if_the_id_is_not_there_at_all(first):
    CheckpointFile(first / "metadata").remove()
    Checkpoint(first).mend()
    assert not (first / "offsets").exists()


def test_an_id_that_is_lost_later_costs_no_entries(checkpoint, path):
    """It was on the disk before the first batch took effect: this is no power cut, and people may mend it."""
    cut(path / "metadata")
    checkpoint.mend()
    assert names(path / "offsets") == ["0", "1", "2"]


def test_a_description_of_the_state_that_is_torn_is_written_again_by_the_first_batch(first):
    cut(first / "state" / "0" / "0" / "_metadata" / "schema")
    Checkpoint(first).mend()
    assert not (first / "state" / "0" / "0" / "_metadata" / "schema").exists()
    assert (first / "state" / "0" / "_metadata" / "metadata").exists()
    assert names(first / "offsets") == ["0"]


def test_a_batch_whose_state_was_lost_is_repeated(checkpoint, path):
    """The plan of the one after it goes as well: Spark would run that one instead."""
    (path / "state" / "0" / "1" / "2.changelog").write_bytes(b"x" * 512)
    checkpoint.mend()
    assert names(path / "offsets") == ["0", "1"]
    assert names(path / "commits") == ["0"]


def test_it_is_also_if_it_was_not_known_as_done_any_more(checkpoint, path):
    cut(path / "commits" / "1")
    cut(path / "state" / "0" / "0" / "2.changelog")
    checkpoint.mend()
    assert names(path / "offsets") == ["0", "1"]
    assert names(path / "commits") == ["0"]


def test_state_that_the_repeat_makes_anew_may_be_torn(checkpoint, path):
    for name in ("offsets/2", "commits/1", "state/0/0/2.changelog"):
        cut(path / name)
    checkpoint.mend()
    assert names(path / "offsets") == ["0", "1"]
    assert names(path / "commits") == ["0"]


def test_a_file_without_sums_is_whole_if_there_is_anything_in_it(tmp_path):
    (tmp_path / "0").write_bytes(b"v1")
    assert CheckpointFile(tmp_path / "0").is_whole
    cut(tmp_path / "0")
    assert not CheckpointFile(tmp_path / "0").is_whole


@pytest.mark.parametrize(("done", "left"), [(-1, ["0", "1"]), (1, ["0", "1"]), (2, ["0", "1", "2"])])
def test_what_was_planned_and_had_no_effect_is_planned_anew(checkpoint, path, done, left):
    assert checkpoint.unplan(done) == int(left[-1])
    assert checkpoint.unplan(done) == int(left[-1])
    assert names(path / "offsets") == left
    assert names(path / "commits") == ["0", "1"]
