"""A small shop: clicks are counted per minute and page; orders are joined with their payments, and what is paid is
counted per minute and product. The customers are captured from the shop's own database: those of one country are kept
in a view, without their e-mail.

    python examples/shop_customers.py shop.sqlite
    SHOP_DATABASE=sqlite:shop.sqlite runnel up examples/shop.py

Late rows go to the topics `clicks_per_minute.late`, `paid_orders.late` and `income_per_minute.late`, broken ones to
`clicks.rejected`, `orders.rejected` and `payments.rejected`.
"""

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from runnel import App

app = App("shop")
clicks = app.stream(
    "clicks", schema="page string, customer_id long, seconds int, at timestamp", time="at", late="30 seconds"
)
orders = app.stream(
    "orders",
    schema="order_id long, customer_id long, product string, cents long, ordered_at timestamp",
    time="ordered_at",
    late="30 seconds",
)
payments = app.stream("payments", schema="order_id long, paid_at timestamp", time="paid_at", late="30 seconds")
database = app.capture("shop", os.environ.get("SHOP_DATABASE", "sqlite:shop.sqlite"), tables=["customers"])
customers = database.table("customers", key="id", schema="id long, name string, email string, country string")


@app.view(clicks, key=["window", "page"])
def clicks_per_minute(clicks: DataFrame) -> DataFrame:
    return clicks.groupBy(F.window("at", "1 minute"), "page").count()


@app.stream(orders, payments, key="order_id", time="paid_at", late="30 seconds")
def paid_orders(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """Those that are paid within two minutes."""
    within = F.expr("o.order_id = p.order_id AND paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 2 MINUTES")
    paid = orders.alias("o").join(payments.alias("p"), within)
    return paid.select("o.order_id", "customer_id", "product", "cents", "paid_at")


@app.view(paid_orders, key=["window", "product"])
def income_per_minute(paid_orders: DataFrame) -> DataFrame:
    per_minute = paid_orders.groupBy(F.window("paid_at", "1 minute"), "product")
    return per_minute.agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))


@app.view(customers.changes(), key="id")
def norwegian_customers(customers: DataFrame) -> DataFrame:
    """Whoever moves away, or is deleted, leaves the view."""
    return customers.where("country = 'NO'").select("id", "name", "country", "_change")
