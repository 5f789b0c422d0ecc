"""What a power cut may leave of a file system: all that was synced, and any part of the rest.

Often nothing of the rest stays, or everything, or all up to some moment; else each change fares by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from random import Random

from runnel.testing.inodes import Folder, Inode, Node, State, Tree, Truncation, Write

SECTOR = 512  # a disk writes a sector whole or not at all


class Outcome(Enum):
    KEPT = auto()
    LOST = auto()
    TORN = auto()


class PowerCut:
    """One power cut; `tree` may be asked once."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        everywhere = chance.random()
        self._outcomes = self._some
        if everywhere < 0.2:
            self._outcomes = self._none
        elif everywhere < 0.4:
            self._outcomes = self._all
        self._copies: dict[Node, Node] = {}

    def tree(self, tree: Tree) -> Tree:
        entries = self._entries(tree)
        return Tree(self._folder(tree.root, entries))

    def _entries(self, tree: Tree) -> DurableEntries:
        entries = DurableEntries()
        for move, outcome in zip(tree.moves, self._outcomes(len(tree.moves)), strict=True):
            kept = outcome is not Outcome.LOST and move.possible(entries.__getitem__)
            if kept or not move.unsynced:
                move.apply(entries.__getitem__)
        return entries

    def _folder(self, old: Folder, entries: DurableEntries) -> Folder:
        new = Folder(old.modified)
        self._copies[old] = new
        for name, node in entries[old].items():
            if node not in self._copies:
                self._copies[node] = self._folder(node, entries) if isinstance(node, Folder) else self._inode(node)
            new.entries[name] = self._copies[node]
        new.durable = dict(new.entries)
        return new

    def _inode(self, old: Inode) -> Inode:
        if not old.changes:
            return Inode(old.content, old.modified)
        remains = Remains(old.durable, self._chance)
        for change, outcome in zip(old.changes, self._outcomes(len(old.changes)), strict=True):
            remains.add(change, Outcome.KEPT if change.state is State.SYNCED else outcome)
        return Inode(remains.content, old.modified)

    def _none(self, count: int) -> list[Outcome]:
        return [Outcome.LOST] * count

    def _all(self, count: int) -> list[Outcome]:
        return [Outcome.KEPT] * count

    def _some(self, count: int) -> list[Outcome]:
        choices: tuple[Callable[[int], list[Outcome]], ...] = (
            *(self._none, self._all, self._first),
            *(self._any, self._any, self._any),
        )
        return self._chance.choice(choices)(count)

    def _first(self, count: int) -> list[Outcome]:
        kept = self._chance.randint(0, count)
        outcomes = [Outcome.KEPT] * kept + [Outcome.TORN] + [Outcome.LOST] * (count - kept)
        return outcomes[:count]

    def _any(self, count: int) -> list[Outcome]:
        lost = self._chance.choice((1, 3, 9))
        kept = self._chance.choice((1, 3, 9))
        return self._chance.choices(list(Outcome), weights=(kept, lost, 3), k=count)


class DurableEntries(dict[Folder, dict[str, Node]]):
    def __missing__(self, folder: Folder) -> dict[str, Node]:
        self[folder] = dict(folder.durable)
        return self[folder]


class Remains:
    """What is left of one file, put together change by change."""

    def __init__(self, durable: bytearray, chance: Random) -> None:
        self.content = bytearray(durable)
        self._durable = durable
        self._chance = chance
        self._missing: list[tuple[int, int]] = []  # ranges that got room on the disk, but not their bytes

    def add(self, change: Write | Truncation, outcome: Outcome) -> None:
        if isinstance(change, Truncation):
            if outcome is not Outcome.LOST:
                self._truncate(change.size)
        elif outcome is Outcome.KEPT:
            self._grow(change.position)
            change.apply(self.content)
        else:
            self._missing.append((change.position, change.end))
            if outcome is Outcome.TORN:
                self._tear(change)

    def _truncate(self, size: int) -> None:
        self._grow(size)
        del self.content[size:]
        self._missing = [(start, min(end, size)) for start, end in self._missing]

    def _grow(self, size: int) -> None:
        old = len(self.content)
        if size <= old:
            return
        self.content.extend(bytes(size - old))
        for start, end in self._missing:
            start, end = max(start, old), min(end, size)
            if start < end:
                self.content[start:end] = self._stale(end - start)

    def _stale(self, length: int) -> bytes:
        """What the disk held before in a place that a file was given: zeros, old bytes or anything."""
        kind = self._chance.randrange(3)
        if kind == 0:
            return bytes(length)
        if kind == 1 and len(self._durable) >= length:
            start = self._chance.randint(0, len(self._durable) - length)
            return bytes(self._durable[start : start + length])
        return self._chance.randbytes(length)

    def _tear(self, write: Write) -> None:
        """Let the file's size arrive, wholly or in part, and some of the sectors."""
        old = min(len(self.content), write.end)
        self._grow(self._chance.choice((write.end, self._chance.randint(old, write.end))))
        end = min(len(self.content), write.end)
        kept = self._chance.choice((0.0, 0.2, 0.5, 0.8))
        start = write.position
        while start < end:
            stop = min(start - start % SECTOR + SECTOR, end)
            if self._chance.random() < kept:
                self.content[start:stop] = write.data[start - write.position : stop - write.position]
            start = stop
