"""What a query remembers of its windows and joins, in Spark's files: `state/<operator>/<partition>`.

Batch N begins with version N, which batch N-1 has made: a snapshot, and the changes of each batch since. A file belongs
to one version and is never changed, except when its batch is repeated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from runnel.files import DISK
from runnel.pipeline.checkpoint_file import CheckpointFile

CHANGES = (".changelog", ".delta")
OF_SUMS = ".crc"
CHANGES_AND_SUMS = (*CHANGES, *(each + OF_SUMS for each in CHANGES))
TEMPORARY = (".tmp", f".tmp{OF_SUMS}")
VERSION = re.compile(r"\.?([0-9]+)[._]")  # see `_beginnings`
DESCRIBING = "_"  # how the names of directories begin that tell what the state looks like
DESCRIPTIONS = "_metadata"  # directories: what the state looks like


class Unsynced(NamedTuple):
    files: list[Path]
    directories: set[Path]  # where their names are


class StateFiles:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._synced: set[Path] = set()  # files that are no changes, and directories

    def unsynced(self, version: int) -> Unsynced:
        """What this version is made of, without what is on the disk: the changes before it, which were synced when
        they were the newest, and what `have_synced` was told of.
        """
        files: list[Path] = []
        directories: set[Path] = set()
        there: set[Path] = set()
        own = _beginnings(version)
        for directory, names in self._walk():
            parts = [
                directory / name
                for name in names
                if (name.startswith(own) if name.endswith(CHANGES_AND_SUMS) else not name.endswith(TEMPORARY))
            ]
            there |= {directory, *parts}
            new = [path for path in parts if path not in self._synced]
            files += new
            if new:
                directories.add(directory)
            if directory not in self._synced:
                directories |= {directory, directory.parent}
        self._synced &= there
        return Unsynced(files, directories)

    def have_synced(self, found: Unsynced) -> None:
        self._synced |= {path for path in found.files if not path.name.endswith(CHANGES_AND_SUMS)}
        self._synced |= found.directories

    def is_whole(self, version: int) -> bool:
        """Whether all of the version's changes are, as far as they are there."""
        return all(
            CheckpointFile(directory / name).is_whole
            for directory, names in self._walk()
            for name in names
            if name.endswith(CHANGES) and name.startswith(_beginnings(version))
        )

    def remove_after(self, version: int) -> None:
        """All later versions. Files that no version has in its name, others may share."""
        for directory, names in self._walk():
            if any(part.startswith(DESCRIBING) for part in directory.relative_to(self._root).parts):
                continue
            found = [name for name in names if (number := _version(name)) is not None and number > version]
            for name in found:
                (directory / name).unlink(missing_ok=True)
            if found:
                DISK.sync_directory(str(directory))

    def descriptions(self) -> list[CheckpointFile]:
        """What Spark writes before the first batch, and reads before every other."""
        return [
            CheckpointFile(directory / name)
            for directory, names in self._walk()
            for name in names
            if DESCRIPTIONS in directory.parts and not name.endswith((*TEMPORARY, OF_SUMS))
        ]

    def _walk(self) -> Iterator[tuple[Path, list[str]]]:
        for directory, _, names in os.walk(self._root):
            yield Path(directory), names


def _version(name: str) -> int | None:
    """That a file belongs to, by its name."""
    found = VERSION.match(name)
    return int(found[1]) if found else None


def _beginnings(version: int) -> tuple[str, ...]:
    """Of the names of its files; that of the sums beside a file begins with a dot."""
    return tuple(f"{dot}{version}{end}" for dot in ("", ".") for end in (".", "_"))
