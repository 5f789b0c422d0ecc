"""A derived stream: what the body returns goes to a topic. A window is told once, when it closes."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from runnel.graph.derived import Derived
from runnel.graph.formats import Columns
from runnel.pipeline.batch import Step
from runnel.pipeline.place import Place
from runnel.pipeline.query import Known, Query
from runnel.pipeline.sinks.outgoing import check_columns, outgoing
from runnel.pipeline.sinks.written import written_columns
from runnel.pipeline.steps.account import Account
from runnel.pipeline.steps.publish import Publish


class StreamQuery(Query):
    def __init__(self, spark: SparkSession, place: Place, stream: Derived, known: Known) -> None:
        super().__init__(spark, place, stream, known)
        self._stream = stream
        check_columns(self.frame, stream)

    @property
    def columns(self) -> Columns:
        """Of the values that it writes, for those that read it."""
        return written_columns(self.frame.schema, self._stream)

    @property
    def output_mode(self) -> str:
        return "append"

    def frame_to_run(self) -> DataFrame:
        return self.as_run(self.frame)

    def as_run(self, made: DataFrame) -> DataFrame:
        return outgoing(made, self._stream)

    def steps(self) -> tuple[Step, ...]:
        topic = self._stream.topic
        self.place.kafka.make_topic(topic, partitions=self._stream.writing.partitions)
        partitions = len(self.cluster.topic(topic, fresh=True).places)
        publisher = self.publisher()
        account = Account(self.specs, self.cluster)
        return (
            Publish(
                publisher,
                self.cluster,
                account,
                topic=topic,
                partitions=partitions,
                sides=self.sides,
                parallel_from=self.place.parallel_from,
            ),
        )
