"""The disk as an argument, so that a test can break it.

`Files` is all that Runnel asks of a file system. Its rules are POSIX's strict ones, and callers rely on no more:

- what was written is safe only after `File.sync` returned; a crash may keep any part of the rest;
- a file that was created, renamed or removed is so after a crash only if `sync_directory` of its folder returned;
- a failed `sync` says nothing of what is on the disk, and asking again proves nothing.

A file stays readable while somebody holds its `File`, also after it was removed: it is closed when the last
holder lets it go, never under a reader.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from runnel.errors import FileInTheWay
from runnel.freeing import FREEING, LARGE

if TYPE_CHECKING:
    from runnel.ring import Ring

Buffer = bytes | bytearray | memoryview
BUFFERS_PER_CALL = 512  # Linux takes at most 1,024 buffers in one pwritev
MOST_SYNCS = 64  # that the kernel has under way at once, for one caller

logger = logging.getLogger(__name__)


class File(Protocol):
    def size(self) -> int: ...

    def read(self, length: int, position: int) -> bytes:
        """The bytes from `position`; fewer than `length` only at the end of the file."""
        ...

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all the buffers one after the other, or raise OSError; then any part may have been written."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when all that was written, and the file's size, are on the disk."""
        ...


class Syncs(Protocol):
    """Syncs that nobody waits for in a thread: for an event loop. One thread at a time uses them."""

    @property
    def descriptor(self) -> int:
        """Readable while there are answers."""
        ...

    @property
    def most(self) -> int:
        """How many can be under way at once."""
        ...

    def takes(self, file: File) -> bool:
        """Whether this file can be synced so."""
        ...

    def begin(self, files: Sequence[File]) -> int:
        """Begin to sync them, and return at once: how many were begun, the first ones. They are held until then.

        What was begun before must be answered, or given up: it is not answered any more.
        """
        ...

    def answers(self) -> list[tuple[int, OSError | None]]:
        """Those that are there: the number of a file in `begin`, and the error if its sync failed."""
        ...

    def wait(self) -> list[tuple[int, OSError | None]]:
        """The same, at least one."""
        ...

    def wait_a_while(self, seconds: float) -> list[tuple[int, OSError | None]]:
        """The same, or none if that takes longer, or cannot be waited for so exactly."""
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    def open(self, path: str, *, create: bool = False) -> File: ...

    def list(self, path: str) -> list[str]:
        """The names in a folder, in no order."""
        ...

    def exists(self, path: str) -> bool: ...

    def modified(self, path: str) -> int:
        """When the file was last written, in milliseconds since 1970."""
        ...

    def make_directory(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def free_space(self, path: str) -> int: ...

    def lock(self, path: str) -> Lock | None:
        """Own the file until the process ends or `release` is called; None when another one owns it.

        The owner's process id is the file's content.
        """
        ...

    def syncs(self) -> Syncs | None:
        """Made anew for each caller; None where there are none: then `File.sync` it is."""
        ...


class DiskFile:
    __slots__ = ("_descriptor",)

    def __init__(self, path: str, flags: int) -> None:
        self._descriptor = -1
        self._descriptor = os.open(path, flags, 0o644)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            FREEING.let_go(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, length: int, position: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        missing = length - len(data)
        while missing:  # a signal or the end of the file cut the call short
            more = os.pread(self._descriptor, missing, position + length - missing)
            if not more:
                break
            parts.append(more)
            missing -= len(more)
        return b"".join(parts)

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        if len(buffers) == 1:
            written = os.pwrite(self._descriptor, buffers[0], position)
            if written != len(buffers[0]):
                self._write_rest(bytes(buffers[0]), written, position)
            return
        for start in range(0, len(buffers), BUFFERS_PER_CALL):
            chunk = buffers[start : start + BUFFERS_PER_CALL]
            size = sum(map(len, chunk))
            written = os.pwritev(self._descriptor, chunk, position)
            if written != size:
                self._write_rest(b"".join(chunk), written, position)
            position += size

    def _write_rest(self, data: bytes, done: int, position: int) -> None:
        while done < len(data):
            written = os.pwrite(self._descriptor, memoryview(data)[done:], position + done)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done += written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)


class DiskSyncs:
    """By the kernel."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self.descriptor = ring.descriptor
        self.most = ring.most
        self.answers = ring.answers
        self.wait = ring.wait
        self.wait_a_while = ring.wait_a_while
        self.close = ring.close

    def takes(self, file: File) -> bool:
        return type(file) is DiskFile  # a kind of it may sync in another way

    def begin(self, files: Sequence[File]) -> int:
        return self._ring.begin([file for file in files if isinstance(file, DiskFile)])


class DiskLock:
    """Of the process that takes it: who was forked beside it, and lives on when it is killed, has no part in it."""

    __slots__ = ("__weakref__", "_descriptor", "_process")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._process = os.getpid()
        _locks.add(self)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            if self._process == os.getpid():  # a process that is being forked has the descriptor as well
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


_locks: weakref.WeakSet[DiskLock] = weakref.WeakSet()


def _leave_locks() -> None:
    for lock in tuple(_locks):
        DiskLock.release(lock)  # what a kind of it does before is for its owner


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_leave_locks)


class DiskFiles:
    """The machine's own file system."""

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        return DiskFile(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0))

    def list(self, path: str) -> list[str]:
        return os.listdir(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def modified(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def make_directory(self, path: str) -> None:
        os.mkdir(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        held = self._hold_large(target)
        os.replace(source, target)
        del held

    def remove(self, path: str) -> None:
        held = self._hold_large(path)
        os.unlink(path)
        del held

    def _hold_large(self, path: str) -> DiskFile | None:
        """Whoever holds it when it has lost its name, frees it; else the system would, at once."""
        try:
            return self.open(path) if os.stat(path).st_size >= LARGE else None
        except OSError:
            return None

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_space(self, path: str) -> int:
        facts = os.statvfs(path)
        return facts.f_bavail * facts.f_frsize

    def lock(self, path: str) -> DiskLock | None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return DiskLock(descriptor)

    def syncs(self) -> DiskSyncs | None:
        # Loaded only here: few need it, and it loads ctypes.
        from runnel.ring import NoRing, Ring  # noqa: PLC0415

        try:
            return DiskSyncs(Ring(MOST_SYNCS))
        except NoRing as reason:
            logger.debug("%s: a thread syncs", reason)
            return None


DISK = DiskFiles()


def read_file(files: Files, path: str) -> bytes:
    file = files.open(path)
    return file.read(file.size(), 0)


def replace_file(files: Files, path: str, content: bytes, *, mark: str = "") -> None:
    """Put `content` under `path` so that a crash leaves either the old file or the new one, whole. Where two may do it
    at once, each needs a `mark` of its own for the file that it writes first.
    """
    temporary = f"{path}{mark}.tmp"
    file = files.open(temporary, create=True)
    file.truncate(0)
    file.write([content], 0)
    file.sync()
    files.rename(temporary, path)
    files.sync_directory(os.path.dirname(path))


def make_directories(path: str) -> None:
    """The folder and those above it that are missing, so that a power cut does not take them away. FileInTheWay if a
    file is.
    """
    wanted, missing = path, []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(os.path.abspath(path))
    for each in reversed(missing):
        try:
            DISK.make_directory(each)
        except FileExistsError:
            if not os.path.isdir(each):  # else somebody else was quicker
                raise FileInTheWay(wanted, f"{each} is a file") from None
        DISK.sync_directory(os.path.dirname(os.path.abspath(each)))
