"""How a derived stream's batch takes effect: in one transaction, and never twice.

A small batch is written by the driver, which holds its rows; a large one by the tasks that make it. Both run the body
also when the batch took effect before: what the body remembers, its windows and joins, Spark keeps only if it runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from runnel.client.cluster import Cluster
from runnel.client.errors import EndUnknown, Fenced
from runnel.pipeline.batch import Batch, Step
from runnel.pipeline.errors import OtherCheckpoint
from runnel.pipeline.markers import Marker, is_done
from runnel.pipeline.sinks.outgoing import settled
from runnel.pipeline.sinks.parallel import write_in_parallel
from runnel.pipeline.sinks.publisher import Publisher, shared_out
from runnel.pipeline.steps.collect import as_arrow


class Publish:
    """`topic` has `partitions` of them. From `parallel_from` records on, tasks write; `sides` are the topics where rows
    may be put aside, since a transaction must know before it begins.
    """

    def __init__(
        self,
        publisher: Publisher,
        cluster: Cluster,
        account: Step,
        *,
        topic: str,
        partitions: int,
        sides: Iterable[str],
        parallel_from: int,
    ) -> None:
        self._publisher = publisher
        self._cluster = cluster
        self._account = account
        self._topic = topic
        self._partitions = partitions
        self._sides = [(side, 0) for side in sides]
        self._parallel_from = parallel_from

    def __call__(self, batch: Batch) -> Batch | None:
        if is_done(batch.query, batch.number, batch.checkpoint, batch.positions, self._publisher.marker):
            with batch.watch.step("body"):
                batch.frame.write.format("noop").mode("append").save()
            return None
        if batch.records >= self._parallel_from:
            return self._by_tasks(batch)
        return self._by_the_driver(batch)

    def _by_the_driver(self, batch: Batch) -> Batch:
        with batch.watch.step("body"):
            rows = as_arrow(batch.frame)
        counted = self._counted(batch)
        contents = shared_out(settled(rows, batch.query), self._topic, self._partitions, batch.number)
        batch.wait_for_disk()
        with batch.watch.step("publish"):
            self._publisher.publish(mark_of(batch, self._topic), contents, counted.aside)
        return replace(counted, rows=rows)

    def _by_tasks(self, batch: Batch) -> Batch:
        places = [(self._topic, number) for number in range(self._partitions)]
        self._publisher.look_up({self._topic, *(side for side, _ in self._sides)})
        size = self._publisher.batch_bytes(self._topic)
        ticket = self._publisher.begin([*places, *self._sides])
        try:
            with batch.watch.step("body"):  # its tasks write
                write_in_parallel(batch.frame, self._cluster, ticket, places, batch.number, batch_bytes=size)
            counted = self._counted(batch)
            batch.wait_for_disk()
            with batch.watch.step("publish"):
                self._publisher.commit(ticket, mark_of(batch, self._topic), counted.aside)
        except EndUnknown:
            self._publisher.open()
            if not is_done(batch.query, batch.number, batch.checkpoint, batch.positions, self._publisher.marker):
                raise
        except Fenced:
            raise
        except Exception:
            self._publisher.abort_quietly()
            raise
        return counted

    def _counted(self, batch: Batch) -> Batch:
        counted = self._account(batch)
        assert counted is not None
        return counted


class PublishAside:
    """For a view, whose store is no Kafka: what was put aside goes out by a transaction with a mark of its own, before
    the store commits. A repeat finds the mark and publishes nothing.

    The first batch leaves a mark in any case: by it, a copy of the app with another directory is found out.
    """

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def __call__(self, batch: Batch) -> Batch:
        done = self._publisher.marker
        if done is not None and done.checkpoint != batch.checkpoint:  # another copy was quicker with its first batch
            raise OtherCheckpoint(
                batch.query,
                f"what it puts aside was begun by checkpoint {done.checkpoint}, and this is {batch.checkpoint}",
            )
        is_published = done is not None and done.batch >= batch.number
        if (batch.aside.num_rows or done is None) and not is_published:
            batch.wait_for_disk()
            with batch.watch.step("publish"):
                self._publisher.publish(mark_of(batch), {}, batch.aside)
        return batch


def mark_of(batch: Batch, output: str = "") -> Marker:
    return Marker(batch.query, batch.number, batch.checkpoint, batch.positions, output)
