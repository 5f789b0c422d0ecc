"""A body that remembers must remember the same when a batch is repeated."""

from __future__ import annotations

import uuid

import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from runnel import App, Broker
from runnel.app.runner import QueryFailed
from runnel.pipeline.determinism import check_determinism
from runnel.pipeline.errors import InvalidBody
from runnel.pipeline.own_watermark import check_watermarks
from runnel.pipeline.query import _read
from runnel.pipeline.source.reader import Source
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.stream_query import StreamQuery
from tests.pipeline.scene import Scene

pytestmark = pytest.mark.servers

TIME_TYPE = "spark.sql.timeType.enabled"
SCHEMA = "id long, k long, n double, tags array<string>, at timestamp"
chance = F.udf(lambda n: str(uuid.uuid4()), StringType()).asNondeterministic()
steady = F.udf(lambda n: str(n), StringType())


@pytest.fixture(scope="module")
def inputs(spark, tmp_path_factory):
    """Of a stream with an event time, of another, and of one without; and rows that never change."""
    spark.dataSource.register(Source)
    app = App("bodies")
    timed = {"time": "at", "late": "10 seconds"}
    streams = [
        app.stream("clicks", schema=SCHEMA, **timed),
        app.stream("payments", schema=SCHEMA, **timed),
        app.stream("timeless", schema=SCHEMA),
    ]
    directory = str(tmp_path_factory.mktemp("sources"))
    frames = [
        _read(
            spark, Spec("body", number, "nowhere:1", each.topic, each.columns, each.reading, directory, time=each.time)
        )
        for number, each in enumerate(streams)
    ]
    spark.conf.set(TIME_TYPE, "true")
    yield [*frames, spark.createDataFrame([(1, "one")], "k long, name string")]
    spark.conf.unset(TIME_TYPE)


def window(frame):
    return frame.groupBy(F.window("at", "1 minute"), "k")


def joined(left, right):
    near = F.expr("c.k = p.k and p.at between c.at and c.at + interval 5 seconds")
    return left.alias("c").join(right.alias("p"), near)


REFUSED = {
    "rand() as a value that is summed": (
        "rand",
        lambda c, p, t, s: window(c.withColumn("x", F.col("n") * F.rand())).agg(F.sum("x")),
    ),
    "rand() with a seed": ("rand", lambda c, p, t, s: window(c.withColumn("x", F.rand(7))).agg(F.sum("x"))),
    "rand() in a filter": ("rand", lambda c, p, t, s: window(c.where(F.rand() < 0.5)).count()),
    "randn()": ("randn", lambda c, p, t, s: window(c.withColumn("x", F.randn())).agg(F.max("x"))),
    "uuid()": ("uuid", lambda c, p, t, s: c.withColumn("x", F.uuid()).dropDuplicates(["x", "at"])),
    "uuid() in SQL": ("uuid", lambda c, p, t, s: c.selectExpr("*", "uuid() as x").dropDuplicatesWithinWatermark(["x"])),
    "randstr()": ("randstr", lambda c, p, t, s: window(c.selectExpr("*", "randstr(5) as x")).agg(F.max("x"))),
    "uniform()": ("uniform", lambda c, p, t, s: window(c.selectExpr("*", "uniform(1, 9) as x")).agg(F.max("x"))),
    "shuffle()": ("shuffle", lambda c, p, t, s: window(c.withColumn("x", F.shuffle("tags"))).agg(F.max("x"))),
    "monotonically_increasing_id()": (
        "monotonically_increasing_id",
        lambda c, p, t, s: joined(c.withColumn("x", F.monotonically_increasing_id()), p).select("x", "c.id"),
    ),
    "spark_partition_id()": (
        "spark_partition_id",
        lambda c, p, t, s: c.groupBy(F.window("at", "1 minute"), F.spark_partition_id()).count(),
    ),
    "input_file_name()": (
        "input_file_name",
        lambda c, p, t, s: window(c.withColumn("x", F.input_file_name())).agg(F.max("x")),
    ),
    "java's clock": (
        "java_method",
        lambda c, p, t, s: window(c.selectExpr("*", "java_method('java.lang.System', 'nanoTime') as x")).agg(
            F.max("x")
        ),
    ),
    "a function that says so": ("<lambda>", lambda c, p, t, s: window(c.withColumn("x", chance("n"))).agg(F.max("x"))),
    "chance in rows that never change": (
        "rand",
        lambda c, p, t, s: window(c.join(s.withColumn("x", F.rand()), "k")).agg(F.max("x")),
    ),
    "chance in the condition of a join": ("rand", lambda c, p, t, s: joined(c, p.where(F.rand() > 0.1)).select("c.id")),
    "chance in a subquery": (
        "rand",
        lambda c, p, t, s: window(c.where(F.col("n") > s.withColumn("x", F.rand()).agg(F.max("x")).scalar())).count(),
    ),
    "chance in a function of higher order": (
        "rand",
        lambda c, p, t, s: window(c.withColumn("x", F.transform("tags", lambda tag: F.rand()))).agg(F.max("x")),
    ),
    "now()": ("now", lambda c, p, t, s: window(c.where(F.col("at") < F.now())).count()),
    "current_time()": ("current_time", lambda c, p, t, s: window(c.withColumn("x", F.current_time())).agg(F.max("x"))),
    "first()": ("first", lambda c, p, t, s: window(c).agg(F.first("n"))),
    "last()": ("last", lambda c, p, t, s: window(c).agg(F.last("n", ignorenulls=True))),
    "any_value()": ("any_value", lambda c, p, t, s: window(c).agg(F.any_value("n"))),
    "collect_list()": ("collect_list", lambda c, p, t, s: window(c).agg(F.collect_list("n"))),
    "collect_set()": ("collect_set", lambda c, p, t, s: window(c).agg(F.collect_set("n"))),
    "array_agg()": ("collect_list", lambda c, p, t, s: window(c).agg(F.array_agg("n"))),
    "a part of a list": (
        "collect_list",
        lambda c, p, t, s: window(c).agg(F.sort_array(F.slice(F.collect_list("n"), 1, 2))),
    ),
    "a sorted list of first ones": ("first", lambda c, p, t, s: window(c).agg(F.sort_array(F.array(F.first("n"))))),
    "listagg()": ("listagg", lambda c, p, t, s: window(c).agg(F.listagg(F.col("n").cast("string"), F.lit(",")))),
    "mode()": ("mode", lambda c, p, t, s: window(c).agg(F.mode("n"))),
    "first() in a pivot of dropDuplicates": (
        "first",
        lambda c, p, t, s: window(c.dropDuplicates(["id", "at"])).agg(F.first("n")),
    ),
    "an aggregate without a window": ("rand", lambda c, p, t, s: t.where(F.rand() > 0.5).groupBy("k").count()),
}

ALLOWED = {
    "rand() where nothing is remembered": lambda c, p, t, s: c.withColumn("x", F.rand()).where("x < 0.5"),
    "ids where nothing is remembered": lambda c, p, t, s: t.withColumn("x", F.uuid()).withColumn(
        "y", F.monotonically_increasing_id()
    ),
    "a join with rows that never change": lambda c, p, t, s: c.join(s, "k").withColumn("x", F.rand()),
    "a result that gets an id": lambda c, p, t, s: window(c).count().withColumn("x", F.uuid()),
    "a function behind a window": lambda c, p, t, s: window(c).count().withColumn("x", chance("count")),
    "the clock": lambda c, p, t, s: window(c.withColumn("x", F.current_timestamp())).agg(
        F.max("x"), F.max(F.current_date())
    ),
    "the clock in a filter": lambda c, p, t, s: window(c.where(F.col("at") < F.localtimestamp())).count(),
    "the clock in seconds": lambda c, p, t, s: window(c.withColumn("x", F.unix_timestamp())).agg(F.max("x")),
    "now() where nothing is remembered": lambda c, p, t, s: c.withColumn("x", F.now()),
    "a plain function": lambda c, p, t, s: window(c.withColumn("x", steady("n"))).agg(F.max("x")),
    "a hash": lambda c, p, t, s: window(c.withColumn("x", F.xxhash64("id"))).agg(F.max("x")),
    "a sorted list": lambda c, p, t, s: window(c).agg(F.sort_array(F.collect_list("n"))),
    "a list sorted the other way": lambda c, p, t, s: window(c).agg(F.array_sort(F.collect_list(F.struct("at", "n")))),
    "a sorted list of changed values": lambda c, p, t, s: window(c).agg(
        F.sort_array(F.transform(F.collect_list("n"), lambda n: n + 1))
    ),
    "the size of a set": lambda c, p, t, s: window(c).agg(F.size(F.collect_set("n"))),
    "max_by": lambda c, p, t, s: window(c).agg(F.max_by("n", "at"), F.min_by("n", "at")),
    "sums and counts": lambda c, p, t, s: window(c).agg(
        F.sum("n"), F.count("*"), F.avg("n"), F.approx_count_distinct("k")
    ),
    "listagg with an order": lambda c, p, t, s: window(c).agg(
        F.expr("listagg(cast(n as string), ',') within group (order by n)")
    ),
    "mode of equals decided": lambda c, p, t, s: window(c).agg(F.mode("n", deterministic=True)),
    "duplicates": lambda c, p, t, s: c.dropDuplicates(["id", "at"]),
    "a join": lambda c, p, t, s: joined(c, p).select("c.id"),
    "a join with itself": lambda c, p, t, s: joined(c, c).select("c.id"),
    "the first rows": lambda c, p, t, s: t.limit(5),
}


@pytest.mark.parametrize("name", REFUSED)
def test_chance_that_a_body_would_remember_is_refused_by_name(inputs, name):
    function, body = REFUSED[name]
    with pytest.raises(InvalidBody) as refused:
        check_determinism('view "x"', body(*inputs))
    assert f'view "x": {function}() ' in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize("name", ALLOWED)
def test_chance_that_nobody_remembers_and_what_is_always_the_same_are_allowed(inputs, name):
    check_determinism('view "x"', ALLOWED[name](*inputs))


@pytest.mark.parametrize("number", [0, 2])
def test_a_watermark_of_the_body_s_own_is_refused(inputs, number):
    check_watermarks('view "x"', inputs[number])
    with pytest.raises(InvalidBody, match="withWatermark") as refused:
        check_watermarks('view "x"', inputs[number].withWatermark("at", "1 second").groupBy("k").count())
    assert "time=" in refused.value.hint


def test_the_clock_says_the_same_when_a_batch_is_repeated(spark, tmp_path, monkeypatch):
    """It is the time of the batch, which Spark wrote down before the first try."""
    app = App("clock")
    clicks = app.stream("clicks", schema="id long")

    @app.stream(clicks)
    def stamped(clicks):
        clock = F.current_timestamp(), F.localtimestamp(), F.current_date(), F.unix_timestamp()
        return clicks.select("id", *(each.alias(f"c{number}") for number, each in enumerate(clock)))

    tries = []

    def look(batch):
        tries.append((batch.number, batch.frame.toArrow().to_pylist()))
        if len(tries) == 1:
            raise ValueError("the first try")

    monkeypatch.setattr(StreamQuery, "steps", lambda query: (look,))
    with Broker() as broker:
        scene = Scene(broker, spark, tmp_path)
        scene.make("clicks", partitions=1)
        scene.send_one("clicks", 0)
        with pytest.raises(QueryFailed, match="the first try"):
            scene.run(app)
        scene.run(app)
    first, again = tries
    assert first == again
