import errno
import logging
import os
import select
from collections.abc import Iterator
from pathlib import Path

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


def all_answers(ring: Ring, count: int) -> list[tuple[int, OSError | None]]:
    found: list[tuple[int, OSError | None]] = []
    while len(found) < count:
        assert select.select([ring.descriptor], [], [], PATIENCE)[0]
        found += ring.answers()
    return sorted(found)


def test_each_sync_is_answered_once(ring: Ring, tmp_path: Path) -> None:
    files = [os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT) for number in range(8)]
    for _ in range(50):  # the queues go round several times
        for file in files:
            os.write(file, b"tea")
        assert ring.begin(files) == 8
        assert all_answers(ring, 8) == [(number, None) for number in range(8)]
        assert ring.answers() == []
    for file in files:
        os.close(file)


def test_a_sync_that_fails_is_answered_with_its_error(ring: Ring, tmp_path: Path) -> None:
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    reading, writing = os.pipe()  # cannot be synced
    assert ring.begin([file, writing]) == 2
    (first, none), (second, error) = all_answers(ring, 2)
    assert (first, none, second) == (0, None, 1)
    assert error is not None
    assert error.errno == errno.EINVAL
    for descriptor in (file, reading, writing):
        os.close(descriptor)


def test_a_descriptor_that_is_closed_is_answered_with_its_error(ring: Ring) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    assert ring.begin([writing]) == 1
    ((_, error),) = all_answers(ring, 1)
    assert error is not None
    assert error.errno == errno.EBADF


def test_waiting_returns_with_an_answer(ring: Ring, tmp_path: Path) -> None:
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert ring.begin([file]) == 1
    assert ring.wait() == [(0, None)]
    os.close(file)


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
