"""How far another query is that a source follows, as that one's file tells it: nothing beyond is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runnel.client.metadata import Place
from runnel.graph.names import fits


@dataclass(frozen=True)
class Followed:
    """`positions` are by topic and partition; what is missing there was not read yet. A topic that fits one of the
    `patterns` is read as soon as it is found. Of other topics, the one that is followed knows nothing.
    """

    positions: Mapping[str, Mapping[str, int]]
    patterns: tuple[str, ...] = ()

    def limit(self, place: Place) -> int | None:
        """None: it does not read the topic at all."""
        topic, partition = place
        if topic in self.positions:
            return self.positions[topic].get(str(partition), 0)
        return 0 if any(fits(each, topic) for each in self.patterns) else None

    def to_text(self) -> str:
        return json.dumps({"positions": self.positions, "patterns": self.patterns})

    @classmethod
    def read(cls, path: Path) -> Followed:
        told = json.loads(path.read_text())
        return cls(told["positions"], tuple(told["patterns"]))
