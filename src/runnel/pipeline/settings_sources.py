"""Lets Hadoop forget from which files its settings come.

Spark sends all of Hadoop's settings to the tasks of each batch, once for every time that a state is read or written.
There are a thousand of them, and Hadoop packs with each the names of the files that it was read from, each by itself:
7 of the 8 ms that such a broadcast takes. Nobody asks for these names.
"""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

SOURCES = "updatingResource"  # by the name of a setting; what is missing there is of unknown origin


def forget_sources(spark: SparkSession) -> None:
    """The settings themselves stay. Nothing depends on it: where Hadoop has no such place any more, it packs them."""
    java, context = spark._jvm, spark.sparkContext._jsc
    assert java is not None
    assert context is not None
    settings = context.hadoopConfiguration()
    settings.size()  # reads the files, if it has not done so since Hadoop came to know another one
    try:
        sources = settings.getClass().getDeclaredField(SOURCES)
        sources.setAccessible(True)
        sources.set(settings, java.java.util.concurrent.ConcurrentHashMap())
    except (Py4JError, TypeError) as error:
        logger.debug("Hadoop sends the origin of its settings along: %s", error)
