"""A Bloom filter never denies what was put in, and takes other values for known as rarely as it says."""

from __future__ import annotations

import hashlib
import math
import random

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from runnel import bloom_filter, might_contain
from runnel.pipeline.bloom import shape_for

pytestmark = pytest.mark.servers

ASKED = 20_000


def filter_of(frame, column="value", **how):
    return frame.agg(bloom_filter(column, **how).alias("bloom"))


def yes(bloom, values):
    """How many of the values the filter takes for known."""
    asked = values.crossJoin(F.broadcast(bloom)).select(might_contain("bloom", "value").alias("known"))
    return asked.where("known").count()


@pytest.mark.parametrize(("expected", "share"), [(60, 0.2), (1_500, 0.01), (40_000, 0.05)])
def test_nothing_is_denied_and_others_are_taken_for_known_as_rarely_as_promised(spark, seed, expected, share):
    start = random.Random(f"{seed} {expected}").randrange(2**40)
    values = spark.range(start, start + expected + ASKED).select(F.md5(F.col("id").cast("string")).alias("value"), "id")
    inside, outside = values.where(F.col("id") < start + expected), values.where(F.col("id") >= start + expected)
    bloom = spark.createDataFrame(filter_of(inside, expected=expected, false_positives=share).collect())
    assert yes(bloom, inside) == expected
    likely = shape_for(expected, share).false_positives(expected) * ASKED
    found = yes(bloom, outside)
    assert likely <= share * ASKED
    assert abs(found - likely) <= 6 * math.sqrt(likely) + 3  # six times what chance does


def test_equal_values_give_equal_bytes_whatever_their_order_type_and_machine(spark):
    rows = spark.range(5_000).select((F.col("id") * 7919).alias("value"))
    (made,) = filter_of(rows, expected=5_000).collect()
    assert hashlib.sha256(made.bloom).hexdigest() == "a8f94c0d6f43feabebd2e902e1c7cf19792f445f723224e403eb0e9c965f79c3"
    copies = rows.union(rows).orderBy(F.desc("value")).repartition(5)
    (again,) = filter_of(copies, F.col("value").cast("int"), expected=5_000).collect()
    assert bytes(again.bloom) == bytes(made.bloom)
    (text,) = filter_of(rows, F.col("value").cast("string"), expected=5_000).collect()
    assert bytes(text.bloom) == bytes(made.bloom)


def test_a_value_is_found_whatever_type_it_has(spark):
    values = spark.createDataFrame(
        [(1, "é", b"\x00\xff", True)], "number int, text string, bytes binary, truth boolean"
    ).selectExpr("*", "date'2026-01-01' as day", "timestamp'2026-01-01 12:00:00.123456' as moment", "1.50 as decimal")
    filters = values.agg(*[bloom_filter(name, expected=10).alias(f"{name}_bloom") for name in values.columns])
    asked = [might_contain(f"{name}_bloom", name).alias(name) for name in values.columns]
    as_long = might_contain("number_bloom", F.col("number").cast("long")).alias("as long")
    (found,) = values.crossJoin(filters).select(*asked, as_long).collect()
    assert found.asDict() == dict.fromkeys([*values.columns, "as long"], True)


def test_nulls_are_not_put_in_and_an_empty_filter_denies_all(spark):
    nothing = filter_of(spark.createDataFrame([(None,), (None,)], "value string"), expected=100)
    asked = nothing.select(
        might_contain("bloom", F.lit("tea")),
        might_contain("bloom", F.lit(None).cast("string")),
        might_contain(F.lit(None).cast("binary"), F.lit("tea")),
        F.length("bloom"),
    )
    assert asked.collect() == [(False, None, None, 4_100)]


@pytest.mark.parametrize("wrong", ["", "00", "01010001", "02010001" + 4_096 * "00"])
def test_other_bytes_are_an_error(spark, wrong):
    asked = spark.range(1).select(F.unhex(F.lit(wrong)).alias("bloom")).select(might_contain("bloom", F.lit("tea")))
    with pytest.raises(PySparkException, match="bytes that bloom_filter did not make"):
        asked.collect()
