import threading
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from runnel.errors import DamagedLog, OffsetOutOfRange, UnreadableRecords
from runnel.log import LogSettings, Partition, Record, open_log
from runnel.records import CONTROL, batches_of, build_batch, records_of
from runnel.settings import MIB
from tests.unit.log.stage import DATA, Stage, batch, fill, offsets, segment_path

ANYWHERE = pytest.mark.parametrize("cache", [0, 64 * 1024], ids=["from the disk", "from memory"])


def stage_with(batches: int, *, records: int = 1, cache: int = 0, size: int = 100, **settings: Any) -> Stage:
    stage = Stage(tail_cache_bytes=cache)
    fill(stage.partition(**settings), batches, records=records, size=size)
    return stage


def bases(partition: Partition, offset: int, max_bytes: int = 10**6) -> list[int]:
    return [header.base_offset for _, header in batches_of(partition.read(offset, max_bytes).data)]


# --- by offset


@ANYWHERE
def test_a_read_begins_with_the_batch_that_holds_the_offset(cache: int) -> None:
    partition = stage_with(4, records=3, cache=cache).partition()

    assert [bases(partition, offset)[0] for offset in range(12)] == [0, 0, 0, 3, 3, 3, 6, 6, 6, 9, 9, 9]


@ANYWHERE
def test_a_read_says_where_to_read_on(cache: int) -> None:
    partition = stage_with(4, records=3, cache=cache).partition()

    assert partition.read(4, max_bytes=1).next_offset == 6


@ANYWHERE
@pytest.mark.parametrize("max_bytes", [0, 1, 500])
def test_a_read_gets_one_batch_even_if_it_is_larger_than_asked_for(cache: int, max_bytes: int) -> None:
    partition = stage_with(3, cache=cache, size=20_000).partition()

    assert bases(partition, 1, max_bytes) == [1]


@ANYWHERE
def test_a_read_gets_no_more_bytes_than_it_asked_for(cache: int) -> None:
    partition = stage_with(20, cache=cache).partition()
    one = len(partition.read(0, max_bytes=1).data)

    assert bases(partition, 5, 3 * one) == [5, 6, 7]
    assert bases(partition, 5, 3 * one - 1) == [5, 6]


def test_a_large_batch_before_the_offset_does_not_raise_what_a_read_may_get() -> None:
    stage = Stage(tail_cache_bytes=0)
    partition = stage.partition()
    partition.append([Record(bytes(50_000))])
    fill(partition, 200)
    one = len(partition.read(5, max_bytes=1).data)

    assert bases(partition, 1, 2 * one) == [1, 2]


@ANYWHERE
def test_a_read_at_the_end_is_empty(cache: int) -> None:
    partition = stage_with(3, cache=cache).partition()
    found = partition.read(3)

    assert (bytes(found.data), found.next_offset) == (b"", 3)


@ANYWHERE
@pytest.mark.parametrize("offset", [-1, 3, 8, 100])
def test_a_read_outside_of_the_log_says_what_there_is(cache: int, offset: int) -> None:
    stage = stage_with(7, cache=cache)
    partition = stage.partition()
    partition.delete_before(4)
    with pytest.raises(OffsetOutOfRange) as refused:
        partition.read(offset)
    error = refused.value
    assert (error.partition, error.offset, error.start, error.end) == ("orders-0", offset, 4, 7)


def test_reads_go_on_over_segments() -> None:
    partition = stage_with(50, segment_bytes=1_024).partition()

    assert offsets(partition) == list(range(50))


@pytest.mark.parametrize("offset", [0, 1, 17, 49])
def test_records_begin_with_the_offset(offset: int) -> None:
    partition = stage_with(17, records=3, segment_bytes=1_024).partition()

    assert offsets(partition, offset) == list(range(offset, 51))


def test_reading_on_leads_through_the_log_without_a_gap() -> None:
    partition = stage_with(300, index_interval_bytes=300, segment_bytes=8_000).partition()
    offset, seen = 0, []
    while offset < 300:
        found = partition.read(offset, max_bytes=1_000)
        seen += [record.offset for at, _ in batches_of(found.data) for record in records_of(found.data, at)]
        offset = found.next_offset

    assert seen == list(range(300))


def test_many_readers_at_other_places_do_not_disturb_each_other() -> None:
    partition = stage_with(60).partition()
    readers = [iter(partition.records(start)) for start in range(0, 60, 3)]
    seen: list[list[int]] = [[] for _ in readers]
    for _ in range(60):
        for reader, mine in zip(readers, seen, strict=True):
            mine += [record.offset for record in [next(reader, None)] if record is not None]

    assert seen == [list(range(start, 60)) for start in range(0, 60, 3)]


def test_markers_are_left_out_of_the_records() -> None:
    stage = Stage(tail_cache_bytes=0)
    partition = stage.partition()
    partition.append([Record(b"tea")])
    partition.submit_marker(7, 0, committed=True, coordinator_epoch=0)
    partition.append([Record(b"milk")])

    assert [(record.offset, record.value) for record in partition.records()] == [(0, b"tea"), (2, b"milk")]


def test_a_bit_that_makes_a_batch_a_marker_is_noticed() -> None:
    stage = stage_with(3)
    partition = stage.partition()
    position = len(partition.read(0, max_bytes=1).data)
    file = stage.files.open(f"{DATA}/{segment_path(partition, 0)}")
    attributes = position + 22
    file.write([bytes([file.read(1, attributes)[0] | CONTROL])], attributes)

    with pytest.raises(DamagedLog) as damaged:
        list(partition.records())
    assert damaged.value.first_offset == 1


@pytest.mark.parametrize("offset", [0, 1, 5, 9])
def test_who_reads_before_or_behind_a_damage_does_not_hear_of_it(offset: int) -> None:
    stage = stage_with(10, index_interval_bytes=10**6)
    partition = stage.partition()
    size = len(partition.read(0, max_bytes=1).data)
    for number in (2, 4):
        stage.files.open(f"{DATA}/{segment_path(partition, 0)}").write([b"?"], number * size + 16)

    assert bases(partition, offset, 1) == [offset]


# --- while others write and delete


def test_a_reader_goes_on_in_a_segment_that_was_deleted() -> None:
    stage = stage_with(30, segment_bytes=2_000)
    partition = stage.partition()
    reader = iter(partition.records())
    seen = [next(reader).offset for _ in range(3)]
    first_left = next(base for base in bases_of_segments(stage) if base > 3)
    partition.delete_before(first_left)

    seen += [record.offset for record in reader]

    assert seen == list(range(30))


def bases_of_segments(stage: Stage) -> list[int]:
    return sorted(int(name[:20]) for name in stage.files.list(f"{DATA}/orders-0") if name.endswith(".log"))


def test_a_reader_whose_next_records_were_deleted_is_told() -> None:
    stage = stage_with(30, segment_bytes=1_024)
    partition = stage.partition()
    reader = iter(partition.records())
    next(reader)
    partition.delete_before(25)

    with pytest.raises(OffsetOutOfRange):
        list(reader)


def test_a_segment_that_disappears_while_it_is_opened_is_out_of_range() -> None:
    stage = stage_with(30, segment_bytes=1_024)
    stage.stop_and_start()
    partition = stage.partition()
    kept_open = partition.start_offset
    assert kept_open == 0
    deleting = stage.files.open

    def delete_first(path: str, *, create: bool = False) -> object:
        stage.files.open = deleting  # type: ignore[method-assign]
        partition.delete_before(25)
        return deleting(path, create=create)

    stage.files.open = delete_first  # type: ignore[method-assign, assignment]
    with pytest.raises(OffsetOutOfRange) as refused:
        partition.read(2)
    assert (refused.value.offset, refused.value.start) == (2, 25)


def test_a_time_lookup_whose_segment_disappears_finds_what_is_left() -> None:
    stage = stage_with(30, segment_bytes=1_024)
    stage.stop_and_start()
    partition = stage.partition()
    deleting = stage.files.open

    def delete_first(path: str, *, create: bool = False) -> object:
        stage.files.open = deleting  # type: ignore[method-assign]
        partition.delete_before(25)
        return deleting(path, create=create)

    stage.files.open = delete_first  # type: ignore[method-assign, assignment]
    found = partition.find_time(0)

    assert found is not None
    assert found.offset == 25


def test_long_reads_while_others_write_see_every_record_once(tmp_path: Path) -> None:
    count = 300
    with open_log(tmp_path / "data") as log:
        partition = log.partition("orders")
        seen: list[list[int]] = [[] for _ in range(3)]

        def follow(mine: list[int]) -> None:
            for record in partition.follow():
                mine.append(record.offset)
                if len(mine) == count:
                    return

        readers = [threading.Thread(target=follow, args=(mine,)) for mine in seen]
        for reader in readers:
            reader.start()
        for number in range(count):
            append = partition.submit(batch(b"%d" % number))
        append.result(60)
        for reader in readers:
            reader.join(60)

    assert seen == [list(range(count))] * 3


def test_following_ends_when_the_log_is_closed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "data")
    partition = log.partition("orders")
    partition.append([Record(b"tea")])
    seen: list[bytes | None] = []
    first = threading.Event()

    def follow() -> None:
        for record in partition.follow():
            seen.append(record.value)
            first.set()

    reader = threading.Thread(target=follow)
    reader.start()
    assert first.wait(60)
    log.close()
    reader.join(60)

    assert not reader.is_alive()
    assert seen == [b"tea"]


def test_following_ends_when_nothing_comes(tmp_path: Path) -> None:
    with open_log(tmp_path / "data") as log:
        partition = log.partition("orders")
        partition.append([Record(b"tea")])

        assert [record.value for record in partition.follow(idle=0)] == [b"tea"]


def test_waiting_for_what_is_there_returns_at_once() -> None:
    partition = stage_with(3).partition()

    assert partition.wait_beyond(2, timeout=0)
    assert not partition.wait_beyond(3, timeout=0)


# --- by time


def stage_at(*batches: list[int], **settings: Any) -> Stage:
    """One batch for each list of timestamps."""
    stage = Stage(tail_cache_bytes=0)
    partition = stage.partition(**settings)
    for times in batches:
        partition.append_batch(build_batch([Record(b"." * 100, None, time) for time in times]))
    return stage


def offset_at(partition: Partition, timestamp: int) -> int | None:
    record = partition.find_time(timestamp)
    return record.offset if record else None


def test_a_time_is_found_inside_of_a_batch() -> None:
    partition = stage_at([10, 20, 30], [40, 50]).partition()

    assert [offset_at(partition, time) for time in (5, 10, 11, 20, 30, 31, 50)] == [0, 0, 1, 1, 2, 3, 4]


def test_no_record_at_or_after_a_time_is_none() -> None:
    assert stage_at([10, 20]).partition().find_time(21) is None


def test_an_empty_partition_has_no_times() -> None:
    partition = Stage().partition()

    assert partition.find_time(0) is None
    assert partition.find_largest_time() is None


def test_the_first_record_that_reaches_a_time_is_found_in_disorder() -> None:
    partition = stage_at([50], [10], [90, 20], [30], [80]).partition()

    assert [offset_at(partition, time) for time in (1, 50, 51, 81, 90)] == [0, 0, 2, 2, 2]


@pytest.mark.parametrize("interval", [0, 250, 10**6])
def test_times_in_disorder_are_found_with_any_index(interval: int) -> None:
    times = [(number * 7919) % 1_000 for number in range(200)]
    stage = stage_at(*([time] for time in times), index_interval_bytes=interval, segment_bytes=4_000)
    stage.stop_and_start()
    partition = stage.partition()
    for asked in range(0, 1_001, 37):
        expected = next((offset for offset, time in enumerate(times) if time >= asked), None)
        assert offset_at(partition, asked) == expected


def test_records_that_were_deleted_are_not_found_by_time() -> None:
    partition = stage_at([10, 20, 30], [40]).partition()
    partition.delete_before(1)

    assert offset_at(partition, 0) == 1


def test_records_without_a_time_are_stepped_over() -> None:
    partition = stage_at([-1], [-1], [30]).partition()

    assert offset_at(partition, 0) == 2


def test_times_are_found_over_segments() -> None:
    partition = stage_at(*([time] for time in range(0, 500, 10)), segment_bytes=1_024).partition()

    assert [offset_at(partition, time) for time in range(0, 500, 10)] == list(range(50))


def test_the_logs_own_time_is_found_where_it_is_kept() -> None:
    stage = Stage(tail_cache_bytes=0)
    partition = stage.partition(message_timestamp_type="LogAppendTime")
    start = stage.clock.now()
    for _ in range(3):
        partition.append_batch(build_batch([Record(b"tea", None, 5), Record(b"milk", None, 6)]))
        stage.clock.advance(1_000)

    assert [offset_at(partition, start + late) for late in (-1, 0, 1, 1_000, 2_000, 2_001)] == [0, 0, 2, 2, 4, None]


@pytest.mark.parametrize(
    ("batches", "offset"),
    [([[10], [90], [20]], 1), ([[10, 90, 90], [90]], 1), ([[5]], 0), ([[-1], [-1]], None)],
)
def test_the_largest_time_is_that_of_the_first_record_that_has_it(batches: list[list[int]], offset: int | None) -> None:
    record = stage_at(*batches).partition().find_largest_time()

    assert (record.offset if record else None) == offset


def test_the_largest_time_is_that_of_the_records_that_are_left() -> None:
    partition = stage_at([90, 10], [30], segment_bytes=1_024).partition()
    partition.delete_before(1)
    record = partition.find_largest_time()

    assert record is not None
    assert record.offset == 2


def lying_batch() -> bytes:
    """A batch with a right checksum whose records are none, as a faulty client may send it."""
    whole = bytearray(build_batch([Record(b"tea", timestamp=5)]))
    whole[-1] ^= 0xFF  # the number of headers
    whole[17:21] = crc32c(bytes(whole[21:])).to_bytes(4, "big")
    return bytes(whole)


@pytest.mark.parametrize("tail_cache_bytes", [0, MIB])
def test_a_batch_that_its_producer_built_wrongly_is_no_damage(tmp_path: Path, tail_cache_bytes: int) -> None:
    with open_log(tmp_path / "data", settings=LogSettings(tail_cache_bytes=tail_cache_bytes)) as log:
        partition = log.partition("orders")
        partition.append([Record(b"before", timestamp=1)])
        partition.append_batch(lying_batch())
        partition.append([Record(b"after", timestamp=9)])
        with pytest.raises(UnreadableRecords) as caught:
            list(partition.records())

        assert (caught.value.first_offset, caught.value.next_offset) == (1, 2)
        assert [record.value for record in partition.records(2)] == [b"after"]
        assert partition.find_time(5) == Record(b"after", timestamp=9, offset=2)
        assert not list((tmp_path / "data" / "orders-0").glob("*.damage"))
