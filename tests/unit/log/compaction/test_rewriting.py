import pytest

from runnel.log.compaction.newest import DEAD, LIVE, TOMBSTONE
from runnel.log.compaction.rewriting import emptied, filler, horizon_of, rewritten, stretched, with_horizon
from runnel.records import (
    Codec,
    Producer,
    Record,
    build_batch,
    build_marker,
    parse_header,
    parse_marker,
    records_of,
    validate,
    with_append_time,
)
from runnel.records.batch import DELETE_HORIZON
from runnel.settings import INT64_MAX

RECORDS = [
    Record(b"one", b"a", 50_000, (("h", b"1"),)),
    Record(None, b"b", 70_000),
    Record(b"three", b"c", 60_000),
]
PRODUCER = Producer(7, 1, 100)
HORIZON = 10**12


def batch(codec: Codec = Codec.NONE) -> bytes:
    return build_batch(RECORDS, base_offset=10, leader_epoch=3, codec=codec, producer=PRODUCER)


def left(raw: bytes, *fates: int) -> bytes:
    header, built = rewritten(parse_header(raw), raw, bytes(fates), HORIZON)
    assert header[:4] == validate(built)[:4]
    assert header[5:] == validate(built)[5:]
    return built


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_loses_nothing_is_the_same_bytes(codec: Codec) -> None:
    raw = batch(codec)

    assert left(raw, LIVE, LIVE, LIVE) is raw


@pytest.mark.parametrize("codec", list(Codec))
def test_the_records_that_stay_are_as_they_were_at_their_offsets(codec: Codec) -> None:
    built = left(batch(codec), LIVE, DEAD, LIVE)

    assert records_of(built) == [RECORDS[0]._replace(offset=10), RECORDS[2]._replace(offset=12)]
    assert parse_header(built).codec is codec


def test_offsets_producer_and_epoch_of_the_batch_stay() -> None:
    old, new = parse_header(batch()), parse_header(left(batch(), DEAD, DEAD, LIVE))

    assert (new.base_offset, new.last_offset, new.count) == (10, 12, 1)
    assert (new.leader_epoch, new.producer_id, new.producer_epoch) == (3, 7, 1)
    assert (new.base_sequence, new.last_sequence) == (old.base_sequence, old.last_sequence)


def test_the_largest_time_is_that_of_the_records_that_stay() -> None:
    assert parse_header(left(batch(), LIVE, DEAD, LIVE)).max_timestamp == 60_000


def test_the_time_of_the_log_stays() -> None:
    built = left(with_append_time(batch(), 99_000), LIVE, DEAD, DEAD)

    assert [record.timestamp for record in records_of(built)] == [99_000]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_tombstone_gets_a_horizon_and_the_records_keep_their_times(codec: Codec) -> None:
    built = left(batch(codec), DEAD, TOMBSTONE, LIVE)

    header = parse_header(built)
    assert horizon_of(header) == header.base_timestamp == HORIZON
    assert records_of(built) == [RECORDS[1]._replace(offset=11), RECORDS[2]._replace(offset=12)]
    assert header.max_timestamp == 70_000


def test_a_horizon_is_set_also_if_no_record_is_lost() -> None:
    built = left(batch(), LIVE, TOMBSTONE, LIVE)

    assert horizon_of(parse_header(built)) == HORIZON
    assert [record._replace(offset=-1) for record in records_of(built)] == RECORDS


def test_a_horizon_is_set_once() -> None:
    first = left(batch(), LIVE, TOMBSTONE, LIVE)

    assert rewritten(parse_header(first), first, bytes([LIVE, TOMBSTONE, LIVE]), HORIZON + 1)[1] is first
    _, second = rewritten(parse_header(first), first, bytes([DEAD, TOMBSTONE, LIVE]), HORIZON + 1)
    assert horizon_of(parse_header(second)) == HORIZON


def test_a_time_that_cannot_be_told_from_the_horizon_is_left_without_one() -> None:
    raw = build_batch([Record(None, b"k", -(2**63))])

    assert records_of(left(raw, TOMBSTONE)) == [Record(None, b"k", -(2**63), (), 0)]
    assert horizon_of(parse_header(left(raw, TOMBSTONE))) is None


def test_a_horizon_beyond_all_time_is_none() -> None:
    raw = build_batch([Record(None, b"k", 5)])

    header, _ = rewritten(parse_header(raw), raw, bytes([TOMBSTONE]), INT64_MAX + 1)
    assert horizon_of(header) is None


def test_a_marker_with_a_horizon_says_what_it_said() -> None:
    marker = build_marker(7, 1, committed=False, coordinator_epoch=4, timestamp=50_000)

    header, built = with_horizon(parse_header(marker), marker, HORIZON)

    assert horizon_of(validate(built)) == horizon_of(header) == HORIZON
    assert parse_marker(built) == parse_marker(marker)
    assert records_of(built) == records_of(marker)


def test_an_emptied_batch_tells_the_last_sequence_and_no_time() -> None:
    old = parse_header(batch(Codec.ZSTD))

    header, built = emptied(old)

    assert validate(built).count == header.count == len(records_of(built)) == 0
    assert len(built) == 61
    assert (header.base_offset, header.last_offset, header.last_sequence) == (10, 12, old.last_sequence)
    assert (header.max_timestamp, header.attributes & DELETE_HORIZON) == (-1, 0)


def test_a_filler_is_empty_and_nobodys() -> None:
    header, built = filler(5, 9, 3)

    assert (header.base_offset, header.last_offset, header.leader_epoch) == (5, 9, 3)
    assert (validate(built).producer_id, records_of(built), len(built)) == (-1, [], 61)


def test_a_stretched_batch_has_the_same_records_and_no_producer() -> None:
    header, built = stretched(parse_header(batch()), batch(), 40)

    assert (header.base_offset, header.last_offset) == (10, 40)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert validate(built).last_offset == 40
    assert records_of(built) == records_of(batch())
