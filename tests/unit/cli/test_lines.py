"""Lines as records: what is taken, and what is told of a line that is none."""

from __future__ import annotations

import io
import json
import os

import pytest

from runnel.cli import lines
from runnel.cli.lines import BadLine, from_json, plain, read_lines


def read(text: bytes, form, partition=None):
    return [(line.value, line.about) for line in read_lines(io.BytesIO(text), form, partition)]


def test_a_line_is_a_value_without_its_line_feed():
    assert read(b"a\n\r\n\nb", plain(None, None, [])) == [(b"a", {}), (b"\r", {}), (b"", {}), (b"b", {})]


def test_sizes_add_up_to_the_input():
    assert sum(line.size for line in read_lines(io.BytesIO(b"a\n\nbcd"), plain(None, None, []))) == 6


def test_key_headers_and_partition_are_those_of_all_lines():
    form = plain("k", None, [("h", "ü")])
    assert read(b"a\n", form, 3) == [(b"a", {"key": b"k", "headers": [("h", "ü".encode())], "partition": 3})]


def test_what_is_typed_and_is_no_text_is_taken_byte_for_byte():
    typed = os.fsdecode(b"\xff")
    assert read(b"a\n", plain(typed, None, [("h", typed)])) == [(b"a", {"key": b"\xff", "headers": [("h", b"\xff")]})]
    assert read(b"a\xffb\n", plain(None, typed, [])) == [(b"b", {"key": b"a"})]


def test_the_first_separator_ends_the_key():
    assert read(b"a\tb\tc\n", plain(None, "\t", [])) == [(b"b\tc", {"key": b"a"})]


def test_a_line_that_is_too_long_is_told(monkeypatch):
    monkeypatch.setattr(lines, "LONGEST", 5)
    assert read(b"1234\n", plain(None, None, [])) == [(b"1234", {})]
    with pytest.raises(BadLine, match="line 2 is no record: it is longer than 5 bytes"):
        read(b"1234\n123456\n", plain(None, None, []))


@pytest.mark.parametrize(
    ("record", "value", "about"),
    [
        ({"value": "a"}, b"a", {"key": None, "headers": []}),
        ({"value": None, "key": "k"}, None, {"key": b"k", "headers": []}),
        ({"value": {"base64": "/wA="}, "headers": [["h", "1"], ["n", None]]}, b"\xff\x00",
         {"key": None, "headers": [("h", b"1"), ("n", None)]}),
        ({"value": "", "timestamp": 5, "topic": "t", "partition": 9, "offset": 7}, b"",
         {"key": None, "headers": [], "timestamp": 5}),
        ({"value": "", "timestamp": -1, "headers": None}, b"", {"key": None, "headers": [], "timestamp": None}),
    ],
)  # fmt: skip
def test_a_record_is_read_from_json(record, value, about):
    assert from_json(json.dumps(record).encode()) == (value, about)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "it is no JSON: Expecting value: line 1 column 1 (char 0)"),
        ("{", "it is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("\xff", "it is no JSON: "),
        ("[1]", "it is no JSON object"),
        ("{}", 'it has no field "value"; null deletes its key from a compacted topic'),
        ('{"value": 1}', 'its "value" is neither a string, nor null, nor {"base64": "..."}'),
        ('{"value": {"a": 1}}', 'its "value" is neither a string, nor null, nor {"base64": "..."}'),
        ('{"value": {"base64": "?"}}', 'the base64 of its "value" is none'),
        ('{"value": "", "key": []}', 'its "key" is neither a string, nor null, nor {"base64": "..."}'),
        ('{"value": "", "timestamp": "now"}', 'its "timestamp" is no number of milliseconds'),
        (
            '{"value": "", "timestamp": 0}',
            'its "timestamp" is 0, which cannot be written: give 1, or null for the present',
        ),
        ('{"value": "", "timestamp": true}', 'its "timestamp" is no number of milliseconds'),
        ('{"value": "", "timestamp": 9223372036854775808}', 'its "timestamp" is no number of milliseconds'),
        ('{"value": ' + "[" * 100_000, "it is nested too deep"),
        ('{"value": "", "headers": [["\\ud800", "a"]]}', r'a header cannot be called "\ud800"'),
        ('{"value": "", "headers": [["a\\u0000b", "a"]]}', r'a header cannot be called "a\u0000b"'),
        ('{"value": "", "headers": {"a": 1}}', 'its "headers" are no list of [name, value]'),
        ('{"value": "", "headers": [["a"]]}', 'its "headers" are no list of [name, value]'),
        ('{"value": "", "headers": [[1, "a"]]}', 'its "headers" are no list of [name, value]'),
        ('{"value": "", "headers": [["a", 1]]}', 'its "headers" is neither a string, nor null,'),
        ('{"value": "", "hraders": []}', 'it has a field "hraders", known are headers, key, offset, partition,'),
    ],
)
def test_what_is_no_record_is_told(line, reason):
    with pytest.raises(BadLine) as caught:
        read(line.encode("latin-1") + b"\n", from_json)
    assert caught.value.what.startswith(f"line 1 is no record: {reason}")
    assert caught.value.number == 1
