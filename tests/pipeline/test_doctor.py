"""What the doctor finds of what an app has kept."""

from __future__ import annotations

import pytest

from runnel import Broker
from runnel.app.doctor import Patient, examine
from runnel.app.finding import Mark
from runnel.app.loading import load_app
from runnel.pipeline.checkpoint import Checkpoint
from runnel.views.sqlite import FILE_NAME
from tests.pipeline.scene import Scene, Sending

pytestmark = pytest.mark.servers

TEXT = """
from pyspark.sql import functions as F
from runnel import App

app = App("shop")
clicks = app.stream("clicks", schema="id long, k int, n int, at timestamp", time="at", late="5 seconds")


@app.view(clicks, key="k")
def per_k(clicks):
    return clicks.groupBy("k").count()
"""


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "doctored.py"
    file.write_text(TEXT)
    return file


def test_a_checkpoint_is_whole_torn_or_of_another_directory(spark, file, tmp_path):
    with Broker() as broker:
        scene = Scene(broker, spark, tmp_path / "data")
        scene.make("clicks", partitions=1)
        scene.send(20, Sending(seed=3, partitions=1))
        scene.run(load_app(file))

        def found(data):
            return {each.what: each for each in examine(Patient(file, broker.bootstrap, data))}

        whole = found(tmp_path / "data")
        assert {each.mark for each in whole.values()} <= {Mark.WELL, Mark.NOTE}, whole
        last = Checkpoint(tmp_path / "data" / "queries" / "per_k" / "checkpoint").last
        assert whole["checkpoint of per_k"].found == f"at batch {last}, whole"
        assert whole["store"].found == f"{tmp_path / 'data'}: per_k"

        other = found(tmp_path / "other")["checkpoint of per_k"]
        assert (other.mark, "this directory has none" in other.found) == (Mark.WRONG, True)

        torn = tmp_path / "data" / "queries" / "per_k" / "checkpoint" / "commits" / str(last)
        torn.write_bytes(b"")
        half = found(tmp_path / "data")["checkpoint of per_k"]
        assert (half.mark, half.found) == (Mark.NOTE, f"lost by half: commits/{last}")

        torn.write_text('v1\n{"nextBatchWatermarkMs":0}')
        (tmp_path / "data" / FILE_NAME).unlink()
        gone = found(tmp_path / "data")["checkpoint of per_k"]
        assert (gone.mark, f"{tmp_path / 'data'} has nothing of it" in gone.found) == (Mark.WRONG, True)
