"""The app whose start is measured, as a user writes it: clicks, counted per page and minute. CLICKS names the topic.

Each run is an app of its own: it has a new directory, and one that others have begun would be refused.
"""

import os
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from runnel import App

app = App(f"shop-{uuid4().hex[:8]}")
clicks = app.stream(
    os.environ.get("CLICKS", "clicks"),
    schema="page string, customer_id long, at timestamp, ms long",
    time="at",
    late="10 seconds",
)


@app.view(clicks, key=["window", "page"])
def clicks_per_minute(clicks: DataFrame) -> DataFrame:
    return clicks.groupBy(F.window("at", "1 minute"), "page").count()
