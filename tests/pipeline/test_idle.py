"""A stream that falls silent: the time goes on by as much as has passed, and the last window closes.

What lets it go on is a row of the source that only the watermark sees. No filter may come between the two.
"""

from __future__ import annotations

import re
import time

import pytest
from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Broker
from runnel.pipeline.query import _read
from runnel.pipeline.source.reader import Source
from runnel.pipeline.source.spec import Spec
from tests.pipeline.operators import OPERATORS, SCHEMA, since
from tests.pipeline.scene import SECOND, START, Scene
from tests.pipeline.waiting import wait_until

pytestmark = pytest.mark.servers

EVENT_TIME = "EventTimeWatermark"


def counted(clicks):
    """Its filter says nothing of the time: Spark would like to run it first."""
    window = clicks.where("k = 1 and n < 50").groupBy(F.window("at", "20 seconds")).count()
    return window.select(since("window.start").alias("start"), "count")


def unpaid(clicks, payments):
    """Spark infers of an inner or outer join that keys are not null, and would like to look at that first."""
    near = F.expr("c.k = p.k and p.at between c.at and c.at + interval 1 seconds")
    return clicks.alias("c").join(payments.alias("p"), near, "left").select("c.id", F.col("p.id").alias("payment"))


def test_the_last_window_closes_and_the_time_goes_on_by_what_has_passed(tmp_path, spark):
    app = App("idle")
    clicks, payments = (
        app.stream(topic, schema=SCHEMA, time="at", late="0 seconds", idle="1 second")
        for topic in ("clicks", "payments")
    )
    app.stream(clicks)(counted)
    app.stream(clicks, payments)(unpaid)
    began = time.monotonic()
    with Broker() as broker:
        scene = Scene(broker, spark, tmp_path)
        scene.make("clicks", "payments", partitions=2)
        for at in (1, 2, 19.9):
            scene.send_one("clicks", int(at * SECOND), k=1)
        scene.send_one("payments", 2 * SECOND, k=1)
        scene.send_one("payments", int(19.9 * SECOND), k=2)
        with scene.live(app) as queries:
            wait_until(lambda: scene.values("counted") and len(scene.values("unpaid")) == 3)
            watermark = queries["counted"].checkpoint.logged(queries["counted"].checkpoint.last).moment.watermark
            passed = (time.monotonic() - began) * SECOND
            plans = {name: last_plans(query) for name, query in queries.items()}
        assert scene.values("counted") == [{"start": 0, "count": 3}]
        told = sorted((each["id"], each.get("payment")) for each in scene.values("unpaid"))
        assert told == [(1, 4), (2, 4), (3, None)]
    newest = START + int(19.9 * SECOND)
    assert newest < watermark <= newest + passed
    for query, (optimised, physical) in plans.items():
        for plan in (optimised, physical):
            assert filters_below(plan) == [], query


def last_plans(query):
    execution = query._started._jsq.streamingQuery().lastExecution()
    return execution.optimizedPlan().toString(), execution.executedPlan().toString()


def filters_below(plan):
    """The filters that rows pass before the watermark sees them. A plan is written top down, children indented."""
    found, depth = [], None
    assert EVENT_TIME in plan
    for line in plan.splitlines():
        here = len(line) - len(line.lstrip(" :+-"))
        if depth is not None and here <= depth:
            depth = None
        if EVENT_TIME in line:
            depth = here
        elif depth is not None and re.search(r"\bFilter\b", line):
            found.append(line.strip())
    return found


FILTERED = {
    "a filter on another column": lambda c, p: c.where("k = 1").groupBy(F.window("at", "1 minute")).count(),
    "a filter on the time": lambda c, p: c.where("at > '2026-01-01'").groupBy(F.window("at", "1 minute")).count(),
    "both": lambda c, p: c.where("k = 1").where("at > '2026-01-01' and n > 3").dropDuplicates(["id", "at"]),
    "a filter behind a projection": lambda c, p: c.select("at", (F.col("n") + 1).alias("m")).where("m > 3").select("m"),
    "a filter on a Python function": lambda c, p: c.where(F.udf(lambda n: n > 3, "boolean")("n")),
    "a filter behind a window": lambda c, p: c.groupBy(F.window("at", "1 minute"), "k").count().where("k = 1"),
    "an inner join": lambda c, p: c.alias("c").join(p.alias("p"), "k"),
    "a join with rows that never change": lambda c, p: c.join(c.sparkSession.range(5).toDF("k"), "k"),
    "a condition of a join": lambda c, p: c.alias("c").join(p.alias("p"), F.expr("c.k = p.k and c.n > 5 and p.n > 7")),
    "an empty array": lambda c, p: c.select(F.explode(F.array("n", "k")).alias("m")).where("m > 3"),
    "a limit": lambda c, p: c.where("k = 1").limit(3),
}


@pytest.mark.parametrize("name", [*FILTERED, *OPERATORS])
def test_no_filter_comes_between_the_source_and_the_watermark(spark, tmp_path, name):
    app = App("plans")
    spark.dataSource.register(Source)
    frames = []
    for number, topic in enumerate(("clicks", "payments")):
        stream = app.stream(topic, schema=SCHEMA, time="at", late="1 second")
        known = stream.columns, stream.reading, str(tmp_path)
        frames.append(_read(spark, Spec("plans", number, "nowhere:1", topic, *known, time=stream.time)))
    made = FILTERED[name](*frames) if name in FILTERED else OPERATORS[name].body(*frames[: len(OPERATORS[name].inputs)])
    told = spark._jvm.PythonSQLUtils.explainString(made._jdf.queryExecution(), "extended")
    optimised, physical = re.split(r"== Physical Plan ==", told.split("== Optimized Logical Plan ==")[1])
    assert filters_below(optimised) == []
    assert filters_below(physical) == []
