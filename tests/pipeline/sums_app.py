"""The app of the tests that rebuild: sums, or multiples of them. As a file, it is the app with the double sums."""

from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Reading

SCHEMA = "id long, k int, n int, at timestamp"
VIEW = "sums"


def sums_app(times: int = 1, *, key: str = "k", rows: int = 20) -> App:
    """The sum of n for each k, or a multiple of it; with another key, of id. It reads so many rows at once."""
    app = App("shop")
    clicks = app.stream("clicks", schema=SCHEMA, time="at", late="30 days", read=Reading(rows=rows))

    def sums(clicks):
        known = clicks.where("id >= 0 and k >= 0")  # a column that nobody uses is not read, and may be broken
        return known.groupBy(key).agg(F.sum(F.col("n") * times).alias("n"))

    app.view(clicks, key=key, name=VIEW)(sums)
    return app


def named_app(times: int = 1) -> App:
    """Each click with a name, by k."""
    app = App("shop")
    clicks = app.stream("clicks", schema=SCHEMA)
    names = app.table("names", key="k", schema="k int, name string")

    def named(clicks, names):
        known = clicks.where("id >= 0 and at is not null")
        return known.join(names, "k").select("id", "name", (F.col("n") * times).alias("n"))

    app.view(clicks, names, key="id", name=VIEW)(named)
    return app


app = sums_app(2)
