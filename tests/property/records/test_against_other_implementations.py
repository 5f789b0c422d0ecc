"""Batches mean the same to us, to aiokafka and to kafka-python, whoever builds them; and damage is always found.

The three compress with different libraries: we and aiokafka with cramjam (aiokafka its gzip with zlib),
kafka-python with lz4, zstandard and zlib.
"""

import warnings
from typing import NamedTuple

import aiokafka.record.default_records
import aiokafka.record.memory_records
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.errors import InvalidBatch
from runnel.records import (
    HEADER_SIZE,
    TRANSACTIONAL,
    Codec,
    Producer,
    Record,
    build_batch,
    parse_header,
    place,
    records_of,
    validate,
)

with warnings.catch_warnings():
    # kafka-python loads its schemas with importlib.resources.read_text, which Python 3.11 and 3.12 deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record.default_records
    import kafka.record.memory_records


class Others(NamedTuple):
    """Another implementation, and what it differs in."""

    records: object
    memory: object
    leader_epoch: int  # what its builder writes; a broker sets its own


AIOKAFKA = Others(aiokafka.record.default_records, aiokafka.record.memory_records, -1)
KAFKA_PYTHON = Others(kafka.record.default_records, kafka.record.memory_records, 0)
every_other = pytest.mark.parametrize("other", [AIOKAFKA, KAFKA_PYTHON], ids=["aiokafka", "kafka-python"])
every_codec = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
some_examples = settings(max_examples=25, deadline=None, print_blob=True)
many_examples = settings(max_examples=200, deadline=None, print_blob=True)

LARGE = 40_000  # over the 32 KiB of a snappy block
DECOMPRESSED_LIMIT = 1024 * 1024  # so that a damaged length cannot cost the test much


def repeated(chunk, size):
    return (chunk * (size // len(chunk) + 1))[:size]


small = st.binary(max_size=40)
large = st.builds(repeated, st.binary(min_size=1, max_size=30), st.integers(100, LARGE))
contents = st.one_of(st.none(), small, small, large)
headers = st.lists(st.tuples(st.text(max_size=10), st.none() | small), max_size=3).map(tuple)
# No two of them are further apart than 64 bits can say.
timestamps = st.one_of(
    st.just(-1),
    st.integers(1_700_000_000_000, 1_700_000_100_000),
    st.integers(-(2**62), 2**62 - 1),
)
records = st.lists(st.builds(Record, contents, contents, timestamps, headers), min_size=1, max_size=8)
many_records = st.builds(lambda some, times: some * times, records, st.integers(1, 30))
codecs = st.sampled_from(Codec)
producers = st.just(Producer()) | st.builds(
    Producer, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)
)
offsets = st.integers(0, 2**62)
epochs = st.integers(-1, 2**31 - 1)


def numbered(some_records, base_offset=0):
    return [record._replace(offset=base_offset + i) for i, record in enumerate(some_records)]


def writable_by(other, some_records):
    """The records as the other can write them.

    aiokafka's compiled builder takes -1 for "no first timestamp yet" and lets the next record set it.
    """
    first = some_records[0]
    if other is AIOKAFKA and first.timestamp == -1:
        return [first._replace(timestamp=0), *some_records[1:]]
    return some_records


def built_by(other, some_records, codec, producer, transactional):
    builder = other.records.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=transactional,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence,
        batch_size=2**30,
    )
    for offset, record in enumerate(some_records):
        builder.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    return bytes(builder.build())


def read_by(other, batch):
    """The only batch of the bytes, as the other's consumer finds it."""
    found = other.memory.MemoryRecords(batch)
    read = found.next_batch()
    assert read.validate_crc()
    assert not found.has_next()
    return read


def as_ours(record):
    return Record(record.value, record.key, record.timestamp, tuple(record.headers), record.offset)


# We write, others read.


@every_other
@every_codec
@some_examples
@given(some_records=many_records, base_offset=offsets, epoch=epochs)
def test_records_that_we_write_are_read_by_others(other, codec, some_records, base_offset, epoch):
    batch = build_batch(some_records, base_offset=base_offset, leader_epoch=epoch, codec=codec)
    assert [as_ours(record) for record in read_by(other, batch)] == numbered(some_records, base_offset)


@every_other
@some_examples
@given(some_records=records, codec=codecs, producer=producers, transactional=st.booleans(), base_offset=offsets)
def test_headers_that_we_write_are_read_by_others(other, some_records, codec, producer, transactional, base_offset):
    flags = TRANSACTIONAL if transactional else 0
    batch = build_batch(some_records, base_offset=base_offset, codec=codec, producer=producer, attributes=flags)
    read, header = read_by(other, batch), parse_header(batch)
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == producer
    assert (read.base_offset, read.next_offset) == (base_offset, base_offset + len(some_records))
    assert (read.attributes, read.is_transactional) == (flags | codec, transactional)
    assert (read.first_timestamp, read.max_timestamp) == (header.base_timestamp, header.max_timestamp)


@some_examples
@given(some_records=records, producer=producers)
def test_the_last_sequence_is_that_of_kafka_python(some_records, producer):
    batch = build_batch(some_records, producer=producer)
    assert parse_header(batch).last_sequence == read_by(KAFKA_PYTHON, batch).last_sequence


# Others write, we read.


@every_other
@every_codec
@some_examples
@given(some_records=many_records, producer=producers, transactional=st.booleans())
def test_records_that_others_write_are_read_by_us(other, codec, some_records, producer, transactional):
    some_records = writable_by(other, some_records)
    batch = built_by(other, some_records, codec, producer, transactional)
    assert records_of(batch) == numbered(some_records)


@every_other
@some_examples
@given(some_records=records, codec=codecs, producer=producers, transactional=st.booleans())
def test_headers_that_others_write_are_read_by_us(other, some_records, codec, producer, transactional):
    some_records = writable_by(other, some_records)
    header = validate(built_by(other, some_records, codec, producer, transactional))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer
    assert (header.base_offset, header.count, header.last_offset_delta + 1) == (0, *[len(some_records)] * 2)
    assert header.is_transactional == transactional
    assert header.max_timestamp == max(record.timestamp for record in some_records)


@every_other
@every_codec
def test_others_do_compress_what_we_read(other, codec):
    some_records = [Record(bytes(LARGE), timestamp=0)] * 3
    assert validate(built_by(other, some_records, codec, Producer(), False)).codec is codec


@every_other
@some_examples
@given(some_records=many_records, producer=producers, transactional=st.booleans())
def test_plain_batches_are_the_same_byte_for_byte(other, some_records, producer, transactional):
    some_records = writable_by(other, some_records)
    ours = build_batch(
        some_records,
        leader_epoch=other.leader_epoch,
        producer=producer,
        attributes=TRANSACTIONAL if transactional else 0,
    )
    assert ours == built_by(other, some_records, Codec.NONE, producer, transactional)


# Places.


@every_other
@some_examples
@given(some_records=records, codec=codecs, base_offset=offsets, epoch=epochs)
def test_batches_that_we_place_are_read_by_others(other, some_records, codec, base_offset, epoch):
    some_records = writable_by(other, some_records)
    batch = place(built_by(other, some_records, codec, Producer(), False), base_offset, epoch)
    assert [as_ours(record) for record in read_by(other, batch)] == numbered(some_records, base_offset)


# Damage.


@st.composite
def damages(draw):
    """A change of some bytes. Positions are parts of the whole, so that they fit batches of any size."""
    kind = draw(st.sampled_from(["flip a bit", "cut", "insert", "remove", "overwrite"]))
    part = draw(st.floats(0, 1, exclude_max=True))
    # The header is small and worth as many tries as the rest.
    in_header = draw(st.booleans())
    return kind, part, in_header, draw(st.binary(min_size=1, max_size=9))


def damaged(batch, some_damages):
    data = bytearray(batch)
    for kind, part, in_header, new in some_damages:
        position = int(part * (min(HEADER_SIZE, len(data)) if in_header else len(data)))
        if kind == "flip a bit" and data:
            data[position] ^= 1 << new[0] % 8
        elif kind == "cut":
            del data[position:]
        elif kind == "insert":
            data[position:position] = new
        elif kind == "remove":
            del data[position : position + len(new)]
        elif kind == "overwrite":
            data[position : position + len(new)] = new
    return bytes(data)


def resealed(data):
    """The data as a batch whose length and checksum are right, so that only what they hide is wrong."""
    whole = data.ljust(HEADER_SIZE, b"\x00")
    length, magic, checksum = (len(whole) - 12).to_bytes(4, "big"), b"\x02", crc32c(whole[21:]).to_bytes(4, "big")
    return b"\x00" * 8 + length + whole[12:16] + magic + checksum + whole[21:]


def without_offset(record, base_offset):
    return record._replace(offset=record.offset - base_offset)


@many_examples
@given(some_records=records, codec=codecs, some_damages=st.lists(damages(), min_size=1, max_size=3))
def test_a_damaged_batch_is_refused_or_holds_the_same_records(some_records, codec, some_damages):
    data = damaged(build_batch(some_records, codec=codec), some_damages)
    try:
        read = records_of(data)
    except InvalidBatch:
        return
    base_offset = parse_header(data).base_offset  # outside of the checksum, as the leader epoch is
    assert [without_offset(record, base_offset) for record in read] == numbered(some_records)


@many_examples
@given(some_records=records, codec=codecs, some_damages=st.lists(damages(), min_size=1, max_size=3))
def test_damage_under_a_right_checksum_raises_no_other_error(some_records, codec, some_damages):
    data = resealed(damaged(build_batch(some_records, codec=codec), some_damages))
    try:
        records_of(data, limit=DECOMPRESSED_LIMIT)
    except InvalidBatch:
        return


@many_examples
@given(some_records=records, some_damages=st.lists(damages(), min_size=1, max_size=3))
def test_what_can_be_read_can_be_written_again(some_records, some_damages):
    data = resealed(damaged(build_batch(some_records), some_damages))
    try:
        read = records_of(data)
        again = build_batch(read) if read else None
    except InvalidBatch:
        return
    if again is not None:
        assert records_of(again) == numbered(read)


@many_examples
@given(data=st.binary(max_size=200))
def test_random_bytes_raise_no_other_error(data):
    for position in (0, len(data) // 2):
        with pytest.raises(InvalidBatch):
            records_of(data, position)


@many_examples
@given(codec=codecs, body=st.binary(max_size=200), count=st.integers(-1, 3))
def test_random_records_under_a_right_header_raise_no_other_error(codec, body, count):
    header = parse_header(build_batch([Record(b"", timestamp=0)] * 3, codec=codec))
    start = bytearray(build_batch([Record(b"", timestamp=0)] * 3, codec=codec)[:HEADER_SIZE])
    start[57:61] = count.to_bytes(4, "big", signed=True)
    try:
        read = records_of(resealed(bytes(start) + body), limit=DECOMPRESSED_LIMIT)
    except InvalidBatch:
        return
    assert len(read) == count <= header.last_offset_delta + 1
