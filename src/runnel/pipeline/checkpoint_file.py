"""A file that Spark has written into a checkpoint, with its checksums beside it.

Spark gives a file its name when it is written, and leaves it to the machine when it reaches the disk. So a power cut
may leave a name without the content, or with half of it: of the file, or of its checksums, and Spark reads neither.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runnel.files import DISK, replace_file

SUMS = struct.Struct(">4si")  # what they are, and of how many bytes each one is; they follow
KIND = b"crc\0"
SUM = 4  # bytes


@dataclass(frozen=True)
class CheckpointFile:
    path: Path

    @property
    def sums(self) -> Path:
        return self.path.with_name(f".{self.path.name}.crc")

    @property
    def is_whole(self) -> bool:
        """Whether it is there, with the sums of a file of this length: what a power cut leaves is too short."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return False
        try:
            found = self.sums.read_bytes()
        except FileNotFoundError:
            return size > 0
        if len(found) < SUMS.size:
            return False
        kind, piece = SUMS.unpack_from(found)
        return bool(kind == KIND and size > 0 and len(found) == SUMS.size + SUM * -(-size // piece))

    def sync(self, *, anew: bool = False) -> None:
        _sync(self.path, anew)
        sync_if_there(self.sums, anew=anew)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.sums.unlink(missing_ok=True)


def sync_if_there(path: Path, *, anew: bool = False) -> None:
    """Spark removes what it does not need any more."""
    with suppress(FileNotFoundError):
        _sync(path, anew)


def _sync(path: Path, anew: bool) -> None:
    """`anew` where the disk has refused it before: the machine may have given up what it could not write."""
    if anew:
        replace_file(DISK, str(path), path.read_bytes())
    else:
        DISK.open(str(path)).sync()
