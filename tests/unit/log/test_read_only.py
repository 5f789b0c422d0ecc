"""Those who only look open nothing for writing, and leave the lock as they found it."""

from __future__ import annotations

import os

import pytest

from runnel.log.read_only import READ_ONLY_DISK


def test_a_file_cannot_be_written_or_made(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    file = READ_ONLY_DISK.open(str(path))
    assert file.read(7, 0) == b"content"
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write([b"x"], 0)
    with pytest.raises(OSError, match="Read-only file system"):
        READ_ONLY_DISK.open(str(tmp_path / "new"), create=True)


def test_the_lock_names_its_owner_while_it_is_held_and_then_what_stood_there(tmp_path):
    path = tmp_path / ".lock"
    path.write_text("123456789\n")
    lock = READ_ONLY_DISK.lock(str(path))
    assert lock is not None
    assert path.read_text() == f"{os.getpid()}\n"
    assert READ_ONLY_DISK.lock(str(path)) is None
    lock.release()
    lock.release()
    assert path.read_text() == "123456789\n"


def test_a_lock_that_may_only_be_read_can_be_held(tmp_path, monkeypatch):
    path = tmp_path / ".lock"
    path.write_text("1\n")
    really_open = os.open

    def open_read_only(path: str, flags: int, *arguments: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied", path)
        return really_open(path, flags, *arguments)

    monkeypatch.setattr(os, "open", open_read_only)
    lock = READ_ONLY_DISK.lock(str(path))
    assert lock is not None
    assert READ_ONLY_DISK.lock(str(path)) is None
    lock.release()
    assert path.read_text() == "1\n"


def test_a_pipe_does_not_make_us_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(OSError, match="Illegal seek"):
        READ_ONLY_DISK.open(str(tmp_path / "pipe.log")).read(1, 0)
