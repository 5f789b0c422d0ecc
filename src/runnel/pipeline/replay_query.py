"""A derived stream over records that it has read before, into another topic.

What the body makes is written once, as ever. What it puts aside was told when the records were read for the first time:
it is counted, and not published.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from runnel.graph.derived import Derived
from runnel.pipeline.batch import Batch, Step
from runnel.pipeline.source.aside import SCHEMA
from runnel.pipeline.steps.account import Account
from runnel.pipeline.steps.publish import Publish
from runnel.pipeline.stream_query import StreamQuery


@dataclass(eq=False)
class Replayed(Derived):
    """The same, with another topic."""

    to: str = ""

    @property
    def topic(self) -> str:
        return self.to

    @classmethod
    def of(cls, stream: Derived, to: str) -> Replayed:
        return cls(stream.name, stream.inputs, stream.body, stream.key, stream.time, stream.writing, to)


class ReplayQuery(StreamQuery):
    @property
    def sides(self) -> list[str]:
        return []

    def steps(self) -> tuple[Step, ...]:
        topic = self._stream.topic
        self.place.kafka.make_topic(topic, partitions=self._stream.writing.partitions)
        account = Account(self.specs, self.cluster)

        def counted(batch: Batch) -> Batch:
            return replace(account(batch), aside=SCHEMA.empty_table())

        publish = Publish(
            self.publisher(),
            self.cluster,
            counted,
            topic=topic,
            partitions=len(self.cluster.topic(topic, fresh=True).places),
            sides=(),
            parallel_from=self.place.parallel_from,
        )
        return (publish,)
