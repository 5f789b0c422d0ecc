"""Text and bytes as values."""

import pyarrow as pa
import pytest

from runnel.graph.formats import Raw, Text, columns_of
from runnel.pipeline.source.values import arrow_schema, parser


def parse(format, *values, asked=None):
    schema = arrow_schema(columns_of(format, "a test").fields)
    return parser(format, schema, asked).parse(pa.array(values, pa.binary()))


def test_text_that_is_not_utf8_is_rejected():
    parsed = parse(Text(), b"a", None, b"\xff", "ü".encode(), b"b\xc3", b"")
    assert parsed.rows.to_pylist() == [{"value": "a"}, {"value": "ü"}, {"value": ""}]
    assert parsed.kept.tolist() == [0, 3, 5]
    assert parsed.rejected == [(2, "not UTF-8 at byte 1"), (4, "not UTF-8 at byte 2")]
    assert parsed.tombstones.tolist() == [1]


def test_a_letter_that_two_values_share_is_in_neither():
    parsed = parse(Text(), b"\xc3", b"\xbc")
    assert [each.index for each in parsed.rejected] == [0, 1]


def test_good_text_is_kept_whole():
    parsed = parse(Text(), b"a", b"b")
    assert (parsed.kept, parsed.rejected, parsed.rows.num_rows) == (None, [], 2)


def test_bytes_are_what_they_are():
    parsed = parse(Raw(), b"\xff\x00", None, b"")
    assert parsed.rows.column("value").to_pylist() == [b"\xff\x00", b""]
    assert (parsed.kept.tolist(), parsed.tombstones.tolist()) == ([0, 2], [1])


@pytest.mark.parametrize("format", [Text(), Raw()])
def test_a_column_that_nobody_asks_for_still_has_its_rows(format):
    assert parse(format, b"a", b"b", asked=[]).rows.column("value").to_pylist() == [None, None]
