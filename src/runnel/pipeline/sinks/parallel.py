"""A large batch is written by Spark's tasks, side by side, and is one transaction all the same.

The driver begins the transaction and hands each task its ticket; a task writes the partitions that fall to it, each
partition by one task; the driver ends the transaction when all are done. A task that Spark tries again is refused: the
broker would take its records for those of the first attempt, by their numbers. The batch fails then, its transaction is
aborted, and the batch is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from runnel.client.cluster import Cluster
from runnel.client.errors import TransactionLost
from runnel.client.ticket import Ticket
from runnel.client.writing import write
from runnel.durable import durable
from runnel.pipeline.sinks.partitioning import partitions_of
from runnel.pipeline.sinks.publisher import bodies_of
from runnel.records import Codec

ASSIGNED = "partition int, key binary, value binary, headers array<struct<key:string,value:binary>>, timestamp long"
WRITTEN = "partition int, count long"

Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def write_in_parallel(
    frame: DataFrame, cluster: Cluster, ticket: Ticket, topic: str, partitions: int, batch: int
) -> int:
    """Run the body and write what it makes; the number of records. `frame` is as `outgoing` makes it."""
    assigned = frame.mapInArrow(_assigned(partitions, batch), ASSIGNED)
    tasks = min(partitions, frame.sparkSession.sparkContext.defaultParallelism)
    written = assigned.repartition(tasks, "partition").mapInArrow(_written(cluster, ticket, topic), WRITTEN)
    return sum(row["count"] for row in written.collect())


def _assigned(partitions: int, batch: int) -> Work:
    """To each record its partition: by its key; all records of a task that have none go together, in their order."""

    def assign(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        own = ((context.partitionId() if context else 0) + batch) % partitions
        for each in batches:
            chosen = partitions_of(each.column("key"), partitions)
            numbers = pa.array(np.where(chosen < 0, own, chosen), pa.int32())
            yield pa.RecordBatch.from_arrays([numbers, *each.columns], names=["partition", *each.schema.names])

    return assign


def _written(cluster: Cluster, ticket: Ticket, topic: str) -> Work:
    def write_them(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is not None and context.attemptNumber():
            raise TransactionLost(ticket.transactional_id, topic, "a task that writes was tried again")
        found = list(batches)
        if not found:
            return
        table = pa.Table.from_batches(found)
        numbers = table["partition"].to_numpy()
        shares = {int(number): table.take(pa.array(np.flatnonzero(numbers == number))) for number in np.unique(numbers)}
        contents = {(topic, number): bodies_of(share) for number, share in shares.items()}
        with durable("publish.write in a task"):
            write(cluster, ticket, contents, codec=Codec.ZSTD)
        counts = [share.num_rows for share in shares.values()]
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(shares), pa.int32()), pa.array(counts, pa.int64())], names=["partition", "count"]
        )

    return write_them
