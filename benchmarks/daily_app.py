"""The app of the soak, as a user writes it: clicks, counted per page and minute, and the slow ones in a topic."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from runnel import App

app = App("soak")
clicks = app.stream(
    "clicks", schema="page string, customer_id long, at timestamp, ms long, number long", time="at", late="10 seconds"
)


@app.view(clicks, key=["window", "page"])
def clicks_per_minute(clicks: DataFrame) -> DataFrame:
    windows = clicks.groupBy(F.window("at", "1 minute"), "page")
    return windows.agg(F.count("*").alias("count"), F.max("number").alias("newest"))


@app.stream(clicks, key="page")
def slow_clicks(clicks: DataFrame) -> DataFrame:
    return clicks.where("number % 2 = 0").withColumn("seconds", F.col("ms") / 1000)
