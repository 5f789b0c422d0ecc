import os
from pathlib import Path

from runnel.files import File
from runnel.log import LogSettings, TopicSettings, open_log
from runnel.log.open_files import OpenFiles
from runnel.testing import FaultyFiles
from tests.unit.log.stage import fill, offsets


def disk_with(*names: str) -> FaultyFiles:
    files = FaultyFiles()
    for name in names:
        files.open(f"/{name}", create=True).write([name.encode()], 0)
    return files


def test_a_file_that_is_open_is_not_opened_again() -> None:
    files = OpenFiles(disk_with("a"), 2)

    assert files.get("/a") is files.get("/a")


def test_the_file_that_was_used_longest_ago_is_dropped() -> None:
    files = OpenFiles(disk_with("a", "b", "c"), 2)
    first, second = files.get("/a"), files.get("/b")
    files.get("/a")
    files.get("/c")

    assert files.get("/a") is first
    assert files.get("/b") is not second


def test_a_dropped_file_can_still_be_read_by_who_holds_it() -> None:
    files = OpenFiles(disk_with("a", "b", "c"), 1)
    held = files.get("/a")
    files.get("/b")
    files.get("/c")

    assert held.read(1, 0) == b"a"


def test_a_forgotten_path_means_the_file_that_has_it_now() -> None:
    disk = disk_with("a", "b")
    files = OpenFiles(disk, 2)
    files.get("/a")
    disk.rename("/b", "/a")
    files.forget("/a")

    assert files.get("/a").read(1, 0) == b"b"


def test_forgetting_a_folder_leaves_its_neighbours_open() -> None:
    disk = FaultyFiles()
    for folder in ("/x", "/x-y"):
        disk.make_directory(folder)
        disk.open(f"{folder}/file", create=True)
    files = OpenFiles(disk, 4)
    inside, outside = files.get("/x/file"), files.get("/x-y/file")
    files.forget_folder("/x")

    assert files.get("/x/file") is not inside
    assert files.get("/x-y/file") is outside


def test_a_path_that_changes_while_it_is_opened_is_opened_again() -> None:
    class RacingFiles(FaultyFiles):
        others: list[OpenFiles]

        def open(self, path: str, *, create: bool = False) -> File:  # type: ignore[override]
            file = super().open(path, create=create)
            if path == "/a" and self.others:
                self.rename("/b", "/a")
                self.others.pop().forget("/a")
            return file

    disk = RacingFiles()
    disk.others = []
    for name in ("a", "b"):
        disk.open(f"/{name}", create=True).write([name.encode()], 0)
    files = OpenFiles(disk, 2)
    disk.others = [files]

    assert files.get("/a").read(1, 0) == b"b"


def test_many_partitions_hold_no_more_descriptors_than_the_setting_allows(tmp_path: Path) -> None:
    before = descriptors()
    settings = LogSettings(open_files=8, low_disk_bytes=0, tail_cache_bytes=0)
    with open_log(tmp_path / "data", settings=settings, background=False) as log:
        partitions = [log.partition("orders", number, TopicSettings(segment_bytes=1_024)) for number in range(25)]
        for partition in partitions:
            fill(partition, 4, size=400)
        assert all(offsets(partition) == [0, 1, 2, 3] for partition in partitions)
        shared = 2  # the lock and the synced offsets
        assert descriptors() <= before + shared + settings.open_files


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))
