"""What a round keeps and what it drops, on a disk in memory and in one process."""

from collections.abc import Iterator
from typing import Any

import pytest

from runnel.errors import Closed
from runnel.files import read_file
from runnel.log import Record
from runnel.log.compaction import windows
from runnel.log.compaction.cleaning import grouped
from runnel.log.compaction.compactor import Compaction
from runnel.log.compaction.job import Answer, Job, Source
from runnel.log.compaction.rewriting import horizon_of
from runnel.log.compaction.workers import Workers
from runnel.records import Codec, Producer, build_batch
from runnel.settings import DAY, INT32_MAX
from tests.unit.log.compaction.table import FOLDER, end, headers, produce, put, ranges, shown, table
from tests.unit.log.data_directory import rechecked
from tests.unit.log.stage import DATA, Stage

# --- records


def test_of_every_key_the_newest_record_stays_at_its_offset() -> None:
    stage = Stage()
    partition = table(stage)
    put(partition, a="1", b="1", c="1")
    put(partition, a="2")
    put(partition, b="2", a="3")

    partition.compact()

    assert shown(partition) == {2: ("c", "1"), 4: ("b", "2"), 5: ("a", "3")}


def test_of_two_records_of_a_key_in_one_batch_the_last_one_stays() -> None:
    stage = Stage()
    partition = table(stage)
    partition.append([Record(b"1", b"a"), Record(b"2", b"a"), Record(b"3", b"a")])

    partition.compact()

    assert shown(partition) == {2: ("a", "3")}


def test_what_is_clean_gives_way_to_what_is_newer() -> None:
    stage = Stage()
    partition = table(stage)
    put(partition, a="1", b="1")
    partition.compact()
    put(partition, a="2")
    partition.compact()

    assert shown(partition) == {1: ("b", "1"), 2: ("a", "2")}


def test_records_without_a_key_are_dropped() -> None:
    stage = Stage()
    partition = table(stage)
    partition.append([Record(b"1", b"a"), Record(b"2"), Record(b"3", b"")])

    partition.compact()

    assert shown(partition) == {0: ("a", "1"), 2: ("", "3")}


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_keeps_its_codec(codec: Codec) -> None:
    stage = Stage()
    partition = table(stage)
    partition.append([Record(b"v" * 500, b"a"), Record(b"v" * 500, b"b")], codec=codec)
    partition.append([Record(b"w", b"a")], codec=codec)

    partition.compact()

    assert [header.codec for header in headers(stage.files)] == [codec, codec]
    assert list(shown(partition)) == [1, 2]


def test_the_end_of_the_log_stays_where_it_was() -> None:
    stage = Stage()
    partition = table(stage)
    put(partition, a="1")
    put(partition, a=None)

    partition.compact()
    stage.clock.advance(DAY)
    put(partition, b="1")
    partition.compact()
    stage.kill()

    partition = table(stage)
    assert (partition.end_offset, shown(partition)) == (3, {2: ("b", "1")})
    partition.append([Record(b"next", b"c")])
    assert list(shown(partition)) == [2, 3]


def test_the_answer_counts_what_was_there_and_what_is_left() -> None:
    stage = Stage()
    partition = table(stage)
    put(partition, a="1", b="1")
    put(partition, a="2")
    size = partition.size

    done = partition.compact()

    assert done == Compaction(0, 3, 3, 2, size, partition.size)
    assert partition.compact() == Compaction(3, 3)


def test_a_batch_that_nobody_can_read_is_left_as_it_is() -> None:
    stage = Stage()
    partition = table(stage)
    put(partition, a="1")
    raw = bytearray(build_batch([Record(b"2", b"a")], codec=Codec.ZSTD))
    raw[61:] = b"\x00" * (len(raw) - 61)

    partition.append_batch(rechecked(bytes(raw)))
    put(partition, b="1", a="3")

    done = partition.compact()

    assert done.unreadable_batches == 1
    assert [header.count for header in headers(stage.files)] == [0, 1, 2]


# --- tombstones


def test_a_tombstone_stays_until_its_horizon_and_then_goes() -> None:
    stage = Stage()
    partition = table(stage, delete_retention_ms=1_000)
    put(partition, a="1", b="1")
    put(partition, a=None)

    partition.compact()
    assert shown(partition) == {1: ("b", "1"), 2: ("a", None)}
    stage.clock.advance(999)
    partition.compact()
    assert shown(partition) == {1: ("b", "1"), 2: ("a", None)}
    stage.clock.advance(1)
    partition.compact()
    assert shown(partition) == {1: ("b", "1")}


def test_the_horizon_counts_from_the_first_round_that_meets_the_tombstone() -> None:
    stage = Stage()
    partition = table(stage, delete_retention_ms=1_000)
    put(partition, a=None)
    first = stage.clock.now()
    partition.compact()
    stage.clock.advance(600)
    put(partition, b="1")
    partition.compact()

    assert horizon_of(headers(stage.files)[0]) == first + 1_000
    assert [record.timestamp for record in partition.records()] == [1_000, 1_000]


def test_a_newer_value_takes_the_place_of_a_tombstone_at_once() -> None:
    stage = Stage()
    partition = table(stage)
    put(partition, a=None)
    partition.compact()
    put(partition, a="2")
    partition.compact()

    assert shown(partition) == {1: ("a", "2")}


def test_a_tombstone_is_due_though_nothing_is_dirty() -> None:
    stage = Stage()
    partition = table(stage, delete_retention_ms=1_000)
    put(partition, a=None, b="1")
    partition.compact()

    assert not partition.compaction_is_due(partition.compaction_plan())
    stage.clock.advance(1_000)
    assert partition.compaction_is_due(partition.compaction_plan())
    stage.kill()
    partition = table(stage, delete_retention_ms=1_000)
    assert partition.compaction_is_due(partition.compaction_plan())
    partition.compact()
    assert shown(partition) == {1: ("b", "1")}
    assert not partition.compaction_is_due(partition.compaction_plan())


# --- transactions


def test_records_of_an_aborted_transaction_are_dropped_and_hide_nothing() -> None:
    stage = Stage()
    partition = table(stage)
    put(partition, a="1")
    produce(partition, Producer(7, 0, 0), transaction=True, a="2", b="2")
    produce(partition, Producer(7, 0, 2), transaction=True, c="2")
    end(stage, partition, 7, committed=False)
    produce(partition, Producer(7, 0, 3), transaction=True, d="3")
    end(stage, partition, 7, committed=True)

    partition.compact()

    assert shown(partition) == {0: ("a", "1"), 5: ("d", "3")}


def test_nothing_is_cleaned_that_an_open_transaction_could_change() -> None:
    stage = Stage()
    partition = table(stage)
    put(partition, a="1")
    partition.roll()
    put(partition, a="2")
    produce(partition, Producer(7, 0, 0), transaction=True, a="3")
    put(partition, a="4")

    partition.compact()
    assert partition.cleaned_up_to == 1
    assert list(shown(partition)) == [0, 1, 2, 3]
    assert partition.dirty_since == 1_000

    end(stage, partition, 7, committed=True)
    partition.compact()
    assert list(shown(partition)) == [3]


def test_a_marker_outlives_its_data_by_a_round_and_the_horizon() -> None:
    stage = Stage(producer_expiration_ms=10 * DAY)
    partition = table(stage, delete_retention_ms=1_000)
    produce(partition, Producer(7, 0, 0), transaction=True, a="1")
    end(stage, partition, 7, committed=False)
    produce(partition, Producer(7, 0, 1), b="1")  # so that the last sequence stands elsewhere

    def markers() -> list[int | None]:
        return [horizon_of(header) for header in headers(stage.files) if header.is_control]

    partition.compact()
    assert markers() == [None]
    assert len(partition.aborted(0, 3)) == 1
    put(partition, c="1")
    partition.compact()
    assert markers() == [stage.clock.now() + 1_000]
    assert partition.aborted(0, 3) == []
    stage.clock.advance(1_000)
    partition.compact()
    assert markers() == []
    assert shown(partition) == {2: ("b", "1"), 3: ("c", "1")}


def test_a_marker_stays_as_long_as_committed_data_of_its_transaction_does() -> None:
    stage = Stage()
    partition = table(stage, delete_retention_ms=0)
    produce(partition, Producer(7, 0, 0), transaction=True, a="1")
    end(stage, partition, 7, committed=True)
    produce(partition, Producer(7, 0, 1), b="1")
    for value in "123":
        put(partition, c=value)
        partition.compact()

    assert [(header.base_offset, horizon_of(header)) for header in headers(stage.files) if header.is_control] == [
        (1, None)
    ]


def test_data_of_an_aborted_transaction_goes_from_the_clean_part_too() -> None:
    stage = Stage()
    partition = table(stage)
    produce(partition, Producer(7, 0, 0), transaction=True, a="1")
    end(stage, partition, 7, committed=False)
    produce(partition, Producer(7, 0, 1), b="1")
    partition.roll()
    stage.log._home.save_clean_offset(partition.id, 3, stage.clock.now())  # by the word of another program

    partition.compact()

    assert [header.count for header in headers(stage.files)] == [0, 1, 1]


def test_the_index_of_aborted_transactions_survives_a_restart() -> None:
    stage = Stage()
    partition = table(stage)
    produce(partition, Producer(7, 0, 0), transaction=True, a="1")
    end(stage, partition, 7, committed=False)
    partition.compact()
    expected = partition.aborted(0, 2)
    assert [(found.producer_id, found.first_offset, found.last_offset) for found in expected] == [(7, 0, 1)]

    stage.stop_and_start()
    assert table(stage).aborted(0, 2) == expected
    stage.kill()
    assert table(stage).aborted(0, 2) == expected


# --- producers


def test_a_batch_that_tells_a_producers_last_sequence_stays_without_its_records() -> None:
    stage = Stage()
    partition = table(stage)
    produce(partition, Producer(7, 0, 0), a="1")
    produce(partition, Producer(7, 0, 1), a="2", b="2")
    put(partition, a="3", b="3")
    partition.compact()

    assert ranges(stage.files) == [(0, 0, 0), (1, 2, 0), (3, 4, 2)]
    assert [header.producer_id for header in headers(stage.files)] == [-1, 7, -1]


def test_what_a_producer_sends_again_is_recognised_after_a_restart_without_snapshots() -> None:
    stage = Stage()
    partition = table(stage)
    batch = build_batch([Record(b"1", b"a"), Record(b"1", b"b")], producer=Producer(7, 0, 0))
    partition.append_batch(batch)
    put(partition, a="2", b="2")
    partition.compact()
    stage.files = stage.files.kill()
    for name in stage.files.list(FOLDER):
        if name.endswith(".snapshot"):
            stage.files.remove(f"{FOLDER}/{name}")
    stage.log = stage.open()

    appended = table(stage).append_batch(batch)

    assert (appended.base_offset, appended.duplicate) == (0, True)


def test_a_producer_that_has_expired_keeps_no_batch() -> None:
    stage = Stage(producer_expiration_ms=1_000)
    partition = table(stage)
    produce(partition, Producer(7, 0, 0), a="1")
    put(partition, a="2")
    stage.clock.advance(1_001)
    partition.expire_producers()

    partition.compact()

    assert ranges(stage.files) == [(0, 0, 0), (1, 1, 1)]
    assert headers(stage.files)[0].producer_id == -1


def test_the_last_marker_of_a_producer_without_data_keeps_its_epoch() -> None:
    stage = Stage()
    partition = table(stage, delete_retention_ms=0)
    produce(partition, Producer(7, 0, 0), transaction=True, a="1")
    end(stage, partition, 7, committed=False, epoch=1)
    for value in "123":
        put(partition, b=value)
        partition.compact()

    assert [header.producer_epoch for header in headers(stage.files) if header.is_control] == [1]


# --- segments


def test_small_segments_become_one() -> None:
    stage = Stage()
    partition = table(stage, segment_bytes=10_000)
    for number in range(5):
        put(partition, a=str(number), **{f"k{number}": "v"})
        partition.roll()

    partition.compact()

    names = sorted(name for name in stage.files.list(FOLDER) if name.endswith(".log"))
    assert names == ["00000000000000000000.log", "00000000000000000010.log"]
    assert list(shown(partition)) == [1, 3, 5, 7, 8, 9]


def test_a_group_is_as_large_as_a_segment_may_be() -> None:
    sources = tuple(Source(10 * number, 10 * number + 10, size) for number, size in enumerate([40, 60, 1, 100, 99, 1]))

    sizes = [[source.size for source in group] for group in grouped(sources, 100)]

    assert sizes == [[40, 60], [1], [100], [99, 1]]


def test_a_group_has_as_many_offsets_as_an_index_can_tell() -> None:
    sources = (Source(0, 5, 1), Source(5, INT32_MAX + 1, 1), Source(INT32_MAX + 1, INT32_MAX + 2, 1))

    assert [len(group) for group in grouped(sources, 100)] == [2, 1]


def test_a_segment_that_loses_nothing_is_not_touched() -> None:
    stage = Stage()
    partition = table(stage)
    put(partition, a="1", b="1")
    before = stage.count("rename", ".log")

    done = partition.compact()

    assert (done.records_before, done.records_after) == (2, 2)
    renamed = [line for line in stage.files.history if line.startswith("rename") and ".swap" in line]
    assert (renamed, stage.count("rename", ".log") - before) == ([], 2)  # of the new active segment, and of the draft
    assert not any(".cleaned" in name for name in stage.files.list(FOLDER))


def test_without_a_roll_the_active_segment_is_left_out() -> None:
    stage = Stage()
    partition = table(stage)
    put(partition, a="1")
    put(partition, a="2")

    assert partition.compact(roll=False) == Compaction(0, 0)
    assert list(shown(partition)) == [0, 1]


def test_the_clean_offset_is_kept_in_kafkas_format() -> None:
    stage = Stage()
    put(table(stage), a="1")
    table(stage).compact()

    assert read_file(stage.files, f"{DATA}/cleaner-offset-checkpoint") == b"0\n1\ntable 0 1\n"
    stage.kill()
    assert table(stage).cleaned_up_to == 1


def test_a_checkpoint_that_cannot_be_read_is_begun_anew() -> None:
    stage = Stage()
    put(table(stage), a="1")
    table(stage).compact()
    stage.log.close()
    stage.files.open(f"{DATA}/cleaner-offset-checkpoint").write([b"?"], 0)
    stage.log = stage.open()

    assert table(stage).cleaned_up_to == 0


def test_a_deleted_partition_leaves_no_trace_in_the_checkpoints() -> None:
    stage = Stage()
    put(table(stage), a=None)
    table(stage).compact()
    stage.log.delete("table")

    assert read_file(stage.files, f"{DATA}/cleaner-offset-checkpoint") == b"0\n0\n"
    assert read_file(stage.files, f"{DATA}/cleaner-horizon-checkpoint") == b"0\n0\n"
    assert table(stage).cleaned_up_to == 0


def test_keys_that_do_not_fit_are_cleaned_in_several_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW", 200)
    stage = Stage(cleaner_dedupe_buffer_bytes=1_024)  # nine keys or so
    partition = table(stage)
    for number in range(40):
        put(partition, **{f"key{number % 20}": str(number)})
    partition.roll()

    ends = []
    while partition.cleaned_up_to < 40:
        done = partition.compact()
        assert done.end_offset > done.first_offset, "every round comes further"
        ends.append(done.end_offset)
        assert set(range(20, 40)) <= set(shown(partition))

    assert len(ends) > 2
    assert list(shown(partition)) == list(range(20, 40))


def test_a_closed_partition_is_not_compacted() -> None:
    stage = Stage()
    partition = table(stage)
    stage.log.close()

    with pytest.raises(Closed):
        partition.compact()


@pytest.mark.parametrize("when", ["before the work", "after it"])
def test_a_topic_that_is_made_again_meanwhile_is_neither_damaged_nor_clean(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    partition = table(stage, segment_bytes=1_024)
    for number in range(20):
        partition.append([Record(b"v" * 100, b"%d" % number)])
    run = Workers.run

    def made_again() -> None:
        stage.log.delete("table")
        for number in range(6):
            put(table(stage), a=str(number))

    def with_a_new_one(workers: Workers, job: Job) -> Iterator[Answer]:
        if when == "before the work":
            made_again()
        yield from run(workers, job)
        if when == "after it":
            made_again()

    with monkeypatch.context() as patched:
        patched.setattr(Workers, "run", with_a_new_one)
        with pytest.raises(Closed):
            partition.compact()
    stage.stop_and_start()
    assert [*shown(table(stage)).values()] == [("a", str(number)) for number in range(6)]
    table(stage).compact()
    assert shown(table(stage)) == {5: ("a", "5")}


# --- the clock


def test_the_longest_lag_rolls_the_active_segment_without_an_append() -> None:
    stage = Stage()
    partition = table(stage, max_compaction_lag_ms=5_000)
    put(partition, a="1")

    stage.clock.advance(4_999)
    stage.log.maintain()
    assert partition.compaction_plan().segments == 0
    stage.clock.advance(1)
    stage.log.maintain()
    assert partition.compaction_plan().segments == 1


@pytest.mark.parametrize("settings", [{"cleanup_policy": "delete"}, {"max_compaction_lag_ms": 10**12}])
def test_without_such_a_lag_the_clock_does_not_roll(settings: dict[str, Any]) -> None:
    stage = Stage()
    partition = table(stage, **{"max_compaction_lag_ms": 5_000, **settings})
    put(partition, a="1")

    stage.clock.advance(6_000)
    stage.log.maintain()

    assert partition.compaction_plan().segments == 0


def test_a_lag_that_is_set_later_counts_from_the_first_record() -> None:
    stage = Stage()
    partition = table(stage)
    put(partition, a="1")
    stage.clock.advance(6_000)

    table(stage, max_compaction_lag_ms=5_000).roll_if_due()

    assert partition.compaction_plan().segments == 1


@pytest.mark.parametrize("ahead", [0, 10**9], ids=["in time", "by a producer whose clock is ahead"])
def test_a_value_is_off_the_disk_after_the_lag_and_one_round(ahead: int) -> None:
    stage = Stage(cleaner_backoff_ms=1_000)
    partition = table(stage, max_compaction_lag_ms=5_000, min_cleanable_dirty_ratio=1.0, delete_retention_ms=3_000)
    put(partition, b="clean")
    partition.compact()  # else all would be dirty, which is reason enough
    partition.append([Record(b"a secret", b"a", stage.clock.now() + ahead)])
    partition.append([Record(None, b"a", stage.clock.now() + ahead)])

    def on_disk(text: bytes) -> bool:
        return any(text in read_file(stage.files, f"{FOLDER}/{name}") for name in stage.files.list(FOLDER))

    assert on_disk(b"a secret")
    for _ in range(7):
        stage.clock.advance(1_000)
        stage.log.maintain()
    assert not on_disk(b"a secret")
    assert shown(partition) == {0: ("b", "clean"), 2: ("a", None)}
    for _ in range(2):
        stage.clock.advance(1_000)
        stage.log.maintain()
    assert shown(partition) == {0: ("b", "clean")}


def test_compact_and_delete_does_both() -> None:
    stage = Stage()
    partition = table(stage, cleanup_policy="compact,delete", retention_ms=10_000)
    partition.append([Record(b"1", b"a", stage.clock.now()), Record(b"1", b"b", stage.clock.now())])
    partition.append([Record(b"2", b"a", stage.clock.now())])
    partition.compact()
    assert list(shown(partition)) == [1, 2]

    stage.clock.advance(10_001)
    partition.apply_retention()
    assert (partition.start_offset, shown(partition)) == (3, {})
    put(partition, a="3")
    partition.compact()
    assert list(shown(partition)) == [3]
