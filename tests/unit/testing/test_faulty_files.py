"""`FaultyFiles` loses all that POSIX lets a crash lose, and nothing else."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from runnel.files import DiskFiles, Files, read_file, replace_file
from runnel.testing import Crashed, FaultyFiles, StoppedClock

OLD = b"o" * 2048
NEW = b"n" * 2048


def disk_with(**contents: bytes) -> FaultyFiles:
    """A disk on which these files are safe."""
    files = FaultyFiles()
    files.make_directory("/data")
    files.sync_directory("/")
    for name, content in contents.items():
        file = files.open(f"/data/{name}", create=True)
        file.write([content], 0)
        file.sync()
    files.sync_directory("/data")
    return files


def contents(files: Files) -> dict[str, bytes]:
    return {name: read_file(files, f"/data/{name}") for name in files.list("/data")}


def power_cuts(files: FaultyFiles, count: int = 300) -> list[FaultyFiles]:
    return [files.crash(Random(seed)) for seed in range(count)]


def bytes_left(files: FaultyFiles, name: str, count: int = 300) -> set[bytes]:
    return {read_file(left, f"/data/{name}") for left in power_cuts(files, count)}


def names_left(files: FaultyFiles) -> set[str]:
    return {" ".join(sorted(left.list("/data"))) for left in power_cuts(files)}


def test_unsynced_bytes_may_be_lost_and_may_be_kept() -> None:
    files = disk_with(log=b"")
    files.open("/data/log").write([NEW], 0)

    assert bytes_left(files, "log") > {b"", NEW}


def test_nothing_kept_and_everything_kept_are_both_frequent() -> None:
    files = disk_with(log=b"")
    for number in range(20):
        files.open("/data/log").write([NEW], number * len(NEW))

    left = [read_file(disk, "/data/log") for disk in power_cuts(files)]

    assert left.count(b"") > 60
    assert left.count(NEW * 20) > 60
    assert len(set(left)) > 60


def test_synced_bytes_are_never_lost() -> None:
    files = disk_with(log=OLD)
    file = files.open("/data/log")
    file.write([NEW], len(OLD))
    file.write([NEW], 2 * len(OLD))

    assert all(content.startswith(OLD) for content in bytes_left(files, "log"))


def test_a_sync_saves_writes_and_truncations_together() -> None:
    files = disk_with(log=OLD)
    file = files.open("/data/log")
    file.truncate(100)
    file.write([b"tail"], 200)
    file.sync()

    assert bytes_left(files, "log") == {OLD[:100] + bytes(100) + b"tail"}


def test_an_overwriting_write_is_torn_at_sectors_only() -> None:
    files = disk_with(log=OLD)
    files.open("/data/log").write([NEW[:1000]], 300)

    left = bytes_left(files, "log", 1000)
    sectors = {(content[300:512], content[512:1024], content[1024:1300]) for content in left}

    assert all(content[:300] + content[1300:] == OLD[:1048] for content in left)
    assert all(len(set(sector)) == 1 for parts in sectors for sector in parts)
    assert len(sectors) == 8


def test_a_file_may_have_grown_to_any_size_without_its_bytes() -> None:
    files = disk_with(log=OLD)
    files.open("/data/log").write([NEW], len(OLD))

    left = bytes_left(files, "log", 1000)
    missing = {content[len(OLD) :] for content in left}

    assert len({len(content) for content in left}) > 50
    assert max(map(len, left)) == len(OLD + NEW)
    assert any(tail and not any(tail) for tail in missing), "zeros"
    assert any(tail and set(tail) == set(OLD) for tail in missing), "old bytes"
    assert any(len(set(tail)) > 100 for tail in missing), "any bytes"


def test_a_later_write_may_arrive_without_an_earlier_one() -> None:
    files = disk_with(log=OLD)
    file = files.open("/data/log")
    file.write([b"first"], 0)
    file.write([b"later"], 1024)

    starts = {(content[:5], content[1024:1029]) for content in bytes_left(files, "log")}

    assert starts == {(a, b) for a in (b"ooooo", b"first") for b in (b"ooooo", b"later")}


def test_a_hole_that_nobody_wrote_is_zeros() -> None:
    files = disk_with(log=b"")
    files.open("/data/log").write([b"end"], 5000)

    assert not any(any(content[:5000]) for content in bytes_left(files, "log"))


def test_an_unsynced_truncation_may_be_lost_and_may_be_kept() -> None:
    files = disk_with(log=OLD)
    files.open("/data/log").truncate(10)

    assert bytes_left(files, "log") == {OLD, OLD[:10]}


def test_an_unsynced_create_may_be_lost_although_its_bytes_were_synced() -> None:
    files = disk_with()
    file = files.open("/data/log", create=True)
    file.write([NEW], 0)
    file.sync()

    assert names_left(files) == {"", "log"}
    assert {read_file(left, "/data/log") for left in power_cuts(files) if left.exists("/data/log")} == {NEW}


def test_an_unsynced_remove_may_bring_the_file_back() -> None:
    files = disk_with(log=OLD)
    files.remove("/data/log")

    assert names_left(files) == {"", "log"}


def test_an_unsynced_rename_leaves_the_old_name_or_the_new_one() -> None:
    files = disk_with(log=OLD)
    files.rename("/data/log", "/data/log.deleted")

    assert names_left(files) == {"log", "log.deleted"}


def test_an_unsynced_rename_over_a_file_leaves_either_file_whole() -> None:
    files = disk_with(old=OLD, new=NEW)
    files.rename("/data/new", "/data/old")

    left = {tuple(sorted(contents(left).items())) for left in power_cuts(files)}

    assert left == {(("new", NEW), ("old", OLD)), (("old", NEW),)}


def test_entry_changes_arrive_in_any_order() -> None:
    files = disk_with()
    files.open("/data/first", create=True)
    files.open("/data/later", create=True)

    assert names_left(files) == {"", "first", "later", "first later"}


def test_a_file_is_not_lost_when_a_swap_is_cut_short() -> None:
    files = disk_with(log=OLD, swap=NEW)
    files.rename("/data/log", "/data/backup")
    files.rename("/data/swap", "/data/log")

    left = {tuple(sorted(contents(left).items())) for left in power_cuts(files)}

    assert left == {
        (("log", OLD), ("swap", NEW)),
        (("backup", OLD), ("swap", NEW)),
        (("backup", OLD), ("log", NEW)),
    }


def test_a_file_renamed_twice_keeps_one_name() -> None:
    files = disk_with(log=OLD)
    files.rename("/data/log", "/data/log.deleted")
    files.rename("/data/log.deleted", "/data/log.gone")

    assert names_left(files) == {"log", "log.deleted", "log.gone"}


def test_a_synced_directory_keeps_its_creates_renames_and_removes() -> None:
    files = disk_with(gone=OLD, before=OLD)
    files.remove("/data/gone")
    files.rename("/data/before", "/data/after")
    files.open("/data/created", create=True)
    files.sync_directory("/data")

    assert names_left(files) == {"after created"}


def test_a_move_between_folders_needs_both_synced() -> None:
    def left_after_syncing(*folders: str) -> set[tuple[bool, bool]]:
        files = disk_with(log=OLD)
        files.make_directory("/other")
        files.sync_directory("/")
        files.rename("/data/log", "/other/log")
        for folder in folders:
            files.sync_directory(folder)
        return {(left.exists("/data/log"), left.exists("/other/log")) for left in power_cuts(files)}

    assert left_after_syncing("/data") == {(True, False), (False, True)}
    assert left_after_syncing("/other") == {(True, False), (False, True)}
    assert left_after_syncing("/data", "/other") == {(False, True)}


def test_a_synced_name_is_safe_although_an_older_move_of_it_is_not() -> None:
    files = disk_with(log=OLD)
    files.make_directory("/other")
    files.sync_directory("/")
    files.rename("/data/log", "/other/log")
    replacement = files.open("/data/log", create=True)
    replacement.write([NEW], 0)
    replacement.sync()
    files.sync_directory("/data")

    left = {(read_file(left, "/data/log"), left.exists("/other/log")) for left in power_cuts(files)}

    assert left == {(NEW, False), (NEW, True)}


def test_an_unsynced_directory_may_vanish_with_everything_in_it() -> None:
    files = disk_with()
    files.make_directory("/data/orders-0")
    files.open("/data/orders-0/log", create=True).sync()
    files.sync_directory("/data/orders-0")

    assert names_left(files) == {"", "orders-0"}
    assert all(left.list("/data/orders-0") == ["log"] for left in power_cuts(files) if left.exists("/data/orders-0"))


def test_a_replaced_file_is_the_old_or_the_new_one_after_a_crash_at_any_operation() -> None:
    def left_by_crash_at(operation: int | None, seed: int) -> tuple[bytes, int]:
        files = disk_with(state=OLD)
        files.crash_at = operation and files.operations + operation
        done = files.operations
        try:
            replace_file(files, "/data/state", NEW)
        except Crashed:
            pass
        else:
            assert operation is None
        return read_file(files.crash(Random(seed)), "/data/state"), files.operations - done

    _, operations = left_by_crash_at(None, 0)
    crashed = [left_by_crash_at(number, seed)[0] for number in range(1, operations + 1) for seed in range(50)]

    assert operations == 6
    assert set(crashed) == {OLD, NEW}
    assert {left_by_crash_at(None, seed)[0] for seed in range(100)} == {NEW}


def test_a_power_cut_leaves_what_another_one_cannot_change() -> None:
    files = disk_with(log=OLD)
    files.open("/data/log").write([NEW], 1000)
    files.open("/data/created", create=True)

    left = files.crash(Random(3))
    before = contents(left)

    assert all(contents(again) == before for again in power_cuts(left))


def test_the_same_seed_leaves_the_same() -> None:
    files = disk_with(log=OLD)
    files.open("/data/log").write([NEW], 1000)

    assert contents(files.crash(Random(7))) == contents(files.crash(Random(7)))


def test_a_kill_keeps_everything_and_saves_nothing() -> None:
    files = disk_with(log=OLD)
    files.open("/data/log").write([NEW], len(OLD))
    files.open("/data/created", create=True)

    left = files.kill()

    assert contents(left) == {"log": OLD + NEW, "created": b""}
    assert names_left(left) == {"log", "created log"}
    assert bytes_left(left, "log") > {OLD, OLD + NEW}


def test_what_a_kill_left_can_be_asked_for_once() -> None:
    files = disk_with()
    files.kill()

    with pytest.raises(Crashed):
        files.crash(Random(0))


@pytest.mark.parametrize("end", [FaultyFiles.kill, lambda files: files.crash(Random(0))])
def test_each_call_of_a_dead_object_raises(end: Callable[[FaultyFiles], FaultyFiles]) -> None:
    files = disk_with(log=OLD)
    file, lock = files.open("/data/log"), files.lock("/data/.lock")
    assert lock is not None
    end(files)

    calls: list[Callable[[], object]] = [
        file.size,
        lambda: file.read(1, 0),
        lambda: file.write([b"x"], 0),
        lambda: file.truncate(0),
        file.sync,
        lock.release,
        lambda: files.open("/data/log"),
        lambda: files.list("/data"),
        lambda: files.exists("/data"),
        lambda: files.modified("/data/log"),
        lambda: files.make_directory("/data/x"),
        lambda: files.remove_directory("/data"),
        lambda: files.rename("/data/log", "/data/x"),
        lambda: files.remove("/data/log"),
        lambda: files.sync_directory("/data"),
        lambda: files.free_space("/data"),
        lambda: files.lock("/data/.lock"),
    ]
    for call in calls:
        with pytest.raises(Crashed):
            call()


def test_a_crash_is_not_swallowed_as_an_exception() -> None:
    assert not issubclass(Crashed, Exception)


def test_crash_at_counts_the_operations_that_change_something() -> None:
    files = FaultyFiles(crash_at=5)
    files.make_directory("/data")
    file = files.open("/data/log", create=True)
    file.write([b"abc", b"def"], 10)
    file.read(10, 0)
    files.list("/data")
    file.sync()

    with pytest.raises(Crashed, match="at operation 5: remove /data/log"):
        files.remove("/data/log")

    assert files.operations == 5
    assert files.history == [
        "make_directory /data",
        "create /data/log",
        "write /data/log 6@10",
        "sync /data/log",
        "remove /data/log",
    ]
    assert contents(files.kill()) == {"log": bytes(10) + b"abcdef"}


def test_a_crash_at_a_write_may_leave_any_prefix_of_it() -> None:
    left = set()
    for seed in range(100):
        files = FaultyFiles(chance=Random(seed), crash_at=2)
        file = files.open("/log", create=True)
        with pytest.raises(Crashed):
            file.write([b"abc"], 0)
        left.add(read_file(files.kill(), "/log"))

    assert left == {b"", b"a", b"ab", b"abc"}


def test_a_failed_sync_followed_by_a_successful_one_does_not_save() -> None:
    files = disk_with(log=b"")
    file = files.open("/data/log")
    file.write([NEW], 0)
    files.fail("sync", "log")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()

    assert file.read(len(NEW), 0) == NEW
    assert bytes_left(files, "log") > {b"", NEW}


def test_what_is_written_again_after_a_failed_sync_is_saved() -> None:
    files = disk_with(log=b"")
    file = files.open("/data/log")
    file.write([OLD * 2], 0)
    files.fail("sync")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.write([NEW], 100)
    file.sync()

    left = bytes_left(files, "log")

    assert {content[100 : 100 + len(NEW)] for content in left} == {NEW}
    assert {bytes(100), b"o" * 100} < {content[:100] for content in left}


def test_a_truncation_that_is_saved_makes_an_end_of_a_failed_sync() -> None:
    files = disk_with(log=OLD)
    file = files.open("/data/log")
    file.write([NEW], 1000)
    files.fail("sync")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.truncate(0)
    file.write([b"end"], 5000)
    file.sync()

    assert bytes_left(files, "log") == {bytes(5000) + b"end"}


def test_a_fault_strikes_the_named_operations_in_the_middle() -> None:
    files = disk_with(log=OLD, other=OLD)
    file, other = files.open("/data/log"), files.open("/data/other")
    files.fail("read", "log", times=2, after=1, error=errno.EIO)

    def fails() -> bool:
        try:
            file.read(1, 0)
        except OSError as problem:
            return problem.errno == errno.EIO
        return False

    assert other.read(1, 0) == b"o"
    assert [fails() for _ in range(5)] == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("create", lambda files: files.open("/data/new", create=True)),
        ("rename", lambda files: files.rename("/data/log", "/data/new")),
        ("remove", lambda files: files.remove("/data/log")),
        ("truncate", lambda files: files.open("/data/log").truncate(0)),
        ("make_directory", lambda files: files.make_directory("/data/new")),
        ("remove_directory", lambda files: files.remove_directory("/empty")),
        ("open", lambda files: files.open("/data/log")),
        ("list", lambda files: files.list("/data")),
        ("sync_directory", lambda files: files.sync_directory("/data")),
    ],
)
def test_an_operation_that_fails_changes_nothing(operation: str, call: Callable[[FaultyFiles], object]) -> None:
    files = disk_with(log=OLD)
    files.make_directory("/empty")
    files.fail(operation)
    with pytest.raises(OSError, match="Input/output error"):
        call(files)

    assert contents(files) == {"log": OLD}
    assert files.exists("/empty")


def test_a_failed_sync_of_a_directory_saves_nothing() -> None:
    files = disk_with()
    files.open("/data/log", create=True)
    files.fail("sync_directory")
    with pytest.raises(OSError, match="Input/output error"):
        files.sync_directory("/data")

    assert names_left(files) == {"", "log"}


def test_a_failed_write_may_have_written_any_prefix() -> None:
    left = set()
    for seed in range(100):
        files = FaultyFiles(chance=Random(seed))
        files.fail("write", error=errno.EIO)
        file = files.open("/log", create=True)
        with pytest.raises(OSError, match="Input/output error"):
            file.write([b"abc"], 0)
        left.add(file.read(3, 0))

    assert left == {b"", b"a", b"ab", b"abc"}


def test_a_healed_disk_fails_no_more() -> None:
    files = disk_with(log=OLD)
    files.fail("sync", times=100)
    files.heal()

    files.open("/data/log").sync()


def test_a_fault_of_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="no operation is called 'fsync'"):
        FaultyFiles().fail("fsync")


def test_a_full_disk_takes_the_prefix_that_fits() -> None:
    files = disk_with(log=b"12345", other=b"123")
    files.capacity = 10
    file = files.open("/data/log")
    assert files.free_space("/data") == 2
    with pytest.raises(OSError, match="No space left") as caught:
        file.write([b"abcdef"], 4)

    assert caught.value.errno == errno.ENOSPC
    assert contents(files) == {"log": b"1234abc", "other": b"123"}
    assert files.free_space("/data") == 0


def test_a_disk_has_the_same_capacity_after_a_crash() -> None:
    files = FaultyFiles(capacity=1000).kill().crash(Random(0))

    assert files.free_space("/") == 1000


def test_a_full_disk_lets_bytes_be_overwritten_and_space_be_freed() -> None:
    files = disk_with(log=b"12345", other=b"123")
    files.capacity = 8
    files.open("/data/log").write([b"abc"], 2)
    files.remove("/data/other")
    files.open("/data/log").write([b"def"], 5)

    assert contents(files) == {"log": b"12abcdef"}


def test_a_removed_file_is_still_read_and_written_by_who_has_it_open() -> None:
    files = disk_with(log=b"abc")
    file = files.open("/data/log")
    files.remove("/data/log")
    file.write([b"def"], 3)

    assert file.read(100, 1) == b"bcdef"
    assert file.size() == 6
    assert not files.exists("/data/log")


def test_a_lock_has_one_owner_until_it_is_released_or_the_process_ends() -> None:
    files = disk_with()
    lock = files.lock("/data/.lock")
    assert lock is not None
    assert files.lock("/data/.lock") is None
    assert read_file(files, "/data/.lock") == f"{os.getpid()}\n".encode()

    lock.release()
    assert files.lock("/data/.lock") is not None
    lock.release()
    assert files.lock("/data/.lock") is None, "the first owner released it again"

    killed = files.kill()
    assert killed.lock("/data/.lock") is not None
    assert killed.crash(Random(0)).lock("/data/.lock") is not None


def test_modified_is_the_clocks_time_of_the_last_write() -> None:
    clock = StoppedClock()
    files = FaultyFiles(clock=clock)
    file = files.open("/log", create=True)
    clock.advance(5)
    file.write([b"x"], 0)
    file.sync()
    clock.advance(7)

    assert files.modified("/log") == 1_700_000_000_005
    assert (clock.now(), clock.elapsed()) == (1_700_000_000_012, 12)


def test_an_order_of_creation_is_not_to_be_relied_on() -> None:
    files = FaultyFiles()
    for number in range(10):
        files.open(f"/{number}", create=True)

    assert files.list("/") != sorted(files.list("/"))


FILE_PATHS = ["a", "b", "folder/a", "folder/b", "folder", "missing/a"]
FOLDER_PATHS = ["folder", "folder/inner", "other", "a", "missing/x"]


def random_operation(chance: Random) -> Callable[[Files, str], object]:
    """An operation to be done below some folder, the same one on each disk."""
    path, other = chance.choice(FILE_PATHS), chance.choice(FILE_PATHS)
    folder, other_folder = chance.choice(FOLDER_PATHS), chance.choice(FOLDER_PATHS)
    data, number = chance.randbytes(chance.randint(0, 2000)), chance.randint(0, 3000)
    operations: list[Callable[[Files, str], object]] = [
        lambda files, top: files.open(f"{top}/{path}", create=True).write([data[:10], data[10:]], number),
        lambda files, top: files.open(f"{top}/{path}").write([memoryview(data)], number),
        lambda files, top: files.open(f"{top}/{path}").truncate(number),
        lambda files, top: files.open(f"{top}/{path}").read(len(data), number),
        lambda files, top: files.open(f"{top}/{path}").size(),
        lambda files, top: files.open(f"{top}/{path}").sync(),
        lambda files, top: files.rename(f"{top}/{path}", f"{top}/{other}"),
        lambda files, top: files.rename(f"{top}/{folder}", f"{top}/{other_folder}"),
        lambda files, top: files.remove(f"{top}/{path}"),
        lambda files, top: files.exists(f"{top}/{path}"),
        lambda files, top: sorted(files.list(f"{top}/{folder}")),
        lambda files, top: files.make_directory(f"{top}/{folder}"),
        lambda files, top: files.remove_directory(f"{top}/{folder}"),
        lambda files, top: files.sync_directory(f"{top}/{folder}"),
    ]
    return chance.choice(operations)


def answer(operation: Callable[[Files, str], object], files: Files, top: str) -> object:
    try:
        return operation(files, top)
    except OSError as problem:
        return type(problem), problem.errno


def tree(files: Files, path: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in files.list(path):
        try:
            found[name] = read_file(files, f"{path}/{name}")
        except IsADirectoryError:
            found[name] = tree(files, f"{path}/{name}")
    return found


@pytest.mark.parametrize("seed", range(20))
def test_it_answers_like_the_machines_own_disk(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    faulty, disk = FaultyFiles(), DiskFiles()
    faulty.make_directory("/data")
    for number in range(150):
        operation = random_operation(chance)
        expected = answer(operation, disk, str(tmp_path))
        assert answer(operation, faulty, "/data") == expected, f"after {number}: {faulty.history[-3:]}"

    assert tree(faulty, "/data") == tree(disk, str(tmp_path))
