"""A session that somebody brings: what is checked, what is changed, and that it stays as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runnel import Broker
from runnel.pipeline.errors import UnfitSession
from runnel.pipeline.given_session import NEEDED, fitted
from tests.pipeline import run_given_session
from tests.pipeline.run_given_session import CAUGHT_UP
from tests.pipeline.stage import PARTITIONS, Stage

pytestmark = pytest.mark.servers

PROGRAM = Path(run_given_session.__file__)


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


def test_an_app_runs_in_a_plain_session_and_goes_on_in_it(tmp_path):
    """Of a program that builds its own, with no thought of Runnel; by tasks, and then by the driver."""
    with Broker() as broker:
        broker.create_topic("clicks", PARTITIONS, configs={"retention.ms": "-1"})
        stage = Stage(broker, tmp_path / "data")
        stage.send(300, broken=0.1)
        command = [sys.executable, str(PROGRAM), broker.bootstrap, str(stage.data)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with (
            (tmp_path / "log").open("w+") as log,
            subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            ) as process,
        ):
            for parallel_from in (1, 1_000_000):
                process.stdin.write(f"{parallel_from}\n")
                process.stdin.flush()
                assert process.stdout.readline() == f"{CAUGHT_UP}\n", Path(log.name).read_text()
                assert stage.counts() == stage.expected_counts()
                assert stage.stays() == stage.expected_stays()
                assert len(stage.read("clicks.rejected")) == 2 * stage.broken  # by each of the two queries
                stage.send(200, seed=2, broken=0.1)
