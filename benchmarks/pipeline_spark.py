"""The peer of the pipeline's benchmarks: plain PySpark with the JVM connector for Kafka, in a process of its own.

    python pipeline_spark.py serve BOOTSTRAP DIRECTORY          one session; jobs come as lines of JSON
    python pipeline_spark.py run BOOTSTRAP DIRECTORY TOPIC TO   counts per page and minute into a topic, and ends

It runs in the peer's environment and imports nothing of ours. All settings are Spark's defaults, except that there are
as many shuffle partitions as cores (the default of 200 would make every batch of it many times slower) and no web page.
"""

import json
import os
import sys
import time
import uuid

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

JSON_SCHEMA = "page string, customer_id long, at timestamp, ms long"
NUMBERED = f"{JSON_SCHEMA}, number long"
STEPS = ("triggerExecution", "latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


class Peer:
    def __init__(self, bootstrap: str, directory: str) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        builder = SparkSession.builder.master("local[*]").appName("peer")
        settings = {
            "spark.jars": os.environ["PEER_JARS"],
            "spark.sql.shuffle.partitions": str(os.cpu_count()),
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")
        self._running: StreamingQuery | None = None

    def count(self, topic: str) -> dict[str, object]:
        """Per page and minute."""
        return self._measured(self._counted(topic).writeStream.format("noop").outputMode("update"))

    def raw(self, topic: str) -> dict[str, object]:
        """The number of values."""
        frame = self._read(topic).groupBy().agg(F.count("value"))
        return self._measured(frame.writeStream.format("noop").outputMode("update"))

    def copy(self, topic: str, to: str) -> dict[str, object]:
        """Parsed, changed and written as JSON, at least once."""
        return self._measured(self._into(self._changed(topic, JSON_SCHEMA), to))

    def start_copy(self, topic: str, to: str) -> dict[str, object]:
        self._running = self._into(self._changed(topic, NUMBERED), to).start()
        return {}

    def stop(self) -> dict[str, object]:
        assert self._running is not None
        self._running.stop()
        told = [each for each in self._running.recentProgress if each.numInputRows]
        steps = {step: [each.durationMs.get(step, 0) for each in told] for step in STEPS}
        return {"steps": steps}

    def run(self, topic: str, to: str) -> None:
        counted = self._counted(topic).select(F.to_json(F.struct("*")).alias("value"))
        self._into(counted, to).outputMode("update").trigger(availableNow=True).start().awaitTermination()
        self._spark.stop()

    # --- inside

    def _read(self, topic: str) -> DataFrame:
        reader = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()

    def _parsed(self, topic: str, schema: str) -> DataFrame:
        value = F.from_json(F.col("value").cast("string"), schema).alias("click")
        return self._read(topic).select(value).select("click.*")

    def _counted(self, topic: str) -> DataFrame:
        clicks = self._parsed(topic, JSON_SCHEMA).withWatermark("at", "10 seconds")
        return clicks.groupBy(F.window("at", "1 minute"), "page").count()

    def _changed(self, topic: str, schema: str) -> DataFrame:
        changed = self._parsed(topic, schema).withColumn("ms", F.col("ms") * 2)
        return changed.select(F.col("page").alias("key"), F.to_json(F.struct("*")).alias("value"))

    def _into(self, frame: DataFrame, topic: str):
        checkpoint = os.path.join(self._directory, uuid.uuid4().hex)
        writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        return writer.option("topic", topic).option("checkpointLocation", checkpoint)

    def _measured(self, writer) -> dict[str, object]:
        checkpoint = os.path.join(self._directory, uuid.uuid4().hex)
        begin = time.perf_counter()
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        elapsed = time.perf_counter() - begin
        return {"seconds": elapsed, "rows": sum(each.numInputRows for each in query.recentProgress)}


def main(mode: str, bootstrap: str, directory: str, *more: str) -> None:
    peer = Peer(bootstrap, directory)
    if mode == "run":
        peer.run(*more)
        return
    print("@ {}", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        print("@", json.dumps(getattr(peer, job.pop("do"))(**job)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
