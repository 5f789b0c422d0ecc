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
        (["long", {"type": "null"}], Field("a", Simple("bigint"))),
        ("null", Field("a", Simple("string"))),
        (["null"], Field("a", Simple("string"))),
        ({"type": "array", "items": "null"}, Field("a", Array(Simple("string")), nullable=False)),
        ({"type": "long", "logicalType": "timestamp-millis"}, Field("a", Simple("timestamp"), nullable=False)),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            Field("a", Simple("timestamp_ntz"), nullable=False),
        ),
        ({"type": "int", "logicalType": "date"}, Field("a", Simple("date"), nullable=False)),
        ({"type": "int", "logicalType": "timestamp-millis"}, Field("a", Simple("int"), nullable=False)),
        ({"type": "long", "logicalType": "date"}, Field("a", Simple("bigint"), nullable=False)),
        ({"type": "string", "logicalType": "date"}, Field("a", Simple("string"), nullable=False)),
        ({"type": "string", "logicalType": "uuid"}, Field("a", Simple("string"), nullable=False)),
        ({"type": "string", "logicalType": ["date"]}, Field("a", Simple("string"), nullable=False)),
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
    columns = read_avro_schema(record(("a", kind), ("b", "shop.Colour")))
    assert [field.type for field in columns] == [Simple("string")] * 2


def test_types_of_the_same_name_are_told_apart_by_their_namespaces():
    def item(column, kind, **more):
        return {"type": "record", "name": "Item", "fields": [{"name": column, "type": kind}], **more}

    ours, theirs = item("price", "int"), item("weight", "string", namespace="theirs")
    fields = [("a", ours), ("b", theirs), ("c", "ours.Item"), ("d", "theirs.Item"), ("e", "Item")]
    columns = read_avro_schema(record(*fields, name="ours.Order"))
    assert ["".join(field.name for field in column.type.fields) for column in columns] == [
        *("price", "weight", "price", "weight", "price"),
    ]


def test_a_record_may_contain_another_of_its_name():
    inner = {"type": "record", "name": "theirs.Order", "fields": [{"name": "b", "type": "int"}]}
    assert read_avro_schema(record(("a", inner), ("c", "theirs.Order"), name="ours.Order"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('"string"', "only a record has columns"),
        (record(), "the record Click has no fields"),
        (record(("a", ["int", "string"])), 'a union of 2 types has no column type: ["int", "string"]'),
        (record(("a", [])), "a union of 0 types has no column type: []"),
        (record(("a", "Unheard")), "the type Unheard is not defined"),
        (record(("a", "Click")), "the record Click contains itself, which columns cannot"),
        (record(("a", 5)), "5 is no type"),
        (record(("a", "int"), ("A", "int")), "the record Click has 2 fields called a"),
        (record(("a", {"type": "map"})), "a type map needs values"),
        (record(("a", {"type": "enum", "name": "E"})), "the enum E has no symbols"),
        (record(("a", {"type": "fixed", "name": "F"})), "the fixed F has no size"),
        (record(("a", {"type": "enum", "symbols": []})), "a type enum needs a name"),
        (record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 39})),
         "decimal(39,0) is none: 1 to 38 digits, the scale among them"),
        (record(("a", {"type": "bytes", "logicalType": "decimal"})),
         "decimal(None,0) is none: 1 to 38 digits, the scale among them"),
        ('{"type": "record", "name": "Click", "fields": [5]}', "a field needs a name and a type: 5"),
        ('{"type": "record", "fields": [{"name": "a", "type": "int"}]}', "a type record needs a name"),
    ],
)  # fmt: skip
def test_what_has_no_columns_is_refused(text, says):
    with pytest.raises(NoAvro) as error:
        read_avro_schema(text)
    assert str(error.value) == says
