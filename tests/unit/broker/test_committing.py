"""Which thread syncs, seen from the disk: a slow one is only pretended, by the number that the last round left."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from runnel.broker.committing import QUICK_FOR, QUICK_SECONDS, Committing
from runnel.broker.handover import Handover
from runnel.files import DiskFiles
from runnel.log import Append, Log, Partition, open_log
from runnel.records import Record, build_batch
from runnel.testing import StoppedClock

BATCH = build_batch([Record(b"tea", timestamp=1)])
PATIENCE = 60


class Stage:
    """A log whose rounds an event loop may run, and who synced each segment."""

    def __init__(self, log: Log, clock: StoppedClock, synced_by: list[int]) -> None:
        self.log = log
        self.clock = clock
        self.synced_by = synced_by
        self.here = threading.get_ident()
        self.loop = asyncio.get_running_loop()
        self.handover = Handover(self.loop)
        self.partition: Partition = log.partition("orders")
        self.partition.append_batch(BATCH)  # the epoch's file is written now
        self.synced_by.clear()
        Committing(log, self.loop, self.handover, clock).begin()

    async def commit(self) -> bool:
        """Whether the loop's own thread synced what is submitted now."""
        await self.answered(self.partition.submit(BATCH))
        return self.synced_by.pop() == self.here

    async def answered(self, append: Append) -> None:
        told = asyncio.Event()
        append.when_done(lambda _: self.handover.call(lambda _: told.set(), None))
        await asyncio.wait_for(told.wait(), PATIENCE)


class SyncedBy(DiskFiles):
    def __init__(self) -> None:
        self.threads: list[int] = []

    def open(self, path, *arguments, **options):
        file = super().open(path, *arguments, **options)
        if not path.endswith(".log"):
            return file
        return _Noted(file, self.threads)


class _Noted:
    def __init__(self, file, threads: list[int]) -> None:
        self._file = file
        self._threads = threads

    def __getattr__(self, name):
        return getattr(self._file, name)

    def sync(self) -> None:
        self._threads.append(threading.get_ident())
        self._file.sync()


def on_stage(data: Path, act: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        files, clock = SyncedBy(), StoppedClock()
        with open_log(data, files=files, clock=clock) as log:
            await act(Stage(log, clock, files.threads))

    asyncio.run(run())


def test_the_loop_commits_while_the_disk_is_quick(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.log.commits.last_sync_seconds = QUICK_SECONDS
        assert await stage.commit()

    on_stage(tmp_path / "data", act)


def test_what_one_pass_of_the_loop_brought_shares_a_sync(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        appends = [stage.partition.submit(BATCH) for _ in range(3)]
        for append in appends:
            await stage.answered(append)
        assert stage.synced_by == [stage.here]

    on_stage(tmp_path / "data", act)


def test_after_a_slow_sync_the_logs_thread_commits_for_a_while(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.log.commits.last_sync_seconds = QUICK_SECONDS * 2
        assert not await stage.commit()
        stage.log.commits.last_sync_seconds = 0.0  # whatever this machine's disk did
        stage.clock.advance(QUICK_FOR - 1)
        assert not await stage.commit()
        stage.log.commits.last_sync_seconds = 0.0
        stage.clock.advance(1)
        assert await stage.commit()

    on_stage(tmp_path / "data", act)


def test_what_another_thread_submits_does_not_wait_for_the_loop(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        appended = []
        thread = threading.Thread(target=lambda: appended.append(stage.partition.submit(BATCH).result(PATIENCE)))
        thread.start()
        thread.join()  # the loop stands still meanwhile
        assert appended[0].base_offset == 1

    on_stage(tmp_path / "data", act)


def test_the_loop_does_not_wait_for_a_round_under_way(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        with stage.log.commits.exclusive():
            append = stage.partition.submit(BATCH)
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # the loop goes on
            assert not append.done
        await stage.answered(append)
        assert stage.synced_by[0] != stage.here

    on_stage(tmp_path / "data", act)
