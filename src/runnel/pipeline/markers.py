"""How far a query is: a record of a compacted topic, written in the same transaction as what it tells of.

Keyed by the query's name; it holds the batch's number, the id of the checkpoint it belongs to, the positions of the
sources after it, and the topic that the query writes. Whoever waits for what was written to a source reads it, too
(`runnel.views.upstream`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from runnel.client.cluster import Cluster
from runnel.client.committed import committed
from runnel.pipeline.errors import OtherCheckpoint


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
    """The last one that was committed; to be read after the older writers were fenced."""
    found: Marker | None = None
    for key, value in committed(cluster, topic):
        if key == query.encode():
            found = Marker.from_bytes(query, value) if value is not None else None
    return found


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
