"""The app of the tests that kill: as the shop's, but nothing is ever late, whatever waits for how long."""

import os

from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Reading

OUTPUTS = os.environ.get("LIFE_OUTPUTS", "view stream").split()

app = App("life")
clicks = app.stream(
    "clicks",
    schema="page string, customer_id long, seconds int, at timestamp",
    time="at",
    late="7 days",
    read=Reading(rows=50),
)

if "view" in OUTPUTS:

    @app.view(clicks, key=["window", "page"])
    def clicks_per_minute(clicks):
        return clicks.groupBy(F.window("at", "1 minute"), "page").count()


if "stream" in OUTPUTS:

    @app.stream(clicks, key="customer_id")
    def long_stays(clicks):
        return clicks.where("seconds > 50").select("customer_id", "page", "seconds")
