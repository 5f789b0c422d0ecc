"""The app of these tests: clicks, counted per minute and page in a view, and long stays as a stream of their own."""

import os

from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Reading

app = App(os.environ.get("SHOP", "shop"))
clicks = app.stream(
    "clicks",
    schema="page string, customer_id long, seconds int, at timestamp",
    time="at",
    late="30 seconds",
    read=Reading(rows=int(os.environ.get("SHOP_ROWS", "100"))),
)


@app.view(clicks, key=["window", "page"])
def clicks_per_minute(clicks):
    return clicks.groupBy(F.window("at", "1 minute"), "page").count()


@app.stream(clicks, key="customer_id")
def long_stays(clicks):
    return clicks.where("seconds > 50").select("customer_id", "page", "seconds")
