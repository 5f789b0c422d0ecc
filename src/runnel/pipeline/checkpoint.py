"""What Spark writes down of a query: its id, and for each batch the watermark, the time and the sources' offsets.

The entry of batch N is there before N runs, and a repeat of N finds the same one: also after the power was cut, since
Spark leaves it to the machine when its files reach the disk, and `sync` does not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from runnel.durable import durable
from runnel.files import DISK
from runnel.pipeline.source.moment import HELD_BACK, Moment
from runnel.pipeline.source.offsets import Offsets

NOTHING = "-"  # of a source that has given nothing yet
ABOVE = 3  # directories above the checkpoint that an app makes: the query's, that of all queries, its own


class Logged(NamedTuple):
    moment: Moment
    ends: dict[int, Offsets]  # by the number of the input; without those that have given nothing yet


class Checkpoint:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_rooted = False

    @property
    def is_begun(self) -> bool:
        return (self.path / "metadata").exists()

    @property
    def last(self) -> int:
        """The newest batch that was planned; -1 before the first."""
        offsets = self.path / "offsets"
        return max((int(each.name) for each in offsets.glob("*") if each.name.isdigit()), default=-1)

    @property
    def id(self) -> str:
        """Another one for each checkpoint that is begun."""
        told = json.loads((self.path / "metadata").read_text())
        return str(told["id"])

    def logged(self, batch: int) -> Logged:
        _, about, *sources = self._entry(batch).read_text().splitlines()
        told = json.loads(about)
        ends = [Offsets.from_json(json.loads(source)) for source in sources if source != NOTHING]
        return Logged(
            Moment(batch, told["batchTimestampMs"], told["batchWatermarkMs"] + HELD_BACK),
            {end.input: end for end in ends},
        )

    def sync(self, batch: int) -> None:
        """Let the batch's entry be on the disk. To be called before anything of the batch takes effect: a marker that
        is ahead of its checkpoint could not be told from one that belongs to another.
        """
        with durable("checkpoint.sync"):
            if not self._is_rooted:
                self._sync_root()
            _sync(self._entry(batch))
            DISK.sync_directory(str(self.path / "offsets"))

    def _sync_root(self) -> None:
        """Once: the checkpoint's id, and the names of the directories."""
        _sync(self.path / "metadata")
        for directory in (self.path, *self.path.parents[:ABOVE]):
            DISK.sync_directory(str(directory))
        self._is_rooted = True

    def _entry(self, batch: int) -> Path:
        return self.path / "offsets" / str(batch)


def _sync(path: Path) -> None:
    DISK.open(str(path)).sync()
