"""Avro's binary form: types, framing, and what is no record."""

import io
import json
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest

from runnel.graph.formats import Avro, columns_of
from runnel.pipeline.source.values import arrow_schema, parser

AT = datetime(2026, 11, 15, 20, 40, 32, 125000, tzinfo=UTC)
SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "who", "type": ["null", "long"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "until", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {
            "name": "inner",
            "type": ["null", {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "double"}]}],
        },
        {"name": "ok", "type": "boolean"},
        {"name": "ratio", "type": "float"},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "nothing", "type": "null"},
    ],
}
ID = uuid.UUID(int=7)
ROW = {
    "page": "/ü",
    "who": 7,
    "at": AT,
    "until": AT,
    "local": AT.replace(tzinfo=None),
    "day": date(2026, 11, 15),
    "price": Decimal("12.50"),
    "id": str(ID),
    "kind": "OLD",
    "tags": ["a", "b"],
    "counts": {"x": 1},
    "hash": b"\x00\xff\x01\x02",
    "inner": {"x": 1.5},
    "ok": True,
    "ratio": 0.5,
    "clock": 1000,
    "nothing": None,
}
WITHOUT_CLOCK = [{**field, "type": "int"} if field["name"] == "clock" else field for field in SCHEMA["fields"]]
WRITER = fastavro.parse_schema({**SCHEMA, "fields": WITHOUT_CLOCK})


def written(**changes):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, WRITER, {**ROW, **changes})
    return stream.getvalue()


def parse(*values, framing=None, asked=None):
    format = Avro(json.dumps(SCHEMA), framing)
    schema = arrow_schema(columns_of(format, "a test").fields)
    return parser(format, schema, asked).parse(pa.array(values, pa.binary()))


def test_every_type_becomes_its_column():
    (row,) = parse(written()).rows.to_pylist()
    assert row == {**ROW, "counts": [("x", 1)]}


def test_null_in_a_union_is_null():
    (row,) = parse(written(who=None, inner=None)).rows.to_pylist()
    assert (row["who"], row["inner"]) == (None, None)


BROKEN = {
    "nothing": b"",
    "its end": written()[:-1],
    "more after it": written() + b"x",
    "another format": b'{"page":"/a"}',
    "no UTF-8": b"\x04\xff\xfe" + written()[4:],
    "a choice that is not there": written().replace("/ü".encode() + b"\x02", "/ü".encode() + b"\x06"),
    "a length below zero": b"\x03" + written(),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_no_record_is_rejected(broken):
    parsed = parse(written(), BROKEN[broken], None, written(page="/b"))
    assert parsed.rows.column("page").to_pylist() == ["/ü", "/b"]
    assert (parsed.kept.tolist(), parsed.tombstones.tolist()) == ([0, 3], [2])
    ((index, reason),) = parsed.rejected
    assert index == 1
    assert reason.startswith("not Avro of the declared schema: ")


def test_a_decimal_with_too_many_digits_is_rejected_alone():
    price = (10**9).to_bytes(5, "big")
    value = written(price=Decimal("0.00")).replace(b"\x02\x00\x48", b"\x0a" + price + b"\x48")
    assert price in value
    parsed = parse(written(), value, written())
    assert parsed.kept.tolist() == [0, 2]
    assert parsed.rejected == [(1, "field price: 10000000 is not a decimal(6,2)")]


def test_framed_values_have_five_bytes_before_them():
    framed = b"\x00\x00\x00\x00\x07" + written()
    parsed = parse(framed, written(), b"\x00\x01", framing="confluent")
    assert parsed.rows.column("page").to_pylist() == ["/ü"]
    assert [each.index for each in parsed.rejected] == [1, 2]
    assert "not framed" in parsed.rejected[0].reason


def test_framing_is_not_guessed():
    assert len(parse(b"\x00\x00\x00\x00\x07" + written()).rejected) == 1


def test_columns_that_nobody_asks_for_are_null():
    parsed = parse(written(), asked=["page"])
    assert parsed.rows.column("page").to_pylist() == ["/ü"]
    assert parsed.rows.column("who").to_pylist() == [None]


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": ["null", "int"]}]}
UNIONS = {
    "of a field": (["null", "int"], b"\x02\x06", 3, b"%c\x06"),
    "of null": (["null", "int"], b"\x02\x06", 3, b"%c"),
    "inside of a record": (INNER, b"\x02\x06", {"x": 3}, b"%c\x06"),
    "of items": ({"type": "array", "items": ["null", "int"]}, b"\x02\x02\x06\x00", [3], b"\x02%c\x06\x00"),
    "of a map": (
        {"type": "map", "values": ["null", "int"]},
        b"\x02\x02k\x02\x06\x00",
        [("k", 3)],
        b"\x02\x02k%c\x06\x00",
    ),
}


@pytest.mark.parametrize("number", [-1, -2, -3, 2])
@pytest.mark.parametrize("which", UNIONS)
def test_an_index_that_no_type_of_a_union_has_is_rejected(number, which):
    kind, good, value, broken = UNIONS[which]
    schema = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": kind}]}
    format = Avro(json.dumps(schema))
    reads = parser(format, arrow_schema(columns_of(format, "a test").fields), None)
    wrong = (number << 1) ^ (number >> 63)  # as Avro writes it
    parsed = reads.parse(pa.array([good, broken % wrong], pa.binary()))
    assert parsed.rows.to_pylist() == [{"a": value}]
    ((index, reason),) = parsed.rejected
    assert index == 1
    assert reason.endswith("it ends inside of a field, or chooses what the schema does not have")


@pytest.mark.parametrize("number", [-1, -2, -3, 3])
@pytest.mark.parametrize("is_named", [False, True])
def test_an_enums_number_that_none_of_its_symbols_has_is_rejected(number, is_named):
    enum = {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD", "GONE"]}
    fields = [{"name": "a", "type": enum}, {"name": "b", "type": ["null", "Kind"]}]
    schema = {"type": "record", "name": "Row", "fields": fields}
    format = Avro(json.dumps(schema))
    reads = parser(format, arrow_schema(columns_of(format, "a test").fields), None)
    wrong = (number << 1) ^ (number >> 63)  # as Avro writes it
    good, broken = b"\x02\x02\x04", bytes([2, 2, wrong]) if is_named else bytes([wrong, 0])
    parsed = reads.parse(pa.array([good, broken], pa.binary()))
    assert parsed.rows.to_pylist() == [{"a": "OLD", "b": "GONE"}]
    ((index, reason),) = parsed.rejected
    assert index == 1
    assert reason.endswith("it ends inside of a field, or chooses what the schema does not have")
