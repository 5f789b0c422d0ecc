"""Debezium's envelope: what becomes of each operation, of holes, of schemas, and of what is none."""

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from runnel.graph.envelope import ENVELOPE
from runnel.graph.errors import InvalidDeclaration
from runnel.graph.formats import Debezium, columns_of
from runnel.pipeline.source.values import arrow_schema, parser

COLUMNS = "id bigint, name string"
ANNE, ANNA = {"id": 1, "name": "Anne"}, {"id": 1, "name": "Anna"}
HOLE = "__debezium_unavailable_value"
AT = datetime(2026, 11, 15, 20, 40, 32, 123456, tzinfo=UTC)


def event(op, before=None, after=None, **more):
    return json.dumps({"before": before, "after": after, "op": op, "ts_ms": 5, **more}).encode()


def parsed(values, format=Debezium(COLUMNS), *, keyed=False, asked=None):  # noqa: B008  # it is never changed
    columns = columns_of(format, "a test")
    fields = columns.fields if keyed else (*columns.fields, *columns.envelope)
    return parser(columns.format, arrow_schema(fields), asked, keyed=keyed).parse(pa.array(values, pa.binary()))


def rows(found, *names):
    return found.rows.select(list(names)).to_pylist() if names else found.rows.to_pylist()


def one(value, kind, **modes):
    """What a value is in a column of this type; the reason, if it is none."""
    found = parsed([event("c", None, {"v": value})], Debezium(f"v {kind}", **modes), keyed=True)
    return found.rejected[0].reason if found.rejected else found.rows.to_pylist()[0]["v"]


# --- operations


def test_a_stream_has_the_row_after_and_what_became_of_it():
    source = {"source": {"ts_ms": 1_700_000_000_000, "ts_us": 1_700_000_000_000_007}, "transaction": {"id": "7:1"}}
    found = parsed([event("r", None, ANNE), event("u", ANNE, ANNA, **source), event("d", ANNA), None, event("t")])
    assert rows(found, "id", "name", "_op", "_before") == [
        {**ANNE, "_op": "r", "_before": None},
        {**ANNA, "_op": "u", "_before": ANNE},
        {"id": None, "name": None, "_op": "d", "_before": ANNA},
        {"id": None, "name": None, "_op": "t", "_before": None},
    ]
    assert rows(found, "_source_time", "_transaction")[1] == {
        "_source_time": datetime(2023, 11, 14, 22, 13, 20, 7, tzinfo=UTC),
        "_transaction": "7:1",
    }
    assert (found.indices().tolist(), found.passed.tolist(), found.rejected) == ([0, 1, 2, 4], [3], [])


def test_the_time_of_older_captures_is_in_milliseconds():
    found = parsed([event("c", None, ANNE, source={"ts_ms": 1_700_000_000_007})])
    assert rows(found, "_source_time")[0]["_source_time"].microsecond == 7_000


@pytest.mark.parametrize("milliseconds", [2**63 - 1, 2**63 // 1_000 + 1, -(2**63)])
def test_a_time_in_the_database_that_no_timestamp_can_have_is_rejected(milliseconds):
    """One that also tells microseconds needs no other time."""
    far = {"ts_ms": milliseconds}
    events = [
        event("c", None, ANNE, source=far),
        event("c", None, ANNE, source={"ts_ms": 7}),
        event("d", ANNE, source=far),
        event("u", ANNE, ANNA, source={**far, "ts_us": 9}),
        event("m", source=far),
    ]
    found = parsed(events)
    reason = f"field source.ts_ms: {milliseconds} milliseconds are more than a timestamp can have"
    assert [(each.index, each.reason) for each in found.rejected] == [(0, reason), (2, reason)]
    assert [row["_source_time"].microsecond for row in rows(found, "_source_time")] == [7_000, 9]
    assert (found.indices().tolist(), found.passed.tolist()) == ([1, 3], [4])
    assert parsed(events, asked=["id"]).rejected == [], "a time that nobody asks for is not looked at"


def test_a_table_has_the_row_after_and_what_is_gone():
    found = parsed([event("c", None, ANNE), event("d", ANNE), None, event("u", None, ANNA)], keyed=True)
    assert (rows(found), found.indices().tolist(), found.tombstones.tolist()) == ([ANNE, ANNA], [0, 3], [1, 2])


def test_a_table_is_emptied_by_a_truncate():
    found = parsed([None, event("c", None, ANNE), event("t"), b"{}", event("t")], keyed=True)
    assert (found.emptying.tolist(), found.indices().tolist(), found.tombstones.tolist()) == ([2, 4], [1], [0])
    assert [each.index for each in found.rejected] == [3]


def test_a_stream_is_not_emptied():
    assert parsed([event("t")]).emptying.tolist() == []


@pytest.mark.parametrize("keyed", [False, True])
def test_messages_and_heartbeats_say_nothing_of_rows(keyed):
    message = json.dumps({"op": "m", "message": {"prefix": "x", "content": "aGk="}}).encode()
    wrapped = b'{"schema":{"type":"struct"},"payload":{"ts_ms":7}}'
    found = parsed([message, b'{"ts_ms":7}', event("c", None, ANNE), wrapped], keyed=keyed)
    assert (found.passed.tolist(), found.indices().tolist(), found.rejected) == ([0, 1, 3], [2], [])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"id":1,"name":"Anne"}', "no change of Debezium's: field op is missing"),
        (b"{}", "no change of Debezium's: field op is missing"),
        (b"[]", "not a JSON object: an array"),
        (event("x", None, ANNE), "field op: 'x' is none of c, u, r, d, t, m"),
        (event("u", ANNE), "op u, and there is no row after"),
        (event("c", None, {"id": "1"}), 'field after.id: "1" is not a bigint'),
        (b'{"schema":{},"payload":null}', "no change of Debezium's: its payload is no object"),
        (b'{"schema":{},"payload":', "not JSON: expecting value at character 24"),
    ],
)
def test_what_is_no_change_is_rejected_with_the_reason(value, reason):
    found = parsed([value])
    assert [tuple(each) for each in found.rejected] == [(0, reason)]


def test_only_the_columns_that_are_asked_for_are_read():
    found = parsed([event("c", None, {"id": "broken", "name": "Anne"})], asked=["name", "_op"])
    assert rows(found) == [{"id": None, "name": "Anne", **dict.fromkeys(ENVELOPE), "_op": "c"}]


# --- holes


def test_what_the_database_did_not_tell_is_a_hole_and_no_value():
    blob = base64.b64encode(HOLE.encode()).decode()
    after = {
        "id": 1,
        "name": HOLE,
        "data": blob,
        "total": HOLE,
        "tags": [HOLE],
        "numbers": [HOLE],
        "about": {HOLE: HOLE},
        "weight": {"scale": 0, "value": blob},
        "weights": [{"scale": 0, "value": blob}],
        "places": [{"x": 0.0, "y": 0.0, "wkb": blob, "srid": None}],
    }
    columns = (
        "id bigint, name string not null, data binary, total decimal(9,2), tags array<string>, numbers array<int>, "
        "about map<string,string>, weight decimal(9,2), weights array<decimal(9,2)>, "
        "places array<struct<x:double,y:double>>"
    )
    found = parsed([event("u", None, after)], Debezium(columns))
    names = ["about", "data", "name", "numbers", "places", "tags", "total", "weight", "weights"]
    assert rows(found)[0]["_unavailable"] == names
    assert all(rows(found)[0][name] is None for name in names)
    assert dict(parsed([event("u", None, after)], Debezium(columns), keyed=True).holes) == {0: frozenset(names)}


def test_a_number_with_a_scale_of_its_own_is_a_hole_if_it_has_the_placeholders_bytes_alone():
    blob = base64.b64encode(HOLE.encode()).decode()
    hole, number = (event("u", None, {"id": 1, "total": {"scale": 1, "value": each}}) for each in (blob, "Dw=="))
    columns = Debezium("id bigint, total decimal(9,2)")
    assert dict(parsed([hole], columns, keyed=True).holes) == {0: frozenset({"total"})}
    found = parsed([number], columns, keyed=True)
    assert (rows(found), dict(found.holes)) == ([{"id": 1, "total": Decimal("1.50")}], {})


def test_text_that_only_mentions_the_placeholder_is_text():
    found = parsed([event("c", None, {"id": 1, "name": f"{HOLE}!"})], keyed=True)
    assert (rows(found), dict(found.holes)) == ([{"id": 1, "name": f"{HOLE}!"}], {})


# --- values


@pytest.mark.parametrize(
    ("value", "kind", "modes", "expected"),
    [
        (20_772, "date", {}, date(2026, 11, 15)),
        ("2026-11-15", "date", {}, date(2026, 11, 15)),
        (1_794_775_232_123_456, "timestamp", {}, AT),
        (1_794_775_232_123, "timestamp", {"time_unit": "ms"}, AT.replace(microsecond=123_000)),
        (1_794_775_232_123_456_789, "timestamp", {"time_unit": "ns"}, AT),
        (1_794_775_232_123, "timestamp", {"time_unit": {"v": "ms"}}, AT.replace(microsecond=123_000)),
        ("2026-11-15T20:40:32.123456Z", "timestamp", {}, AT),
        (1_794_775_232_123_456, "timestamp_ntz", {}, AT.replace(tzinfo=None)),
        ("BNI=", "decimal(10,2)", {}, Decimal("12.34")),
        ("+y4=", "decimal(10,2)", {}, Decimal("-12.34")),
        ({"scale": 3, "value": "MDQ="}, "decimal(10,3)", {}, Decimal("12.340")),
        (12.34, "decimal(10,2)", {}, Decimal("12.34")),
        ("12.34", "decimal(10,2)", {"decimals": "string"}, Decimal("12.34")),
        ("aGk=", "binary", {}, b"hi"),
        ("6869", "binary", {"binary": "hex"}, b"hi"),
        ("_-8=", "binary", {"binary": "base64-url-safe"}, b"\xff\xef"),
        (43_200_000_000, "bigint", {}, 43_200_000_000),
        ([20_772, None], "array<date>", {}, [date(2026, 11, 15), None]),
    ],
)
def test_each_form_of_a_value(value, kind, modes, expected):
    assert one(value, kind, **modes) == expected


@pytest.mark.parametrize(
    ("value", "kind", "modes", "reason"),
    [
        (2**31, "date", {}, "field after.v: 2147483648 is not a date"),
        (1.5, "timestamp", {}, "field after.v: 1.5 is not a timestamp"),
        (2**62, "timestamp", {"time_unit": "ms"}, f"field after.v: {2**62} is not a timestamp"),
        ("infinity", "timestamp", {}, 'field after.v: "infinity" is not a timestamp'),
        ("12.34", "decimal(10,2)", {}, 'field after.v: "12.34" is not a decimal(10,2)'),
        ("AQAAAAA=", "decimal(9,2)", {}, 'field after.v: "AQAAAAA=" is not a decimal(9,2)'),
        ({"scale": 3, "value": "MDU="}, "decimal(10,2)", {}, "field after.v: an object is not a decimal(10,2)"),
        ("xyz", "binary", {"binary": "hex"}, 'field after.v: "xyz" is not a binary'),
    ],
)
def test_a_value_that_is_none_of_its_type(value, kind, modes, reason):
    assert one(value, kind, **modes) == reason


def test_a_schema_in_the_record_tells_units_and_scales():
    def field(called, **told):
        return {"field": called, "optional": True, **told}

    row = [
        field("at", type="int64", name="io.debezium.time.Timestamp"),
        field("total", type="bytes", name="org.apache.kafka.connect.data.Decimal", parameters={"scale": "3"}),
        field("rate", type="string"),
    ]
    schema = {"type": "struct", "fields": [field("after", type="struct", fields=row)]}
    payload = {"op": "c", "after": {"at": 1_794_775_232_123, "total": "MDQ=", "rate": "1.25"}}
    format = Debezium("at timestamp, total decimal(10,4), rate decimal(4,2)")
    expected = [{"at": AT.replace(microsecond=123_000), "total": Decimal("12.3400"), "rate": Decimal("1.25")}]
    usual = json.dumps({"schema": schema, "payload": payload}, separators=(",", ":"))
    for text in (usual, f" {usual} ", json.dumps({"payload": payload, "schema": schema}, indent=1)):
        assert rows(parsed([text.encode()] * 6, format, keyed=True)) == expected * 6


def test_records_of_several_schemas_stand_side_by_side():
    def value(number, unit):
        row = [{"field": "at", "type": "int64", "name": f"io.debezium.time.{unit}"}]
        schema = {"fields": [{"field": "after", "fields": row}]}
        return json.dumps({"schema": schema, "payload": {"op": "c", "after": {"at": number}}}).replace(" ", "").encode()

    values = [value(5_000, "MicroTimestamp"), value(5, "Timestamp"), event("c", None, {"at": 5_000})] * 4
    found = parsed(values, Debezium("at timestamp"), keyed=True)
    assert {row["at"].microsecond for row in rows(found)} == {5_000}
    assert found.kept is None


# --- declarations


@pytest.mark.parametrize(
    ("format", "text"),
    [
        (Debezium("id long, _op string"), "schema has a column _op"),
        (Debezium("id long", time_unit="s"), "schema.time_unit is 's'"),
        (Debezium("id long", time_unit={"at": "ms"}), "schema.time_unit names at, which is no column"),
        (Debezium("id long", decimals="exact"), "schema.decimals is 'exact'"),
        (Debezium("id long", binary="octal"), "schema.binary is 'octal'"),
        (Debezium("id lon"), "lon is no type of a column here"),
    ],
)
def test_a_declaration_that_is_wrong(format, text):
    with pytest.raises(InvalidDeclaration, match=text.replace("(", r"\(")):
        columns_of(format, "a test")
