"""What Spark writes down of a query: its id, and for each batch the watermark, the time and the sources' offsets.

The entry of batch N is there before N runs, and a repeat of N finds the same one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Offsets

NOTHING = "-"  # of a source that has given nothing yet


class Logged(NamedTuple):
    moment: Moment
    ends: dict[int, Offsets]  # by the number of the input; without those that have given nothing yet


class Checkpoint:
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def id(self) -> str:
        """Another one for each checkpoint that is begun."""
        told = json.loads((self.path / "metadata").read_text())
        return str(told["id"])

    def logged(self, batch: int) -> Logged:
        _, about, *sources = (self.path / "offsets" / str(batch)).read_text().splitlines()
        told = json.loads(about)
        ends = [Offsets.from_json(json.loads(source)) for source in sources if source != NOTHING]
        return Logged(
            Moment(batch, told["batchTimestampMs"], told["batchWatermarkMs"]), {end.input: end for end in ends}
        )
