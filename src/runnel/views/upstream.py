"""The derived streams of a Kafka, by their own word: which topic each of them writes, and what it has read.

Each batch of a derived stream ends with a marker, in the same transaction as its output: a record of the topic
`runnel.APP.NAME.marker` that tells the topic it writes and the positions of its sources. The newest one counts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from runnel.client import positions
from runnel.client.batches import each_batch
from runnel.client.cluster import Cluster
from runnel.client.columns import Origin, decode
from runnel.client.errors import UnknownTopic
from runnel.client.fetch import Fetcher
from runnel.client.metadata import Place
from runnel.client.security import Security

PREFIX, SUFFIX = "runnel.", ".marker"
LIST_EVERY = 2.0  # seconds, for marker topics that are new
PATIENCE = 5.0  # seconds for one question: whoever waits asks again
FIRST_BACK = 16  # offsets from the end at which the newest marker is looked for: those of a few transactions

Positions: TypeAlias = Mapping[str, Mapping[str, int]]


class Marks(NamedTuple):
    """The newest marker that was found in a topic of markers; `end` is up to where it was looked for."""

    end: int
    told: dict[str, Any] | None


class Streams:
    def __init__(self, bootstrap: str, settings: Mapping[str, str]) -> None:
        self._cluster = Cluster(bootstrap, security=Security.of(settings), timeout=PATIENCE)
        self._cluster.reach()
        self._marks: dict[Place, Marks] = {}
        self._listed = float("-inf")

    def look(self) -> None:
        """Learn what the streams have told since the last look."""
        if time.monotonic() - self._listed > LIST_EVERY:
            self._list()
        try:
            ends = positions.latest(self._cluster, self._marks)
        except UnknownTopic:  # one was deleted since, and may be of a stream that nobody waits for
            self._list()
            ends = positions.latest(self._cluster, self._marks)
        for place, end in ends.items():
            known = self._marks[place]
            if end < known.end:  # the topic was made anew
                known = Marks(0, None)
            self._marks[place] = Marks(end, self._newest(place, known.end, end) or known.told)

    def _list(self) -> None:
        topics = self._cluster.all_topics()
        ours = [name for name in topics if name.startswith(PREFIX) and name.endswith(SUFFIX)]
        self._marks = {(name, 0): self._marks.get((name, 0), Marks(0, None)) for name in ours}
        self._listed = time.monotonic()

    def read_by_writers_of(self, topic: str) -> list[Positions | None]:
        """What each stream that writes the topic has read; None of one that has not finished a batch yet, which is only
        known by its name.
        """
        told = [marks.told for marks in self._marks.values() if marks.told]
        read: list[Positions | None] = [each["positions"] for each in told if each.get("output") == topic]
        begun = [name for (name, _), marks in self._marks.items() if marks.told is None]
        return read + [None for name in begun if name.endswith(f".{topic}{SUFFIX}")]

    def ends(self, topic: str) -> dict[str, int]:
        """Where the topic ends, with what is not committed yet.

        What is committed would be too early: the parts of a transaction become visible one partition after the other,
        and the marker may be seen before its output is.
        """
        places = self._cluster.topic(topic, fresh=True).places
        return {str(partition): at for (_, partition), at in positions.written(self._cluster, places).items()}

    def close(self) -> None:
        self._cluster.close()

    def _newest(self, place: Place, known: int, end: int) -> dict[str, Any] | None:
        """The last marker between the two, looked for from the end: there may be very many."""
        first = max(known, positions.earliest(self._cluster, [place])[place])
        back = FIRST_BACK
        while first < end:
            start = max(first, end - back)
            if (found := self._last_between(place, start, end)) is not None:
                return found
            if start == first:
                break
            back *= FIRST_BACK
        return None

    def _last_between(self, place: Place, start: int, end: int) -> dict[str, Any] | None:
        last: bytes | None = None
        for fetched in Fetcher(self._cluster).read(*place, start, end):
            origin = Origin(*place, fetched.start, fetched.end)
            batches = [each for part in fetched.parts for each in each_batch(part)]
            for block in decode(batches, ("value",), origin):
                for value in block.column("value").to_pylist():
                    last = value if value is not None else last
        return None if last is None else json.loads(last)
