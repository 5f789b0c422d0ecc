"""What a view can be kept of, by the types of its columns."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    DayTimeIntervalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from runnel.pipeline.errors import InvalidBody
from runnel.pipeline.view_query import check_readable


@pytest.mark.parametrize(
    ("kind", "says", "hint"),
    [
        (VariantType(), "column x is of type variant, which only Spark can read", "F.to_json"),
        (ArrayType(VariantType()), "column x[] is of type variant", "F.to_json"),
        (MapType(StringType(), VariantType()), "column x[] is of type variant", "F.to_json"),
        (StructType([StructField("a", VariantType())]), "column x.a is of type variant", "F.to_json"),
        (YearMonthIntervalType(), "column x is of type interval year to month", '.cast("int") for months'),
    ],
)
def test_what_only_spark_can_read_is_refused_with_what_to_make_of_it(kind, says, hint):
    with pytest.raises(InvalidBody) as refused:
        check_readable('view "pages"', "x", kind)
    assert refused.value.what.startswith(f'view "pages": {says}')
    assert hint in refused.value.hint


def test_what_others_can_read_is_kept():
    kinds = LongType(), DayTimeIntervalType(), StructType([StructField("a", ArrayType(StringType()))])
    for kind in kinds:
        check_readable('view "pages"', "x", kind)
