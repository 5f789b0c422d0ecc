"""A Spark session for tests: small, and quick to start rather than quick in the long run."""

from __future__ import annotations

from runnel.pipeline.session import Session, spark_session

SETTINGS = {
    # To write Java for each plan, and to compile it, takes longer than to go through the few rows of a test without.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.pollingDelay": "1ms",  # between two looks of a query that has nothing to do
}


def spark_for_tests(master: str = "local[2]") -> Session:
    """JavaMissing and its kin where there is no Java. To be stopped by whoever asked for it."""
    return spark_session("runnel-tests", master=master, partitions=1, settings=SETTINGS, short_lived=True)
