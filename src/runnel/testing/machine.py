"""The machine under a `FaultyFiles`: it counts operations, stops at one of them, and lets others fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from random import Random

from runnel.clock import Clock
from runnel.files import Buffer, File
from runnel.testing.faults import Fault, Faults
from runnel.testing.inodes import Folder, Inode, Tree, Truncation, Write

PLENTY = 1 << 40
KILLED = "the process was killed"
POWER_CUT = "the power was cut"


class Crashed(BaseException):
    """The machine is off. No `except Exception` may keep a program running then."""


class Machine:
    def __init__(
        self,
        *,
        chance: Random | None = None,
        crash_at: int | None = None,
        capacity: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.crash_at = crash_at
        self.capacity = capacity
        self.operations = 0
        self.history: list[str] = []
        self._chance = chance or Random(0)
        self._clock = clock
        self._tree = Tree(Folder(self._now()))
        self._faults = Faults()
        self._locked: set[Inode] = set()
        self._off = ""

    def fail(self, operation: str, path_part: str = "", error: int = errno.EIO, times: int = 1, after: int = 0) -> None:
        """Let `after` operations on paths with `path_part` pass, and fail the next `times` of them.

        A rename's path is its source, an arrow and its target. A failed `write` may have written a prefix.
        What a failed `sync` was asked to save, no later one saves.
        """
        self._faults.schedule(Fault(operation, path_part, error, times, after))

    def heal(self) -> None:
        self._faults.clear()

    def _now(self) -> int:
        return self._clock.now() if self._clock else 0

    def _check_alive(self) -> None:
        if self._off:
            raise Crashed(self._off)

    def _switch_off(self, reason: str) -> None:
        if self._off == KILLED:
            raise Crashed(f"{KILLED}, and what is left was already asked for")
        self._off = reason

    def _ask(self, operation: str, path: str) -> None:
        """Begin an operation that changes nothing."""
        self._check_alive()
        self._faults.strike(operation, path)

    def _operate(self, operation: str, path: str, detail: str = "") -> None:
        """Begin an operation that changes something; when it raises, the change must not be made."""
        self._check_alive()
        self.operations += 1
        self.history.append(f"{operation} {path} {detail}".rstrip())
        if self.operations == self.crash_at:
            self._switch_off(f"at operation {self.operations}: {self.history[-1]}")
            self._check_alive()
        self._faults.strike(operation, path)

    @property
    def used(self) -> int:
        """The bytes that all files together hold."""
        return sum(len(inode.content) for inode in self._tree.inodes())

    def _room(self) -> int:
        if self.capacity is None:
            return PLENTY
        return max(0, self.capacity - self.used)


class FaultyFile:
    """A file bound to what it holds, not to its name."""

    __slots__ = ("_inode", "_machine", "_path")

    def __init__(self, machine: Machine, inode: Inode, path: str) -> None:
        self._machine = machine
        self._inode = inode
        self._path = path

    def size(self) -> int:
        self._machine._check_alive()
        return len(self._inode.content)

    def read(self, length: int, position: int) -> bytes:
        self._machine._ask("read", self._path)
        return bytes(self._inode.content[position : position + length])

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        data = b"".join(buffers)
        self._machine._check_alive()
        try:
            self._machine._operate("write", self._path, f"{len(data)}@{position}")
        except (Crashed, OSError):
            self._put(data[: self._machine._chance.randint(0, len(data))], position)
            raise
        if self._put(data, position) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def _put(self, data: bytes, position: int) -> int:
        """Write as much as the disk has room for, and return how much."""
        size = len(self._inode.content)
        if position + len(data) > size:
            data = data[: max(0, size + self._machine._room() - position)]
        if data:
            self._inode.change(Write(data, position), self._machine._now())
        return len(data)

    def truncate(self, size: int) -> None:
        self._machine._operate("truncate", self._path, str(size))
        self._inode.change(Truncation(size), self._machine._now())

    def sync(self) -> None:
        try:
            self._machine._operate("sync", self._path)
        except OSError:
            self._inode.fail_sync()
            raise
        self._inode.sync()


class FaultySyncs:
    """Syncs that are done when their answers are asked for: whatever happens in between finds them not done."""

    most = 64

    def __init__(self) -> None:
        self._begun: list[FaultyFile] = []
        self.descriptor, self._bell = os.pipe()

    def __del__(self) -> None:
        self.close()

    def takes(self, file: File) -> bool:
        return isinstance(file, FaultyFile)

    def begin(self, files: Sequence[File]) -> int:
        self._begun = [file for file in files if isinstance(file, FaultyFile)]
        os.write(self._bell, b"!")
        return len(files)

    def answers(self) -> list[tuple[int, OSError | None]]:
        begun, self._begun = self._begun, []
        if begun:
            os.read(self.descriptor, 1)
        return [(number, _failure_of(file)) for number, file in enumerate(begun)]

    def wait(self) -> list[tuple[int, OSError | None]]:
        return self.answers()

    def wait_a_while(self, seconds: float) -> list[tuple[int, OSError | None]]:  # noqa: ARG002
        return []  # they take longer

    def close(self) -> None:
        descriptors, self.descriptor, self._bell = (self.descriptor, self._bell), -1, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)


def _failure_of(file: FaultyFile) -> OSError | None:
    try:
        file.sync()
    except OSError as error:
        return error
    return None


class FaultyLock:
    __slots__ = ("_inode", "_machine")

    def __init__(self, machine: Machine, inode: Inode) -> None:
        self._machine = machine
        self._inode: Inode | None = inode
        machine._locked.add(inode)

    def release(self) -> None:
        """Give the file up; a second call must not take it from its next owner."""
        self._machine._check_alive()
        if self._inode is not None:
            self._machine._locked.discard(self._inode)
            self._inode = None
