import pyarrow as pa
import pytest

from runnel.pipeline.errors import InvalidChange
from runnel.pipeline.sinks.outgoing import settled

SCHEMA = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("headers", pa.string()), ("_change", pa.string())]
)  # a header is as good as any other column


def records(*rows):
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, (key, value, header, change), strict=True)) for key, value, header, change in rows],
        schema=SCHEMA,
    )


def written(*rows):
    found = settled(records(*rows), "texts")
    assert found.column_names == ["key", "value", "headers"]
    return [tuple(row.values()) for row in found.to_pylist()]


def test_rows_that_remove_their_key_become_records_without_a_value():
    rows = [(b"a", b"1", "x", "insert"), (b"b", b"1", "x", "delete"), (b"c", b"1", "x", "update_before")]
    assert written(*rows) == [(b"a", b"1", "x"), (b"b", None, "x"), (b"c", None, "x")]


def test_an_update_under_its_key_is_one_record_in_whatever_order_it_comes():
    before, after = (b"a", b"1", "x", "update_before"), (b"a", b"2", "x", "update_after")
    assert written(before, after) == written(after, before) == [(b"a", b"2", "x")]


def test_an_update_of_a_header_is_written_in_whatever_order_it_comes():
    before, after = (b"a", b"1", "x", "update_before"), (b"a", b"1", "y", "update_after")
    assert written(before, after) == written(after, before) == [(b"a", b"1", "y")]


def test_every_change_of_a_key_is_told_in_its_order():
    rows = [
        (b"a", b"1", "x", "insert"),
        (b"a", b"1", "x", "update_before"),
        (b"a", b"2", "x", "update_after"),
        (b"a", b"2", "x", "delete"),
        (b"a", b"3", "x", "insert"),
    ]
    assert [value for _, value, _ in written(*rows)] == [b"1", b"2", None, b"3"]


def test_records_without_changes_stay_as_they_are():
    plain = records((b"a", b"1", "x", None)).drop_columns("_change")
    assert settled(plain, "texts") is plain


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ((b"a", b"1", "x", "upsert"), "texts: _change is 'upsert', which is no change"),
        ((b"a", b"1", "x", None), "texts: _change is None, which is no change"),
        ((None, b"1", "x", "delete"), "texts: a row with _change has null for its key: 1"),
    ],
)
def test_a_change_that_is_none_is_refused(row, what):
    with pytest.raises(InvalidChange, match=what):
        written((b"a", b"1", "x", "insert"), row)
