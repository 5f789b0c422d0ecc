"""An entry of Spark's checkpoint is on the disk when it is said to be."""

from __future__ import annotations

import os

import pytest

from runnel.pipeline.checkpoint import Checkpoint


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "data" / "queries" / "counts" / "checkpoint"
    (path / "offsets").mkdir(parents=True)
    (path / "metadata").write_text('{"id":"a"}')
    for batch in range(3):
        (path / "offsets" / str(batch)).write_text("v1\n")
    return Checkpoint(path)


@pytest.fixture
def synced(monkeypatch):
    """The names of what is synced, in order."""
    found = []

    def tell(descriptor):
        found.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr(os, "fsync", tell)
    monkeypatch.setattr(os, "fdatasync", tell)
    return found


def test_an_entry_is_synced_before_its_name(checkpoint, synced):
    checkpoint.sync(2)
    assert synced[-2:] == ["2", "offsets"]


def test_what_is_above_the_entries_is_synced_once(checkpoint, synced):
    for batch in range(3):
        checkpoint.sync(batch)
    assert synced == [
        "metadata",
        "checkpoint",
        "counts",
        "queries",
        "data",
        "0",
        "offsets",
        "1",
        "offsets",
        "2",
        "offsets",
    ]


def test_an_entry_that_is_not_there_is_an_error(checkpoint):
    with pytest.raises(FileNotFoundError):
        checkpoint.sync(3)
