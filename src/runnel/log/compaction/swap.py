"""A cleaned segment takes the place of those it was made from, so that a crash at any point leaves either or both.

    1  <base>.cleaned.* is renamed to <base>.swap.*, and the folder synced     from here on it will happen
    2  the files of the old segments are removed                               only the first one's .log is left
    3  <base>.swap.* is renamed to <base>.*, the .log last and after a sync    the old .log is replaced

`finish_swaps` is for opening: it goes on from wherever a crash has stopped this. What is `.cleaned` and has no
`.swap.log` is thrown away. Readers go to the `.swap` files after step 1 and to the final ones after step 3; whoever
holds a segment that was replaced finds its files until they are removed, and looks again when they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from runnel.files import Files
from runnel.log.compaction.output import CLEANED
from runnel.log.segment import LOG_SUFFIX, SUFFIXES
from runnel.log.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from runnel.log.walk import Broken, headers

SWAP = ".swap"
NAME = re.compile(r"([0-9]{20})(\.cleaned|\.swap|)(\.[a-z]+)(\.tmp)?")


class Folder:
    """The files of a partition, by base offset, state and suffix."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path

    def name(self, base_offset: int, suffix: str, state: str = "") -> str:
        return f"{self.path}/{base_offset:020d}{state}{suffix}"

    def exists(self, base_offset: int, suffix: str, state: str = "") -> bool:
        return self._files.exists(self.name(base_offset, suffix, state))

    def base_offsets(self, state: str = "", suffix: str = LOG_SUFFIX) -> list[int]:
        found = (NAME.fullmatch(name) for name in self._files.list(self.path))
        return sorted(int(match[1]) for match in found if match and match.groups()[1:] == (state, suffix, None))

    def discard(self, state: str) -> bool:
        """Remove all that is in this state, the .log first; the answer is whether there was any."""
        names = [name for name in self._files.list(self.path) if (match := NAME.fullmatch(name)) and match[2] == state]
        for name in sorted(names, key=lambda name: not name.endswith(LOG_SUFFIX)):
            self._files.remove(f"{self.path}/{name}")
        return bool(names)

    def commit(self, base_offset: int) -> None:
        """Step 1. The .log comes last, but after a power cut any of them may be renamed and others not."""
        self._rename_others(base_offset, CLEANED, SWAP)
        self._files.rename(self.name(base_offset, LOG_SUFFIX, CLEANED), self.name(base_offset, LOG_SUFFIX, SWAP))
        self._files.sync_directory(self.path)

    def remove_old(self, base_offset: int, next_offset: int) -> list[str]:
        """Step 2. The answer is which files are gone; of the first old segment the .log stays until it is replaced."""
        bases = self.base_offsets()
        covered = [base for base, after in pairwise(bases) if base_offset < base and after <= next_offset]
        gone = [self.name(base, suffix) for base in covered for suffix in SUFFIXES]
        gone += [self.name(base_offset, suffix) for suffix in SUFFIXES if suffix != LOG_SUFFIX]
        # Snapshots from inside of it may stand in the middle of a batch now.
        snapshots = self.base_offsets(suffix=SNAPSHOT_SUFFIX)
        gone += [self.name(offset, SNAPSHOT_SUFFIX) for offset in snapshots if base_offset < offset < next_offset]
        gone = [path for path in gone if self._files.exists(path)]
        for path in gone:
            self._files.remove(path)
        return gone

    def rename_indexes(self, base_offset: int) -> None:
        """Step 3, first half: while there is a .swap.log, it is known that old files may be there and belong to it.

        When it is gone, all of that is on the disk.
        """
        self._rename_others(base_offset, SWAP, "")
        self._files.sync_directory(self.path)

    def rename_log(self, base_offset: int) -> None:
        """Step 3, second half; to be followed by a sync."""
        if self.exists(base_offset, LOG_SUFFIX, SWAP):  # else it was done before
            self._files.rename(self.name(base_offset, LOG_SUFFIX, SWAP), self.name(base_offset, LOG_SUFFIX))

    def sync(self) -> None:
        self._files.sync_directory(self.path)

    def next_offset_of(self, base_offset: int) -> int:
        """Where a committed segment ends; if it is damaged, where the damage begins."""
        file = self._files.open(self.name(base_offset, LOG_SUFFIX, SWAP))
        offset = base_offset
        try:
            for _, header in headers(file, 0, file.size(), base_offset):
                offset = header.last_offset + 1
        except Broken as broken:
            return broken.offset
        return offset

    def _rename_others(self, base_offset: int, old: str, new: str) -> None:
        for suffix in SUFFIXES:
            if suffix != LOG_SUFFIX and self.exists(base_offset, suffix, old):
                self._files.rename(self.name(base_offset, suffix, old), self.name(base_offset, suffix, new))


def finish_swaps(files: Files, path: str) -> Sequence[int]:
    """Before a partition is opened: finish what was committed, throw the rest away. The answer is what was finished."""
    folder = Folder(files, path)
    committed = folder.base_offsets(SWAP)
    for base_offset in committed:
        folder._rename_others(base_offset, CLEANED, SWAP)  # a power cut may have kept a part of step 1
        folder.sync()
        folder.remove_old(base_offset, folder.next_offset_of(base_offset))
        folder.rename_indexes(base_offset)
        folder.rename_log(base_offset)
        folder.sync()
    if folder.discard(SWAP) | folder.discard(CLEANED):
        folder.sync()
    return committed
