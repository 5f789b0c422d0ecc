"""Record batches as Arrow columns: every way of finding the records tells the same, and damage is named."""

import struct

import aiokafka.record.default_records
import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runnel.client import columns
from runnel.client.columns import DamagedRecords, Origin, decode, decode_plainly
from runnel.records import CONTROL, Codec, Record, build_batch, place, with_append_time

ALL = ("value", "key", "offset", "timestamp", "headers")
HERE = Origin("clicks", 3)
some = st.none() | st.binary(max_size=12) | st.integers(60, 70).map(bytes) | st.integers(8180, 8200).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=3), some), max_size=3).map(tuple)
times = st.integers(-1, 2**42) | st.sampled_from((0, 2**62 - 1))
records = st.builds(Record, value=some, key=some, timestamp=times, headers=headers | st.just(()))
plain_records = st.builds(Record, value=some, timestamp=st.integers(1_700_000_000_000, 1_700_000_000_200))
batches_of_records = st.lists(st.lists(records, min_size=1, max_size=8), max_size=5) | st.lists(
    st.lists(plain_records, min_size=1, max_size=8), max_size=5
)


def placed(groups, codec=Codec.NONE, gap=0):
    """The batches one after the other, with `gap` offsets missing after each."""
    batches, offset = [], 0
    for group in groups:
        batches.append(build_batch(group, base_offset=offset, codec=codec))
        offset += len(group) + gap
    return batches


def read(batches, names=ALL, origin=HERE):
    """All rows as one table."""
    schema = pa.schema([(name, columns.TYPES[name]) for name in names])
    return pa.Table.from_batches(decode(batches, names, origin), schema=schema)


def read_by_aiokafka(batches):
    rows = []
    for batch in batches:
        for each in aiokafka.record.default_records.DefaultRecordBatch(bytes(batch)):
            pairs = [{"key": name, "value": value} for name, value in each.headers]
            rows.append((each.value, each.key, each.offset, each.timestamp, pairs))
    return rows


def as_rows(table):
    return [tuple(row[name] for name in ALL) for row in table.to_pylist()]


@settings(max_examples=100, deadline=None)
@given(groups=batches_of_records, codec=st.sampled_from(Codec), gap=st.integers(0, 3), data=st.data())
def test_the_columns_are_what_the_plain_way_reads(groups, codec, gap, data):
    batches = placed(groups, codec, gap)
    end = sum(map(len, groups)) + gap * len(groups)
    start = data.draw(st.integers(0, end + 1))
    origin = Origin("clicks", 3, start, data.draw(st.integers(start, end + 1)))
    names = data.draw(st.lists(st.sampled_from(ALL), min_size=1, unique=True))
    table = read(batches, names, origin)
    table.validate(full=True)
    assert table.to_pylist() == decode_plainly(batches, names, origin).to_pylist()


@settings(max_examples=100, deadline=None)
@given(groups=batches_of_records, codec=st.sampled_from(Codec))
def test_the_columns_are_what_aiokafka_reads(groups, codec):
    batches = placed(groups, codec)
    assert as_rows(read(batches)) == read_by_aiokafka(batches)


@settings(max_examples=100, deadline=None)
@given(groups=st.lists(st.lists(records | plain_records, min_size=1, max_size=8), min_size=1, max_size=4))
def test_records_that_are_seen_start_where_a_walk_finds_them(groups):
    plain = [batch[61:] for batch in placed(groups)]
    data = b"".join([columns.BEFORE, *plain, columns.PADDING])
    bounds = np.cumsum([len(columns.BEFORE), *map(len, plain)])
    counts = np.array([len(group) for group in groups])
    seen = columns._seen_starts(np.frombuffer(data, np.uint8), bounds, counts)
    walked = columns._walked_starts(data, bounds.tolist(), counts.tolist())
    assert seen is None or seen.tolist() == walked.tolist()


def test_records_without_headers_are_seen_without_a_walk(monkeypatch):
    batches = placed([[Record(b"x" * size, timestamp=size) for size in range(40, 200)]] * 3)
    expected = decode_plainly(batches, ALL, HERE).to_pylist()
    monkeypatch.setattr(columns, "_walked_starts", None)
    assert read(batches).to_pylist() == expected


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_many_small_batches_and_blocks_keep_every_record_once(codec, monkeypatch):
    monkeypatch.setattr(columns, "BLOCK", 100)
    batches = placed([[Record(b"%d" % number, timestamp=number)] for number in range(100)], codec)
    blocks = list(decode(batches, ["value", "offset"], HERE))
    assert len(blocks) > 1
    values = [value for block in blocks for value in block.column("value").to_pylist()]
    assert values == [b"%d" % number for number in range(100)]


def test_the_rows_are_cut_to_the_offsets_that_are_asked_for():
    batches = placed([[Record(b"%d" % number, timestamp=1) for number in range(10)]] * 3)
    table = read(batches, ["offset"], Origin("clicks", 0, start=7, end=22))
    assert table["offset"].to_pylist() == list(range(7, 22))


def test_the_time_of_the_log_stands_for_the_records_own_where_the_topic_says_so():
    own = build_batch([Record(b"a", timestamp=5), Record(b"b", timestamp=6)])
    logs = place(with_append_time(own, 99), 2, 0)
    assert read([own, logs], ["timestamp"])["timestamp"].to_pylist() == [5, 6, 99, 99]


def test_control_batches_give_no_rows():
    marker = build_batch([Record(b"\0" * 6, key=b"\0\0\0\1")], base_offset=1, attributes=CONTROL)
    batches = [build_batch([Record(b"a")]), marker, build_batch([Record(b"b")], base_offset=2)]
    assert read(batches)["value"].to_pylist() == [b"a", b"b"]


def test_a_batch_that_compaction_has_emptied_gives_no_rows():
    empty = rebuilt(place(build_batch([Record(b"gone")] * 3), 1, 0), b"", count=0)
    batches = [build_batch([Record(b"a")]), empty, build_batch([Record(b"b")], base_offset=4)]
    assert read(batches, ["value", "offset"]).to_pylist() == [
        {"value": b"a", "offset": 0},
        {"value": b"b", "offset": 4},
    ]
    assert read([empty]).num_rows == 0


def test_a_record_with_very_many_headers_is_read_too():
    many = tuple((f"h{number}", b"x") for number in range(columns.MANY_HEADERS + 10))
    table = read([build_batch([Record(b"a", headers=many), Record(b"b")])])
    assert [len(row) for row in table["headers"].to_pylist()] == [len(many), 0]


def test_a_header_name_that_is_not_utf_8_is_read_with_a_mark_and_costs_no_other_record():
    strange = rebuilt(BATCH, BATCH[61:].replace(b"\x02h", b"\x02\xff"))
    table = read([build_batch([Record(b"fine", headers=(("h", b"v"),))]), strange])
    assert table["value"].to_pylist() == [b"fine", b"value", b"another"]
    assert table["headers"].to_pylist() == [[{"key": "h", "value": b"v"}], [{"key": "\ufffd", "value": b"v"}], []]


def test_a_record_of_a_million_bytes_is_read():
    table = read([build_batch([Record(b"x" * 1_000_000), Record(b"y")])], ["value"])
    assert [len(value) for value in table["value"].to_pylist()] == [1_000_000, 1]


def rebuilt(batch, body, count=None):
    """The batch with other records, whose checksum is right."""
    head = bytearray(batch[:61])
    head[8:12] = struct.pack(">i", 61 - 12 + len(body))
    if count is not None:
        head[57:61] = struct.pack(">i", count)
        head[23:27] = struct.pack(">i", max(count - 1, 2))
    head[17:21] = struct.pack(">I", crc32c(bytes(head[21:]) + body))
    return bytes(head) + body


BATCH = build_batch([Record(b"value", key=b"key", headers=(("h", b"v"),)), Record(b"another")], base_offset=40)
DAMAGED = {
    "no batch": b"not a batch",
    "an empty one": b"",
    "a bit": BATCH[:-3] + bytes([BATCH[-3] ^ 1]) + BATCH[-2:],
    "its end": BATCH[:-1],
    "more after it": BATCH + b"x",
    "fewer records than it says": rebuilt(BATCH, BATCH[61:], 3),
    "more records than it says": rebuilt(BATCH, BATCH[61:], 1),
    "no records at all": rebuilt(BATCH, b""),
    "a length over the end": rebuilt(BATCH, b"\xfe\xff\x03" + BATCH[62:]),
    "a length below zero": rebuilt(BATCH, b"\x01" + BATCH[62:]),
    "a number without an end": rebuilt(BATCH, b"\xff" * 40),
    "a key over the end": rebuilt(BATCH, BATCH[61:].replace(b"\x06key", b"\x7ekey")),
    "a key of length -2": rebuilt(BATCH, BATCH[61:].replace(b"\x06key", b"\x03key")),
    "a value over the end": rebuilt(BATCH, BATCH[61:].replace(b"\x0eanother", b"\x10another")),
    "an offset twice": rebuilt(BATCH, BATCH[61:].replace(b"\x00\x00\x02\x01\x0e", b"\x00\x00\x00\x01\x0e")),
    "headers that nobody has": rebuilt(BATCH, BATCH[61:-1] + b"\x04"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_is_told_with_topic_partition_and_offset(damage):
    with pytest.raises(DamagedRecords, match="clicks-3") as caught:
        read([build_batch([Record(b"fine")]), DAMAGED[damage]])
    assert (caught.value.topic, caught.value.partition) == ("clicks", 3)
    assert caught.value.offset in (0, 40)
    assert caught.value.reason


def outcome(read_it):
    try:
        return read_it().to_pylist()
    except DamagedRecords as damaged:
        return damaged.reason


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=60), count=st.integers(1, 4))
def test_bytes_that_are_no_records_are_read_or_refused_as_by_the_plain_way(body, count):
    batch = rebuilt(BATCH, body, count)
    assert outcome(lambda: read([batch])) == outcome(lambda: decode_plainly([batch], ALL, HERE))


@settings(max_examples=200, deadline=None)
@given(position=st.integers(0, len(BATCH) - 62), byte=st.integers(0, 255))
@example(position=32, byte=3)
def test_a_changed_byte_is_read_or_refused_as_by_the_plain_way(position, byte):
    body = bytearray(BATCH[61:])
    body[position] = byte
    batch = rebuilt(BATCH, bytes(body))
    assert outcome(lambda: read([batch])) == outcome(lambda: decode_plainly([batch], ALL, HERE))


def test_an_unknown_column_is_refused():
    with pytest.raises(ValueError, match="no column valeu; there are: value"):
        list(decode([], ["valeu"], HERE))


def test_no_column_at_all_is_refused():
    with pytest.raises(ValueError, match="'offset' is the cheapest"):
        list(decode([], [], HERE))
