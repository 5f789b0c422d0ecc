"""A shop's clicks: counted per minute and page in a view, and the long stays as a stream of their own.

    runnel up examples/shop.py

Late clicks go to the topics `clicks_per_minute.late` and `long_stays.late`, broken ones to `clicks.rejected`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from runnel import App

app = App("shop")
clicks = app.stream(
    "clicks", schema="page string, customer_id long, seconds int, at timestamp", time="at", late="30 seconds"
)


@app.view(clicks, key=["window", "page"])
def clicks_per_minute(clicks: DataFrame) -> DataFrame:
    return clicks.groupBy(F.window("at", "1 minute"), "page").count()


@app.stream(clicks, key="customer_id")
def long_stays(clicks: DataFrame) -> DataFrame:
    return clicks.where("seconds > 50").select("customer_id", "page", "seconds")
