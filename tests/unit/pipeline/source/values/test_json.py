"""JSON values into rows: the rules, type by type, and the reasons. The blocks are held to them in tests/property."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from runnel.graph.formats import columns_of
from runnel.pipeline.source.values import UnsupportedType, arrow_schema, json_blocks, parser
from runnel.pipeline.source.values.json_value import DEEPEST

AT = datetime(2026, 11, 15, 20, 40, 32, tzinfo=UTC)
MICROSECOND = AT.replace(microsecond=123456)


def parse(declared, *values, asked=None):
    columns = columns_of(declared, "a test")
    return parser(columns.format, arrow_schema(columns.fields), asked).parse(pa.array(values, pa.binary()))


def result(declared, value):
    """The row, or the reason why it is none. Eight neighbours make it a block."""
    alone = parse(declared, value)
    among = parse(declared, *[b"{}"] * 4, value, *[b"{}"] * 4)
    if alone.rejected:
        assert alone.rejected[0].reason == among.rejected[0].reason
        return alone.rejected[0].reason
    row = alone.rows.to_pylist()[0]
    assert str(among.rows.to_pylist()[4]) == str(row)
    return row


FITTING = [
    ("a boolean", "true", True),
    ("a tinyint", "-128", -128),
    ("a smallint", "32767", 32767),
    ("a int", "-2147483648", -2147483648),
    ("a bigint", "9223372036854775807", 9223372036854775807),
    ("a float", "0.1", 0.10000000149011612),
    ("a double", "1e-3", 0.001),
    ("a double", "5", 5.0),
    ("a double", "Infinity", float("inf")),
    ("a double", '"-Infinity"', float("-inf")),
    ("a float", '"Infinity"', float("inf")),
    ("a double", "1e999", float("inf")),
    ("a decimal(6,2)", "1.50", Decimal("1.50")),
    ("a decimal(6,2)", '"1234.5"', Decimal("1234.50")),
    ("a decimal(6,2)", "1e3", Decimal("1000.00")),
    ("a decimal(6,2)", "1.500", Decimal("1.50")),
    ("a decimal(6,2)", "-0e500", Decimal("0.00")),
    ("a string", '"\\u00fc\\ud83d\\ude00"', "ü😀"),
    ("a string", '"\\u0000"', "\0"),
    ("a string", '""', ""),
    ("a string", "null", None),
    ("a binary", '"aGk="', b"hi"),
    ("a date", '"2024-02-29"', date(2024, 2, 29)),
    ("a timestamp", '"2026-11-15T20:40:32Z"', AT),
    ("a timestamp", '"2026-11-15 20:40:32"', AT),
    ("a timestamp", '"2026-11-15T21:40:32+01:00"', AT),
    ("a timestamp", '"2026-11-15T19:10:32-0130"', AT),
    ("a timestamp", '"2026-11-15T20:40:32.123456Z"', MICROSECOND),
    ("a timestamp", '"2026-11-15T20:40:32.123456789Z"', MICROSECOND),
    ("a timestamp", '"2026-11-15"', AT.replace(hour=0, minute=0, second=0)),
    ("a timestamp", str(int(AT.timestamp())), AT),
    ("a timestamp_ntz", '"2026-11-15T20:40:32"', AT.replace(tzinfo=None)),
    ("a array<int>", "[1,null,3]", [1, None, 3]),
    ("a array<date>", '["2026-11-15",null]', [date(2026, 11, 15), None]),
    ("a struct<b:int,c:timestamp>", '{"c":"2026-11-15T20:40:32Z","d":1}', {"b": None, "c": AT}),
    ("a map<string,int>", '{"x":1,"y":null}', [("x", 1), ("y", None)]),
    ("a array<struct<b:array<decimal(4,1)>>>", '[{"b":[1.5]},null,{}]', [{"b": [Decimal("1.5")]}, None, {"b": None}]),
]
UNFIT = [
    ("a boolean", '"true"', 'field a: "true" is not a boolean'),
    ("a boolean", "1", "field a: 1 is not a boolean"),
    ("a tinyint", "128", "field a: 128 is not a tinyint"),
    ("a int", "1.0", "field a: 1.0 is not an int"),
    ("a int", '"1"', 'field a: "1" is not an int'),
    ("a bigint", "9223372036854775808", "field a: 9223372036854775808 is not a bigint"),
    ("a bigint", "1" * 5000, "field a: " + "1" * 37 + "... is not a bigint"),
    ("a bigint", "NaN", "field a: NaN is not a bigint"),
    ("a double", '"abc"', 'field a: "abc" is not a double'),
    ("a double", "Inf", "not JSON: expecting value at character 6"),
    ("a decimal(6,2)", "1.505", "field a: 1.505 is not a decimal(6,2)"),
    ("a decimal(6,2)", "12345.6", "field a: 12345.6 is not a decimal(6,2)"),
    ("a decimal(6,2)", '"99999.9"', 'field a: "99999.9" is not a decimal(6,2)'),
    ("a decimal(6,2)", '"1,5"', 'field a: "1,5" is not a decimal(6,2)'),
    ("a decimal(6,2)", "1e999999999", "field a: 1e999999999 is not a decimal(6,2)"),
    ("a double", '"1.5"', 'field a: "1.5" is not a double'),
    ("a string", "5", "field a: 5 is not a string"),
    ("a string", "{}", "field a: an object is not a string"),
    ("a string", '"\\ud83d"', "not JSON: half of a surrogate pair, which is no character"),
    ("a binary", '"a"', 'field a: "a" is not a binary'),
    ("a date", '"2026-02-29"', 'field a: "2026-02-29" is not a date'),
    ("a date", "20000", "field a: 20000 is not a date"),
    ("a timestamp", '"yesterday"', 'field a: "yesterday" is not a timestamp'),
    ("a timestamp", "1.5", "field a: 1.5 is not a timestamp"),
    ("a timestamp", "9223372036855", "field a: 9223372036855 is not a timestamp"),
    ("a timestamp_ntz", '"2026-11-15T20:40:32Z"', 'field a: "2026-11-15T20:40:32Z" is not a timestamp_ntz'),
    ("a timestamp_ntz", "1700000000", "field a: 1700000000 is not a timestamp_ntz"),
    ("a array<int>", "{}", "field a: an object is not an array"),
    ("a array<int>", '[1,"x"]', 'field a[]: "x" is not an int'),
    ("a struct<b:int>", "[]", "field a: an array is not an object"),
    ("a struct<b:struct<c:int>>", '{"b":{"c":true}}', "field a.b.c: true is not an int"),
    ("a map<string,int>", '{"x":"y"}', 'field a["x"]: "y" is not an int'),
]


@pytest.mark.parametrize(("declared", "written", "expected"), FITTING)
def test_a_value_that_fits_its_column_is_read(declared, written, expected):
    assert result(declared, f'{{"a":{written}}}'.encode()) == {"a": expected}


@pytest.mark.parametrize(("declared", "written", "reason"), UNFIT)
def test_a_value_that_does_not_fit_is_rejected_with_the_reason(declared, written, reason):
    assert result(declared, f'{{"a":{written}}}'.encode()) == reason


WHOLE = {
    b"": "empty value",
    b" \r\n\t": "empty value",
    b"null": "not a JSON object: null",
    b"[{}]": "not a JSON object: an array",
    b'"x"': 'not a JSON object: "x"',
    b"{}{}": "more than one JSON value: another at character 3",
    b"{} null {}": "more than one JSON value: another at character 4",
    b'{"a":1,}': None,
    b'{"a":1': "not JSON: expecting ',' delimiter at character 7",
    b'{"a":"\n"}': "not JSON: invalid control character at character 7",
    b'{"a":"b': "not JSON: unterminated string starting at character 6",
    b'{"b":"\xff"}': "not UTF-8 at byte 7",
    b"{}\0": "more than one JSON value: another at character 3",
    b'{"b":' + b"[" * DEEPEST + b"]" * DEEPEST + b"}": f"nested deeper than {DEEPEST} levels",
}


@pytest.mark.parametrize("value", WHOLE)
def test_what_is_no_single_object_is_rejected(value):
    reason = result("a int", value)
    assert isinstance(reason, str)
    assert WHOLE[value] is None or reason == WHOLE[value]


@pytest.mark.parametrize(
    "value",
    [
        b' {"a":1}\n',
        b'{\n  "a": 1\n}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":0,"a":1}',
        b'{"a":1,"z":"} null"}',
        b'{"a":1,"z":' + b"[" * (DEEPEST - 1) + b"]" * (DEEPEST - 1) + b"}",
        b'{"a":1,"z":"' + b"x" * 10_000_000 + b'"}',
        b" " * 1000 + b'{"a":1}',
    ],
    ids=["blanks", "many lines", "byte order mark", "twice", "null in a string", "deep", "10 MB", "many blanks"],
)
def test_what_is_odd_but_one_object_is_a_row(value):
    assert result("a int", value) == {"a": 1}


@pytest.mark.parametrize(("value", "reason"), [(b"{}", "field a is missing"), (b'{"a":null}', "field a is null")])
def test_a_column_that_must_not_be_null_rejects_the_value(value, reason):
    parsed = parse("a int NOT NULL, b string", *[b'{"a":1}'] * 5, value, *[b'{"a":1}'] * 5)
    assert parsed.rejected == [(5, reason)]
    assert parsed.kept.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_a_field_that_must_not_be_null_may_be_inside_of_a_null():
    parsed = parse("a struct<b:string NOT NULL>", *[b'{"a":null}'] * 5, b'{"a":{}}', b'{"a":{"b":"x"}}')
    assert parsed.rows.to_pylist() == [{"a": None}] * 5 + [{"a": {"b": "x"}}]
    assert parsed.rejected == [(5, "field a.b is missing")]


def test_tombstones_are_neither_rows_nor_rejected():
    parsed = parse("a int", None, b'{"a":1}', None, b"x", b'{"a":2}')
    assert parsed.tombstones.tolist() == [0, 2]
    assert parsed.kept.tolist() == [1, 4]
    assert parsed.rejected == [(3, "not JSON: expecting value at character 1")]
    assert parsed.rows.column("a").to_pylist() == [1, 2]


def test_nothing_is_left_out_when_every_value_is_a_row():
    assert parse("a int", *[b'{"a":1}'] * 100).kept is None


def test_no_values_give_no_rows():
    parsed = parse("a int, b map<string,int>")
    assert (parsed.rows.num_rows, parsed.kept, parsed.rejected) == (0, None, [])


def test_columns_that_nobody_asks_for_are_null_and_not_looked_at():
    parsed = parse("a int, b int NOT NULL, c string", *[b'{"a":1,"b":"broken"}'] * 10, asked=["a"])
    assert parsed.rejected == []
    assert parsed.rows.to_pylist() == [{"a": 1, "b": None, "c": None}] * 10
    assert parsed.rows.schema.field("b").nullable


def test_without_any_column_values_must_still_be_objects():
    parsed = parse("a int", *[b'{"a":"x"}'] * 10, b"{", asked=[])
    assert parsed.rows.num_rows == 10
    assert [each.index for each in parsed.rejected] == [10]


def test_an_unknown_column_is_refused():
    with pytest.raises(ValueError, match="no column b; the schema has: a"):
        parse("a int", asked=["b"])


def test_a_type_that_cannot_be_read_is_refused_with_its_column():
    with pytest.raises(UnsupportedType, match=r"column a\.b"):
        parser(columns_of("a int", "").format, pa.schema([("a", pa.struct([("b", pa.map_(pa.int32(), pa.int32()))]))]))


def test_times_may_change_from_text_to_numbers_and_back():
    text, number = b'{"a":"2026-11-15T20:40:32Z"}', b'{"a":%d}' % AT.timestamp()
    columns = columns_of("a timestamp", "")
    times = parser(columns.format, arrow_schema(columns.fields))
    for value in (text, number, text, number):
        assert times.parse(pa.array([value] * 20, pa.binary())).rows.column("a").to_pylist() == [AT] * 20


def test_good_values_of_a_block_are_not_read_one_by_one(monkeypatch):
    """It would be right and slow, so no other test would notice."""
    values = [json.dumps({"a": number, "b": "x"}).encode() for number in range(1000)]
    values[::100] = [b'{"a":"broken","b":"x"}'] * 10
    columns = columns_of("a int, b string", "")
    chosen = parser(columns.format, arrow_schema(columns.fields))
    alone = []
    read_one = json_blocks.JsonValue.row
    monkeypatch.setattr(json_blocks.JsonValue, "row", lambda self, value: alone.append(value) or read_one(self, value))
    assert len(chosen.parse(pa.array(values, pa.binary())).rejected) == 10
    assert len(alone) < 30


@pytest.mark.parametrize("shape", [2**40, json_blocks.MOST_OF_A_SHAPE], ids=["RE2 refuses it", "it is not asked"])
def test_a_broken_value_among_those_of_very_many_fields_is_rejected_alone(monkeypatch, shape):
    monkeypatch.setattr(json_blocks, "MOST_OF_A_SHAPE", shape)
    wide = json.dumps({"a": "x", **{f"other_{number}": number for number in range(600)}}).encode()
    parsed = parse("a string", *[wide] * 5, b'{"a":1}', *[wide] * 5)
    assert parsed.rows.column("a").to_pylist() == ["x"] * 10
    assert parsed.rejected == [(5, "field a: 1 is not a string")]
