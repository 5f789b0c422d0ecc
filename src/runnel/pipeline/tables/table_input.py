"""A table as an input of a query, on the driver's side: its frame, and the partitions that come while it runs."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from runnel.client import positions
from runnel.client.cluster import Cluster
from runnel.client.metadata import Topic
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.tables.partitions import Lookout
from runnel.pipeline.tables.static import static_frame
from runnel.pipeline.tables.topic_table import TopicTable, directory_of

MANY = 200_000  # rows


class TableInput:
    def __init__(self, spec: Spec, cluster: Cluster) -> None:
        self.spec = spec
        self._cluster = cluster
        self._lookout = Lookout(directory_of(spec), spec.topic, cluster)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Spark takes the rows that functions make for few, and would send a table of any size to every task. One that
        is large is shuffled instead. How many rows it has at most, its offsets tell.
        """
        with self._cluster:  # no connection stays behind if the body that gets the frame turns out to be wrong
            topic = self._lookout.begin()
            is_large = self._most_rows(topic) > MANY
        frame = static_frame(spark, TopicTable(self.spec), len(topic.places))
        return frame.hint("shuffle_hash") if is_large else frame

    def look(self, batch: int) -> None:
        """In every batch."""
        self._lookout.look(batch)

    def _most_rows(self, topic: Topic) -> int:
        starts = positions.earliest(self._cluster, topic.places)
        return sum(end - starts[place] for place, end in positions.latest(self._cluster, topic.places).items())
