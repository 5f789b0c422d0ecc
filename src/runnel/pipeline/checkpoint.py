"""What Spark writes down of a query: its id, and for each batch the watermark, the time and the sources' offsets.

The entry of batch N is there before N runs, and a repeat of N finds the same one, and begins with what N-1 remembered:
also after the power was cut. Spark leaves it to the machine when its files reach the disk, and `sync` does not: before
N takes effect, all that a repeat of it needs is on the disk. What Spark wrote later may be lost by half, and Spark
would not start with it: `mend` takes it away, and N is repeated.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from runnel.durable import durable
from runnel.files import DISK
from runnel.pipeline.checkpoint_file import CheckpointFile, sync_if_there
from runnel.pipeline.source.moment import HELD_BACK, Moment
from runnel.pipeline.source.offsets import Offsets
from runnel.pipeline.state_files import StateFiles

logger = logging.getLogger(__name__)

NOTHING = "-"  # of a source that has given nothing yet
ABOVE = 3  # directories above the checkpoint that an app makes: the query's, that of all queries, its own
THREADS = 8  # syncs at once: a disk makes one of those that come together
OFFSETS, COMMITS, STATE = "offsets", "commits", "state"  # what is planned, what is done, what is remembered


class Logged(NamedTuple):
    moment: Moment
    ends: dict[int, Offsets]  # by the number of the input; without those that have given nothing yet


class Checkpoint:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_rooted = False
        self._is_doubtful = False  # a sync was begun, and has not come to its end
        self._state = StateFiles(path / STATE)
        self._threads: ThreadPoolExecutor | None = None

    @property
    def is_begun(self) -> bool:
        return (self.path / "metadata").exists()

    @property
    def last(self) -> int:
        """The newest batch that was planned; -1 before the first."""
        return self._last(OFFSETS)

    @property
    def last_done(self) -> int:
        """The newest batch that came to its end; -1 before the first."""
        return self._last(COMMITS)

    @property
    def id(self) -> str:
        """Another one for each checkpoint that is begun."""
        told = json.loads((self.path / "metadata").read_text())
        return str(told["id"])

    def logged(self, batch: int) -> Logged:
        _, about, *sources = self._path(OFFSETS, batch).read_text().splitlines()
        told = json.loads(about)
        ends = [Offsets.from_json(json.loads(source)) for source in sources if source != NOTHING]
        return Logged(
            Moment(batch, told["batchTimestampMs"], told["batchWatermarkMs"] + HELD_BACK),
            {end.input: end for end in ends},
        )

    def begin_sync(self, batch: int) -> Future[None]:
        """`sync`, in another thread."""
        return self._pool.submit(self.sync, batch)

    def sync(self, batch: int) -> None:
        """Let all that a repeat of the batch needs be on the disk. To be waited for before anything of the batch takes
        effect: a marker that is ahead of its checkpoint could not be told from one that belongs to another.

        A file whose sync has failed is written anew: to ask once more proves nothing, see `files.py`.
        """
        anew, self._is_doubtful = self._is_doubtful, True
        with durable("checkpoint.sync"):
            if not self._is_rooted:
                self._sync_root(anew)
            state = self._state.unsynced(batch)
            before = CheckpointFile(self._path(COMMITS, batch - 1))
            self._entry(batch).sync(anew=anew)
            self._each(partial(sync_if_there, anew=anew), (before.path, before.sums, *state.files))
            # Their names in this order, so that none stands for what is not there.
            self._each(_sync_directory, sorted(state.directories))
            self._each(_sync_directory, (self.path / COMMITS, self.path / OFFSETS))
            self._state.have_synced(state)
        self._is_doubtful = False

    def torn(self) -> list[Path]:
        """What `mend` would take away now: lost by half, or just being written, if the query runs."""
        files = [CheckpointFile(self.path / "metadata")] if self.is_begun else []
        files += [
            CheckpointFile(self._path(log, self._last(log))) for log in (OFFSETS, COMMITS) if self._last(log) >= 0
        ]
        found = [file.path for file in files if file.path.exists() and not file.is_whole]
        return found if self._state.is_whole(self.last_done + 1) else [*found, self.path / STATE]

    def mend(self) -> None:
        """Take away what a power cut has left by half. To be called while Spark does not run the query.

        Nothing of it has had an effect: of a batch that had, `sync` was waited for.
        """
        self._state = StateFiles(self.path / STATE)  # a repeat may have written files anew
        if self.last <= 0 and not CheckpointFile(self.path / "metadata").is_whole:
            for name in (OFFSETS, COMMITS, STATE):  # all of the first batch, and without its id Spark refuses it
                shutil.rmtree(self.path / name, ignore_errors=True)
            CheckpointFile(self.path / "metadata").remove()
        for log in (OFFSETS, COMMITS):
            while (last := self._last(log)) >= 0 and _remove_if_torn(CheckpointFile(self._path(log, last))):
                pass
        if self._last(COMMITS) < 0:
            for file in self._state.descriptions():
                _remove_if_torn(file)
        planned = self.last
        done = planned if self._path(COMMITS, planned).exists() else planned - 1
        if not self._state.is_whole(done + 1):  # with which Spark would go on
            logger.warning("%s: what batch %d remembered was lost by half: it is repeated", self.path, done)
            CheckpointFile(self._path(COMMITS, done)).remove()
            CheckpointFile(self._path(OFFSETS, done + 1)).remove()

    def unplan(self, done: int) -> int:
        """Take away what is planned behind batch `done`, and has had no effect, and what it has remembered: it is
        planned anew. To be called while Spark does not run the query. The last batch that stays.
        """
        done = max(done, self.last_done)
        while self.last > done:
            CheckpointFile(self._path(OFFSETS, self.last)).remove()
        _sync_directory(self.path / OFFSETS)  # before what belongs to it goes
        self._state.remove_after(done + 1)
        return done

    def _sync_root(self, anew: bool) -> None:
        """Once: the checkpoint's id, and the names of the directories."""
        CheckpointFile(self.path / "metadata").sync(anew=anew)
        for directory in (self.path, *self.path.parents[:ABOVE]):
            DISK.sync_directory(str(directory))
        self._is_rooted = True

    @property
    def _pool(self) -> ThreadPoolExecutor:
        """Of the driver alone: a task, too, looks into the checkpoint. One more than sync at once, which waits."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS + 1, thread_name_prefix="runnel-checkpoint")
        return self._threads

    def _each(self, sync: Callable[[Path], None], paths: Iterable[Path]) -> None:
        for _ in self._pool.map(sync, paths):
            pass

    def _last(self, log: str) -> int:
        return max((int(each.name) for each in (self.path / log).glob("*") if each.name.isdigit()), default=-1)

    def _path(self, log: str, batch: int) -> Path:
        return self.path / log / str(batch)

    def _entry(self, batch: int) -> CheckpointFile:
        return CheckpointFile(self._path(OFFSETS, batch))


def _sync_directory(path: Path) -> None:
    with suppress(FileNotFoundError):  # before the first batch is done
        DISK.sync_directory(str(path))


def _remove_if_torn(file: CheckpointFile) -> bool:
    if not file.path.exists() or file.is_whole:
        return False
    logger.warning("%s was lost by half, and is removed: what it was for is done again", file.path)
    file.remove()
    return True
