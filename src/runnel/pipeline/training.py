"""What Java should know before it starts: run as a program, it writes an archive of the classes that were needed.

    python -m runnel.pipeline.training ARCHIVE

It does in small what every app does: a session, a stream from a Python source, an aggregation with state, a
`foreachBatch` and rows as Arrow. Java writes the archive when it ends.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from runnel.pipeline.java import as_a_word
from runnel.pipeline.session import java_options, spark_session

ROWS = 100


class Reader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        return {"row": ROWS}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["row"], end["row"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows = range(*partition.value)
        times = pa.array([row * 10_000_000 for row in rows], pa.timestamp("us", "UTC"))
        yield pa.RecordBatch.from_arrays([pa.array(rows, pa.int64()), times], names=["row", "at"])


class Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return "runnel-training"

    def schema(self) -> str:
        return "row bigint, at timestamp"

    def streamReader(self, schema: StructType) -> Reader:  # noqa: ARG002, N802
        return Reader()


def run(spark: SparkSession) -> None:
    spark.dataSource.register(Source)
    rows = spark.readStream.format(Source.name()).load().withWatermark("at", "30 seconds")
    counted = rows.groupBy(F.window("at", "1 minute"), (F.col("row") % 3).alias("kind")).count()
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            counted.writeStream.outputMode("update")
            .foreachBatch(lambda batch, number: batch.toArrow())  # noqa: ARG005
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def main() -> None:
    options = java_options(as_a_word(f"-XX:ArchiveClassesAtExit={Path(sys.argv[1])}"), "-Xlog:disable")
    spark = spark_session("training", master="local[2]", settings={"spark.driver.extraJavaOptions": options})
    # Java must end by itself, or it writes nothing: wait for it.
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    run(spark)
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main()
