"""The committed records of a small topic, from its start to its end: what somebody keeps in Kafka of itself."""

from __future__ import annotations

from collections.abc import Iterator

from runnel.client import positions
from runnel.client.batches import each_batch
from runnel.client.cluster import Cluster
from runnel.client.columns import Origin, decode
from runnel.client.fetch import Fetcher
from runnel.client.metadata import Place

COLUMNS = ("offset", "key", "value")


def committed(cluster: Cluster, topic: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Keys and values, partition by partition. A writer reads them after the older ones were fenced."""
    places = cluster.topic(topic, fresh=True).places
    starts, ends = positions.earliest(cluster, places), positions.latest(cluster, places)
    for place in places:
        for _, key, value in committed_between(cluster, place, starts[place], ends[place]):
            yield key, value


def committed_between(
    cluster: Cluster, place: Place, start: int, end: int
) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Offsets, keys and values of a partition, from an offset to before another."""
    for fetched in Fetcher(cluster).read(*place, start, end):
        origin = Origin(*place, fetched.start, fetched.end)
        batches = [each for part in fetched.parts for each in each_batch(part)]
        for block in decode(batches, COLUMNS, origin):
            yield from zip(*(block.column(name).to_pylist() for name in COLUMNS), strict=True)
