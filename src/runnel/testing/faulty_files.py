"""A disk in memory that forgets, fails and fills up when a test says so.

`FaultyFiles` keeps the promises of `Files` and not one more. A test stops the log with `crash_at`, or where
it likes, and asks for what is left:

- `crash` is a power cut: what was synced stays, and any part of the rest;
- `kill` is the end of the process alone: everything stays, and a later power cut may still take what was not
  synced.

The object that crashed is dead: each call of it, of its files and of its locks raises `Crashed`. What is left
is a new object, without faults and locks, which counts its operations anew.
"""

from __future__ import annotations

import errno
import os
from random import Random

from runnel.testing.inodes import Folder, Inode, Move, Node, Tree, error
from runnel.testing.machine import KILLED, POWER_CUT, Crashed, FaultyFile, FaultyLock, FaultySyncs, Machine
from runnel.testing.power_cut import PowerCut

__all__ = ["Crashed", "FaultyFiles"]


class FaultyFiles(Machine):
    """Operation number `crash_at`, counted from 1, raises `Crashed` instead of taking effect.

    `history` names the operations. `capacity` is how many bytes all files together may hold; removed files do
    not count. Both `crash_at` and `capacity` can be changed at any time. A file is known to `history` and to
    faults by the path under which it was opened.
    """

    def crash(self, chance: Random) -> FaultyFiles:
        """What a power cut may leave. Asked again, it answers with another outcome of the same power cut."""
        self._switch_off(POWER_CUT)
        return self._next(PowerCut(chance).tree(self._tree), chance)

    def kill(self) -> FaultyFiles:
        """What the end of the process leaves: the state itself, so it can be asked for only once."""
        self._switch_off(KILLED)
        return self._next(self._tree, self._chance)

    def _next(self, tree: Tree, chance: Random) -> FaultyFiles:
        files = FaultyFiles(chance=chance, capacity=self.capacity, clock=self._clock)
        files._tree = tree
        return files

    def open(self, path: str, *, create: bool = False) -> FaultyFile:
        return FaultyFile(self, self._open(path, create), path)

    def _open(self, path: str, create: bool) -> Inode:
        self._ask("open", path)
        place = self._tree.place(path)
        node = place[0].entries.get(place[1])
        if node is not None:
            return file_of(node, path)
        if not create:
            raise error(errno.ENOENT, path)
        self._operate("create", path)
        inode = Inode(b"", self._now())
        self._tree.move(Move(inode, None, place), self._now())
        return inode

    def list(self, path: str) -> list[str]:
        self._ask("list", path)
        names = [*self._tree.folder(path).entries]
        self._chance.shuffle(names)  # so that no caller relies on the order of creation
        return names

    def exists(self, path: str) -> bool:
        self._check_alive()
        try:
            self._tree.node(path)
        except OSError:
            return False
        return True

    def modified(self, path: str) -> int:
        self._check_alive()
        return self._tree.node(path).modified

    def make_directory(self, path: str) -> None:
        self._check_alive()
        folder, name = self._tree.place(path)
        if name in folder.entries:
            raise error(errno.EEXIST, path)
        self._operate("make_directory", path)
        self._tree.move(Move(Folder(self._now()), None, (folder, name)), self._now())

    def remove_directory(self, path: str) -> None:
        self._check_alive()
        folder = self._tree.folder(path)
        if folder.entries:
            raise error(errno.ENOTEMPTY, path)
        self._remove("remove_directory", folder, path)

    def remove(self, path: str) -> None:
        self._check_alive()
        self._remove("remove", file_of(self._tree.node(path), path), path)

    def _remove(self, operation: str, node: Node, path: str) -> None:
        place = self._tree.place(path)
        self._operate(operation, path)
        self._tree.move(Move(node, place, None), self._now())

    def rename(self, source: str, target: str) -> None:
        self._check_alive()
        source_place, target_place = self._tree.place(source), self._tree.place(target)
        node = self._tree.node(source)
        if target.startswith(f"{source}/"):
            raise error(errno.EINVAL, target)
        if source.startswith(f"{target}/"):
            raise error(errno.ENOTEMPTY, target)
        check_replaceable(target_place[0].entries.get(target_place[1]), node, target)
        self._operate("rename", f"{source} -> {target}")
        self._tree.move(Move(node, source_place, target_place), self._now())

    def sync_directory(self, path: str) -> None:
        self._check_alive()
        folder = self._tree.folder(path)
        self._operate("sync_directory", path)
        self._tree.sync(folder)

    def free_space(self, path: str) -> int:
        self._check_alive()
        self._tree.node(path)
        return self._room()

    def lock(self, path: str) -> FaultyLock | None:
        inode = self._open(path, create=True)
        if inode in self._locked:
            return None
        file = FaultyFile(self, inode, path)
        file.truncate(0)
        file.write([f"{os.getpid()}\n".encode()], 0)
        return FaultyLock(self, inode)

    def syncs(self) -> FaultySyncs:
        return FaultySyncs()


def file_of(node: Node, path: str) -> Inode:
    if isinstance(node, Folder):
        raise error(errno.EISDIR, path)
    return node


def check_replaceable(old: Node | None, new: Node, path: str) -> None:
    if old is None or old is new:
        return
    if isinstance(old, Folder) and not isinstance(new, Folder):
        raise error(errno.EISDIR, path)
    if isinstance(new, Folder) and not isinstance(old, Folder):
        raise error(errno.ENOTDIR, path)
    if isinstance(old, Folder) and old.entries:
        raise error(errno.ENOTEMPTY, path)
