"""How many partitions a table's topic has in a batch. The driver looks, and the tasks go by what it has written down.

A partition that is found counts from the next batch on: a repeat of this one must not see it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from runnel.client.cluster import Cluster
from runnel.client.errors import TopicReplaced
from runnel.client.metadata import Topic
from runnel.durable import durable
from runnel.files import DISK, make_directories, replace_file

LOOK_EVERY = 10.0  # seconds


class Known(NamedTuple):
    """`counts` are pairs: from which batch on there are so many."""

    topic_id: str
    counts: list[tuple[int, int]]

    def in_batch(self, batch: int) -> int:
        return max(count for since, count in self.counts if since <= batch)


class Partitions:
    def __init__(self, directory: Path) -> None:
        self._path = directory / "partitions.json"

    def read(self) -> Known:
        told = json.loads(self._path.read_text())
        return Known(told["id"], [(since, count) for since, count in told["counts"]])

    def write(self, known: Known) -> None:
        make_directories(str(self._path.parent))
        told = json.dumps({"id": known.topic_id, "counts": known.counts})
        with durable("table.partitions"):
            replace_file(DISK, str(self._path), told.encode())


class Lookout:
    """The driver's side. TopicReplaced if the topic was deleted and made again: its offsets mean other records now."""

    def __init__(
        self, directory: Path, topic: str, cluster: Cluster, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._partitions = Partitions(directory)
        self._topic = topic
        self._cluster = cluster
        self._clock = clock
        self._looked = clock()

    def begin(self) -> Topic:
        """Before the first batch of a run."""
        topic = self._found()
        try:
            self._check(self._partitions.read(), topic)
        except FileNotFoundError:
            self._partitions.write(Known(str(topic.id or ""), [(0, len(topic.places))]))
        self._looked = float("-inf")  # what has come while nobody ran is found in the first batch
        return topic

    def look(self, batch: int) -> None:
        """In a batch, for those behind it."""
        if self._clock() - self._looked < LOOK_EVERY:
            return
        self._looked = self._clock()
        topic, known = self._found(), self._partitions.read()
        self._check(known, topic)
        if len(topic.places) > known.in_batch(batch + 1):
            self._partitions.write(Known(known.topic_id, [*known.counts, (batch + 1, len(topic.places))]))

    def _found(self) -> Topic:
        return self._cluster.topic(self._topic, fresh=True)

    def _check(self, known: Known, topic: Topic) -> None:
        found = str(topic.id or "")
        if known.topic_id and found and known.topic_id != found:
            raise TopicReplaced(self._topic, known.topic_id, found)
