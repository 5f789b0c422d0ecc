"""A data directory that was copied while the app was stopped works in another place, and on its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Broker, Reading
from runnel.pipeline.errors import OtherCheckpoint
from tests.pipeline.scene import Scene, Sending

SCHEMA = "id long, k int, n int, at timestamp"


def every_kind() -> App:
    """Windows, sessions, a join of two streams, what is there once, a table, and a view as an input."""
    app = App("shop")
    how = {"schema": SCHEMA, "time": "at", "late": "1 hour", "read": Reading(rows=30)}
    clicks, orders = app.stream("clicks", **how), app.stream("orders", **how)
    names = app.table("names", key="k", schema="k int, name string")

    @app.view(clicks, key=["window", "k"])
    def windows(clicks):
        return clicks.groupBy(F.window("at", "1 minute"), "k").agg(F.sum("n").alias("n"))

    @app.view(clicks, key=["session", "k"])
    def sessions(clicks):
        return clicks.groupBy(F.session_window("at", "5 seconds").alias("session"), "k").count()

    @app.view(clicks, orders, key=["id", "other"])
    def pairs(clicks, orders):
        condition = F.expr("c.k = o.k and c.at between o.at - interval 1 minute and o.at")
        found = clicks.alias("c").join(orders.alias("o"), condition)
        return found.select("c.id", F.col("o.id").alias("other"))

    @app.stream(clicks, key="id")
    def once(clicks):
        return clicks.dropDuplicates(["id", "at"])

    @app.view(clicks, names, windows, key="id")
    def named(clicks, names, windows):
        latest = windows.groupBy("k").agg(F.max("n").alias("most"))
        return clicks.join(names, "k", "left").join(latest, "k", "left").select("id", "name", "most")

    return app


def holding(directory: Path, text: bytes) -> list[str]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [str(path.relative_to(directory)) for path in files if text in path.read_bytes()]


@pytest.mark.servers
def test_a_copy_of_the_data_directory_goes_on_elsewhere(spark, tmp_path):
    with Broker() as broker:
        scene = Scene(broker, spark, tmp_path / "first place" / "data")
        scene.make("clicks", "orders", "names", partitions=2)
        scene.send(80, Sending(seed=1, back=0), ("clicks", "orders"))
        scene.run(every_kind())
        assert holding(scene.data, str(scene.data).encode()) == []
        moved = tmp_path / "another" / "place"
        shutil.copytree(scene.data, moved)
        shutil.rmtree(scene.data)
        restored = Scene(broker, spark, moved, scene.sent, scene._clock, scene._ids)
        restored.send(40, Sending(seed=2, back=0), ("clicks", "orders"))
        restored.run(every_kind())
        clicks = [event for event in restored.sent if event.topic == "clicks" and event.at is not None]
        assert sorted(row["id"] for row in restored.rows("named")) == sorted(event.id for event in clicks)
        assert sorted(value["id"] for value in restored.values("once")) == sorted(event.id for event in clicks)
        sums: dict[int, int] = {}
        for row in restored.rows("windows"):
            sums[row["k"]] = sums.get(row["k"], 0) + row["n"]
        assert sums == {k: sum(each.n for each in clicks if each.k == k) for k in {each.k for each in clicks}}


@pytest.mark.soak
def test_a_backup_that_is_older_than_the_topics_says_that_it_is(spark, tmp_path):
    with Broker() as broker:
        scene = Scene(broker, spark, tmp_path / "data")
        scene.make("clicks", "orders", "names", partitions=2)
        scene.send(40, Sending(seed=1, back=0), ("clicks", "orders"))
        scene.run(every_kind())
        shutil.copytree(scene.data, tmp_path / "backup")
        scene.send(40, Sending(seed=2, back=0), ("clicks", "orders"))
        scene.run(every_kind())
        scene.data = tmp_path / "backup"
        with pytest.raises(OtherCheckpoint, match="its output is at batch"):
            scene.run(every_kind())
