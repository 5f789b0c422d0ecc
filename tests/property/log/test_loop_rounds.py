"""Whoever takes turns with an event loop that commits, and however its disk answers: nothing is left without an answer.

Callbacks of the loop submit, and so do threads; others wait for their appends, roll, heal, delete and checkpoint; syncs
are answered in any order, some at once, some late, some with an error, and some cannot be begun. In the end every
append has an answer, one that succeeded stands where it was said to, and the log can be closed.

Threads take their turns as the system lets them, so a seed does not repeat a failure for sure.
"""

import asyncio
import errno
import os
import random
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from runnel.errors import RunnelError
from runnel.files import DiskFile, DiskFiles, File
from runnel.log import Append, Log, LogSettings, Partition, TopicSettings, open_log
from tests.unit.log.stage import batch

PATIENCE = 120
PARTITIONS = 4
RELAXED = 3  # the number of one that is answered before its sync
TURNS = 60  # of the loop, in each of which some appends are submitted
THREADS = 3
ILL = 0.02  # the share of syncs and writes that fail


class ChancyFile(DiskFile):
    """Its syncs do nothing, or fail."""

    __slots__ = ("chance",)
    chance: random.Random

    def sync(self) -> None:
        self._fail_by_chance()

    def write(self, buffers: Any, position: int) -> None:
        self._fail_by_chance()
        super().write(buffers, position)

    def _fail_by_chance(self) -> None:
        if self.chance.random() < ILL:
            raise OSError(errno.EIO, "by chance")


class ChancySyncs:
    """Whenever it is asked, it answers to some, in any order."""

    most = 4

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._begun: dict[int, ChancyFile] = {}
        self.descriptor, self._bell = os.pipe()

    def takes(self, file: File) -> bool:
        return isinstance(file, ChancyFile)

    def begin(self, files: Sequence[File]) -> int:
        assert not self._begun, "one round at a time"
        count = len(files) if self._chance.random() > ILL else self._chance.randrange(len(files))
        self._begun = {number: file for number, file in enumerate(files[:count]) if isinstance(file, ChancyFile)}
        if count:
            os.write(self._bell, b"!")
        return count

    def answers(self) -> list[tuple[int, OSError | None]]:
        return self._answers(self._chance.randrange(len(self._begun) + 1))

    def wait(self) -> list[tuple[int, OSError | None]]:
        return self._answers(self._chance.randrange(len(self._begun)) + 1)

    def wait_a_while(self, seconds: float) -> list[tuple[int, OSError | None]]:
        return self.answers()

    def _answers(self, count: int) -> list[tuple[int, OSError | None]]:
        numbers = self._chance.sample(sorted(self._begun), count)
        answers = [(number, _failure_of(self._begun.pop(number))) for number in numbers]
        if answers and not self._begun:
            os.read(self.descriptor, 1)
        return answers

    def close(self) -> None:
        assert not self._begun, "a round is under way"
        os.close(self.descriptor)
        os.close(self._bell)


def _failure_of(file: ChancyFile) -> OSError | None:
    try:
        file.sync()
    except OSError as error:
        return error
    return None


class ChancyFiles(DiskFiles):
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        if not path.endswith(".log"):
            return super().open(path, create=create)
        file = ChancyFile(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0))
        file.chance = self._chance
        return file

    def syncs(self) -> ChancySyncs:  # type: ignore[override]
        return ChancySyncs(self._chance)


class World:
    def __init__(self, seed: str, folder: Path) -> None:
        self.chance = random.Random(seed)
        self.log = open_log(
            folder,
            files=ChancyFiles(random.Random(seed + "/disk")),
            settings=LogSettings(low_disk_bytes=0, retry_after_failure_ms=0, sync_workers=2, open_files=8),
        )
        self.lock = threading.Lock()
        self.appends: list[tuple[Partition, bytes, Append]] = []
        self.refused = 0
        self.answered = 0

    def partition(self, chance: random.Random) -> Partition:
        number = chance.randrange(PARTITIONS)
        settings = TopicSettings(segment_bytes=2_000, flush_ms=60_000 if number == RELAXED else None)
        return self.log.partition("orders", number, settings)

    def submit(self, chance: random.Random) -> None:
        value = chance.randbytes(chance.choice((8, 100, 700)))
        try:
            partition = self.partition(chance)
            append = partition.submit(batch(value))
        except RunnelError:
            self.refused += 1
            return
        append.when_done(self.note)
        with self.lock:
            self.appends.append((partition, value, append))

    def note(self, _: Append) -> None:
        with self.lock:
            self.answered += 1

    def disturb(self, chance: random.Random) -> None:
        """What a thread does beside the loop."""
        partition = self.partition(chance)
        kind = chance.randrange(8)
        try:
            if kind == 0:
                partition.roll()
            elif kind == 1:
                partition.append_batch(batch(b"waits"))
            elif kind == 2:
                self.log.maintain()
            elif kind == 3:
                self.log.checkpoint()
            elif kind == 4:
                self.log.partition("other")
                self.log.delete("other")
            else:
                self.submit(chance)
            if partition.failed:
                partition.heal()
        except (RunnelError, OSError):
            self.refused += 1

    async def run(self, seed: str) -> None:
        self.log.commit_on(asyncio.get_running_loop(), nullcontext)
        threads = [
            threading.Thread(target=self._disturb_often, args=(f"{seed}/{number}",), daemon=True)
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for _ in range(TURNS):
            for _ in range(self.chance.randrange(6)):
                self.submit(self.chance)
            await asyncio.sleep(0)
            if self.chance.random() < 0.02:  # a callback that waits, in the loop's own thread
                self.disturb(self.chance)
        while any(thread.is_alive() for thread in threads):
            await asyncio.sleep(0.001)
        if self.chance.random() < 0.5:
            await self._all_answered()
        await asyncio.to_thread(self.log.close)
        await self._all_answered()

    async def _all_answered(self) -> None:
        while self.answered < len(self.appends):
            await asyncio.sleep(0.001)

    def _disturb_often(self, seed: str) -> None:
        chance = random.Random(seed)
        for _ in range(TURNS // 2):
            self.disturb(chance)


@pytest.mark.parametrize("number", range(2))
def test_every_append_is_answered_whoever_takes_turns_with_the_loop(
    number: int, seed: int, rounds: int, tmp_path: Path
) -> None:
    for each in range(max(1, rounds // 5)):
        name = f"{seed}/{number}/{each}"
        world = World(name, tmp_path / f"{each}")
        asyncio.run(asyncio.wait_for(world.run(name), PATIENCE))
        assert_kept(world, tmp_path / f"{each}")


def assert_kept(world: World, folder: Path) -> None:
    """What was answered well stands where it was said to; a failure of the disk may have dropped what is relaxed."""
    with open_log(folder, settings=LogSettings(low_disk_bytes=0), background=False) as log:
        kept = [records_of(log, number) for number in range(PARTITIONS)]
    for partition, value, append in world.appends:
        assert append.done
        number = partition.id.partition
        if append.error is None and number != RELAXED:
            assert kept[number][append.appended.base_offset] == value


def records_of(log: Log, number: int) -> dict[int, bytes | None]:
    return {record.offset: record.value for record in log.partition("orders", number).records()}
