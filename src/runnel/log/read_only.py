"""The machine's disk for those who only look: files are opened for reading, and the lock is left as it was found.

So a backup on read-only media can be examined, and an examination leaves no trace.
"""

from __future__ import annotations

import errno
import fcntl
import os

from runnel.files import DiskFile, DiskFiles, DiskLock

REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class BorrowedLock(DiskLock):
    """Names us in the lock file while we hold it, for those who find it taken, and then puts back what stood there."""

    __slots__ = ("_former",)

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._former = os.pread(descriptor, 64, 0)
        self._write(f"{os.getpid()}\n".encode())

    def release(self) -> None:
        if self._descriptor >= 0:
            self._write(self._former)
        super().release()

    def _write(self, content: bytes) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, content, 0)


class ReadOnlyDisk(DiskFiles):
    def open(self, path: str, *, create: bool = False) -> DiskFile:
        if create:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        # Without O_NONBLOCK a pipe under this name would make us wait for its writer.
        return DiskFile(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def lock(self, path: str) -> DiskLock | None:
        """As an owner takes it, but the file must exist."""
        try:
            descriptor, writable = os.open(path, os.O_RDWR | os.O_CLOEXEC), True
        except OSError as error:
            if error.errno not in REFUSED:
                raise
            descriptor, writable = os.open(path, os.O_RDONLY | os.O_CLOEXEC), False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return BorrowedLock(descriptor) if writable else DiskLock(descriptor)


READ_ONLY_DISK = ReadOnlyDisk()
