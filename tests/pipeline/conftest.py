"""One Spark session for all tests that do not kill it: a start takes ten seconds of a processor.

Its planners are forks, as in the test kit: a query would start a Python for each of its sources, which takes a second.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from runnel.pipeline.session import spark_session
from runnel.testing.planners import python_with_planners


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", python_with_planners())
        session = spark_session("tests", master="local[2]")
    yield session
    session.stop()
