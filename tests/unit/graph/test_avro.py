import json

import pytest

from runnel.graph.avro import NoAvro, read_avro_schema
from runnel.graph.types import Array, Decimal, Field, Map, Simple, Struct


def record(*fields, name="Click"):
    return json.dumps({"type": "record", "name": name, "fields": [{"name": a, "type": b} for a, b in fields]})


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("long", Field("a", Simple("bigint"), nullable=False)),
        (["null", "string"], Field("a", Simple("string"))),
        (["string", "null"], Field("a", Simple("string"))),
        ({"type": "long", "logicalType": "timestamp-millis"}, Field("a", Simple("timestamp"), nullable=False)),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            Field("a", Simple("timestamp_ntz"), nullable=False),
        ),
        ({"type": "int", "logicalType": "date"}, Field("a", Simple("date"), nullable=False)),
        ({"type": "string", "logicalType": "uuid"}, Field("a", Simple("string"), nullable=False)),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            Field("a", Decimal(9, 2), nullable=False),
        ),
        ({"type": "enum", "name": "E", "symbols": ["x"]}, Field("a", Simple("string"), nullable=False)),
        ({"type": "fixed", "name": "F", "size": 4}, Field("a", Simple("binary"), nullable=False)),
        ({"type": "array", "items": "int"}, Field("a", Array(Simple("int")), nullable=False)),
        ({"type": "map", "values": ["null", "int"]}, Field("a", Map(Simple("string"), Simple("int")), nullable=False)),
        (
            {"type": "record", "name": "In", "fields": [{"name": "b", "type": "float"}]},
            Field("a", Struct((Field("b", Simple("float"), nullable=False),)), nullable=False),
        ),
    ],
)
def test_a_field_becomes_a_column(kind, column):
    assert read_avro_schema(record(("a", kind))) == (column,)


def test_a_type_is_used_again_by_its_name():
    kind = {"type": "enum", "name": "shop.Colour", "symbols": ["red"]}
    assert [field.type for field in read_avro_schema(record(("a", kind), ("b", "Colour")))] == [Simple("string")] * 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('"string"', "only a record has columns"),
        (record(), "the record Click has no fields"),
        (record(("a", ["int", "string"])), 'a union of 2 types has no column type: ["int", "string"]'),
        (record(("a", "Unheard")), "the type Unheard is not defined"),
        (record(("a", "Click")), "the record Click contains itself, which columns cannot"),
    ],
)
def test_what_has_no_columns_is_refused(text, says):
    with pytest.raises(NoAvro) as error:
        read_avro_schema(text)
    assert str(error.value) == says
