"""A large batch is written by Spark's tasks, side by side, and is one transaction all the same.

The driver begins the transaction and hands each task its ticket; a task writes the partitions that fall to it, each
partition by one task, which so has all rows of its keys; the driver ends the transaction when all are done. A task that
Spark tries again is refused: the broker would take its records for those of the first attempt, by their numbers. The
batch fails then, its transaction is aborted, and the batch is repeated.

The tasks that make the rows encode and compress them: what Spark carries to the tasks that write is a few large values.
Only rows with `_change` go there as rows, because what is written of a key depends on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from runnel.client.bodies import Body
from runnel.client.cluster import Cluster
from runnel.client.errors import TransactionLost
from runnel.client.metadata import Place
from runnel.client.partitioning import partitions_of
from runnel.client.ticket import Ticket
from runnel.client.writing import write
from runnel.durable import durable
from runnel.graph.inputs import CHANGE
from runnel.pipeline.sinks.outgoing import settled
from runnel.pipeline.sinks.publisher import bodies_of
from runnel.records import Codec, Contents

ASSIGNED = "partition int, key binary, value binary, headers array<struct<key:string,value:binary>>, timestamp long"
ENCODED = "partition int, count int, first long, newest long, data binary"  # a body, and what it holds
WRITTEN = "partition int, count long"
CODEC = Codec.ZSTD

Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def write_in_parallel(
    frame: DataFrame, cluster: Cluster, ticket: Ticket, places: Sequence[Place], batch: int, *, batch_bytes: int
) -> int:
    """Run the body and write what it makes to `places`, all partitions of a topic; the number of records. `frame` is as
    `outgoing` makes it.
    """
    topic, partitions = places[0][0], len(places)
    tasks = min(partitions, frame.sparkSession.sparkContext.defaultParallelism)
    if CHANGE in frame.columns:
        given = frame.mapInArrow(_assigned(partitions, batch), f"{ASSIGNED}, {CHANGE} string")
        work = _writing(cluster, ticket, topic, partial(_settled, batch_bytes=batch_bytes))
    else:
        given = frame.mapInArrow(_encoded(partitions, batch, batch_bytes), ENCODED)
        work = _writing(cluster, ticket, topic, _bodies)
    written = given.repartition(tasks, "partition").mapInArrow(work, WRITTEN)
    return sum(row["count"] for row in written.collect())


def _assigned(partitions: int, batch: int) -> Work:
    def assign(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in batches:
            numbers = pa.array(_chosen(each, partitions, batch), pa.int32())
            yield pa.RecordBatch.from_arrays([numbers, *each.columns], names=["partition", *each.schema.names])

    return assign


def _encoded(partitions: int, batch: int, batch_bytes: int) -> Work:
    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in batches:
            chosen = _chosen(each, partitions, batch)
            shares = _shares(pa.Table.from_batches([each]), chosen)
            made = [
                (number, body.compressed(CODEC))
                for number, share in shares.items()
                for body in bodies_of(share, batch_bytes)
            ]
            contents = [body.contents for _, body in made]
            arrays = [
                pa.array([number for number, _ in made], pa.int32()),
                pa.array([each.count for each in contents], pa.int32()),
                pa.array([each.base_timestamp for each in contents], pa.int64()),
                pa.array([each.max_timestamp for each in contents], pa.int64()),
                pa.array([body.data for _, body in made], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=["partition", "count", "first", "newest", "data"])

    return encode


def _chosen(records: pa.RecordBatch, partitions: int, batch: int) -> npt.NDArray[np.int64]:
    """Of each record its partition: by its key; all records of a task that have none go together, in their order."""
    context = TaskContext.get()
    own = ((context.partitionId() if context else 0) + batch) % partitions
    chosen = partitions_of(records.column("key"), partitions)
    return np.where(chosen < 0, own, chosen)


def _shares(table: pa.Table, numbers: npt.NDArray[np.int64]) -> dict[int, pa.Table]:
    """The rows of each partition, in their order."""
    return {int(number): table.take(pa.array(np.flatnonzero(numbers == number))) for number in np.unique(numbers)}


def _bodies(table: pa.Table, topic: str) -> dict[int, list[Body]]:  # noqa: ARG001
    found: dict[int, list[Body]] = {}
    for row in table.to_pylist():
        contents = Contents(row["count"], row["first"], row["newest"])
        found.setdefault(row["partition"], []).append(Body(row["data"], contents, CODEC))
    return found


def _settled(table: pa.Table, topic: str, *, batch_bytes: int) -> dict[int, list[Body]]:
    """Of rows that say what changes: what is written of each key."""
    rows = settled(table, topic)
    shares = _shares(rows, rows["partition"].to_numpy())
    return {number: list(bodies_of(share, batch_bytes)) for number, share in shares.items()}


def _writing(
    cluster: Cluster, ticket: Ticket, topic: str, bodies: Callable[[pa.Table, str], dict[int, list[Body]]]
) -> Work:
    def write_them(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is not None and context.attemptNumber():
            raise TransactionLost(ticket.transactional_id, topic, "a task that writes was tried again")
        found = list(batches)
        if not found:
            return
        shares = bodies(pa.Table.from_batches(found), topic)
        with durable("publish.write in a task"):
            write(cluster, ticket, {(topic, number): share for number, share in shares.items()}, codec=CODEC)
        counts = [sum(body.contents.count for body in share) for share in shares.values()]
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(shares), pa.int32()), pa.array(counts, pa.int64())], names=["partition", "count"]
        )

    return write_them
