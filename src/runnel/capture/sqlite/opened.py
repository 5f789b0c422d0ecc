"""The file that is open, and whether its path still leads to it.

Whoever has a file open does not notice that another was put in its place, and would read the one that nobody writes to
any more. So the number of the file at the path (its device and inode) is compared with that of the one that was opened.
When it is another one, nothing is asked of the file that is open: SQLite finds a journal by its path, and would take
that of the new file's writer for its own, and away from him. After a while it is said: a file may be away for a moment
while another is put in its place. There are file systems that give a file another number whenever they are asked; what
they say is not heeded.

With a WAL, the `-wal` and `-shm` of the former file may lie beside the new one. SQLite would take them for its own, and
write pages of the former file into it. Such a file is not opened.
"""

from __future__ import annotations

import os
import sqlite3
import time
from typing import TypeAlias

from runnel.capture.errors import DatabaseMissing, DatabaseUnusable
from runnel.capture.sqlite.connecting import connect
from runnel.capture.sqlite.errors import FileReplaced

AWAY_SECONDS = 1.0  # for which the path must lead elsewhere before that is said
BESIDE_SECONDS = 1.0  # between two looks at what lies beside the file
WRITTEN_SECONDS = 5.0  # since a file was written to, within which somebody may be about to go on
ATTEMPTS = 3  # to open a file that has the same number before and after

Number: TypeAlias = tuple[int, int]


def open_file(path: str) -> tuple[sqlite3.Connection, OpenFile]:
    """A connection, and the file that it has open."""
    for _ in range(ATTEMPTS):
        before = number_of(path)
        connection = connect(path)
        if before is not None and number_of(path) == before:
            return connection, OpenFile(path, before)
        connection.close()  # it was replaced meanwhile: nobody knows which of them was opened
    return connect(path), OpenFile(path, None)


class OpenFile:
    """`path` is as people gave it. `number` is None where the file system's numbers say nothing."""

    def __init__(self, path: str, number: Number | None) -> None:
        self.path = path
        self._absolute = os.path.abspath(path)
        self._real = os.path.realpath(path)  # beside which SQLite has its WAL, and not beside a link to it
        self._number = number
        self._is_left = False
        self._elsewhere: tuple[bool, float] | None = None  # whether the path leads nowhere, and since when
        self._beside = numbers_beside(self._real)  # of its `-wal` and `-shm`
        self._looked = time.monotonic()

    def is_there(self) -> bool:
        """Whether the path leads to it."""
        return not self._is_left and self._found() == self._number

    def check(self) -> bool:
        """The same; FileReplaced if it has led to another file for a while, DatabaseMissing if to none."""
        found, now = self._found(), time.monotonic()
        if found == self._number:
            self._elsewhere = None
            self._look_beside(now)
            return True
        is_gone = found is None
        if self._elsewhere is None or self._elsewhere[0] != is_gone:
            self._elsewhere = is_gone, now
        if now - self._elsewhere[1] >= AWAY_SECONDS:
            raise DatabaseMissing(self.path) if is_gone else FileReplaced(self.path)
        return False

    def leave(self) -> None:
        """For the one that has its path: DatabaseUnusable, if that cannot be opened as it lies there."""
        self._is_left = True
        real = os.path.realpath(self._absolute)
        if number_of(real) is not None and self._beside & numbers_beside(real):
            raise DatabaseUnusable(
                self.path,
                f"was replaced while it was open, and {real}-wal is still that of the file before",
                hint="stop what uses it, remove its -wal and -shm, which SQLite would mix into it, put the file there "
                "once more, and start again",
            )

    def is_being_written(self) -> bool:
        """Whether the file at the path has changed just now."""
        try:
            return abs(time.time() - os.stat(self._absolute).st_mtime) < WRITTEN_SECONDS
        except OSError:
            return False

    def is_empty(self) -> bool:
        try:
            return os.stat(self._absolute).st_size == 0
        except OSError:
            return False

    def stamp(self) -> tuple[int, int] | None:
        """Its time and size, which change with every commit; None where they do not, or are not known."""
        if os.path.exists(f"{self._real}-wal"):
            return None
        try:
            found = os.stat(self._absolute)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def _found(self) -> Number | None:
        """What the path leads to. If that cannot be asked, the same as before: the connection tells what is wrong."""
        if self._number is None:
            return None
        try:
            found = os.stat(self._absolute)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return self._number
        return found.st_dev, found.st_ino

    def _look_beside(self, now: float) -> None:
        if now - self._looked >= BESIDE_SECONDS:
            self._looked = now
            self._beside = numbers_beside(self._real)


def numbers_beside(path: str) -> set[Number]:
    """Of its `-wal` and `-shm`, as far as they are there."""
    return {number for what in ("-wal", "-shm") if (number := number_of(f"{path}{what}")) is not None}


def number_of(path: str) -> Number | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
