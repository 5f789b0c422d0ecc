import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import CorruptBatch, InvalidBatch
from runnel.records import (
    CONTROL,
    TRANSACTIONAL,
    Marker,
    Producer,
    Record,
    build_batch,
    build_marker,
    marker_in,
    parse_header,
    parse_marker,
    place,
    records_of,
)

MARKER = build_marker(1234, 7, committed=True, coordinator_epoch=5, timestamp=1_700_000_000_000)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("coordinator_epoch", [0, 5, 2**31 - 1])
def test_a_marker_says_what_it_was_built_for(committed: bool, coordinator_epoch: int) -> None:
    batch = build_marker(9, 3, committed=committed, coordinator_epoch=coordinator_epoch, timestamp=1)
    assert parse_marker(batch) == Marker(committed, coordinator_epoch)


def test_a_marker_is_a_control_batch_of_its_producer_without_a_sequence() -> None:
    header = parse_header(MARKER)

    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1234, 7, -1)
    assert (header.is_control, header.is_transactional, header.count) == (True, True, 1)
    assert (header.base_timestamp, header.max_timestamp) == (1_700_000_000_000, 1_700_000_000_000)


@pytest.mark.parametrize(
    ("committed", "record"),
    [
        (False, "20 00 00 00 08 00 00 00 00 0c 00 00 00 00 00 05 00"),
        (True, "20 00 00 00 08 00 00 00 01 0c 00 00 00 00 00 05 00"),
    ],
)
def test_the_record_of_a_marker_is_kafkas(committed: bool, record: str) -> None:
    batch = build_marker(1234, 7, committed=committed, coordinator_epoch=5, timestamp=1_700_000_000_000)

    assert batch[61:] == bytes.fromhex(record)


def test_a_marker_is_byte_for_byte_what_apache_kafka_wrote() -> None:
    written = bytes.fromhex(
        "000000000000000b0000004200000000027742cf0f003000000000000001a1e08053b0000001a1e08053b0"
        "00000000000000010000ffffffff000000012000000008000000000c00000000000000"
    )
    built = build_marker(1, 0, committed=False, coordinator_epoch=0, timestamp=1_794_767_868_848)

    assert place(built, 11, 0) == written


def test_a_marker_stands_anywhere_in_the_bytes() -> None:
    assert parse_marker(b"before" + MARKER, 6) == Marker(True, 5)


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    later = control(Record(b"\x00\x01\x00\x00\x00\x09more", b"\x00\x01\x00\x00more"))
    assert parse_marker(later) == Marker(False, 9)


def control(*records: Record) -> bytes:
    return build_batch(records, producer=Producer(4, 0), attributes=CONTROL)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x00"),  # a change of a quorum's leader
        (b"\xff\xff\x00\x01", b"\x00\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_a_control_record_of_another_kind_is_no_marker(key: bytes, value: bytes) -> None:
    with pytest.raises(InvalidBatch, match="is no marker of a transaction"):
        parse_marker(control(Record(value, key)))


@pytest.mark.parametrize(("key", "value"), [(None, b""), (b"\x00\x00\x00", b"\x00" * 6), (b"\x00" * 4, b"\x00" * 5)])
def test_a_marker_with_too_few_bytes_is_corrupt(key: bytes | None, value: bytes) -> None:
    with pytest.raises(CorruptBatch, match="a marker with a key of"):
        parse_marker(control(Record(value, key)))


def test_a_batch_of_records_is_no_marker() -> None:
    with pytest.raises(InvalidBatch, match="is no marker"):
        parse_marker(build_batch([Record(b"\x00" * 6, b"\x00" * 4)]))


def test_a_control_batch_of_two_records_is_no_marker() -> None:
    with pytest.raises(InvalidBatch, match="a batch of 2 records is no marker"):
        parse_marker(control(Record(b"\x00" * 6, b"\x00" * 4), Record(b"\x00" * 6, b"\x00" * 4)))


def test_a_marker_that_changed_on_its_way_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="checksum"):
        parse_marker(MARKER[:-2] + b"\x06\x00")


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidBatch, match="no coordinator epoch of 32 bits: 2147483648"):
        build_marker(1, 0, committed=True, coordinator_epoch=2**31, timestamp=1)
    with pytest.raises(InvalidBatch, match="producer_epoch = 32768"):
        build_marker(1, 2**15, committed=True, coordinator_epoch=0, timestamp=1)


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


markers = st.tuples(integers(64), integers(16), st.booleans(), integers(32), integers(64))


def built(producer_id: int, epoch: int, committed: bool, coordinator_epoch: int, timestamp: int) -> bytes:
    return build_marker(
        producer_id, epoch, committed=committed, coordinator_epoch=coordinator_epoch, timestamp=timestamp
    )


@given(markers)
def test_a_marker_is_the_batch_that_its_record_would_make(marker: tuple[int, int, bool, int, int]) -> None:
    producer_id, epoch, committed, coordinator_epoch, timestamp = marker
    record = Record(struct.pack(">hi", 0, coordinator_epoch), struct.pack(">hh", 0, committed), timestamp)
    batch = build_batch([record], producer=Producer(producer_id, epoch), attributes=TRANSACTIONAL | CONTROL)
    assert built(*marker) == batch


def said_by(batch: bytes, position: int) -> Marker | type[Exception]:
    try:
        return parse_marker(batch, position)
    except (CorruptBatch, InvalidBatch) as error:
        return type(error)


def said_by_its_record(batch: bytes, position: int) -> Marker | type[Exception]:
    try:
        records = records_of(batch, position)
        if not parse_header(batch, position).is_control or len(records) != 1:
            return InvalidBatch
        return marker_in(records[0])
    except (CorruptBatch, InvalidBatch) as error:
        return type(error)


@given(markers, st.binary(max_size=3), st.binary(max_size=3), st.data())
def test_a_marker_whose_bytes_changed_is_read_by_its_record(
    marker: tuple[int, int, bool, int, int], before: bytes, after: bytes, data: st.DataObject
) -> None:
    batch = bytearray(before + built(*marker) + after)
    for position in data.draw(st.lists(st.integers(0, len(batch) - 1), max_size=2)):
        batch[position] = data.draw(st.integers(0, 255))
    size = len(before) + 78
    if data.draw(st.booleans()) and len(batch) >= size:  # somebody built it so
        batch[len(before) + 17 : len(before) + 21] = struct.pack(">I", crc32c(batch[len(before) + 21 : size]))
    changed = bytes(batch[: data.draw(st.integers(0, len(batch)))]) if data.draw(st.booleans()) else bytes(batch)
    assert said_by(changed, len(before)) == said_by_its_record(changed, len(before))
