import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runnel.files import DISK, DiskFile
from runnel.freeing import LARGE, PIECE, Freeing
from tests.pipeline.waiting import wait_until


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(LARGE + 1)
    return path


class Sizes:
    """A pause that looks how large the file is meanwhile."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.seen: list[int] = []

    def __call__(self, _: float) -> None:
        self.seen.append(os.fstat(self._descriptor).st_size)


@pytest.fixture
def second(large: Path) -> Iterator[int]:
    """Another name for the hold of a file: not another hold."""
    descriptor = os.open(large, os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def test_a_large_file_without_a_name_is_made_shorter_bit_by_bit(large: Path, second: int) -> None:
    sizes = Sizes(second)
    freeing = Freeing(sizes, patience=0.01)
    descriptor = os.dup(second)
    large.unlink()
    freeing.let_go(descriptor)
    wait_until(lambda: freeing._process is None)
    assert sizes.seen == list(range(LARGE + 1 - PIECE, 0, -PIECE))
    assert not _holds(descriptor, second)


def test_a_file_that_somebody_else_reads_stays_whole(large: Path) -> None:
    reader, descriptor = os.open(large, os.O_RDONLY), os.open(large, os.O_RDWR)
    large.unlink()
    freeing = Freeing()
    freeing.let_go(descriptor)
    assert freeing._process is None
    assert not _holds(descriptor, reader)
    assert os.fstat(reader).st_size == LARGE + 1
    os.close(reader)


def test_a_file_that_has_a_name_stays_whole(large: Path) -> None:
    freeing = Freeing()
    freeing.let_go(os.open(large, os.O_RDWR))
    assert freeing._process is None
    assert large.stat().st_size == LARGE + 1


def test_a_small_file_is_closed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_bytes(bytes(LARGE - 1))
    reader, descriptor = os.open(path, os.O_RDONLY), os.open(path, os.O_RDWR)
    path.unlink()
    Freeing().let_go(descriptor)
    assert not _holds(descriptor, reader)
    os.close(reader)


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_what_is_removed_or_replaced_is_let_go_by_the_last_who_holds_it(
    large: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    let_go: list[int] = []

    def note(descriptor: int) -> None:
        facts = os.fstat(descriptor)
        let_go.extend([facts.st_size] if facts.st_nlink == 0 else [])
        os.close(descriptor)

    monkeypatch.setattr("runnel.files.FREEING.let_go", note)
    if replaced:
        other = large.with_name("other")
        other.write_bytes(b"other")
        DISK.rename(str(other), str(large))
    else:
        DISK.remove(str(large))
    assert let_go == [LARGE + 1]


def test_a_reader_of_a_large_file_that_is_removed_reads_on(large: Path) -> None:
    file = DISK.open(str(large))
    file.write([b"end"], LARGE)
    DISK.remove(str(large))
    assert isinstance(file, DiskFile)
    assert file.read(3, LARGE) == b"end"


def _holds(descriptor: int, other: int) -> bool:
    """Whether it is a hold of the same file; its number may be somebody else's by now."""
    try:
        return os.path.sameopenfile(descriptor, other)
    except OSError:
        return False


AT_THE_END = """
import os, sys
from runnel.files import DISK

class Cycle:
    pass

path = sys.argv[1]
kept = Cycle()
kept.file = DISK.open(path)
kept.itself = kept
os.unlink(path)
print("done", flush=True)
"""


def test_a_program_ends_that_forgets_a_large_file_at_its_end(large: Path) -> None:
    command = [sys.executable, "-c", AT_THE_END, str(large)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("done\n", "")
