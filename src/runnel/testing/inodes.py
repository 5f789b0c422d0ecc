"""A file system in memory which knows, for all it holds, what a power cut cannot take.

Files and folders are apart from the names that lead to them. Each has what a live process sees, what is
surely on the disk, and the changes in between, in the order in which they were made.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from enum import Enum
from operator import attrgetter
from typing import TypeAlias


class State(Enum):
    UNSYNCED = "a sync makes it durable"
    DOOMED = "a sync of it failed, and no later one makes it durable"
    SYNCED = "durable, and kept as a change because a doomed one is older"


class Write:
    __slots__ = ("data", "position", "state")

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position
        self.state = State.UNSYNCED

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    def apply(self, content: bytearray) -> None:
        if self.position > len(content):
            content.extend(bytes(self.position - len(content)))
        content[self.position : self.end] = self.data


class Truncation:
    __slots__ = ("size", "state")

    def __init__(self, size: int) -> None:
        self.size = size
        self.state = State.UNSYNCED

    def apply(self, content: bytearray) -> None:
        if self.size < len(content):
            del content[self.size :]
        else:
            content.extend(bytes(self.size - len(content)))


class Inode:
    """A file. `durable` with all of `changes` applied in order is `content`."""

    __slots__ = ("changes", "content", "durable", "modified")

    def __init__(self, content: bytes | bytearray, modified: int) -> None:
        self.content = bytearray(content)
        self.durable = bytearray(content)
        self.changes: list[Write | Truncation] = []
        self.modified = modified

    def change(self, change: Write | Truncation, now: int) -> None:
        change.apply(self.content)
        self.changes.append(change)
        self.modified = now

    def sync(self) -> None:
        if any(change.state is State.DOOMED for change in self.changes):
            # What is durable now must still come after the doomed changes that are older than it.
            self._mark(State.SYNCED)
            return
        for change in self.changes:
            change.apply(self.durable)
        self.changes.clear()

    def fail_sync(self) -> None:
        """The system has marked the pages clean without writing them; nothing asks for them again."""
        self._mark(State.DOOMED)

    def _mark(self, state: State) -> None:
        for change in self.changes:
            if change.state is State.UNSYNCED:
                change.state = state


class Folder:
    __slots__ = ("durable", "entries", "modified")

    def __init__(self, modified: int) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.modified = modified


Node: TypeAlias = Inode | Folder
Place: TypeAlias = tuple[Folder, str]
Entries: TypeAlias = Callable[[Folder], dict[str, Node]]

entries_of: Entries = attrgetter("entries")
durable_of: Entries = attrgetter("durable")


class Move:
    """One atomic change of names: to nowhere when a node is removed, from nowhere when it is created."""

    __slots__ = ("folders", "node", "replaced", "source", "target", "unsynced")

    def __init__(self, node: Node, source: Place | None, target: Place | None) -> None:
        self.node = node
        self.source = source
        self.target = target
        self.replaced = target[0].entries.get(target[1]) if target else None
        self.folders = {place[0] for place in (source, target) if place}
        self.unsynced = set(self.folders)

    def possible(self, entries: Entries) -> bool:
        """Whether both names are as they were, so that no other node is lost or linked twice."""
        if self.source and entries(self.source[0]).get(self.source[1]) is not self.node:
            return False
        if self.target is None:
            return True
        occupant = entries(self.target[0]).get(self.target[1])
        return occupant is None or occupant is self.replaced

    def apply(self, entries: Entries) -> None:
        if self.source and entries(self.source[0]).get(self.source[1]) is self.node:
            del entries(self.source[0])[self.source[1]]
        if self.target:
            entries(self.target[0])[self.target[1]] = self.node


class Tree:
    """All names. A move between two folders is durable when both were synced."""

    def __init__(self, root: Folder) -> None:
        self.root = root
        self.moves: list[Move] = []

    def node(self, path: str) -> Node:
        node: Node = self.root
        for name in filter(None, path.split("/")):
            if not isinstance(node, Folder):
                raise error(errno.ENOTDIR, path)
            found = node.entries.get(name)
            if found is None:
                raise error(errno.ENOENT, path)
            node = found
        return node

    def folder(self, path: str) -> Folder:
        node = self.node(path)
        if not isinstance(node, Folder):
            raise error(errno.ENOTDIR, path)
        return node

    def place(self, path: str) -> Place:
        parent, _, name = path.rstrip("/").rpartition("/")
        if not name:
            raise error(errno.EBUSY, path)
        return self.folder(parent), name

    def move(self, move: Move, now: int) -> None:
        move.apply(entries_of)
        self.moves.append(move)
        for folder in move.folders:
            folder.modified = now

    def sync(self, folder: Folder) -> None:
        waiting: list[Move] = []
        blocked: set[Folder] = set()  # a younger move in these must not overtake the one that waits
        for move in self.moves:
            move.unsynced.discard(folder)
            if move.unsynced or not blocked.isdisjoint(move.folders):
                waiting.append(move)
                blocked |= move.folders
            else:
                move.apply(durable_of)
        self.moves = waiting

    def inodes(self) -> Iterator[Inode]:
        folders = [self.root]
        while folders:
            for node in folders.pop().entries.values():
                if isinstance(node, Folder):
                    folders.append(node)
                else:
                    yield node


def error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
