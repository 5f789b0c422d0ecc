"""What stands in the data directory while a view is rebuilt: how the app and whoever rebuilds speak with each other.

    DATA/rebuilds/NAME/lock        held by the process that rebuilds or rolls back
    DATA/rebuilds/NAME/release     it asks the app to let go of the view
    DATA/rebuilds/NAME/released    the app has let go, at the end of a batch

The app holds the lock of the data directory all the while. A request of a process that is gone is taken back; what such
a process had decided is done, by the app or by the next one.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runnel.app.progress import size
from runnel.errors import Permanent
from runnel.files import DISK, DiskFiles, Lock, make_directories, replace_file
from runnel.graph.derived import Derived
from runnel.graph.view import View
from runnel.pipeline.place import Place
from runnel.pipeline.swap import AWAY, KEPT, OLD, Swap

logger = logging.getLogger(__name__)

LOOK_EVERY = 0.1  # seconds


class RebuildRuns(Permanent):
    def __init__(self, name: str, owner: str) -> None:
        super().__init__(
            f"{name} is being rebuilt or rolled back already, by {owner}", hint="wait for it, or stop it first"
        )


class Rebuilds:
    """Of one view; `place` is that of the app."""

    def __init__(self, place: Place, name: str) -> None:
        self.name = name
        self.directory = place.directory / "rebuilds" / name
        self.swap = Swap(place, name, self.directory)
        self._place = place
        self._release = self.directory / "release"
        self._released = self.directory / "released"
        self._lock = self.directory / "lock"

    # --- who rebuilds

    @contextmanager
    def owned(self) -> Iterator[None]:
        """By this process. RebuildRuns if another one is at it."""
        make_directories(str(self.directory))
        lock = DiskFiles().lock(str(self._lock))
        if lock is None:
            raise RebuildRuns(self.name, f"process {self._lock.read_text().strip()}")
        try:
            yield
        finally:
            lock.release()

    def ask(self) -> None:
        """The app, if there is one, to let go of the view."""
        if not self._release.exists():
            replace_file(DISK, str(self._release), b"")

    @property
    def is_released(self) -> bool:
        return self._released.exists()

    def take_back(self) -> None:
        """The request: the app goes on with the view."""
        self._released.unlink(missing_ok=True)
        self._release.unlink(missing_ok=True)

    # --- the app

    @property
    def is_asked(self) -> bool:
        return self._release.exists()

    def release(self) -> None:
        replace_file(DISK, str(self._released), b"")

    def take_over(self) -> None:
        """The view is written again: who asks from now on must wait until it is let go again."""
        self._released.unlink(missing_ok=True)

    def settle(self) -> bool:
        """If nobody is at it: do what was decided, and take back what was asked. False while somebody is."""
        if not self.directory.exists():
            return True
        lock = self._try()
        if lock is None:
            return not self.is_asked and self.swap.plan is None
        try:
            if self.swap.plan is not None:
                logger.info("%s: a copy was about to take its place: that is finished now", self.name)
                self.swap.finish()
            self.take_back()
            self.remove_if_old()
        finally:
            lock.release()
        return True

    def _try(self) -> Lock | None:
        return DiskFiles().lock(str(self._lock))

    # --- the copy that is kept

    @property
    def kept_until(self) -> int | None:
        """Milliseconds since 1970; None if nothing is kept."""
        try:
            return int(json.loads((self.directory / KEPT).read_text())["until"])
        except FileNotFoundError:
            return None

    @property
    def kept_bytes(self) -> int:
        """Of its checkpoint and its state."""
        return size_of(self.directory / OLD) + size_of(self.directory / "queries")

    def remove_when_old(self) -> None:
        """While the app runs: not while somebody rebuilds or rolls back, who may need it."""
        if not self._is_old or (lock := self._try()) is None:
            return
        try:
            if self.swap.plan is None:  # what was decided needs it
                self.remove_if_old()
        finally:
            lock.release()

    def remove_if_old(self) -> None:
        if self._is_old:
            logger.info(
                "%s: the copy that was kept is removed, its time being over: %s", self.name, freed(self.remove())
            )

    @property
    def _is_old(self) -> bool:
        return (until := self.kept_until) is not None and until < time.time() * 1000

    def remove(self) -> int:
        """The copy that is kept, or was made by half; how many bytes of checkpoint and state that were."""
        freed_bytes = self.kept_bytes
        self._place.store().drop_copy(self.name)
        (self.directory / KEPT).unlink(missing_ok=True)
        for each in (OLD, AWAY, "queries"):
            shutil.rmtree(self.directory / each, ignore_errors=True)
        return freed_bytes


def settle_all(
    place: Place, outputs: Iterable[Derived | View], is_stopping: Callable[[], bool] = lambda: False
) -> None:
    """Before an app starts its queries. One whose copy is just taking its place is waited for."""
    for output in outputs:
        rebuilds = Rebuilds(place, output.name)
        is_told = False
        while not rebuilds.settle() and not is_stopping():
            if not is_told:
                logger.info("%s: a copy is about to take its place, which is waited for", output.name)
            is_told = True
            time.sleep(LOOK_EVERY)


def size_of(directory: Path) -> int:
    """In bytes. Files may go meanwhile: Spark looks after those of a query that has ended, too."""
    found = 0
    for each, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                found += Path(each, name).stat().st_size
    return found


def freed(count: int) -> str:
    return f"{size(count)} of checkpoint and state"
