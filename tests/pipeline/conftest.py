"""One Spark session for all tests that do not kill it: a start takes ten seconds of a processor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from runnel.pipeline.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = spark_session("tests", master="local[2]", brief=True)
    yield session
    session.stop()
