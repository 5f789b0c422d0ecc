"""Which columns of its inputs a body uses, by what Spark's optimizer makes of it."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F  # noqa: N812

from runnel.pipeline.used_columns import used_columns

pytestmark = pytest.mark.servers

CLICKS = "page string, customer long, at timestamp, ms long"
PRICES = "page string, price long, note string"


def slow_pages(clicks):
    return clicks.where("ms > 5").groupBy("page").count()


def dear_clicks(clicks, prices):
    return clicks.join(prices, "page").where("price > 5").groupBy("customer").count()


def clicks_above(clicks, prices):
    return clicks.where(F.col("ms") > prices.agg(F.max("price")).scalar()).groupBy("page").count()


def pairs(clicks):
    return clicks.alias("one").join(clicks.alias("other"), F.expr("one.page = other.page")).groupBy("one.ms").count()


@pytest.mark.parametrize(
    ("body", "schemas", "used"),
    [
        (slow_pages, [CLICKS], [{"page", "ms"}]),
        (lambda clicks: clicks.selectExpr("upper(page) AS page"), [CLICKS], [{"page"}]),
        (lambda clicks: clicks.where("MS > 5").groupBy("Page").count(), [CLICKS], [{"page", "ms"}]),
        (dear_clicks, [CLICKS, PRICES], [{"page", "customer"}, {"page", "price"}]),
        (clicks_above, [CLICKS, PRICES], [{"page", "ms"}, {"price"}]),
    ],
)
def test_the_columns_that_a_body_names_are_used(spark, body, schemas, used):
    assert used_columns(spark, body, schemas) == used


@pytest.mark.parametrize("body", [lambda clicks: clicks, lambda clicks: clicks.where("ms > 5"), pairs])
def test_all_columns_are_used_where_it_cannot_be_told(spark, body):
    assert used_columns(spark, body, [CLICKS]) == [None]


def test_all_columns_are_used_of_a_body_that_raises(spark):
    assert used_columns(spark, lambda clicks: clicks.select("nothing"), [CLICKS]) == [None]
