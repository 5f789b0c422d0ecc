"""A broker on a disk that forgets what was not synced when its process is killed.

    python -m tests.transactions.forgetful_disk [threads] broker start --data DIR ...

is `runnel broker start ...`, with one difference: what is written to a file stays in the process's memory until the
file is synced. So `kill -9`, which takes nothing from the system's memory, does what a power cut does, and whoever
answers before the sync is caught. Folders are the disk's own: made, renamed and removed files stay so.

With `threads` it is a disk that can only be synced by waiting for it, so that no event loop runs rounds of the commit.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from weakref import WeakValueDictionary

import runnel.files
from runnel.files import Buffer, DiskFile, DiskFiles
from tests.threaded_syncs import ThreadedSyncs


class Inode:
    """A file's content, and the changes that the disk has not got."""

    def __init__(self, file: DiskFile, dirty: set[Inode]) -> None:
        self.file = file
        self._dirty = dirty
        self.content = bytearray(file.read(file.size(), 0))
        self.changes: list[tuple[int, bytes | None]] = []  # a write at a position, or a truncation to a size
        self.lock = threading.Lock()
        self.syncing = threading.Lock()

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        data = b"".join(buffers)
        with self.lock:
            if position > len(self.content):
                self.content.extend(bytes(position - len(self.content)))
            self.content[position : position + len(data)] = data
            self._change(position, data)

    def truncate(self, size: int) -> None:
        with self.lock:
            if size > len(self.content):
                self.content.extend(bytes(size - len(self.content)))
            del self.content[size:]
            self._change(size, None)

    def _change(self, position: int, data: bytes | None) -> None:
        self.changes.append((position, data))
        self._dirty.add(self)

    def sync(self) -> None:
        with self.syncing:
            with self.lock:
                changes, self.changes = self.changes, []
                self._dirty.discard(self)
            for position, data in changes:
                if data is None:
                    self.file.truncate(position)
                else:
                    self.file.write([data], position)


class ForgetfulFile:
    def __init__(self, inode: Inode) -> None:
        self._inode = inode
        self.write = inode.write
        self.truncate = inode.truncate
        self.sync = inode.sync

    def size(self) -> int:
        return len(self._inode.content)

    def read(self, length: int, position: int) -> bytes:
        with self._inode.lock:
            return bytes(self._inode.content[position : position + length])


class ForgetfulFiles(DiskFiles):
    def __init__(self, *, waits_only: bool = False) -> None:
        self._waits_only = waits_only
        self._inodes: WeakValueDictionary[int, Inode] = WeakValueDictionary()  # by the number that the system gives
        self._dirty: set[Inode] = set()  # what is not synced must not be forgotten while the process lives
        self._lock = threading.Lock()

    def open(self, path: str, *, create: bool = False) -> ForgetfulFile:  # type: ignore[override]
        file = super().open(path, create=create)
        number = os.stat(path).st_ino
        with self._lock:
            inode = self._inodes.get(number)
            if inode is None:
                inode = self._inodes[number] = Inode(file, self._dirty)
        return ForgetfulFile(inode)

    def syncs(self) -> ThreadedSyncs | None:  # type: ignore[override]
        return None if self._waits_only else ThreadedSyncs()


if __name__ == "__main__":
    waits_only = sys.argv[1] == "threads"
    if waits_only:
        del sys.argv[1]
    runnel.files.DISK = ForgetfulFiles(waits_only=waits_only)  # type: ignore[assignment]
    from runnel.cli import main  # its modules take the disk from there when they are loaded

    main()
