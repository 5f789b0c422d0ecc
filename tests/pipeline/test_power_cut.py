"""After a power cut an app goes on: what was synced is there, and of all else that Spark wrote the names, or nothing.

The machine is not cut off, of course: every sync of the driver is written down, and afterwards what was never synced is
taken away.
"""

from __future__ import annotations

import json
import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Broker, Reading
from runnel.client import Producer
from runnel.pipeline.sinks.publisher import Publisher
from runnel.views.writer import SqlWriter
from tests.pipeline.scene import Scene

pytestmark = pytest.mark.servers

OUTPUTS = ("counts", "closed")
SLOW = 0.5  # seconds, for one file of each batch: longer than all else of it


@pytest.fixture
def scene(spark, tmp_path):
    with Broker() as broker:
        broker.create_topic("clicks", 1, configs={"retention.ms": "-1"})
        yield Scene(broker, spark, tmp_path / "data")


@pytest.fixture
def synced(monkeypatch):
    """The paths of what the driver has synced, on a disk that is slow: who does not wait for it is early."""
    found: set[str] = set()

    def told(sync, descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if Path(path).parent.name == "offsets":
            time.sleep(SLOW)
        sync(descriptor)
        found.add(path)

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, partial(told, getattr(os, name)))
    return found


@pytest.fixture
def effects(monkeypatch, synced):
    """For each effect the query, the batch, and what had been synced by then."""
    found = []
    one = threading.Lock()
    publish, apply = Publisher.publish, SqlWriter.apply

    def tell(marker):
        with one:
            found.append((marker.query, marker.batch, frozenset(synced)))

    def publishing(self, marker, contents, put_aside):
        tell(marker)
        publish(self, marker, contents, put_aside)

    def applying(self, rows, marker):
        tell(marker)
        return apply(self, rows, marker)

    monkeypatch.setattr(Publisher, "publish", publishing)
    monkeypatch.setattr(SqlWriter, "apply", applying)
    return found


def app():
    app = App("shop")
    clicks = app.stream(
        "clicks", schema="page string, at timestamp", time="at", late="30 seconds", read=Reading(rows=40)
    )

    @app.view(clicks, key=["window", "page"])
    def counts(clicks):
        return clicks.groupBy(F.window("at", "1 minute"), "page").count()

    @app.stream(clicks, key="page")
    def closed(clicks):
        return clicks.groupBy(F.window("at", "1 minute"), "page").count().select("window.start", "page", "count")

    return app


def click(scene, first, count):
    """One each second."""
    with Producer(scene.broker.bootstrap) as producer:
        for number in range(first, first + count):
            at = f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"
            producer.submit("clicks", json.dumps({"page": f"page {number % 3}", "at": at}).encode(), partition=0)


def expected(count):
    found = {}
    for number in range(count):
        place = number // 60, f"page {number % 3}"
        found[place] = found.get(place, 0) + 1
    return found


def counted(scene):
    return {(row["window_start"].minute, row["page"]): row["count"] for row in scene.rows("counts")}


def closed(scene):
    found = [(int(each["start"][14:16]), each["page"], each["count"]) for each in scene.values("closed")]
    assert len({(minute, page) for minute, page, _ in found}) == len(found), "a window was told twice"
    return {(minute, page): count for minute, page, count in found}


def checkpoint(scene, query):
    return scene.data / "queries" / query / "checkpoint"


def with_sums(path: Path):
    return [str(path), str(path.with_name(f".{path.name}.crc"))]


def needed(path: Path, batch: int):
    """What a repeat of the batch reads: the ends before it and its own, what was done, and all that is remembered."""
    found = [*with_sums(path / "metadata"), *with_sums(path / "offsets" / str(batch)), str(path / "offsets")]
    if batch:
        found += [*with_sums(path / "commits" / str(batch - 1)), str(path / "commits"), str(path / "state" / "0")]
        for partition in (each for each in (path / "state" / "0").iterdir() if each.name.isdigit()):
            found += [*with_sums(partition / f"{batch}.changelog"), str(partition), str(partition / "_metadata")]
    return [each for each in found if not each.endswith("_metadata") or Path(each).exists()]


def lose(path: Path, synced: set[str], *, also_names: bool) -> None:
    """What was not synced; of the last batch, which nothing followed, that is a good part."""
    lost = [each for each in path.rglob("*") if each.is_file() and str(each) not in synced]
    newest = max(int(each.name) for each in (path / "commits").iterdir() if each.name.isdigit())
    assert {path / "commits" / str(newest), path / "state" / "0" / "0" / f"{newest + 1}.changelog"} <= set(lost)
    for each in lost:
        each.unlink() if also_names else each.write_bytes(b"")


def test_a_batch_takes_effect_when_it_can_be_repeated_and_after_a_power_cut_it_is(scene, synced, effects):
    click(scene, 0, 150)
    scene.run(app())
    for query, batch, on_disk in effects:
        missing = [each for each in needed(checkpoint(scene, query), batch) if each not in on_disk]
        assert not missing, f"batch {batch} of {query} took effect before these were synced: {missing}"
    assert all({batch for query, batch, _ in effects if query == each} >= {0, 1, 2, 3} for each in OUTPUTS)
    lose(checkpoint(scene, "counts"), synced, also_names=False)
    lose(checkpoint(scene, "closed"), synced, also_names=True)
    click(scene, 150, 150)
    told = scene.run(app())
    assert counted(scene) == expected(300)
    assert closed(scene) == {place: count for place, count in expected(300).items() if place[0] < 4}
    assert told["counts"].in_time == told["closed"].in_time == 150
