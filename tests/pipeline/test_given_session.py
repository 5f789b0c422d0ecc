"""A session that somebody brings: what is checked, what is changed, and that it stays as it was."""

from __future__ import annotations

import sys

import pytest

from runnel.pipeline.errors import UnfitSession
from runnel.pipeline.given_session import NEEDED, fitted

pytestmark = pytest.mark.servers


def test_one_that_has_what_is_needed_is_used_itself(spark):
    assert fitted(spark) is spark


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.session.timeZone", "Asia/Tokyo"),
        ("spark.sql.timestampType", "TIMESTAMP_NTZ"),
        ("spark.sql.execution.arrow.useLargeVarTypes", "true"),
    ],
)
def test_one_with_other_settings_is_copied_and_stays_as_it_is(spark, name, value):
    other = spark.newSession()
    other.conf.set(name, value)
    other.range(3).createOrReplaceTempView("three")
    copy = fitted(other)
    assert other.conf.get(name) == value
    assert {each: copy.conf.get(each) for each in NEEDED} == NEEDED
    assert copy.table("three").count() == 3
    assert copy.sparkContext is spark.sparkContext


def test_one_whose_python_has_no_runnel_is_refused(spark, monkeypatch):
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/bin/false")
    with pytest.raises(UnfitSession) as told:
        fitted(spark)
    assert str(told.value) == (
        "the Spark session that was given cannot be used: its Python processes run /bin/false, which is another Python "
        f"or has no runnel (set PYSPARK_PYTHON={sys.executable} before the session is built)"
    )


def test_something_else_is_refused():
    with pytest.raises(UnfitSession, match=r"cannot be used: it is a builtins.dict"):
        fitted({})
