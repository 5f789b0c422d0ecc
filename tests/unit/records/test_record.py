import pytest

from runnel.errors import CorruptBatch, InvalidBatch
from runnel.records import NO_TIMESTAMP, Record
from runnel.records.record import (
    _VARINTS,
    REMEMBERED_VARINTS,
    decode_records,
    encode_records,
    read_varint,
    write_varint,
)

# Number and bytes, by hand: zigzag, then seven bits a byte, the lowest first.
VARINTS = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8_191: "fe7f",
    8_192: "808001",
    1_048_575: "feff7f",
    1_048_576: "80808001",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
    2**63 - 1: "feffffffffffffffff01",
    -(2**63): "ffffffffffffffffff01",
}
every_varint = pytest.mark.parametrize(("number", "encoded"), VARINTS.items(), ids=map(str, VARINTS))

# One record of every field, by hand.
FULL = Record(b"value", b"key", 1_005, (("name", b"x"), ("none", None)))
FULL_BYTES = bytes.fromhex(
    "36"  # 27 bytes follow
    "00"  # attributes
    "0a"  # 5 milliseconds after 1,000
    "00"  # the first offset
    "06 6b6579"  # "key"
    "0a 76616c7565"  # "value"
    "04"  # 2 headers
    "08 6e616d65  02 78"  # "name": "x"
    "08 6e6f6e65  01"  # "none": None
)
# Fields of a record whose length is written last.
NO_KEY = NO_VALUE = "01"
NO_HEADERS = "00"


def record(*fields, attributes="00", time="00", offset="00"):
    body = bytes.fromhex("".join((attributes, time, offset, *fields)))
    out = bytearray()
    write_varint(out, len(body))
    return bytes(out) + body


def decode(data, count=1, base_offset=0, base_timestamp=0, append_time=None):
    return decode_records(data, count, base_offset, base_timestamp, append_time)


def assert_corrupt(data, text, count=1, **batch):
    with pytest.raises(CorruptBatch, match=text):
        decode(data, count, **batch)


# Varints.


@every_varint
def test_a_number_is_written_as_a_zigzag_varint(number, encoded):
    out = bytearray()
    write_varint(out, number)
    assert out.hex() == encoded


@every_varint
def test_a_zigzag_varint_is_read(number, encoded):
    data = bytes.fromhex(encoded)
    assert read_varint(data, 0) == (number, len(data))


@every_varint
def test_a_varint_is_read_where_it_stands(number, encoded):
    data = bytes.fromhex("ff80" + encoded + "ff")
    assert read_varint(data, 2) == (number, len(data) - 1)


@pytest.mark.parametrize("encoded", ["8000", "808000", "80808080808080808000"])
def test_a_varint_with_needless_bytes_is_read(encoded):
    assert read_varint(bytes.fromhex(encoded), 0) == (0, len(encoded) // 2)


@pytest.mark.parametrize("encoded", ["80808080808080808002", "ffffffffffffffffff7f", "80808080808080808080", "ff" * 11])
def test_a_varint_of_more_than_64_bits_is_corrupt(encoded):
    with pytest.raises(CorruptBatch, match="more than 64 bits"):
        read_varint(bytes.fromhex(encoded + "0000"), 0)


# Encoding.


def test_a_record_is_written_byte_for_byte():
    assert encode_records([FULL], 1_000) == FULL_BYTES


def test_the_smallest_record_is_written_byte_for_byte():
    assert encode_records([Record(None)], NO_TIMESTAMP) == bytes.fromhex("0c 00 00 00 01 01 00")


def test_an_empty_value_is_not_written_as_none():
    assert encode_records([Record(b"", b"")], NO_TIMESTAMP) == bytes.fromhex("0c 00 00 00 00 00 00")


def test_records_are_written_at_consecutive_offsets():
    encoded = encode_records([Record(None, offset=9), Record(None, offset=4), Record(None)], NO_TIMESTAMP)
    assert [r.offset for r in decode(encoded, 3)] == [0, 1, 2]


def test_a_time_before_the_first_is_written_as_a_negative_difference():
    assert encode_records([Record(None, timestamp=998)], 1_000)[2:3] == b"\x03"


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_buffers_that_are_no_bytes_are_written_like_bytes(kind):
    written = encode_records([Record(kind(b"value"), kind(b"key"), 0, (("name", kind(b"x")),))], 0)
    assert written == encode_records([Record(b"value", b"key", 0, (("name", b"x"),))], 0)


def test_more_records_than_varints_are_remembered_are_written():
    count = REMEMBERED_VARINTS + 2
    records = decode(encode_records([Record(None)] * count, NO_TIMESTAMP), count)
    assert records[-1].offset == count - 1


def test_only_small_numbers_are_remembered():
    encode_records([Record(None, timestamp=i * i) for i in range(2_000)], 0)
    assert max(_VARINTS) < REMEMBERED_VARINTS


class TwoGibibytes(bytes):
    """Bytes that say so without taking the memory."""

    def __len__(self):
        return 2**31


def test_records_over_kafkas_limit_are_refused_before_they_are_copied():
    with pytest.raises(InvalidBatch, match=r"records of 2,147,483,663 bytes, Kafka's limit is 2 GiB"):
        encode_records([Record(TwoGibibytes())], NO_TIMESTAMP)


# Decoding.


def test_a_record_is_read_with_every_field():
    assert decode(FULL_BYTES, base_offset=70, base_timestamp=1_000) == [FULL._replace(offset=70)]


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_what_is_read_from_any_buffer_is_bytes(kind):
    (read,) = decode(kind(FULL_BYTES))
    assert {type(part) for part in (read.value, read.key, read.headers[0][1])} == {bytes}


def test_what_is_read_is_a_record():
    assert type(decode(FULL_BYTES)[0]) is Record


def test_append_time_replaces_the_time_of_every_record():
    encoded = encode_records([Record(b"a", timestamp=1), Record(b"b", timestamp=2)], 1)
    assert [r.timestamp for r in decode(encoded, 2, append_time=500)] == [500, 500]


def test_gaps_between_offsets_stay():
    data = record(NO_KEY, NO_VALUE, NO_HEADERS, offset="04") + record(NO_KEY, NO_VALUE, NO_HEADERS, offset="0c")
    assert [r.offset for r in decode(data, 2, base_offset=100)] == [102, 106]


def test_no_records_are_read_from_no_bytes():
    assert decode(b"", 0) == []


def test_the_attributes_of_a_record_are_ignored():
    assert decode(record(NO_KEY, NO_VALUE, NO_HEADERS, attributes="ff")) == [Record(None, None, 0, (), 0)]


def test_headers_of_the_same_name_are_all_kept_in_their_order():
    headers = (("a", b"2"), ("b", b""), ("a", b"1"))
    assert decode(encode_records([Record(None, headers=headers)], -1))[0].headers == headers


def test_the_name_of_a_header_may_be_empty_or_any_text():
    headers = (("", b"1"), ("größe 🌊", b"2"))
    assert decode(encode_records([Record(None, headers=headers)], -1))[0].headers == headers


# Damage.


def test_records_cut_at_any_byte_are_corrupt():
    data = encode_records([FULL, Record(b"x" * 200, timestamp=10**12), FULL], 0)
    for size in range(len(data)):
        with pytest.raises(CorruptBatch):
            decode(data[:size], 3)


def test_one_record_more_than_there_are_is_corrupt():
    assert_corrupt(FULL_BYTES, "end inside of a field", count=2)


def test_a_count_of_billions_is_corrupt():
    assert_corrupt(FULL_BYTES, "end inside of a field", count=2**31 - 1)


def test_bytes_left_after_the_last_record_are_corrupt():
    assert_corrupt(FULL_BYTES * 2, "28 bytes are left after 1 record")


def test_bytes_without_records_are_corrupt():
    assert_corrupt(b"\x00", "1 byte is left after 0 records", count=0)


def test_a_record_of_negative_length_is_corrupt():
    assert_corrupt(b"\x01" + FULL_BYTES[1:], "record of -1 bytes")


def test_a_record_longer_than_the_data_is_corrupt():
    assert_corrupt(b"\x38" + FULL_BYTES[1:], "record of 28 bytes in 27 that are left")


def test_a_record_longer_than_its_fields_is_corrupt():
    assert_corrupt(b"\x38" + FULL_BYTES[1:] + b"\x00", "record of 28 bytes whose fields have 27")


def test_a_record_of_no_bytes_is_corrupt():
    assert_corrupt(b"\x00" + FULL_BYTES, "a field of 0 bytes in a record with 0 left")


def test_a_record_whose_fields_reach_into_the_next_one_is_corrupt():
    assert_corrupt(b"\x0a" + record(NO_KEY, NO_VALUE, NO_HEADERS)[1:], "record of 5 bytes whose fields have 6")


def test_a_key_that_reaches_into_the_next_record_is_corrupt():
    data = record("0a61", NO_VALUE, NO_HEADERS) + FULL_BYTES
    assert_corrupt(data, "a field of 5 bytes in a record with 3 left", count=2)


def test_a_value_that_reaches_into_the_next_record_is_corrupt():
    data = record(NO_KEY, "0661", NO_HEADERS) + FULL_BYTES
    assert_corrupt(data, "a field of 3 bytes in a record with 2 left", count=2)


@pytest.mark.parametrize(("length", "encoded"), [(-2, "03"), (-64, "7f"), (-65, "8101"), (-(2**31), "ffffffff0f")])
def test_a_negative_length_other_than_that_of_none_is_corrupt(length, encoded):
    assert_corrupt(record(encoded, NO_VALUE, NO_HEADERS), f"a field of {length:,} bytes")


def test_a_length_of_2_gib_is_corrupt():
    assert_corrupt(record(NO_KEY, "feffffff0f", NO_HEADERS), "a field of 2,147,483,647 bytes in a record with 1 left")


def test_a_length_of_more_than_64_bits_is_corrupt():
    assert_corrupt(record(NO_KEY, "ff" * 9 + "7f", NO_HEADERS), "more than 64 bits")


def test_a_negative_count_of_headers_is_corrupt():
    assert_corrupt(record(NO_KEY, NO_VALUE, "01"), "-1 headers in 0 bytes")


def test_more_headers_than_bytes_are_corrupt():
    assert_corrupt(record(NO_KEY, NO_VALUE, "feffffff0f", "0261", "0262"), "2,147,483,647 headers in 4 bytes")


def test_fewer_headers_than_counted_are_corrupt():
    assert_corrupt(record(NO_KEY, NO_VALUE, "04", "0261", "0262"), "end inside of a field")


def test_more_headers_than_counted_are_corrupt():
    assert_corrupt(record(NO_KEY, NO_VALUE, "02", "0261", "0262", "0263", "0264"), "whose fields have 10")


def test_a_header_without_a_name_is_corrupt():
    assert_corrupt(record(NO_KEY, NO_VALUE, "02", "01", "0261"), "a header without a name")


@pytest.mark.parametrize("name", ["61ff", "61c0af", "61eda080", "61e282"], ids=["byte", "overlong", "surrogate", "cut"])
def test_a_header_name_that_is_not_utf_8_is_read_with_marks(name):
    """As Kafka's own clients read it. It can be written again, too."""
    length = bytes([len(name)]).hex()  # twice the number of bytes is its zigzag varint
    (read,) = decode_records(record(NO_KEY, NO_VALUE, "02", length, name, "01"), 1, 0, 0)
    ((told, value),) = read.headers
    assert (told.rstrip("\ufffd"), value) == ("a", None)
    assert told != "a"
    assert decode_records(encode_records([read], 0), 1, 0, 0) == [read]


@pytest.mark.parametrize(("first", "second"), [("02", "02"), ("04", "02"), ("00", "01")])
def test_offsets_that_do_not_increase_are_corrupt(first, second):
    data = record(NO_KEY, NO_VALUE, NO_HEADERS, offset=first)
    data += record(NO_KEY, NO_VALUE, NO_HEADERS, offset=second)
    assert_corrupt(data, r"record with offset delta -?\d after \d", count=2)


def test_a_first_offset_before_the_batchs_is_corrupt():
    assert_corrupt(record(NO_KEY, NO_VALUE, NO_HEADERS, offset="01"), "offset delta -1 after -1")


@pytest.mark.parametrize(("base", "time"), [(2**63 - 1, "02"), (-(2**63), "01")])
def test_a_timestamp_of_more_than_64_bits_is_corrupt(base, time):
    data = record(NO_KEY, NO_VALUE, NO_HEADERS, time=time)
    assert_corrupt(data, "more than 64 bits", base_timestamp=base)
