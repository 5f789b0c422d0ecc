"""Spares Spark the search for data sources of others.

When the first source is asked for, Spark starts a Python that imports every module whose name begins with `pyspark_`.
Where there are none, as one can see without it, this start is for nothing: it takes a second or two, and a minute later
it ends with a traceback that nobody understands.
"""

from __future__ import annotations

import logging
import pkgutil

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

PREFIX = "pyspark_"


def spare_search(spark: SparkSession) -> None:
    """Nothing depends on it: where Spark has no such place any more, it searches."""
    if any(found.name.startswith(PREFIX) for found in pkgutil.iter_modules()):
        return
    java = spark._jvm
    assert java is not None
    try:
        manager = getattr(java.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
        none = java.scala.Some(java.org.apache.spark.api.python.PythonUtils.toScalaMap({}))
        getattr(getattr(manager, "MODULE$"), "dataSourceBuilders_$eq")(none)
    except (Py4JError, TypeError) as error:
        logger.debug("Spark searches for data sources: %s", error)
