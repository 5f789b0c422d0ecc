"""A Spark session that somebody brings: it stays as it is. An app runs in it, or in a copy with what it needs."""

from __future__ import annotations

import logging
import subprocess
import sys
from functools import cache

from pyspark.sql import SparkSession

from runnel.pipeline.errors import UnfitSession

logger = logging.getLogger(__name__)

# Without these, times would be read and written wrong, columns would come in types that are not known, and a query that
# died while it began could not begin again.
NEEDED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}
ASKED = "import sys, runnel.pipeline; print('%d.%d' % sys.version_info[:2])"
CLASSIC = "pass one of SparkSession.builder.master(...): Spark Connect cannot run an app"


def fitted(spark: SparkSession) -> SparkSession:
    """A session that somebody brought, as an app needs it: itself, or a copy with other settings. UnfitSession where it
    cannot serve.
    """
    if not isinstance(spark, SparkSession):
        raise UnfitSession(f"it is a {type(spark).__module__}.{type(spark).__name__}", hint=CLASSIC)
    if spark.sparkContext._jsc is None or spark.sparkContext._jsc.sc().isStopped():
        raise UnfitSession("it was stopped", hint="build another, or leave it out: the app then builds its own")
    _check_python(spark)
    wrong = {name: value for name, value in NEEDED.items() if spark.conf.get(name) != value}
    if not wrong:
        return spark
    logger.info("the app runs in a copy of the session, with %s", ", ".join("=".join(pair) for pair in wrong.items()))
    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name, value in wrong.items():
        copy.conf.set(name, value)
    return copy


def _check_python(spark: SparkSession) -> None:
    """Spark's Python processes must find this package. Those of other machines cannot be asked."""
    context = spark.sparkContext
    if not str(context.master).startswith("local") or context.pythonExec == sys.executable:
        return
    if _version_at(context.pythonExec) != f"{sys.version_info[0]}.{sys.version_info[1]}":
        raise UnfitSession(
            f"its Python processes run {context.pythonExec}, which is another Python or has no runnel",
            hint=f"set PYSPARK_PYTHON={sys.executable} before the session is built",
        )


@cache
def _version_at(python: str) -> str:
    """Of a Python that can import this package; empty if it cannot, or is none."""
    try:
        told = subprocess.run([python, "-c", ASKED], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return told.stdout.strip()
