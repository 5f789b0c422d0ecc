import struct

import pytest
from crc32c import crc32c

from runnel.counted import counted
from runnel.errors import CorruptBatch, InvalidBatch
from runnel.records import (
    APPEND_TIME,
    CONTROL,
    HEADER_SIZE,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    SEQUENCES,
    TRANSACTIONAL,
    BatchHeader,
    Codec,
    Producer,
    Record,
    batches_of,
    build_batch,
    compress,
    parse_header,
    place,
    recompressed,
    records_of,
    validate,
    with_append_time,
    with_timestamps,
)

# A batch by hand.
GOLDEN = bytes.fromhex(
    "0000000000000007"  # base offset 7
    "00000045"  # 69 bytes follow
    "00000003"  # leader epoch 3
    "02"  # format 2
    "0f49cd6c"  # CRC-32C of what follows
    "0010"  # attributes: transactional, not compressed
    "00000001"  # last offset delta 1
    "00000000000003e8"  # base timestamp 1,000
    "00000000000003e8"  # max timestamp 1,000
    "0000000000000004"  # producer id 4
    "0001"  # producer epoch 1
    "00000009"  # base sequence 9
    "00000002"  # 2 records
    "16 00 00 00  01        04 6869  02 02 61 01"  # 11 bytes: no key, "hi", one header "a": None
    "0e 00 03 02  02 6b     01       00"  # 7 bytes: 2 ms earlier, offset delta 1, "k", no value
)
GOLDEN_RECORDS = [
    Record(b"hi", None, 1_000, (("a", None),), 7),
    Record(None, b"k", 998, (), 8),
]
GOLDEN_HEADER = BatchHeader(
    base_offset=7,
    length=69,
    leader_epoch=3,
    magic=2,
    checksum=0x0F49CD6C,
    attributes=TRANSACTIONAL,
    last_offset_delta=1,
    base_timestamp=1_000,
    max_timestamp=1_000,
    producer_id=4,
    producer_epoch=1,
    base_sequence=9,
    count=2,
)
# Where each field stands, and the code of its type.
FIELDS = {
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "checksum": (17, ">I"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "count": (57, ">i"),
}
every_codec = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
every_field = pytest.mark.parametrize("field", FIELDS)


def changed(batch, **fields):
    """The batch with other values in its header, and the checksum left as it was."""
    data = bytearray(batch)
    for name, value in fields.items():
        position, code = FIELDS[name]
        struct.pack_into(code, data, position, value)
    return bytes(data)


def resealed(batch, **fields):
    """The batch with other values in its header, and the checksum that fits them."""
    data = changed(batch, **fields)
    return changed(data, checksum=crc32c(data[21:]))


def with_body(batch, body):
    """The batch with other bytes in place of its records; length and checksum fit."""
    data = batch[:HEADER_SIZE] + body
    return resealed(data, length=len(data) - 12)


def limits_of(field):
    _, code = FIELDS[field]
    bits = 8 * struct.calcsize(code)
    return (0, 2**bits - 1) if code == ">I" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def batch_of(*values, **options):
    return build_batch([Record(value, timestamp=1_000 + i) for i, value in enumerate(values)], **options)


def assert_corrupt(data, text):
    with pytest.raises(CorruptBatch, match=text):
        records_of(data)


# The layout.


def test_a_batch_is_built_byte_for_byte():
    built = build_batch(
        GOLDEN_RECORDS, base_offset=7, leader_epoch=3, producer=Producer(4, 1, 9), attributes=TRANSACTIONAL
    )
    assert built.hex() == GOLDEN.hex()


def test_every_field_of_a_header_is_read():
    assert parse_header(GOLDEN) == GOLDEN_HEADER


def test_a_whole_batch_is_valid():
    assert validate(GOLDEN) == GOLDEN_HEADER


def test_the_records_of_a_batch_are_read():
    assert records_of(GOLDEN) == GOLDEN_RECORDS


@every_field
def test_a_field_stands_at_its_position(field):
    position, code = FIELDS[field]
    assert struct.unpack_from(code, GOLDEN, position) == (getattr(GOLDEN_HEADER, field),)


def test_the_size_counts_the_whole_batch():
    assert parse_header(GOLDEN).size == len(GOLDEN)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_batch_is_read_from_any_kind_of_buffer(kind):
    assert records_of(kind(GOLDEN)) == GOLDEN_RECORDS


def test_a_batch_is_read_where_it_stands():
    assert records_of(b"before" + GOLDEN + b"after", 6) == GOLDEN_RECORDS


# Building.


@every_codec
def test_what_is_built_is_read_back(codec):
    records = [
        Record(b"value " * 50, b"key", 1_000, (("name", b"x"), ("none", None))),
        Record(None, None, 500),
        Record(b"", b"", NO_TIMESTAMP),
    ]
    batch = build_batch(records, base_offset=40, codec=codec)
    assert records_of(batch) == [record._replace(offset=40 + i) for i, record in enumerate(records)]


@every_codec
def test_the_codec_is_in_the_attributes(codec):
    assert validate(batch_of(b"x", codec=codec)).codec is codec


@every_codec
def test_the_same_records_in_another_codec_give_the_same_header(codec):
    plain, other = validate(batch_of(b"a", b"b")), validate(batch_of(b"a", b"b", codec=codec))
    assert other._replace(length=0, checksum=0, attributes=0) == plain._replace(length=0, checksum=0)


@pytest.mark.parametrize("flag", [APPEND_TIME, TRANSACTIONAL, CONTROL])
def test_flags_are_kept_beside_the_codec(flag):
    assert validate(batch_of(b"x", codec=Codec.ZSTD, attributes=flag)).attributes == flag | Codec.ZSTD


def test_a_batch_has_no_producer_unless_one_is_given():
    header = validate(batch_of(b"x"))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (NO_PRODUCER_ID, -1, -1)


def test_a_batch_has_no_leader_epoch_unless_one_is_given():
    assert validate(batch_of(b"x")).leader_epoch == -1


def test_the_max_timestamp_is_the_latest_not_the_last():
    header = validate(build_batch([Record(b"", timestamp=time) for time in (5, 9, 7)]))
    assert header.max_timestamp == 9


def test_the_base_timestamp_is_the_first_not_the_earliest():
    header = validate(build_batch([Record(b"", timestamp=time) for time in (5, 9, 3)]))
    assert header.base_timestamp == 5


@pytest.mark.parametrize("times", [(9, 5, -1), (0, 2**62), (-(2**62), 2**62 - 1), (2**63 - 1, 0), (-(2**63), -1)])
def test_timestamps_come_back_in_any_order_and_distance(times):
    records = records_of(build_batch([Record(b"", timestamp=time) for time in times]))
    assert tuple(record.timestamp for record in records) == times


def test_a_batch_without_records_is_refused():
    with pytest.raises(InvalidBatch, match="at least one record"):
        build_batch([])


def test_a_codec_among_the_flags_is_refused_with_the_remedy():
    with pytest.raises(InvalidBatch, match=r"0x12 holds more than flags \(name the compression with codec=\)"):
        batch_of(b"x", attributes=TRANSACTIONAL | Codec.SNAPPY)


def test_an_unknown_flag_is_refused():
    with pytest.raises(InvalidBatch, match="0x80 holds more than flags"):
        batch_of(b"x", attributes=0x80)


def test_an_unknown_codec_is_refused():
    with pytest.raises(InvalidBatch, match="unknown codec 'gzip'"):
        batch_of(b"x", codec="gzip")


def test_a_negative_base_offset_is_refused():
    with pytest.raises(InvalidBatch, match="base offset -1 is below 0"):
        batch_of(b"x", base_offset=-1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"base_offset": 2**63}, "base_offset = 9223372036854775808"),
        ({"base_offset": 1.5}, "base_offset = 1.5"),
        ({"leader_epoch": 2**31}, "leader_epoch = 2147483648"),
        ({"producer": Producer(2**63, 0, 0)}, "producer_id = 9223372036854775808"),
        ({"producer": Producer(1, 2**15, 0)}, "producer_epoch = 32768"),
        ({"producer": Producer(1, 0, 2**31)}, "base_sequence = 2147483648"),
        ({"producer": Producer("1", None, 0)}, "producer_id = '1', producer_epoch = None"),
    ],
)
def test_numbers_that_a_header_cannot_hold_are_named(options, text):
    with pytest.raises(InvalidBatch) as caught:
        batch_of(b"x", **options)
    assert caught.value.what == f"no numbers that a batch's header can hold: {text}"


# Placing.


def test_place_sets_base_offset_and_leader_epoch():
    header = parse_header(place(GOLDEN, 1_234, 56))
    assert (header.base_offset, header.leader_epoch) == (1_234, 56)


def test_place_leaves_the_checksum_valid():
    assert validate(place(GOLDEN, 2**62, 2**31 - 1)).checksum == GOLDEN_HEADER.checksum


def test_place_changes_nothing_else():
    assert place(GOLDEN, 1_234, 56)[16:] == GOLDEN[16:]


def test_place_moves_the_records():
    assert [record.offset for record in records_of(place(GOLDEN, 1_234, 56))] == [1_234, 1_235]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_can_be_placed(kind):
    assert place(kind(GOLDEN), 7, 3) == GOLDEN


# Time of the log.


@every_codec
def test_append_time_is_the_time_of_every_record(codec):
    batch = with_append_time(batch_of(b"a", b"b", codec=codec), 77_000)
    assert [record.timestamp for record in records_of(batch)] == [77_000, 77_000]


def test_append_time_is_the_max_timestamp():
    assert validate(with_append_time(GOLDEN, 77_000)).max_timestamp == 77_000


def test_append_time_sets_its_flag_and_keeps_the_others():
    assert validate(with_append_time(GOLDEN, 77_000)).attributes == TRANSACTIONAL | APPEND_TIME


def test_append_time_leaves_the_rest_of_the_batch_alone():
    before, after = parse_header(GOLDEN), parse_header(with_append_time(GOLDEN, 77_000))
    changing = {"checksum": 0, "attributes": 0, "max_timestamp": 0}
    assert after._replace(**changing) == before._replace(**changing)


def test_append_time_leaves_the_bytes_of_the_records_alone():
    assert with_append_time(GOLDEN, 77_000)[HEADER_SIZE:] == GOLDEN[HEADER_SIZE:]


def test_an_append_time_of_more_than_64_bits_is_refused():
    with pytest.raises(InvalidBatch, match=f"max_timestamp = {2**63}"):
        with_append_time(GOLDEN, 2**63)


def test_records_without_a_time_get_one():
    assert with_timestamps([Record(b"a")], 77_000) == [Record(b"a", timestamp=77_000)]


def test_records_with_a_time_keep_it():
    assert with_timestamps([Record(b"a", timestamp=0)], 77_000) == [Record(b"a", timestamp=0)]


# What a header says.


def test_the_last_offset_is_that_of_the_last_record():
    assert GOLDEN_HEADER.last_offset == 8


def test_the_last_sequence_is_that_of_the_last_record():
    assert GOLDEN_HEADER.last_sequence == 10


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [
        (SEQUENCES - 1, 0, SEQUENCES - 1),
        (SEQUENCES - 1, 1, 0),
        (SEQUENCES - 2, 5, 3),
        (0, SEQUENCES - 1, SEQUENCES - 1),
        (SEQUENCES - 1, SEQUENCES - 1, SEQUENCES - 2),
    ],
)
def test_sequences_go_on_at_zero_after_the_largest(base, delta, last):
    assert GOLDEN_HEADER._replace(base_sequence=base, last_offset_delta=delta).last_sequence == last


def test_a_batch_without_sequences_has_no_last_sequence():
    assert validate(batch_of(b"a", b"b")).last_sequence == -1


@pytest.mark.parametrize(
    ("flag", "name"),
    [(APPEND_TIME, "is_append_time"), (TRANSACTIONAL, "is_transactional"), (CONTROL, "is_control")],
)
def test_a_flag_is_told_from_the_others(flag, name):
    others = 0x7F & ~flag
    headers = [GOLDEN_HEADER._replace(attributes=attributes) for attributes in (flag, others)]
    assert [getattr(header, name) for header in headers] == [True, False]


# Several batches.


def test_batches_are_found_one_after_the_other():
    first, second = batch_of(b"a"), batch_of(b"b", b"c", codec=Codec.LZ4)
    found = list(batches_of(first + second))
    assert found == [(0, parse_header(first)), (len(first), parse_header(second))]


def test_batches_are_found_from_a_position_on():
    assert [position for position, _ in batches_of(GOLDEN * 3, len(GOLDEN))] == [len(GOLDEN), 2 * len(GOLDEN)]


def test_no_bytes_hold_no_batches():
    assert list(batches_of(b"")) == []


def test_batches_before_a_corrupt_one_are_found():
    batches = batches_of(GOLDEN + GOLDEN[:-1])
    assert next(batches) == (0, GOLDEN_HEADER)
    with pytest.raises(CorruptBatch):
        next(batches)


# Damage.


@every_codec
def test_a_batch_cut_at_any_byte_is_corrupt(codec):
    batch = build_batch(GOLDEN_RECORDS * 3, codec=codec)
    for size in range(len(batch)):
        with pytest.raises(CorruptBatch):
            records_of(batch[:size])


@every_codec
def test_a_batch_cut_at_any_byte_with_a_length_that_fits_is_corrupt(codec):
    batch = build_batch(GOLDEN_RECORDS * 3, codec=codec)
    for size in range(HEADER_SIZE, len(batch)):
        with pytest.raises(CorruptBatch):
            records_of(with_body(batch, batch[HEADER_SIZE:size]))


def test_every_changed_bit_under_the_checksum_is_found():
    for bit in range(17 * 8, len(GOLDEN) * 8):
        data = bytearray(GOLDEN)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatch, match="checksum of the batch is"):
            records_of(data)


def test_a_checksum_that_does_not_fit_names_both():
    assert_corrupt(changed(GOLDEN, checksum=1), "checksum of the batch is 0x0f49cd6c, its header says 0x00000001")


@pytest.mark.parametrize("size", [0, 1, HEADER_SIZE - 1])
def test_fewer_bytes_than_a_header_are_corrupt(size):
    with pytest.raises(CorruptBatch, match=f"{counted(size, 'byte is', 'bytes are')} left, a batch's header has 61"):
        parse_header(GOLDEN[:size])


def test_a_position_after_the_end_is_corrupt():
    with pytest.raises(CorruptBatch, match="0 bytes are left"):
        parse_header(GOLDEN, len(GOLDEN) + 5)


@pytest.mark.parametrize("magic", [-128, -1, 0, 1, 3, 127])
def test_a_batch_of_another_format_is_corrupt(magic):
    assert_corrupt(changed(GOLDEN, magic=magic), f"batch of format {magic}, only format 2 is known")


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_length_shorter_than_the_header_is_corrupt(length):
    assert_corrupt(changed(GOLDEN, length=length), f"has {length:,} bytes, fewer than its own header")


@pytest.mark.parametrize("length", [70, 1_000, 2**31 - 1])
def test_a_length_over_the_end_of_the_bytes_is_corrupt(length):
    assert_corrupt(changed(GOLDEN, length=length), f"batch of {length + 12} bytes in 81 that are left")


def test_a_length_into_the_next_batch_is_corrupt():
    assert_corrupt(changed(GOLDEN, length=70) + GOLDEN, "checksum of the batch")


def test_a_batch_of_nothing_but_a_header_must_have_no_records():
    assert_corrupt(with_body(GOLDEN, b""), "end inside of a field")


@pytest.mark.parametrize("attributes", [5, 6, 7, 0x80, 0x0100, 0x4000, -0x8000, -1])
def test_unknown_attributes_are_corrupt(attributes):
    text = f"unknown attributes 0x{attributes & 0xFFFF:04x}"
    assert_corrupt(resealed(GOLDEN, attributes=attributes), text)


@pytest.mark.parametrize("flags", [0x08, 0x10, 0x20, 0x40, 0x78])
def test_every_known_flag_is_valid(flags):
    assert validate(resealed(GOLDEN, attributes=flags)).attributes == flags


@pytest.mark.parametrize("codec", list(Codec)[1:], ids=lambda codec: codec.name)
def test_records_in_another_codec_than_said_are_corrupt(codec):
    assert_corrupt(resealed(GOLDEN, attributes=codec), f"{codec.name.lower()} data cannot be decompressed")


@pytest.mark.parametrize("count", [-(2**31), -1, 3, 2**31 - 1])
def test_a_count_that_the_offsets_have_no_room_for_is_corrupt(count):
    assert_corrupt(resealed(GOLDEN, count=count), f"batch of {count} records over 2 offsets")


@pytest.mark.parametrize("delta", [-(2**31), -1, 0])
def test_a_last_offset_without_room_for_the_records_is_corrupt(delta):
    assert_corrupt(resealed(GOLDEN, last_offset_delta=delta), f"batch of 2 records over {delta + 1} offsets")


def test_fewer_records_than_counted_are_corrupt():
    assert_corrupt(resealed(GOLDEN, count=2**31 - 1, last_offset_delta=2**31 - 1), "end inside of a field")


@pytest.mark.parametrize(("count", "left"), [(0, 20), (1, 8)])
def test_more_records_than_counted_are_corrupt(count, left):
    assert_corrupt(resealed(GOLDEN, count=count), f"{left} bytes are left after {counted(count, 'record')}")


def test_bytes_left_after_the_records_are_corrupt():
    assert_corrupt(with_body(GOLDEN, GOLDEN[HEADER_SIZE:] + b"more"), "4 bytes are left after 2 records")


def test_bytes_left_after_compressed_records_are_corrupt():
    body = compress(Codec.ZSTD, GOLDEN[HEADER_SIZE:] + b"more")
    assert_corrupt(with_body(resealed(GOLDEN, attributes=Codec.ZSTD), body), "4 bytes are left after 2 records")


def test_a_record_after_the_last_offset_is_corrupt():
    last = bytes.fromhex("0e 00 03 04 02 6b 01 00")  # offset delta 2
    assert_corrupt(with_body(GOLDEN, GOLDEN[HEADER_SIZE:-8] + last), "record at offset 9 after the batch's last, 8")


def test_offsets_that_do_not_increase_are_corrupt():
    again = bytes.fromhex("0e 00 03 00 02 6b 01 00")  # offset delta 0
    assert_corrupt(with_body(GOLDEN, GOLDEN[HEADER_SIZE:-8] + again), "offset delta 0 after 0")


def test_gaps_that_compaction_leaves_are_valid():
    batch = resealed(GOLDEN, last_offset_delta=10)
    assert (validate(batch).last_offset, len(records_of(batch))) == (17, 2)


def test_a_batch_that_compaction_has_emptied_is_valid():
    batch = with_body(resealed(GOLDEN, count=0, last_offset_delta=10), b"")
    assert (validate(batch).last_offset, records_of(batch)) == (17, [])


def test_an_empty_batch_of_no_offsets_is_corrupt():
    batch = with_body(resealed(GOLDEN, count=0, last_offset_delta=-1), b"")
    assert_corrupt(batch, "batch of 0 records over 0 offsets")


@pytest.mark.parametrize("offset", [-1, -(2**63)])
def test_a_negative_base_offset_is_corrupt(offset):
    assert_corrupt(changed(GOLDEN, base_offset=offset), f"batch at offsets {offset} to")


def test_the_last_offset_leaves_room_for_the_next():
    assert validate(changed(GOLDEN, base_offset=2**63 - 3)).last_offset == 2**63 - 2


@pytest.mark.parametrize("offset", [2**63 - 2, 2**63 - 1])
def test_offsets_of_more_than_63_bits_are_corrupt(offset):
    assert_corrupt(changed(GOLDEN, base_offset=offset), f"batch at offsets {offset} to {offset + 1}")


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63)])
def test_a_base_timestamp_that_leaves_64_bits_is_corrupt(time):
    later = bytes.fromhex("0e 00 02 02 02 6b 01 00")  # 1 ms later
    batch = with_body(GOLDEN, GOLDEN[HEADER_SIZE:-8] + (later if time > 0 else GOLDEN[-8:]))
    assert_corrupt(resealed(batch, base_timestamp=time), "more than 64 bits")


@every_field
@pytest.mark.parametrize("value", ["lowest", "highest", "zero", "one more", "one less"])
def test_any_value_in_any_field_is_read_or_corrupt(field, value):
    lowest, highest = limits_of(field)
    now = getattr(GOLDEN_HEADER, field)
    new = {"lowest": lowest, "highest": highest, "zero": 0, "one more": now + 1, "one less": now - 1}[value]
    change = changed if field == "checksum" else resealed
    try:
        records = records_of(change(GOLDEN, **{field: new}))
    except CorruptBatch:
        return
    assert [(record.key, record.value) for record in records] == [(None, b"hi"), (b"k", None)]


def test_records_over_the_limit_are_refused():
    batch = batch_of(bytes(100_000), codec=Codec.GZIP)
    with pytest.raises(InvalidBatch, match="gzip data holds more than 50,000 bytes"):
        records_of(batch, limit=50_000)


def test_records_within_the_limit_are_read():
    batch = batch_of(bytes(100_000), codec=Codec.GZIP)
    assert records_of(batch, limit=100_020)[0].value == bytes(100_000)


@pytest.mark.parametrize("before", Codec)
@pytest.mark.parametrize("after", Codec)
def test_a_batch_can_be_compressed_anew(before: Codec, after: Codec) -> None:
    batch = build_batch(
        [Record(b"a" * 100, b"k", 1_000), Record(None, None, 2_000)], codec=before, producer=Producer(7, 1, 3)
    )
    again = recompressed(batch, after)

    header = validate(again)
    assert header.codec is after
    assert header.size == len(again)
    assert header[5:12] == validate(batch)._replace(attributes=header.attributes)[5:12]
    assert records_of(again) == records_of(batch)


def test_a_batch_that_is_compressed_so_already_is_left_alone() -> None:
    batch = build_batch([Record(b"a")], codec=Codec.LZ4)
    assert recompressed(batch, Codec.LZ4) is batch
