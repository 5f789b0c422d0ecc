"""Where the files of a test lie."""

from __future__ import annotations

import shutil

import pytest

from runnel.testing import in_memory
from runnel.testing.in_memory import CHOSEN, ROOM, memory_for_files


@pytest.fixture(autouse=True)
def nobody_has_chosen(monkeypatch):
    for name in CHOSEN:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def free(monkeypatch):
    def is_free(count):
        usage = shutil.disk_usage("/")._replace(free=count)
        monkeypatch.setattr(in_memory.shutil, "disk_usage", lambda _: usage)

    return is_free


def test_files_lie_in_memory_where_there_is_room(tmp_path, free):
    free(ROOM)
    assert memory_for_files(str(tmp_path)) == str(tmp_path)


def test_files_lie_where_others_do_if_memory_has_little_room(tmp_path, free):
    free(ROOM - 1)
    assert memory_for_files(str(tmp_path)) is None


def test_files_lie_where_others_do_if_there_is_no_such_file_system(tmp_path):
    assert memory_for_files(str(tmp_path / "none")) is None


@pytest.mark.parametrize("name", CHOSEN)
def test_a_place_that_was_chosen_is_left_to_whoever_chose_it(tmp_path, free, monkeypatch, name):
    free(ROOM)
    monkeypatch.setenv(name, "/mnt/disk")
    assert memory_for_files(str(tmp_path)) is None
