"""What others see, and what is left, in the moments between a write and its sync."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runnel.errors import PartitionFailed
from runnel.files import DiskFile, DiskFiles
from runnel.log import Record, open_log
from runnel.records import Producer, build_batch

PATIENCE = 60


class InterceptedFile(DiskFile):
    """A segment whose sync can be made to do something else first."""

    __slots__ = ("_before_sync",)

    def __init__(self, path: str, flags: int, before_sync: Callable[[], None]) -> None:
        super().__init__(path, flags)
        self._before_sync = before_sync

    def sync(self) -> None:
        self._before_sync()
        super().sync()


class InterceptedFiles(DiskFiles):
    def __init__(self) -> None:
        self.before_sync: Callable[[], None] = lambda: None

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        plain = super().open(path, create=create)
        return InterceptedFile(path, 2, lambda: self.before_sync()) if path.endswith(".log") else plain


@contextmanager
def held_at_the_sync(files: InterceptedFiles) -> Iterator[threading.Event]:
    """The next sync waits until the block is left; the event tells that it was reached."""
    reached, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        assert go_on.wait(PATIENCE)

    files.before_sync = wait
    try:
        yield reached
    finally:
        go_on.set()


def test_nobody_sees_a_record_that_is_written_but_not_synced(tmp_path: Path) -> None:
    files = InterceptedFiles()
    with open_log(tmp_path / "data", files=files) as log:
        partition = log.partition("orders")
        with held_at_the_sync(files) as reached:
            append = partition.submit(build_batch([Record(b"tea", timestamp=1)]))
            assert reached.wait(PATIENCE)
            written = (tmp_path / "data" / "orders-0" / "00000000000000000000.log").stat().st_size
            assert written > 0, "it is in the file"
            assert partition.end_offset == 0
            assert not partition.read(0).data
            assert list(partition.records()) == []
            assert partition.find_time(0) is None
            assert not append.done
        assert append.result(PATIENCE).base_offset == 0
        assert [record.value for record in partition.records()] == [b"tea"]


def test_a_repetition_is_answered_only_after_the_sync_of_the_first(tmp_path: Path) -> None:
    files = InterceptedFiles()
    with open_log(tmp_path / "data", files=files) as log:
        partition = log.partition("orders")
        batch = build_batch([Record(b"tea", timestamp=1)], producer=Producer(7, 0, 0))
        with held_at_the_sync(files) as reached:
            first = partition.submit(batch)
            assert reached.wait(PATIENCE)
            again = partition.submit(batch)
            assert not first.done
            assert not again.done
        assert again.result(PATIENCE).duplicate
        assert first.done


def test_an_interrupted_append_leaves_no_gap(tmp_path: Path) -> None:
    """Ctrl-C while the caller's own thread is at the disk: those who wait are told, and the log goes on."""
    files = InterceptedFiles()
    with open_log(tmp_path / "data", files=files) as log:
        partition = log.partition("orders")
        partition.append([Record(b"before")])

        def interrupt() -> None:
            files.before_sync = lambda: None
            raise KeyboardInterrupt

        files.before_sync = interrupt
        with pytest.raises(KeyboardInterrupt):
            partition.append([Record(b"interrupted")])
        assert partition.end_offset == 1
        assert partition.failed
        with pytest.raises(PartitionFailed):
            partition.submit(build_batch([Record(b"too early", timestamp=1)]))
        assert partition.heal()
        assert partition.append([Record(b"after")]).base_offset == 1
        assert [record.value for record in partition.records()] == [b"before", b"after"]
    with open_log(tmp_path / "data") as log:
        assert [record.value for record in log.partition("orders").records()] == [b"before", b"after"]
