"""Views as inputs of other outputs: joined as their latest rows, or change by change. All in one Spark session."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Broker, Reading
from runnel.app.trouble import QueryFailed
from runnel.client import Producer
from runnel.durable import VARIABLE
from runnel.pipeline.errors import InvalidBody
from runnel.pipeline.steps.keep import Keep
from runnel.pipeline.view_inputs import frames
from runnel.views.opening import open_store
from runnel.views.store import Declared
from runnel.views.store import Keep as KeptLog
from tests.contract.views.postgres_server import postgres_server
from tests.pipeline.scene import Scene
from tests.pipeline.waiting import wait_until

pytestmark = pytest.mark.servers

# Steps of the process that plans. What follows them, "source.start", is the same for every source.
STEPS = ("view.found",)
# Two queries begin with the view, so of four deaths one of them dies at least two.
DEATHS = {
    "once before": ("view.found:before:1",),
    "once after": ("view.found:after:1",),
    "twice": tuple(f"view.found:before:{time}" for time in (1, 2, 3, 4)),
    "and during recovery": (
        "view.found:after:1",
        "view.found:after:2",
        "source.start:before:1",
        "source.start:before:2",
    ),
}
DEAD = "dead"


@pytest.fixture
def scene(spark, tmp_path):
    with Broker() as broker:
        for topic in ("clicks", "asked"):
            broker.create_topic(topic, 1, configs={"retention.ms": "-1"})
        yield Scene(broker, spark, tmp_path / "data")


def click(scene, *pages, minute=0):
    with Producer(scene.broker.bootstrap) as producer:
        for page in pages:
            at = f"2026-01-01T00:{minute:02}:00Z"
            producer.submit("clicks", json.dumps({"page": page, "at": at}).encode())


def ask(scene, **pages):
    with Producer(scene.broker.bootstrap) as producer:
        for id, page in pages.items():
            producer.submit("asked", json.dumps({"id": id, "page": page}).encode())


def counting_app(rows=100):
    app = App("shop")
    clicks = app.stream("clicks", schema="page string, at timestamp", read=Reading(rows=rows))

    @app.view(clicks, key=["window", "page"])
    def counts(clicks):
        return clicks.groupBy(F.window("at", "1 minute"), "page").count()

    return app, counts


def changes_app(rows=100):
    """Pages that were seen twice in a minute, as a view of a view; and every change as a stream."""
    app, counts = counting_app(rows)

    @app.view(counts.changes(), key=["window", "page"])
    def popular(counts):
        return counts.where("count = 2").select("window", "page", "_change")

    @app.stream(counts.changes(), key=["window", "page"])
    def told(counts):
        return counts.select("window", "page", "count", "_change", F.col("window.start").alias("minute"))

    return app


def joined_app(rows=100):
    app, counts = counting_app()
    asked = app.stream("asked", schema="id string, page string", read=Reading(rows=rows))

    @app.view(asked, counts, key="id")
    def answers(asked, counts):
        sums = counts.select("page", "count", F.col("window.start").alias("minute"))
        return asked.join(sums, "page", "left").select("id", "count", F.minute("minute").alias("minute"))

    return app


def popular(scene):
    return {(row["window_start"].minute, row["page"]) for row in scene.rows("popular")}


def told(scene):
    """What the stream says of each page, in its order; None is a record without a value."""
    found: dict[tuple[str, str], list[int | None]] = {}
    for record in scene.records("told"):
        key, value = json.loads(record["key"]), record["value"] and json.loads(record["value"])
        assert value is None or value["minute"] == key["window"]["start"] == value["window"]["start"]
        found.setdefault((key["window"]["start"][14:16], key["page"]), []).append(value and value["count"])
    return found


def answers(scene):
    return {row["id"]: (row["count"], row["minute"]) for row in scene.rows("answers")}


def test_a_view_is_kept_by_the_changes_of_another(scene):
    click(scene, "a", "a", "b", "c")
    click(scene, "a", minute=7)
    scene.run(changes_app())
    assert popular(scene) == {(0, "a")}
    assert told(scene) == {("00", "a"): [2], ("00", "b"): [1], ("00", "c"): [1], ("07", "a"): [1]}
    click(scene, "a", "b")
    click(scene, "a", minute=7)
    scene.run(changes_app())
    assert popular(scene) == {(0, "b"), (7, "a")}
    assert told(scene) == {("00", "a"): [2, 3], ("00", "b"): [1, 2], ("00", "c"): [1], ("07", "a"): [1, 2]}
    scene.run(changes_app())
    assert sum(map(len, told(scene).values())) == 7


def test_who_comes_later_begins_with_the_rows_that_are_there(scene):
    click(scene, "a", "a", "b")
    scene.run(counting_app()[0])
    click(scene, "b")
    scene.run(counting_app()[0])
    scene.run(changes_app())
    assert popular(scene) == {(0, "a"), (0, "b")}
    assert told(scene) == {("00", "a"): [2], ("00", "b"): [2]}


def test_a_stream_is_joined_with_the_latest_rows_of_a_view(scene, monkeypatch):
    click(scene, "a", "a", "b")
    ask(scene, q1="a", q2="b", q3="c")
    scene.run(joined_app())
    assert answers(scene) == {"q1": (2, 0), "q2": (1, 0), "q3": (None, None)}
    click(scene, "b", "c")
    ask(scene, q4="b", q5="c")
    monkeypatch.setattr(frames, "MANY", 0)
    scene.run(joined_app())
    assert answers(scene) == {"q1": (2, 0), "q2": (1, 0), "q3": (None, None), "q4": (2, 0), "q5": (1, 0)}


def test_a_batch_that_is_repeated_sees_the_view_that_it_saw(scene, monkeypatch):
    click(scene, "a")
    scene.run(counting_app()[0])
    keep = Keep.__call__

    def fail(self, batch):
        if batch.query == "answers":
            raise RuntimeError(DEAD)
        return keep(self, batch)

    ask(scene, q1="a")
    monkeypatch.setattr(Keep, "__call__", fail)
    with pytest.raises(QueryFailed, match=DEAD):
        scene.run(joined_app())
    monkeypatch.setattr(Keep, "__call__", keep)
    click(scene, "a")
    ask(scene, q2="a")
    scene.run(joined_app())
    assert answers(scene) == {"q1": (1, 0), "q2": (2, 0)}


def test_changes_that_were_told_are_not_told_again_when_their_batch_is_repeated(scene, monkeypatch):
    click(scene, "a", "a", "b")
    keep = Keep.__call__

    def fail(self, batch):
        done = keep(self, batch)
        if batch.query == "popular":
            raise RuntimeError(DEAD)
        return done

    monkeypatch.setattr(Keep, "__call__", fail)
    with pytest.raises(QueryFailed, match=DEAD):
        scene.run(changes_app())
    monkeypatch.setattr(Keep, "__call__", keep)
    click(scene, "a", "b")
    scene.run(changes_app())
    assert popular(scene) == {(0, "b")}
    with open_store(str(scene.data)).reader("popular") as reader:
        kinds = [(change.kind, change.key["page"]) for change in reader.changes(0)]
    assert kinds == [("insert", "a"), ("delete", "a"), ("insert", "b")]


def test_changes_that_are_gone_stop_the_query_that_needs_them(scene):
    click(scene, "a")
    scene.run(changes_app())
    click(scene, "b", "c")
    scene.run(counting_app()[0])
    with open_store(str(scene.data)).reader("counts") as reader:
        declared, key, query = reader.schema(), reader.key(), reader.marker().query
    forget(scene, declared, key, query)
    with pytest.raises(QueryFailed, match="it needs the changes of the view counts from position 1 on") as caught:
        scene.run(changes_app())
    assert "under another name" in caught.value.hint


def forget(scene, schema, key, query):
    """As time does."""
    store = open_store(str(scene.data), keep=KeptLog(rows=0))
    with store.writer(Declared("counts", key, schema), query) as writer:
        writer.claim()
        assert writer.trim() == 3


def test_a_view_that_runs_all_the_while_is_followed(scene):
    with scene.live(changes_app()):
        click(scene, "a", "a")
        wait_until(lambda: popular(scene) == {(0, "a")})
        click(scene, "a", "b")
        click(scene, "b")
        wait_until(lambda: popular(scene) == {(0, "b")})
        wait_until(lambda: sum(map(len, told(scene).values())) >= 3)


@pytest.fixture
def in_postgres():
    with postgres_server() as postgres:
        yield postgres.url


@pytest.mark.parametrize("deaths", DEATHS)
@pytest.mark.parametrize("store", ["SQLite", "PostgreSQL"])
def test_a_source_that_dies_while_it_begins_begins_again(scene, spark, tmp_path, deaths, store, request):
    views = request.getfixturevalue("in_postgres") if store == "PostgreSQL" else None
    click(scene, "a", "a", "b")
    scene.run(counting_app()[0], views=views)
    places = tmp_path / "deaths"
    places.mkdir()
    for point in DEATHS[deaths]:
        (places / point).write_text("9")
    spark.sparkContext.environment[VARIABLE] = str(places)
    try:
        scene.run(changes_app(), views=views)
    finally:
        del spark.sparkContext.environment[VARIABLE]
    assert not list(places.iterdir()), "nobody came to this step"
    with open_store(views or str(scene.data)).reader("popular") as reader:
        assert [(row["window_start"].minute, row["page"]) for row in reader.rows().to_pylist()] == [(0, "a")]
    assert told(scene) == {("00", "a"): [2], ("00", "b"): [1]}


def test_a_view_has_no_records_to_tell_of(scene):
    app, counts = counting_app()

    @app.view(counts.changes().with_metadata(), key="page")
    def again(counts):
        return counts

    with pytest.raises(InvalidBody, match="has rows, and no records"):
        scene.run(app)


def test_the_body_is_given_what_the_view_s_own_function_returns(scene):
    app, counts = counting_app()
    seen = []

    @app.stream(counts.changes(), key="page")
    def again(counts):
        seen.append(counts.schema)
        return counts.select("page", "count", "_change")

    click(scene, "a")
    scene.run(app)
    clicks = scene.spark.createDataFrame([], "page string, at timestamp")
    assert seen[-1] == counts(clicks).schema.toNullable().add("_change", "string")
