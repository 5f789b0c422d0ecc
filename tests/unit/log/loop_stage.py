"""Where the tests of an event loop's rounds play: a disk in memory, whose syncs are answered when the test says so."""

from contextlib import nullcontext
from typing import Any

from runnel.log.group_commit import GroupCommit
from runnel.log.loop_rounds import LoopRounds
from runnel.testing import FaultyFiles
from runnel.testing.machine import FaultySyncs
from tests.turned_loop import TurnedLoop
from tests.unit.log.stage import Stage, fill


class HeldSyncs(FaultySyncs):
    """They come to nothing until `released`."""

    released = False
    refuses = False
    begun = 0
    broken: OSError | None = None

    def begin(self, files: Any) -> int:
        self.begun += 1
        return 0 if self.refuses else super().begin(files)

    def answers(self) -> list[tuple[int, OSError | None]]:
        return super().answers() if self.released else []

    def wait(self) -> list[tuple[int, OSError | None]]:
        if self.broken is not None:
            raise self.broken
        return super().answers()


class HeldFiles(FaultyFiles):
    kind: type[HeldSyncs] = HeldSyncs

    def syncs(self) -> HeldSyncs:
        self.given = self.kind()
        return self.given


class LoopStage(Stage):
    def __init__(self, **settings: int) -> None:
        self.held = HeldFiles()
        super().__init__(files=self.held, **settings)
        self.loop = TurnedLoop()
        self.log.commit_on(self.loop, nullcontext)

    @property
    def commits(self) -> GroupCommit:
        return self.log._commits

    @property
    def rounds(self) -> LoopRounds:
        rounds = self.commits._loop_rounds
        assert rounds is not None
        return rounds

    def partition_with_a_record(self, topic: str = "orders", **settings: Any) -> Any:
        """Its segment is open, and its epoch has begun."""
        partition = self.partition(topic, **settings)
        fill(partition, 1)
        return partition

    def answer(self) -> None:
        self.held.given.released = True
        self.loop.turn_until_idle()
        self.held.given.released = False
