from array import array
from datetime import datetime

import pytest

from runnel.errors import CorruptBatch, InvalidBatch
from runnel.records import Record, build_batch

GOOD = Record(b"value", b"key", 1_000, (("name", b"x"),))


def refusal(record):
    """What is said of a wrong record that stands after a good one."""
    with pytest.raises(InvalidBatch) as caught:
        build_batch([GOOD, record])
    assert not isinstance(caught.value, CorruptBatch)
    return caught.value


@pytest.mark.parametrize("field", ["value", "key"])
@pytest.mark.parametrize("text", ["text", ""])
def test_text_in_place_of_bytes_is_refused_with_the_remedy(field, text):
    error = refusal(GOOD._replace(**{field: text}))
    assert str(error) == f"record 1: its {field} is text, expected bytes or None (encode text with .encode())"


@pytest.mark.parametrize("field", ["value", "key"])
@pytest.mark.parametrize(
    "value",
    [7, 0, 1.5, {"a": 1}, {}, [1, 2], [], (1, 2), (), {1}, object()],
    ids=lambda value: repr(value).partition(" at ")[0],
)
def test_a_value_or_key_of_another_type_is_refused(field, value):
    error = refusal(GOOD._replace(**{field: value}))
    assert error.what == f"record 1: its {field} is of type {type(value).__name__}, expected bytes or None"


@pytest.mark.parametrize("field", ["value", "key"])
def test_a_buffer_whose_items_are_no_bytes_is_refused(field):
    error = refusal(GOOD._replace(**{field: array("i", [1, 2])}))
    assert error.what == f"record 1: its {field} is of type array, expected bytes or None"


def test_a_view_whose_items_are_no_bytes_is_refused():
    error = refusal(Record(memoryview(array("i", [1, 2]))))
    assert error.what == "records cannot be encoded: a key or value whose length is not its number of bytes"


def test_a_headers_value_whose_items_are_no_bytes_is_refused():
    error = refusal(Record(None, headers=(("name", memoryview(array("i", [1, 2]))),)))
    assert error.what == "records cannot be encoded: a header's value whose length is not its number of bytes"


@pytest.mark.parametrize("timestamp", [None, "1000", 1000.5, datetime(2026, 1, 1)], ids=repr)
def test_a_timestamp_of_another_type_is_refused(timestamp):
    error = refusal(GOOD._replace(timestamp=timestamp))
    assert error.what == f"record 1: its timestamp is of type {type(timestamp).__name__}, expected an int"


def test_a_float_as_the_only_timestamp_is_refused():
    with pytest.raises(InvalidBatch, match="record 0: its timestamp is of type float, expected an int"):
        build_batch([Record(b"", timestamp=1_000.0)])


@pytest.mark.parametrize("timestamp", [2**63, -(2**63) - 1, 10**30])
def test_a_timestamp_of_more_than_64_bits_is_refused(timestamp):
    error = refusal(GOOD._replace(timestamp=timestamp))
    assert error.what == f"record 1: its timestamp {timestamp} does not fit in 64 bits"


def test_the_refusal_of_a_timestamp_says_what_a_timestamp_is():
    assert refusal(GOOD._replace(timestamp=None)).hint.startswith("a timestamp counts whole milliseconds")


def test_a_timestamp_of_more_than_64_bits_close_to_the_first_is_refused():
    with pytest.raises(InvalidBatch, match="record 1: its timestamp -9223372036854775809 does not fit"):
        build_batch([Record(b"", timestamp=-(2**63)), Record(b"", timestamp=-(2**63) - 1)])


@pytest.mark.parametrize(("first", "second"), [(-1, 2**63 - 1), (2**63 - 1, -1), (-(2**63), 0)])
def test_timestamps_whose_difference_does_not_fit_in_64_bits_are_refused(first, second):
    with pytest.raises(InvalidBatch, match=f"timestamps {min(first, second)} and .* are too far apart"):
        build_batch([Record(b"", timestamp=first), Record(b"", timestamp=second)])


@pytest.mark.parametrize("headers", [{"name": b"x"}, {"ab": b"x"}, 7, "name", ("name", b"x"), [("a",)]], ids=repr)
def test_headers_that_are_no_pairs_are_refused_with_the_remedy(headers):
    error = refusal(GOOD._replace(headers=headers))
    assert error.what == f"record 1: its headers are of type {type(headers).__name__}"
    assert error.hint == 'give pairs: (("name", b"value"),)'


@pytest.mark.parametrize("name", [b"name", None, 7], ids=repr)
def test_a_header_name_that_is_no_text_is_refused_with_the_remedy(name):
    error = refusal(GOOD._replace(headers=((name, b"x"),)))
    assert error.what == f"record 1: a header's name is of type {type(name).__name__}, expected text"
    assert error.hint == "decode bytes with .decode()"


def test_a_header_name_with_half_a_surrogate_pair_is_refused():
    error = refusal(GOOD._replace(headers=(("\ud800", b"x"),)))
    assert error.what == r"record 1: a header's name cannot be written as UTF-8: '\ud800'"


def test_text_as_the_value_of_a_header_is_refused_with_the_remedy():
    error = refusal(GOOD._replace(headers=(("name", "x"),)))
    assert error.what == "record 1: its header 'name' is text, expected bytes or None"
    assert error.hint == "encode text with .encode()"


@pytest.mark.parametrize("record", [b"value", "value", None, 7, (b"value", b"key"), {"value": b"x"}], ids=repr)
def test_what_is_no_record_is_refused_with_the_remedy(record):
    error = refusal(record)
    assert error.what == f"record 1: it is of type {type(record).__name__}, not a Record"
    assert error.hint == "write Record(value, key)"


def test_records_that_are_no_list_are_refused_with_the_remedy():
    with pytest.raises(InvalidBatch, match=r"records are of type generator \(give a list of Record\)"):
        build_batch(record for record in [GOOD])


def test_one_record_without_a_list_is_refused():
    with pytest.raises(InvalidBatch, match="record 0: it is of type bytes, not a Record"):
        build_batch(GOOD)


def test_the_first_wrong_record_is_named():
    with pytest.raises(InvalidBatch, match="record 2: "):
        build_batch([GOOD, GOOD, Record("text"), Record(7)])


def test_the_refusal_keeps_the_error_that_python_raised():
    assert isinstance(refusal(Record("text")).__cause__, TypeError)
