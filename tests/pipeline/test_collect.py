"""What a body may return comes to the driver, whatever Spark thinks of its nulls."""

import pytest

from runnel.pipeline.steps.collect import as_arrow

pytestmark = pytest.mark.servers


@pytest.mark.parametrize(
    ("made", "rows"),
    [
        ("named_struct('a', id)", [{"a": 0}, None]),
        ("array(named_struct('a', id))", [[{"a": 0}], None]),
        ("map('k', named_struct('a', id))", [[("k", {"a": 0})], None]),
        ("named_struct('a', named_struct('b', id))", [{"a": {"b": 0}}, None]),
        ("id", [0, None]),
    ],
)
def test_a_value_that_is_null_though_its_parts_never_are(spark, made, rows):
    frame = spark.sql(f"SELECT id, IF(id = 0, {made}, NULL) AS `a value` FROM range(2)").orderBy("id")
    found = as_arrow(frame)
    assert found.column_names == ["id", "a value"]
    assert found["a value"].to_pylist() == rows
