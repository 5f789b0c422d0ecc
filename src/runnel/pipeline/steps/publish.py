"""The stream's own steps: pass over what is published, and publish the rest in one transaction."""

from __future__ import annotations

from runnel.pipeline.batch import Batch
from runnel.pipeline.markers import Marker, is_done
from runnel.pipeline.sinks.publisher import Publisher, shared_out


class PassOver:
    """A batch whose mark is there is finished."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def __call__(self, batch: Batch) -> Batch | None:
        return None if is_done(batch.query, batch.number, batch.checkpoint, self._publisher.marker) else batch


class Publish:
    """`topic` has `partitions` of them."""

    def __init__(self, publisher: Publisher, topic: str, partitions: int) -> None:
        self._publisher = publisher
        self._topic = topic
        self._partitions = partitions

    def __call__(self, batch: Batch) -> Batch:
        assert batch.rows is not None
        assert batch.aside is not None
        contents = shared_out(batch.rows, self._topic, self._partitions, batch.number)
        self._publisher.publish(mark_of(batch), contents, batch.aside)
        return batch


class PublishAside:
    """For a view, whose store is no Kafka: what was put aside goes out by a transaction with a mark of its own, before
    the store commits. A repeat finds the mark and publishes nothing.
    """

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def __call__(self, batch: Batch) -> Batch:
        assert batch.aside is not None
        done = self._publisher.marker
        is_published = done is not None and done.checkpoint == batch.checkpoint and done.batch >= batch.number
        if batch.aside.num_rows and not is_published:
            self._publisher.publish(mark_of(batch), {}, batch.aside)
        return batch


def mark_of(batch: Batch) -> Marker:
    return Marker(batch.query, batch.number, batch.checkpoint, batch.positions)
