"""Four queries over one stream of clicks, as one app has them: two views with state, and two derived streams.

Each of their rows tells the number of the click that it is of, or of the newest one.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.pipeline_events import FLAT
from runnel import App

NUMBERED = f"{FLAT}, number long"
VIEWS = ("per_minute", "per_page")
STREAMS = ("changed", "chosen")
NAMES = (*VIEWS, *STREAMS)


def declare(app: App, topic: str, names: dict[str, str]) -> None:
    """`names` are those of the outputs, by the query."""
    clicks = app.stream(topic, schema=NUMBERED, time="at", late="10 seconds")
    for query, name in names.items():
        body = _named(BODIES[query], name)
        if query in VIEWS:
            app.view(clicks, key=["window", "page"] if query == "per_minute" else "page", name=name)(body)
        else:
            app.stream(clicks, key="page")(body)


def _named(body: Callable[[DataFrame], DataFrame], name: str) -> Callable[[DataFrame], DataFrame]:
    def named(clicks: DataFrame) -> DataFrame:
        return body(clicks)

    named.__name__ = name
    return named


def _per_minute(clicks: DataFrame) -> DataFrame:
    windows = clicks.groupBy(F.window("at", "1 minute"), "page")
    return windows.agg(F.count("*").alias("count"), F.max("number").alias("newest"))


def _per_page(clicks: DataFrame) -> DataFrame:
    sums = F.sum("ms").alias("ms"), F.max("number").alias("newest")
    return clicks.groupBy("page").agg(F.count("*").alias("count"), *sums)


def _changed(clicks: DataFrame) -> DataFrame:
    return clicks.withColumn("ms", F.col("ms") * 2)


def _chosen(clicks: DataFrame) -> DataFrame:
    return clicks.where("ms >= 0").select("page", "number", F.concat_ws("/", "page", "customer_id").alias("path"))


BODIES = dict(zip(NAMES, (_per_minute, _per_page, _changed, _chosen), strict=True))
