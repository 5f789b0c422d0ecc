"""Batches of no rows: Spark runs one after each that has moved the watermark, so that what is closed by it is told.

Aggregates whose results are shown while they are open tell nothing in it: they forget what the watermark has passed,
as they do in the next batch that has rows. A test holds its app, and waits for each of these batches; there they are
spared. An app in daily use has them, and shows in them how far its time has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

SETTING = "spark.sql.streaming.noDataMicroBatches.enabled"
SILENT = {"Aggregate"}


def are_silent(output_mode: str, remembered: Iterable[Mapping[str, Any]]) -> bool:
    """Whether they tell nothing, in this mode, of what a query remembers (see `remembered.py`)."""
    return output_mode == "update" and all(each["operator"] in SILENT for each in remembered)


@contextmanager
def spared(spark: SparkSession) -> Iterator[None]:
    """A query that is started meanwhile has none: Spark copies the session's settings for it."""
    before = spark.conf.get(SETTING)
    assert before is not None
    spark.conf.set(SETTING, "false")
    try:
        yield
    finally:
        spark.conf.set(SETTING, before)
