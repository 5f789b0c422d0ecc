"""A file that Spark has written into a checkpoint, with its checksums beside it.

Spark gives a file its name when it is written, and leaves it to the machine when it reaches the disk. So a power cut
may leave a name without the content, or with half of it: of the file, or of its checksums, and Spark reads neither.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runnel.files import DISK

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
        """Whether the sums are those of a file of this length: what a power cut leaves is too short."""
        size = self.path.stat().st_size
        try:
            found = self.sums.read_bytes()
        except FileNotFoundError:
            return size > 0
        if len(found) < SUMS.size:
            return False
        kind, piece = SUMS.unpack_from(found)
        return bool(kind == KIND and size > 0 and len(found) == SUMS.size + SUM * -(-size // piece))

    def sync(self) -> None:
        DISK.open(str(self.path)).sync()
        sync_if_there(self.sums)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.sums.unlink(missing_ok=True)


def sync_if_there(path: Path) -> None:
    """Spark removes what it does not need any more."""
    with suppress(FileNotFoundError):
        DISK.open(str(path)).sync()
