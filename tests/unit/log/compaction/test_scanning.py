import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import CorruptBatch
from runnel.log.compaction.scanning import LONGEST_PLAIN, ends_of, keys_of, shifted, time_delta_of
from runnel.records import Record
from runnel.records.record import decode_records, encode_records

KEYS = st.one_of(st.none(), st.binary(max_size=30), st.sampled_from([b"k" * 63, b"k" * 64, b"k" * 9_000]))
RECORDS = st.lists(
    st.builds(
        Record,
        value=st.one_of(st.none(), st.binary(max_size=20), st.just(b"v" * 20_000)),
        key=KEYS,
        timestamp=st.integers(0, 2**62),
        headers=st.sampled_from([(), (("name", b"value"), ("none", None))]),
    ),
    max_size=8,
)


def scanned(body: bytes, count: int) -> tuple[list[int | None], list[int]]:
    keys: list[int | None] = []
    tombstones: list[int] = []
    keys_of(body, count, keys, tombstones)
    return keys, tombstones


@given(RECORDS)
def test_equal_keys_have_equal_numbers_and_others_have_others(records: list[Record]) -> None:
    keys, _ = scanned(encode_records(records, 0), len(records))

    assert [key is None for key in keys] == [record.key is None for record in records]
    for number, other in ((a, b) for a in range(len(records)) for b in range(a)):
        assert (keys[number] == keys[other]) == (records[number].key == records[other].key)


@given(RECORDS)
def test_a_tombstone_has_a_key_and_no_value(records: list[Record]) -> None:
    _, tombstones = scanned(encode_records(records, 0), len(records))

    expected = [number for number, r in enumerate(records) if r.key is not None and r.value is None]
    assert tombstones == expected


@given(RECORDS)
def test_a_record_can_be_cut_out(records: list[Record]) -> None:
    body = encode_records(records, 7)
    ends = ends_of(body, len(records))
    starts = [0, *ends[:-1]]

    for number, (start, end) in enumerate(zip(starts, ends, strict=False)):
        (found,) = decode_records(body[start:end], 1, 0, 7)
        assert found == records[number]._replace(offset=number)
        assert time_delta_of(body[start:end]) == records[number].timestamp - 7


@given(RECORDS, st.integers(-(2**40), 2**40))
def test_a_record_can_be_told_from_another_time(records: list[Record], shift: int) -> None:
    for record in records:
        body = encode_records([record], 7)
        assert decode_records(shifted(body, shift), 1, 0, 7 - shift) == decode_records(body, 1, 0, 7)


def test_keys_of_every_length_up_to_a_hundred_are_told_apart() -> None:
    records = [Record(b"v", b"\x00" * length) for length in range(100)]

    keys, _ = scanned(encode_records(records, 0), 100)

    assert len(set(keys)) == 100


def test_records_of_every_size_are_told_apart_where_their_lengths_take_another_byte() -> None:
    sizes = [*range(40, 80), *range(8_160, 8_210), 1_100_000]
    records = [Record(b"v" * size, b"key %d" % size) for size in sizes]
    body = encode_records(records, 0)

    keys, _ = scanned(body, len(records))
    ends = ends_of(body, len(records))

    assert len(set(keys)) == len(records)
    assert ends[-1] == len(body)
    for start, end, record in zip([0, *ends], ends, records, strict=False):
        assert decode_records(body[start:end], 1, 0, 0)[0].value == record.value


def test_the_number_of_a_long_key_is_not_much_larger_than_that_of_a_short_one() -> None:
    records = [Record(b"v", b"\xff" * length) for length in range(200)]

    keys, _ = scanned(encode_records(records, 0), len(records))

    assert max(key.bit_length() for key in keys if key is not None) <= 8 * (LONGEST_PLAIN + 1)


def test_tombstones_are_found_whatever_the_length_of_their_keys() -> None:
    records = [Record(None if length % 2 else b"v", b"k" * length) for length in range(200)]

    _, tombstones = scanned(encode_records(records, 0), len(records))

    assert tombstones == list(range(1, 200, 2))


def test_numbers_are_added_to_those_that_are_there() -> None:
    keys: list[int | None] = [None]
    tombstones: list[int] = []

    keys_of(encode_records([Record(None, b"k")], 0), 1, keys, tombstones)

    assert (len(keys), tombstones) == (2, [1])


@pytest.mark.parametrize("change", [-1, 1])
def test_bytes_that_are_no_records_are_refused(change: int) -> None:
    body = encode_records([Record(b"value", b"key")] * 3, 0)

    with pytest.raises(CorruptBatch):
        scanned(body, 3 + change)


@given(st.binary(max_size=60), st.integers(1, 5))
def test_garbage_is_refused_or_read_but_nothing_else_happens(body: bytes, count: int) -> None:
    try:
        keys, _ = scanned(body, count)
    except CorruptBatch:
        return
    assert len(keys) == count
