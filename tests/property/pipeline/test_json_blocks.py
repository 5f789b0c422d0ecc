"""JSON read in blocks is JSON read value by value: the same rows, the same reasons, whatever stands side by side."""

from __future__ import annotations

import json
from itertools import pairwise
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runnel.graph.formats import columns_of
from runnel.pipeline.source.values import arrow_schema, json_blocks, parser
from runnel.pipeline.source.values.json_value import JsonValue
from runnel.pipeline.source.values.json_value import columns_of as arrays_of
from runnel.pipeline.source.values.parsed import Unfit

FLAT = "page string, customer_id bigint, at timestamp, ms int, ratio double, ok boolean"
TYPED = (
    "tiny tinyint, small smallint, price decimal(6,2), single float, day date, blob binary, local timestamp_ntz, "
    "must string NOT NULL"
)
NESTED = (
    "id string, who struct<name:string NOT NULL,born:date>, tags array<string>, "
    "lines array<struct<sku:string,price:decimal(10,2),at:timestamp>>, grid array<array<int>>"
)
MAPPED = "id string, counts map<string,int>"
SCHEMAS = (FLAT, TYPED, NESTED, MAPPED)
NAMES = ("page", "customer_id", "at", "ms", "ratio", "ok", "tiny", "small", "price", "single", "day", "blob", "local")
NAMES += ("must", "id", "who", "tags", "lines", "grid", "counts", "name", "born", "sku", "other")

NUMBERS = """
    0 -0 1 -1 1.0 1.5 1e2 127 128 -129 32768 2147483648 9223372036854775807 9223372036854775808 1e400 -1e400 1.8e308
    1e39 16777217 0.1 12345.67 12345.678 01 1700000000 9223372036854 9223372036855 NaN Infinity -Infinity Inf -Inf -NaN
    +1 1. 12345.6 -99999.9 0.100 00 1_0 1e-400 -0.0 3.4028236e38 1E5 0e500
"""
TIMES = """
    2026-11-15 2026-02-29 2024-02-29 2026-11-15T20:40:32Z 2026-11-15T20:40:32.123456+01:00 2026-11-15T20:40:32 2026-1-5
    2026-11-15T20:40:32.1234567Z 2026-11-15T20:40:32.1234567891Z 0000-01-01 2026-11-15T20 2026-11-15T20:40-0130
    2026-11-15T24:00 2026-11-15T20:40:60Z 2026-11-15T20:40:32+24:00 2026-11-15T20:40:32+23:59 ٢٠٢٦-11-15
    2026-11-15Z 2026-11-15t20:40 NaN 1.50 +1.5 .5 1. 1e2 1e400 aGk= aGk a=b Infinity -Infinity
"""
STRINGS = (
    *(
        '""',
        '": NaN"',
        '"2026-11-15 20:40:32.5"',
        '"\\ud83d\\ude00"',
        '"\\ud83d"',
        '"\\udc00"',
        '"\\ud83dx"',
        '"\\\\ud83d"',
    ),
    *('"\\u0000"', '"\\x"', '"}\\n{"', '"} null"', '"a\tb"', '"a\nb"', '"{\\"a\\":1}"', '"x', 'x"', '"\\"', "'a'"),
)
numbers = st.sampled_from((*NUMBERS.split(), "9" * 400))
texts = st.one_of(
    st.text(max_size=6).map(json.dumps),
    st.text(max_size=6).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(TIMES.split()).map(lambda text: f'"{text}"'),
    st.sampled_from(STRINGS),
)
leaves = st.one_of(numbers, texts, st.sampled_from(("true", "false", "null", "nul", "tru", "{}", "[]", "")))
blanks = st.sampled_from(("", "", "", " ", "\n", "\t", "\r\n", " \n  ", " " * 20))


def _member(parts):
    name, blank, value = parts
    return f'"{name}"{blank}:{blank}{value}'


def _object(parts):
    blank, members, comma = parts
    return f"{{{blank}{(comma + blank).join(members)}{blank}}}"


def _array(parts):
    blank, elements = parts
    return f"[{blank}{(blank + ',').join(elements)}]"


def _nest(inner):
    members = st.lists(st.tuples(st.sampled_from(NAMES), blanks, inner).map(_member), max_size=6)
    objects = st.tuples(blanks, members, st.sampled_from((",", ",", ",", ",", "", ";"))).map(_object)
    return st.one_of(objects, st.tuples(blanks, st.lists(inner, max_size=3)).map(_array))


documents = _nest(st.recursive(leaves, _nest, max_leaves=6))
GOOD = {
    FLAT: '{"page":"/a","customer_id":7,"at":"2026-11-15T20:40:32Z","ms":3,"ratio":0.5,"ok":true}',
    TYPED: '{"tiny":1,"small":2,"price":1.25,"single":0.1,"day":"2026-11-15","blob":"aGk=","must":"x"}',
    NESTED: '{"id":"a","who":{"name":"b","born":null},"tags":["x"],"lines":[{"sku":"s","price":1.5}],"grid":[[1],[]]}',
    MAPPED: '{"id":"a","counts":{"x":1,"y":null}}',
}
ODDITIES = (
    *(
        "",
        " ",
        "\n",
        "null",
        "[]",
        "5",
        '"x"',
        "{",
        "}",
        "{}",
        "{}{}",
        "{} {}",
        "{}\n{}",
        "{} null {}",
        "{}null{}",
        "{},{}",
    ),
    *("{}" + " " * 40 + "null{}", '{"page":"', '"}', '{"page":"}', '{"page":', '{"page":"a"}{"page":', '"b"}', "{}x{}"),
    *("\ufeff{}", '{"a":' + "[" * 600 + "]" * 600 + "}", '{"a":' + "[" * 499 + "]" * 499 + "}", "{}}{{}", "{}]{}"),
    *('{"a":"' + "[{" * 600 + '"}', '{"page":1,"page":"x"}', '{"page":"x","page":null}', '{"zz":1,"zz":2}', "{}[]{}"),
)
BYTES = (
    *(b"\xff", b'{"page":"\xff"}', b'{"zz":"\xc3"}', b"{}\x00{}", b"{}\x00", b"\x00", b'{"page":"\x00"}', b"{\xc3"),
    *(b"\xbc}", b'{"page":"\xed\xa0\x80"}', b'\xef\xbb\xbf{"page":"x"}', b"{}\x0b{}", b"{}\xc2\xa0", b'{"\xff":1}'),
)
oddities = st.sampled_from(ODDITIES)
raw = st.sampled_from(BYTES)


def values_for(schema):
    good = st.just(GOOD[schema])
    text = st.one_of(good, good, documents, oddities)
    cut = st.tuples(text, st.integers(0, 80)).map(lambda parts: parts[0][: parts[1]])
    padded = st.tuples(blanks, text, blanks).map("".join)
    return st.one_of(
        st.one_of(text, padded, cut, documents).map(lambda each: each.encode("utf-8", "surrogatepass")), raw, st.none()
    )


blocks = st.sampled_from(SCHEMAS).flatmap(
    lambda schema: st.tuples(st.just(schema), st.lists(values_for(schema), max_size=30))
)


def expected(schema, asked, values):
    fields = [schema.field(name) for name in asked]
    value = JsonValue(fields)
    rows, kept, rejected = [], [], []
    for index, each in enumerate(values):
        if each is None:
            continue
        try:
            rows.append(value.row(each))
            kept.append(index)
        except Unfit as unfit:
            rejected.append((index, str(unfit)))
    return arrays_of(rows, fields), kept, rejected


def told(array):
    """The elements as text, or as lists of it: NaN is the same as NaN, -0 is not 0, and a year may be 0."""
    kind = array.type
    if pa.types.is_struct(kind):
        inner = [*zip(*(told(array.field(number)) for number in range(kind.num_fields)), strict=True)]
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        values = (
            [*zip(told(array.keys), told(array.items), strict=True)] if pa.types.is_map(kind) else told(array.values)
        )
        bounds = array.offsets.to_pylist()
        inner = [values[start:end] for start, end in pairwise(bounds)]
    elif pa.types.is_temporal(kind):
        return [repr(each) for each in array.view(pa.int32() if pa.types.is_date(kind) else pa.int64()).to_pylist()]
    else:
        return [repr(each) for each in array.to_pylist()]
    return [each if valid else None for each, valid in zip(inner, array.is_valid().to_pylist(), strict=True)]


def check(declared, values, asked=None, *, rows=1000, size=1 << 20):
    columns = columns_of(declared, "a test")
    schema = arrow_schema(columns.fields)
    asked = schema.names if asked is None else asked
    with patch.multiple(json_blocks, BLOCK_ROWS=rows, BLOCK_BYTES=size, FEW=0):
        parsed = parser(columns.format, schema, asked).parse(pa.array(values, pa.binary()))
    arrays, kept, rejected = expected(schema, asked, values)
    parsed.rows.validate(full=True)
    assert parsed.indices().tolist() == kept
    assert [tuple(each) for each in parsed.rejected] == rejected
    assert parsed.tombstones.tolist() == [index for index, each in enumerate(values) if each is None]
    assert len(kept) + len(rejected) + len(parsed.tombstones) == len(values)
    assert (parsed.kept is None) == (kept == list(range(len(values))))
    for name, array in zip(asked, arrays, strict=True):
        assert told(parsed.rows.column(name)) == told(array)
        assert parsed.rows.column(name).type == array.type
    for name in set(schema.names) - set(asked):
        assert parsed.rows.column(name).null_count == len(kept)


@settings(max_examples=300, deadline=None)
@given(block=blocks, rows=st.integers(1, 40), size=st.sampled_from((1, 100, 1 << 20)))
@example(block=(FLAT, [b"", b"{}{}"]), rows=40, size=1 << 20)
@example(block=(FLAT, [b'{"page":"}', b'{"}', b"{}{}"]), rows=40, size=1 << 20)
@example(block=(FLAT, [b'{"page":"a"}{"page":', b'"b"}']), rows=40, size=1 << 20)
@example(block=(FLAT, [b"{}{}{}\x00", b"{}", b"{}"]), rows=40, size=1 << 20)
@example(block=(FLAT, [b"{} null {}", b"{}", b"{}"]), rows=40, size=1 << 20)
@example(block=(FLAT, [b'{"page":"\xc3', b'\xbc"}', b"{}{}"]), rows=40, size=1 << 20)
def test_a_block_becomes_what_its_values_become_one_by_one(block, rows, size):
    check(*block, rows=rows, size=size)


@settings(max_examples=100, deadline=None)
@given(block=blocks, data=st.data())
def test_only_the_columns_that_are_asked_for_decide(block, data):
    declared, values = block
    names = [field.name for field in columns_of(declared, "a test").fields]
    chosen = data.draw(st.sets(st.sampled_from(names)))
    check(declared, values, [name for name in names if name in chosen])


@settings(max_examples=50, deadline=None)
@given(
    broken=st.sets(st.integers(0, 399), max_size=40),
    kinds=st.lists(st.sampled_from(("type", "syntax", "range", "time", "two", "cut")), min_size=40, max_size=40),
    as_numbers=st.booleans(),
)
def test_broken_values_among_many_good_ones_are_the_only_ones_rejected(broken, kinds, as_numbers):
    at = b"1700000000" if as_numbers else b'"2026-11-15T20:40:32.125Z"'
    values = [b'{"page":"/a","customer_id":%d,"at":%b,"ms":5}' % (index, at) for index in range(400)]
    break_it = {
        "type": lambda value: value.replace(b'"ms":5', b'"ms":"5"'),
        "syntax": lambda value: value.replace(b",", b";"),
        "range": lambda value: value.replace(b'"ms":5', b'"ms":5000000000'),
        "time": lambda value: value.replace(at, b'"yesterday"'),
        "two": lambda value: value + value,
        "cut": lambda value: value[:-7],
    }
    for index, kind in zip(sorted(broken), kinds, strict=False):
        values[index] = break_it[kind](values[index])
    check(FLAT, values)
    columns = columns_of(FLAT, "a test")
    parsed = parser(columns.format, arrow_schema(columns.fields)).parse(pa.array(values, pa.binary()))
    assert {each.index for each in parsed.rejected} == broken


@pytest.mark.parametrize("declared", SCHEMAS)
def test_the_example_of_each_schema_is_a_row(declared):
    columns = columns_of(declared, "a test")
    values = pa.array([GOOD[declared].encode()] * 10, pa.binary())
    assert parser(columns.format, arrow_schema(columns.fields)).parse(values).rows.num_rows == 10
