"""An app that was changed goes on if it fits its checkpoint, and is refused, with what to do, if it does not."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Broker
from runnel.pipeline import fitting
from runnel.pipeline.errors import BodyFailed, NoLongerFits
from runnel.pipeline.failure import told
from runnel.pipeline.query import Query
from runnel.views.errors import ViewChanged
from tests.pipeline.scene import Scene, Sending

SCHEMA = "id long, k int, n int, at timestamp"
REBUILD = "`runnel rebuild counts APP.py` reads the log again into a new copy, which then takes its place"


@pytest.fixture
def scene(spark, tmp_path):
    with Broker() as broker:
        found = Scene(broker, spark, tmp_path / "data")
        found.make("clicks", "orders", partitions=2)
        found.send(40, Sending(seed=1, broken=0.0, back=0), ("clicks", "orders"))
        yield found


def counted(body=None, *, schema=SCHEMA, time="at", key="k", late="1 hour"):
    """An app with one view over the clicks."""
    app = App("shop")
    clicks = app.stream("clicks", schema=schema, time=time, late=late if time else None)

    def counts(clicks):
        return clicks.groupBy("k").agg(F.sum("n").alias("n"))

    app.view(clicks, key=key, name="counts")(body or counts)
    return app


def joined(body):
    app = App("shop")
    inputs = [app.stream(name, schema=SCHEMA, time="at", late="1 hour") for name in ("clicks", "orders")]
    app.view(*inputs, key="id", name="pairs")(body)
    return app


def pairs(clicks, orders, columns=("c.id", "c.k")):
    condition = F.expr("c.k = o.k and c.at between o.at - interval 1 minute and o.at")
    return clicks.alias("c").join(orders.alias("o"), condition).select(*columns)


def refused(scene, app):
    with pytest.raises(NoLongerFits) as raised:
        scene.run(app)
    return raised.value


def by_window(length):
    def counts(clicks):
        return clicks.groupBy(F.window("at", length), "k").agg(F.sum("n").alias("n"))

    return counts


CHANGED = {
    "the aggregate": (
        counted(lambda clicks: clicks.groupBy("k").agg(F.max("n").cast("long").alias("n"))),
        "what Aggregate remembers has changed: its keys, its values, their types or their order",
    ),
    "one more aggregate": (
        counted(lambda clicks: clicks.groupBy("k").agg(F.sum("n").alias("n"), F.count("*").alias("more"))),
        "what Aggregate remembers has changed: its keys, its values, their types or their order",
    ),
    "how the key is made": (
        counted(lambda clicks: clicks.withColumn("k", F.col("k") % 2).groupBy("k").agg(F.sum("n").alias("n"))),
        "what Aggregate remembers has changed: its keys, its values, their types or their order",
    ),
    "nothing is remembered": (
        counted(lambda clicks: clicks.select("k", F.col("n").cast("long").alias("n"))),
        "it remembered Aggregate and would now remember nothing",
    ),
    "the type of a column": (
        counted(schema="id long, k int, n double, at timestamp"),
        "its column n was bigint and is now double",
    ),
    "a column that is used": (
        counted(
            lambda clicks: clicks.groupBy("k").agg(F.sum("n").cast("long").alias("n")),
            schema="id long, k int, n double, at timestamp",
        ),
        "what Aggregate remembers has changed: its keys, its values, their types or their order "
        "(the column of stream clicks n was int and is now double)",
    ),
    "the time": (
        counted(schema="id long, k int, n int, at timestamp, then timestamp", time="then"),
        "the time of stream clicks was at and is now then",
    ),
    "no time": (counted(time=None), "the time of stream clicks was at and is now none"),
    "the key": (counted(key="n"), "its key was k and is now n"),
    "a column of the view": (
        counted(lambda clicks: clicks.groupBy("k").agg(F.sum("n").alias("all"))),
        "its column n is gone",
    ),
}


@pytest.mark.servers
def test_what_no_longer_fits_is_refused_before_anything_else_with_the_advice_to_rebuild(scene):
    scene.run(counted())
    rows = scene.rows("counts")
    scene.send(10, Sending(seed=2, broken=0.0))
    for name, (app, what) in CHANGED.items():
        error = refused(scene, app)
        assert error.what == f"counts cannot go on from its checkpoint: {what}", name
        assert error.hint == REBUILD
    assert scene.rows("counts") == rows
    assert scene.run(counted())["counts"].in_time == len([each for each in scene.sent if each.topic == "clicks"]) - len(
        [each for each in scene.sent[:40] if each.topic == "clicks"]
    )


@pytest.mark.soak
def test_a_window_of_another_length_is_another_although_it_has_the_same_name_and_type(scene):
    scene.run(counted(by_window("1 minute"), key=["window", "k"]))
    assert "what Aggregate remembers" in refused(scene, counted(by_window("5 minutes"), key=["window", "k"])).what
    scene.run(counted(by_window("60 seconds"), key=["window", "k"]))


@pytest.mark.servers
def test_what_fits_goes_on_and_the_log_tells_it(scene, caplog):
    caplog.set_level(logging.INFO)
    scene.run(counted())
    scene.send(30, Sending(seed=3, broken=0.0, back=0))
    wider = "id long, k int, n int, at timestamp, page string"

    def filtered(clicks):
        counts = clicks.where("n >= 0").groupBy("k").agg(F.sum("n").alias("n"))
        return counts.withColumn("twice", 2 * F.col("n"))

    scene.run(counted(filtered, schema=wider, late="2 hours"))
    assert "counts: stream clicks has a new column, page; it goes on with what it remembers" in caplog.messages
    assert "counts: it has a new column, twice; it goes on with what it remembers" in caplog.messages
    expected: dict[int, int] = {}
    for event in scene.sent:
        if event.topic == "clicks":
            expected[event.k] = expected.get(event.k, 0) + event.n
    assert {row["k"]: row["n"] for row in scene.rows("counts")} == expected
    caplog.clear()
    scene.run(counted(filtered, schema=wider, late="2 hours"))
    assert not [line for line in caplog.messages if "goes on with" in line]


@pytest.mark.soak
def test_what_a_join_keeps_is_part_of_it(scene):
    scene.run(joined(pairs))
    error = refused(scene, joined(lambda clicks, orders: pairs(clicks, orders, ("c.id", "c.k", "o.n"))))
    assert "what rows of a join remembers has changed" in error.what
    assert "its inputs were stream clicks, stream orders and are now" in refused(scene, _one_input()).what
    scene.run(joined(pairs))


def _one_input():
    app = App("shop")
    clicks = app.stream("clicks", schema=SCHEMA, time="at", late="1 hour")
    app.view(clicks, key="id", name="pairs")(lambda clicks: clicks.select("id", "k"))
    return app


@pytest.mark.servers
def test_a_derived_stream_is_sent_to_replay_and_one_that_remembers_nothing_may_change(scene):
    def derived(body, key="k"):
        app = App("shop")
        clicks = app.stream("clicks", schema=SCHEMA, time="at", late="1 hour")
        body.__name__ = "stays"
        app.stream(clicks, key=key)(body)
        return app

    scene.run(derived(lambda clicks: clicks.select("k", "n")))
    scene.send(10, Sending(seed=4, broken=0.0))
    scene.run(derived(lambda clicks: clicks.select("k", F.col("n").cast("string").alias("text"))))
    assert {"k", "text"} in [set(value) for value in scene.values("stays")]
    error = refused(scene, derived(lambda clicks: clicks.select("k", "n"), key="n"))
    assert error.hint.startswith("`runnel replay stays APP.py --from TIME --to-topic TOPIC` writes")


@pytest.mark.servers
def test_another_table_in_the_place_of_one_is_refused_by_its_name(scene):
    """And not as one that was deleted and made again, by what is kept of the other."""

    def named(topic):
        app = App("shop")
        clicks = app.stream("clicks", schema=SCHEMA, time="at", late="1 hour")
        names = app.table(topic, key="k", schema="k int, name string")
        app.stream(clicks, names)(with_names)
        return app

    def with_names(clicks, names):
        return clicks.join(names, "k", "left").select("id")

    scene.make("names", "nicknames", partitions=1)
    scene.run(named("names"))
    what = refused(scene, named("nicknames")).what
    assert what.endswith("were stream clicks, table names and are now stream clicks, table nicknames")


@pytest.mark.soak
def test_a_table_with_another_column_is_refused(scene):
    def named(schema):
        app = App("shop")
        clicks = app.stream("clicks", schema=SCHEMA, time="at", late="1 hour")
        names = app.table("names", key="k", schema=schema)
        app.view(clicks, names, key="id", name="named")(
            lambda clicks, names: clicks.join(names, "k", "left").select("id")
        )
        return app

    scene.make("names", partitions=1)
    scene.run(named("k int, name string"))
    what = refused(scene, named("k int, name string, city string")).what
    assert what.endswith("table names has a new column, city, which the rows that are kept do not have")


@pytest.mark.servers
def test_what_spark_alone_finds_is_told_in_our_words(scene, monkeypatch):
    """As if the comparison had let it pass."""
    scene.run(counted())
    scene.send(10, Sending(seed=5, broken=0.0))
    monkeypatch.setattr(Query, "check_fit", lambda _: None)
    with pytest.raises(Exception, match="what it remembers no longer fits its checkpoint") as raised:
        scene.run(counted(lambda clicks: clicks.groupBy("k", "id").agg(F.sum("n").alias("n")), key="k"))
    assert "runnel rebuild" in told(raised.value).hint


@pytest.mark.soak
def test_a_checkpoint_from_before_the_comparison_goes_on(scene):
    scene.run(counted())
    (scene.data / "queries" / "counts" / fitting.FILE).unlink()
    scene.run(counted())
    assert (scene.data / "queries" / "counts" / fitting.FILE).exists()


def with_a_lambda(clicks):
    twice = F.aggregate(F.array("n", "n"), F.lit(0), lambda total, each: total + each)
    return clicks.groupBy("k").agg(F.sum(twice).alias("n"))


@pytest.mark.servers
def test_a_lambda_fits_itself_though_spark_gives_its_variables_new_numbers(scene):
    scene.run(counted(with_a_lambda))
    scene.run(counted(with_a_lambda))


@pytest.mark.servers
@pytest.mark.parametrize(
    ("column", "error", "said"),
    [
        (lambda: F.lit("a"), ViewChanged, "its new column 'more' is never null"),
        (lambda: F.row_number().over(Window.partitionBy("k").orderBy("n")), BodyFailed, "NON_TIME_WINDOW"),
    ],
    ids=["the store", "Spark"],
)
def test_what_cannot_be_kept_has_changed_nothing_and_can_be_declared_as_it_was(scene, column, error, said):
    def counts(clicks):
        return clicks.groupBy("k").agg(F.sum("n").alias("n"))

    scene.run(counted(counts))
    before = scene.rows("counts")
    scene.send(10, Sending(seed=2, broken=0.0, back=0), ("clicks",))
    with pytest.raises(error, match=said):
        scene.run(counted(lambda clicks: counts(clicks).withColumn("more", column())))
    assert scene.rows("counts") == before
    scene.run(counted(counts))
    assert scene.rows("counts") != before
