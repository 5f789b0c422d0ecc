"""Lets Spark's workers start, and import what they will need, while the driver is busy with other things."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)


def warm(spark: SparkSession) -> None:
    """Returns at once. Nothing depends on it: where it fails, the first batch does the same work."""
    threading.Thread(target=_warm, args=(spark,), name="runnel-warming", daemon=True).start()


def _warm(spark: SparkSession) -> None:
    try:
        tasks = spark.sparkContext.defaultParallelism
        rows = spark.range(0, tasks, numPartitions=tasks).mapInArrow(_imported, "id long")
        rows.write.format("noop").mode("append").save()
    except Exception as error:  # such as a Spark that was stopped meanwhile
        logger.debug("the workers could not be warmed: %s", error)


def _imported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import runnel.pipeline.source.reader  # noqa: F401, PLC0415

    yield from batches
