import errno
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from runnel.errors import UnusableDirectory
from runnel.files import BUFFERS_PER_CALL, DISK, Buffer, DiskFile, DiskFiles, make_directories, read_file, replace_file
from runnel.testing import Crashed, FaultyFiles
from tests.unit.test_forking import forked


def a_file(tmp_path: Path, content: bytes = b"") -> DiskFile:
    path = tmp_path / "file"
    path.write_bytes(content)
    return DISK.open(str(path))


# --- files


def test_a_file_that_does_not_exist_is_not_made_unless_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DISK.open(str(tmp_path / "file"))
    DISK.open(str(tmp_path / "file"), create=True)

    assert DISK.exists(str(tmp_path / "file"))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.write([b"one ", bytearray(b"two "), memoryview(b"three")], 0)
    file.sync()

    assert file.read(100, 4) == b"two three"


def test_a_read_is_shorter_only_at_the_end(tmp_path: Path) -> None:
    file = a_file(tmp_path, b"0123456789")

    assert [file.read(4, position) for position in (0, 6, 8, 10, 99)] == [b"0123", b"6789", b"89", b"", b""]


def test_a_write_behind_the_end_fills_the_gap_with_zeros(tmp_path: Path) -> None:
    file = a_file(tmp_path, b"ab")
    file.write([b"cd"], 4)

    assert file.read(100, 0) == b"ab\0\0cd"


def test_more_buffers_than_one_call_takes_are_written_in_order(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    buffers = [b"%05d" % number for number in range(3 * BUFFERS_PER_CALL + 1)]
    file.write(buffers, 7)

    assert file.read(10**6, 7) == b"".join(buffers)


def test_a_truncated_file_ends_there(tmp_path: Path) -> None:
    file = a_file(tmp_path, b"0123456789")
    file.truncate(3)

    assert (file.size(), file.read(100, 0)) == (3, b"012")


def test_a_read_that_a_signal_cut_short_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = a_file(tmp_path, b"0123456789")
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, length, position: whole(descriptor, min(length, 3), position))

    assert file.read(8, 1) == b"12345678"
    assert file.read(100, 5) == b"56789"


def test_a_write_that_the_system_cut_short_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = a_file(tmp_path)

    def first_three_bytes(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwrite(descriptor, b"".join(buffers)[:3], position)

    monkeypatch.setattr(os, "pwritev", first_three_bytes)
    file.write([b"0123", b"4567", b"89"], 2)

    assert file.read(100, 2) == b"0123456789"


def test_a_write_that_makes_no_progress_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = a_file(tmp_path)
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError, match="No space left") as raised:
        file.write([b"tea"], 0)
    assert raised.value.errno == errno.ENOSPC


def test_a_removed_file_stays_readable_for_who_holds_it(tmp_path: Path) -> None:
    file = a_file(tmp_path, b"tea")
    DISK.remove(str(tmp_path / "file"))

    assert file.read(3, 0) == b"tea"


def test_a_file_that_nobody_holds_is_closed(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    descriptor = file._descriptor
    del file

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


# --- folders


def test_folders_are_made_listed_and_removed(tmp_path: Path) -> None:
    folder = str(tmp_path / "folder")
    DISK.make_directory(folder)
    DISK.open(f"{folder}/file", create=True)
    assert DISK.list(folder) == ["file"]

    DISK.remove(f"{folder}/file")
    DISK.remove_directory(folder)

    assert not DISK.exists(folder)


def test_a_rename_replaces_the_target(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "new").write_bytes(b"new")
    DISK.rename(str(tmp_path / "new"), str(tmp_path / "old"))

    assert sorted(DISK.list(str(tmp_path))) == ["old"]
    assert read_file(DISK, str(tmp_path / "old")) == b"new"


def test_a_folder_can_be_synced(tmp_path: Path) -> None:
    DISK.sync_directory(str(tmp_path))


def test_a_file_cannot_be_synced_as_a_folder(tmp_path: Path) -> None:
    a_file(tmp_path)
    with pytest.raises(NotADirectoryError):
        DISK.sync_directory(str(tmp_path / "file"))


def test_the_time_of_the_last_write_is_in_milliseconds(tmp_path: Path) -> None:
    a_file(tmp_path)
    os.utime(tmp_path / "file", ns=(0, 1_700_000_000_123_456_789))

    assert DISK.modified(str(tmp_path / "file")) == 1_700_000_000_123


def test_the_free_space_is_what_the_system_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Facts:
        f_bavail, f_frsize = 10, 4_096

    monkeypatch.setattr(os, "statvfs", lambda _: Facts)

    assert DISK.free_space(str(tmp_path)) == 40_960


# --- locks


def test_a_lock_has_one_owner_at_a_time(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    first = DISK.lock(path)
    assert first is not None
    assert DISK.lock(path) is None

    first.release()

    second = DISK.lock(path)
    assert second is not None
    second.release()


def test_a_lock_names_its_owner(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"9999999999 somebody before us\n")
    lock = DISK.lock(str(tmp_path / "lock"))
    assert lock is not None

    assert (tmp_path / "lock").read_bytes() == b"%d\n" % os.getpid()
    lock.release()


def test_a_refused_lock_leaves_the_owners_name(tmp_path: Path) -> None:
    lock = DISK.lock(str(tmp_path / "lock"))
    assert lock is not None
    DISK.lock(str(tmp_path / "lock"))

    assert (tmp_path / "lock").read_bytes() == b"%d\n" % os.getpid()
    lock.release()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # the tests before this one have threads
def test_a_lock_is_free_when_its_owner_releases_it_though_a_forked_process_has_it_as_well(tmp_path: Path) -> None:
    lock = DISK.lock(str(tmp_path / "lock"))
    assert lock is not None
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent closes its end, or ends
        os._exit(0)
    lock.release()
    again = DISK.lock(str(tmp_path / "lock"))
    os.close(writing)
    os.waitpid(child, 0)
    os.close(reading)
    assert again is not None
    again.release()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_lock_is_free_when_its_owner_is_killed_though_a_process_lives_that_it_has_forked(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    children, told = os.pipe()

    def own_and_fork() -> None:
        lock = DISK.lock(str(tmp_path / "lock"))
        assert lock is not None
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.write(told, b"ready")
            os.read(reading, 1)  # until the test closes its end, or ends
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    assert forked(own_and_fork) == -signal.SIGKILL
    assert os.read(children, 5) == b"ready"
    lock = DISK.lock(str(tmp_path / "lock"))
    for descriptor in (writing, reading, children, told):
        os.close(descriptor)
    assert lock is not None
    lock.release()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_that_releases_a_lock_leaves_it_to_its_owner(tmp_path: Path) -> None:
    lock = DISK.lock(str(tmp_path / "lock"))
    assert lock is not None
    assert forked(lock.release) == 0
    assert DISK.lock(str(tmp_path / "lock")) is None
    lock.release()


def test_a_lock_may_be_released_twice(tmp_path: Path) -> None:
    lock = DISK.lock(str(tmp_path / "lock"))
    assert lock is not None
    lock.release()
    lock.release()


# --- replacing a file


def test_a_replaced_file_has_the_new_content_and_nothing_is_left_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old and longer")
    (tmp_path / "file.tmp").write_bytes(b"left over by an interrupted replacement")
    replace_file(DISK, str(tmp_path / "file"), b"new")

    assert (tmp_path / "file").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_crash_leaves_the_old_file_or_the_new_one_whole() -> None:
    left: set[bytes] = set()
    for crash_at in range(1, 30):
        files = FaultyFiles()
        replace_file(files, "/file", b"old" * 500)
        files.crash_at = files.operations + crash_at
        try:
            replace_file(files, "/file", b"new" * 700)
        except Crashed:
            left |= {read_file(files.crash(Random(seed)), "/file") for seed in range(20)}

    assert left == {b"old" * 500, b"new" * 700}


def test_a_replacement_that_returned_survives_a_power_cut() -> None:
    files = FaultyFiles()
    replace_file(files, "/file", b"old")
    replace_file(files, "/file", b"new")

    assert {read_file(files.crash(Random(seed)), "/file") for seed in range(50)} == {b"new"}


def test_a_replacement_that_failed_leaves_the_old_file() -> None:
    files = FaultyFiles()
    replace_file(files, "/file", b"old")
    files.fail("sync", "/file")
    with pytest.raises(OSError, match="Input/output error"):
        replace_file(files, "/file", b"new")

    assert read_file(files, "/file") == b"old"


def test_the_folders_above_are_made_as_well(tmp_path: Path) -> None:
    make_directories(str(tmp_path / "a" / "b" / "c"))
    make_directories(str(tmp_path / "a" / "b" / "c"))
    assert (tmp_path / "a" / "b" / "c").is_dir()


@pytest.mark.parametrize("path", ["file", "file/folder"])
def test_where_a_file_stands_no_folder_is_made(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableDirectory) as refused:
        make_directories(str(tmp_path / path))
    assert refused.value.what == f"{tmp_path / path} cannot be used as a data directory: {tmp_path / 'file'} is a file"
    assert refused.value.hint == "name another one, or move the file away"


def test_a_folder_that_was_made_is_synced_with_those_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(type(DISK), "sync_directory", lambda _, path: synced.append(path))
    make_directories(str(tmp_path / "a" / "b"))
    assert synced == [str(tmp_path), str(tmp_path / "a")]


class Overtaken(DiskFiles):
    """Somebody else replaces a file just before we do."""

    def __init__(self, other: Callable[[], None]) -> None:
        super().__init__()
        self._other = other

    def rename(self, source: str, target: str) -> None:
        self._other()
        super().rename(source, target)


def test_two_may_replace_a_file_at_once_if_each_has_a_mark(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    files = Overtaken(lambda: replace_file(DISK, path, b"other", mark=".2"))
    replace_file(files, path, b"own", mark=".1")
    assert read_file(DISK, path) == b"own"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    with pytest.raises(FileNotFoundError):
        replace_file(Overtaken(lambda: replace_file(DISK, path, b"other")), path, b"own")
