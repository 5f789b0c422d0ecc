"""clicks -> large -> small_k -> a view; and a view that reads both the first and the last of them."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812

from runnel import App

SCHEMA = "id long, k long, n long, at timestamp"


def chained() -> App:
    app = App("shop")
    clicks = app.stream("clicks", schema=SCHEMA)

    @app.stream(clicks, key="k")
    def large(clicks):
        return clicks.where("n >= 50").select("k", "n")

    @app.stream(large, key="k")
    def small_k(large):
        return large.where("k < 2").select("k")

    @app.view(small_k, key="k")
    def by_k(small_k):
        return small_k.groupBy("k").count()

    @app.view(clicks, small_k, key=["source", "k"])
    def both(clicks, small_k):
        first = clicks.select(F.lit("clicks").alias("source"), "k")
        last = small_k.select(F.lit("small_k").alias("source"), "k")
        return first.unionByName(last).groupBy("source", "k").count()

    return app


app = chained()
