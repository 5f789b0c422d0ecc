"""Records and columns become the same bytes, cut where a batch is full."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.client import column_bodies as columnar
from runnel.client.bodies import bodies
from runnel.client.column_bodies import FEW_ROWS, column_bodies
from runnel.records import Record, batch_around, records_of

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

texts = st.none() | st.binary(max_size=200)
records = st.builds(
    Record,
    texts,
    texts,
    st.integers(0, 2**45),
    st.lists(st.tuples(st.text(max_size=5), texts), max_size=3).map(tuple),
    st.just(-1),
)


# As few rows as the tests have are encoded one by one; so that the others are tried, too.
either_way = pytest.mark.parametrize("few", [0, FEW_ROWS])


def columns(given_records, few, **options):
    headers = [[{"key": name, "value": value} for name, value in record.headers] for record in given_records]
    with mock.patch.object(columnar, "FEW_ROWS", few):
        return list(
            column_bodies(
                pa.array([record.value for record in given_records], pa.binary()),
                pa.array([record.key for record in given_records], pa.binary()),
                pa.array([record.timestamp for record in given_records], pa.int64()),
                pa.array(headers, HEADERS),
                **options,
            )
        )


def decoded(found):
    return [
        record._replace(offset=-1) for body in found for record in records_of(batch_around(body.data, body.contents))
    ]


@either_way
@given(given_records=st.lists(records, max_size=50))
def test_columns_become_the_bytes_of_records(few, given_records):
    ours, theirs = columns(given_records, few), list(bodies(given_records))
    assert [(bytes(body.data), body.contents) for body in ours] == [
        (bytes(body.data), body.contents) for body in theirs
    ]


@either_way
@given(given_records=st.lists(records, max_size=50), batch_bytes=st.integers(1, 2_000))
def test_cutting_into_batches_loses_nothing(few, given_records, batch_bytes):
    assert decoded(columns(given_records, few, batch_bytes=batch_bytes)) == given_records
    assert decoded(bodies(given_records, batch_bytes=batch_bytes)) == given_records


@pytest.mark.parametrize("few", [0, 1_000])
def test_a_batch_is_not_larger_than_asked_for(few):
    given_records = [Record(b"v" * 50, b"k" * 5, 1_000 + number) for number in range(1_000)]
    for found in (columns(given_records, few, batch_bytes=1_000), list(bodies(given_records, batch_bytes=1_000))):
        assert len(found) > 50
        assert max(len(body.data) for body in found) <= 1_000


@either_way
def test_a_record_that_is_larger_than_a_batch_is_alone_in_one(few):
    given_records = [Record(b"a", None, 1), Record(b"b" * 5_000, None, 1), Record(b"c", None, 1)]
    for found in (columns(given_records, few, batch_bytes=1_000), list(bodies(given_records, batch_bytes=1_000))):
        assert [body.contents.count for body in found] == [1, 1, 1]


@either_way
def test_numbers_of_every_size_are_written_as_they_are(few):
    """Times that are far apart, and lengths of one to four bytes."""
    times = [0, 1, -1, 63, 64, 8_191, 8_192, 2**31, 2**44, 5]
    values = [b"x" * size for size in (0, 1, 63, 64, 127, 128, 8_191, 8_192, 70_000, 1_100_000)]
    given_records = [Record(value, None, 2**40 + time) for value, time in zip(values, times, strict=True)]
    assert decoded(columns(given_records, few, batch_bytes=2**24)) == given_records


@either_way
def test_texts_slices_and_chunks_are_columns_too(few, monkeypatch):
    monkeypatch.setattr(columnar, "FEW_ROWS", few)
    values = pa.chunked_array([pa.array(["no", "a", "ü"]), pa.array(["c", None, "no"])]).slice(1, 4)
    keys = pa.array([b"no", b"1", b"2", None, b"4"]).slice(1)
    found = decoded(column_bodies(values, keys, pa.array([7] * 4)))
    assert [(record.key, record.value) for record in found] == [
        (b"1", b"a"), (b"2", "ü".encode()), (None, b"c"), (b"4", None),
    ]  # fmt: skip


@either_way
def test_those_without_a_time_get_the_present_one(few, monkeypatch):
    monkeypatch.setattr(columnar, "FEW_ROWS", few)
    (columns_now,) = column_bodies(pa.array([b"a", b"b"]), timestamps=pa.array([None, 5], pa.int64()))
    (records_now,) = bodies([Record(b"a"), Record(b"b", timestamp=5)])
    for body in (columns_now, records_now):
        first, second = records_of(batch_around(body.data, body.contents))
        assert first.timestamp > 1_700_000_000_000
        assert second.timestamp == 5


def test_nothing_is_no_batch():
    assert list(column_bodies(pa.array([], pa.binary()))) == []
    assert list(bodies([])) == []
