"""How far a query is: a record of a compacted topic, written in the same transaction as what it tells of.

Keyed by the query's name; it holds the batch's number, the id of the checkpoint it belongs to, the positions of the
sources after it, and the topic that the query writes. Whoever waits for what was written to a source reads it, too
(`runnel.views.upstream`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from runnel.client import positions
from runnel.client.cluster import Cluster
from runnel.client.committed import committed_between
from runnel.client.metadata import Place
from runnel.pipeline.errors import OtherCheckpoint

FIRST_BACK = 16  # offsets from the end at which the last one is looked for: those of a few transactions


@dataclass(frozen=True)
class Marker:
    query: str
    batch: int
    checkpoint: str
    positions: dict[str, Any]
    output: str = ""  # none of a view: its rows are not in Kafka

    def to_bytes(self) -> bytes:
        told: dict[str, Any] = {"batch": self.batch, "checkpoint": self.checkpoint, "positions": self.positions}
        told |= {"output": self.output} if self.output else {}
        return json.dumps(told, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, query: str, value: bytes) -> Marker:
        told = json.loads(value)
        return cls(query, told["batch"], told["checkpoint"], told["positions"], told.get("output", ""))


def read_marker(cluster: Cluster, topic: str, query: str) -> Marker | None:
    """The last one that was committed; to be read after the older writers were fenced. It is looked for from the end: a
    query leaves one with every batch, and Kafka keeps them all for days before it compacts the topic.
    """
    places = cluster.topic(topic, fresh=True).places
    starts, ends = positions.earliest(cluster, places), positions.latest(cluster, places)
    for place in places:
        for value in _from_the_end(cluster, place, starts[place], ends[place], query.encode()):
            return None if value is None else Marker.from_bytes(query, value)
    return None


def _from_the_end(cluster: Cluster, place: Place, first: int, end: int, key: bytes) -> Iterator[bytes | None]:
    """The values of the key, the newest one first."""
    back = FIRST_BACK
    while first < end:
        start = max(first, end - back)
        found = [value for _, known, value in committed_between(cluster, place, start, end) if known == key]
        yield from reversed(found)
        end, back = start, back * FIRST_BACK


def is_done(query: str, batch: int, checkpoint: str, positions: dict[str, Any], marker: Any) -> bool:
    """Whether the marker says that this batch took effect before.

    Spark repeats no batch but its last one, with the same positions. A marker that is missing after batch 0, is of
    another checkpoint or of a later batch, or tells of other positions, means that the output and the checkpoint do not
    belong together, as after a restored backup: to go on would lose or repeat rows.
    """
    if marker is None:
        if batch:
            raise OtherCheckpoint(query, f"its output has no mark of any batch, and the checkpoint is at batch {batch}")
        return False
    if marker.checkpoint != checkpoint:
        raise OtherCheckpoint(query, f"its output was made by checkpoint {marker.checkpoint}, and this is {checkpoint}")
    if not batch - 1 <= marker.batch <= batch:
        raise OtherCheckpoint(query, f"its output is at batch {marker.batch}, and the checkpoint at batch {batch}")
    if batch == marker.batch and marker.positions != positions:
        raise OtherCheckpoint(query, f"its output has read other records in batch {batch} than the checkpoint says")
    return bool(batch == marker.batch)
