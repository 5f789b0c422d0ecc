import ctypes
import errno
import gc
import logging
import os
import select
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from runnel import ring as module
from runnel.files import DISK, DiskFile, DiskFiles
from runnel.ring import NoRing, Ring

PATIENCE = 60


@pytest.fixture
def ring() -> Iterator[Ring]:
    try:
        ring = Ring(8)
    except NoRing as reason:
        pytest.skip(str(reason))
    yield ring
    ring.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[FileIO]]:
    files = [FileIO(tmp_path / str(number), "w") for number in range(8)]
    yield files
    for file in files:
        file.close()


class Descriptor:
    """Something with a descriptor that nobody has to close."""

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        return self._number


def all_answers(ring: Ring, count: int) -> list[tuple[int, OSError | None]]:
    found: list[tuple[int, OSError | None]] = []
    while len(found) < count:
        assert select.select([ring.descriptor], [], [], PATIENCE)[0]
        found += ring.answers()
    return sorted(found)


def test_each_sync_is_answered_once(ring: Ring, files: list[FileIO]) -> None:
    for _ in range(50):  # the queues go round several times
        for file in files:
            file.write(b"tea")
        assert ring.begin(files) == 8
        assert all_answers(ring, 8) == [(number, None) for number in range(8)]
        assert ring.answers() == []


def test_a_sync_that_fails_is_answered_with_its_error(ring: Ring, files: list[FileIO]) -> None:
    with select.epoll() as no_file:
        assert ring.begin([files[0], no_file]) == 2
        (first, none), (second, error) = all_answers(ring, 2)
    assert (first, none, second) == (0, None, 1)
    assert error is not None
    assert error.errno == errno.EINVAL


def test_a_descriptor_that_is_closed_is_answered_with_its_error(ring: Ring) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    assert ring.begin([Descriptor(writing)]) == 1
    ((_, error),) = all_answers(ring, 1)
    assert error is not None
    assert error.errno == errno.EBADF


def test_waiting_returns_with_an_answer(ring: Ring, files: list[FileIO]) -> None:
    assert ring.begin(files[:1]) == 1
    assert ring.wait() == [(0, None)]


def test_waiting_a_while_returns_with_an_answer(ring: Ring, files: list[FileIO]) -> None:
    assert ring.begin(files[:1]) == 1
    assert ring.wait_a_while(PATIENCE) == [(0, None)]


def test_waiting_a_while_ends_without_one(ring: Ring, files: list[FileIO]) -> None:
    begin = time.monotonic()
    assert ring.wait_a_while(0.01) == []
    assert time.monotonic() - begin >= 0.01
    assert ring.begin(files[:1]) == 1
    assert ring.wait() == [(0, None)]


def test_where_the_kernel_knows_no_limits_nobody_waits_a_while(
    ring: Ring, files: list[FileIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KNOWS_LIMITS", 1 << 31)
    old = Ring(8)
    monkeypatch.setattr(old, "_enter", None)
    assert old.wait_a_while(PATIENCE) == []
    monkeypatch.undo()
    assert old.begin(files[:1]) == 1
    assert all_answers(old, 1) == [(0, None)]
    old.close()


# --- the queues


def test_the_head_is_shown_in_one_store(ring: Ring, files: list[FileIO]) -> None:
    before = ring._answered
    ring.begin(files[:3])
    all_answers(ring, 3)
    assert isinstance(ring._shown_answered, ctypes.c_uint32), "what struct writes is zero for a moment"
    assert ring._shown_answered.value == before + 3


def test_an_answer_that_found_no_room_is_asked_for(ring: Ring, files: list[FileIO]) -> None:
    entries = ring._answers_mask + 1
    while ring._answered % entries:  # the kernel looks for room when the queue begins again
        ring.begin(files[:1])
        ring.wait()
    head = ring._shown_answered.value
    ring._shown_answered.value = (head - entries) & module.WRAP  # as it looked while it was half written: no room
    assert ring.begin(files[:2]) == 2
    while not ring._flags.value & module.NO_ROOM:
        pass
    ring._shown_answered.value = head

    assert all_answers(ring, 2) == [(0, None), (1, None)]
    assert ring.begin(files[:1]) == 1
    assert ring.wait() == [(0, None)]


# --- those that nobody waits for any more


def test_the_answer_to_a_sync_that_was_given_up_is_not_taken_for_another(ring: Ring, files: list[FileIO]) -> None:
    with select.epoll() as no_file:
        ring.begin([no_file, no_file])
        ring.begin(files[:1])
        assert all_answers(ring, 1) == [(0, None)]
        ring.begin(files[:3])
        assert all_answers(ring, 3) == [(0, None), (1, None), (2, None)]
    assert not ring._under_way


def test_a_file_stays_open_until_its_sync_is_answered(ring: Ring, tmp_path: Path) -> None:
    file = DISK.open(str(tmp_path / "file"), create=True)
    descriptor = file.fileno()
    assert ring.begin([file]) == 1
    del file
    gc.collect()
    os.fstat(descriptor)
    assert ring.wait() == [(0, None)]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_what_the_kernel_does_not_take_is_taken_back(
    ring: Ring, files: list[FileIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ring._call

    def refuse(number: Any, descriptor: Any, count: Any, *rest: Any) -> int:
        return int(call(number, descriptor, ctypes.c_uint(min(count.value, 2)), *rest))

    monkeypatch.setattr(ring, "_call", refuse)
    assert ring.begin(files[:5]) == 2
    assert all_answers(ring, 2) == [(0, None), (1, None)]
    monkeypatch.undo()
    assert ring.begin(files[:3]) == 3
    assert all_answers(ring, 3) == [(0, None), (1, None), (2, None)]


# --- a disk


def test_a_disk_syncs_its_own_files_by_the_ring_and_no_others(ring: Ring, tmp_path: Path) -> None:
    class OtherFile(DiskFile):
        """May sync in another way."""

        __slots__ = ()

    syncs = DISK.syncs()
    assert syncs is not None, f"there is a ring: {ring.descriptor}"
    file = DISK.open(str(tmp_path / "file"), create=True)
    assert syncs.takes(file)
    assert not syncs.takes(OtherFile(str(tmp_path / "file"), os.O_RDWR))
    assert syncs.begin([file]) == 1
    assert syncs.wait() == [(0, None)]
    syncs.close()


# --- systems without


def test_another_processor_has_no_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.platform, "machine", lambda: "riscv64")
    with pytest.raises(NoRing, match="not used on"):
        Ring(8)


def test_a_system_that_forbids_the_ring_is_one_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(module, "SETUP", 100_000)  # a call that no kernel has
    with caplog.at_level(logging.DEBUG, "runnel.files"):
        assert DiskFiles().syncs() is None
    assert "a thread syncs" in caplog.text


@pytest.mark.usefixtures("ring")
def test_a_ring_that_takes_no_sync_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTER", 100_000)
    assert_no_ring("takes no sync")


@pytest.mark.usefixtures("ring")
def test_a_ring_that_does_not_know_syncs_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FSYNC", 200)
    assert_no_ring("takes no sync")


@pytest.mark.usefixtures("ring")
def test_a_ring_that_says_yes_to_everything_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FSYNC", 0)  # does nothing, and that always works
    assert_no_ring("says")


@pytest.mark.usefixtures("ring")
def test_a_ring_that_never_answers_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_TO_TRY", 0.0)
    assert_no_ring(r"says \[\]")


@pytest.mark.usefixtures("ring")
def test_a_kernel_that_may_lose_answers_has_no_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEPS_ALL_ANSWERS", 1 << 31)
    assert_no_ring("too old")


def assert_no_ring(why: str) -> None:
    descriptors = set(os.listdir("/proc/self/fd"))
    with pytest.raises(NoRing, match=why):
        Ring(8)
    assert set(os.listdir("/proc/self/fd")) == descriptors, "all that it had is closed"
