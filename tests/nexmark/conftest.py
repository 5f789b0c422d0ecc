"""The same Spark session as for the tests of the pipeline."""

from tests.pipeline.conftest import spark

__all__ = ["spark"]
