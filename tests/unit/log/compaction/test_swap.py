"""However far a swap came, opening goes on from there."""

import contextlib
import errno
import random

import pytest

from runnel.errors import Closed, CompactionFailed
from runnel.log import Partition, Record
from runnel.log.compaction.swap import finish_swaps
from runnel.testing import Crashed, FaultyFiles
from tests.unit.log.compaction.table import FOLDER, put, shown, table
from tests.unit.log.stage import Stage

CLEAN = {2: ("c", "1"), 3: ("b", "2"), 4: ("a", "3")}


def dirty(stage: Stage) -> Partition:
    partition = table(stage, segment_bytes=1_024, index_interval_bytes=0)
    put(partition, a="1", b="1", c="1")
    partition.roll()
    put(partition, b="2")
    partition.roll()
    put(partition, a="3")
    partition.roll()
    return partition


def states(files: FaultyFiles) -> set[str]:
    return {name.split(".")[1] for name in files.list(FOLDER) if name.count(".") == 2}


def stopped_at(operation: str) -> Stage:
    """A stage whose process dies in a compaction, before the first operation with this text after its work."""
    rehearsal = Stage()
    partition = dirty(rehearsal)
    before = rehearsal.files.operations
    partition.compact()
    history = rehearsal.files.history
    number = next(n for n in range(before, len(history)) if operation in history[n])
    stage = Stage()
    partition = dirty(stage)
    stage.files.crash_at = number + 1
    with pytest.raises(Crashed):
        partition.compact()
    return stage


@pytest.mark.parametrize(
    ("operation", "state"),
    [
        (".cleaned.log 2", {"cleaned"}),
        (".cleaned.log -> ", {"cleaned", "swap"}),
        ("remove /data/table-0/00000000000000000003.log", {"swap"}),
        (".swap.index -> ", {"swap"}),
        (".swap.log -> ", {"swap"}),
        ("cleaner-offset-checkpoint.tmp", set()),
    ],
)
def test_a_kill_in_a_swap_loses_nothing(operation: str, state: set[str]) -> None:
    stage = stopped_at(operation)
    stage.files = stage.files.kill()
    assert states(stage.files) == state

    stage.log = stage.open()

    assert states(stage.files) == set()
    assert stage.log.findings == []
    partition = table(stage)
    partition.compact()
    assert shown(partition) == CLEAN


def test_what_was_not_committed_is_thrown_away() -> None:
    stage = stopped_at(".cleaned.log -> ")
    stage.kill()

    assert list(shown(table(stage))) == [0, 1, 2, 3, 4]


def test_what_was_committed_is_finished() -> None:
    stage = stopped_at("remove /data/table-0/00000000000000000003.log")
    stage.kill()

    assert shown(table(stage)) == CLEAN
    assert sorted(name for name in stage.files.list(FOLDER) if name.endswith(".log")) == [
        "00000000000000000000.log",
        "00000000000000000005.log",
    ]


def test_when_the_log_is_renamed_no_old_file_can_come_back_and_no_index_be_missing() -> None:
    stage = Stage()
    dirty(stage).compact(roll=False)

    history = stage.files.history
    number = next(number for number, line in enumerate(history) if ".swap.log -> " in line)
    assert history[number - 1] == f"sync_directory {FOLDER}"
    assert history[number + 1] == f"sync_directory {FOLDER}"


def test_snapshots_from_inside_of_the_new_segment_are_removed() -> None:
    stage = Stage()
    dirty(stage).compact(roll=False)

    names = sorted(name for name in stage.files.list(FOLDER) if name.endswith(".snapshot"))
    assert names == ["00000000000000000005.snapshot"]


def test_an_index_that_was_not_renamed_in_time_is_used_all_the_same() -> None:
    stage = stopped_at("remove /data/table-0/00000000000000000003.log")
    files = stage.files.kill()
    files.rename(f"{FOLDER}/{0:020d}.swap.index", f"{FOLDER}/{0:020d}.cleaned.index")

    assert finish_swaps(files, FOLDER) == [0]
    assert files.exists(f"{FOLDER}/{0:020d}.index")


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_at_any_operation_leaves_the_old_or_the_new(seed: int) -> None:
    rehearsal = Stage()
    partition = dirty(rehearsal)
    before = rehearsal.files.operations
    partition.compact()
    for operation in range(before + 1, rehearsal.files.operations + 1):
        stage = Stage()
        partition = dirty(stage)
        stage.files.crash_at = operation
        with pytest.raises(Crashed):
            partition.compact()
        stage.files = stage.files.crash(random.Random(seed * 1_000 + operation))
        stage.log = stage.open()
        assert stage.log.findings == []
        found = shown(table(stage))
        assert {offset: found[offset] for offset in CLEAN} == CLEAN, rehearsal.files.history[operation - 1]
        assert states(stage.files) == set()


# --- readers


def test_who_holds_an_old_segment_reads_on() -> None:
    stage = Stage(tail_cache_bytes=0)
    partition = dirty(stage)
    old = list(partition._writer.segments)
    first = partition.read(0, 1)
    partition.compact()

    assert [segment.retired for segment in old] == [True, True, True, False]
    found = [first.next_offset]
    while found[-1] < partition.end_offset:
        found.append(partition.read(found[-1], 1).next_offset)
    assert found[-1] == 5
    assert not any(name.endswith(".damage") for name in stage.files.list(FOLDER))


def test_a_read_that_finds_the_files_of_its_segment_changed_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tail_cache_bytes=0)
    partition = dirty(stage)
    segments = partition._reader._segments
    holding = type(segments).holding
    compacted = False

    def compact_in_between(self: object, offset: int) -> object:
        nonlocal compacted
        segment = holding(segments, offset)
        if not compacted:
            compacted = True
            partition.compact()
        return segment

    monkeypatch.setattr(type(segments), "holding", compact_in_between)
    read = partition.read(3, 1)

    assert compacted
    assert read.next_offset == 4
    assert not any(name.endswith(".damage") for name in stage.files.list(FOLDER))


def test_a_search_that_finds_a_segment_gone_looks_again() -> None:
    stage = Stage(tail_cache_bytes=0)
    partition = dirty(stage)
    segments = partition._reader._segments
    old = segments._all
    partition.compact()
    new = segments._all
    calls = iter([old, new, new, new])

    class Changing(type(segments)):  # type: ignore[misc]
        @property
        def _all(self) -> object:
            return next(calls, new)

    changing = partition._reader._segments = Changing.__new__(Changing)
    changing._gone = None
    found = partition.find_time(1_000)
    assert found is not None
    assert found.offset == 2  # the first ones are gone


def test_records_in_memory_are_forgotten_with_those_on_the_disk() -> None:
    stage = Stage()
    partition = dirty(stage)
    assert partition.read_in_memory(0) is not None

    partition.compact()

    assert partition.read_in_memory(0) is None
    assert shown(partition) == CLEAN


# --- a disk that fails


OPERATIONS = ["write", "sync", "create", "rename", "sync_directory", "truncate", "remove", "open", "read", "list"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_failing_disk_harms_nothing_and_the_next_round_goes_on(operation: str) -> None:
    for after in range(50):
        stage = Stage()
        partition = dirty(stage)
        stage.files.fail(operation, "", errno.EIO, after=after)
        with contextlib.suppress(OSError, CompactionFailed):
            partition.compact(roll=False)
        stage.files.heal()
        found = shown(partition)
        assert {offset: found[offset] for offset in CLEAN} == CLEAN
        put(partition, d="1")

        partition.compact()

        assert shown(partition) == {**CLEAN, 5: ("d", "1")}
        assert states(stage.files) == set()
        stage.kill()
        assert shown(table(stage)) == {**CLEAN, 5: ("d", "1")}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_crash_after_a_failure_of_the_disk_harms_nothing(operation: str) -> None:
    for after in range(50):
        stage = Stage()
        partition = dirty(stage)
        stage.files.fail(operation, "", errno.EIO, after=after)
        with contextlib.suppress(OSError, CompactionFailed):
            partition.compact(roll=False)
        stage.lose_power(after)
        found = shown(table(stage))
        assert {offset: found[offset] for offset in CLEAN} == CLEAN
        assert stage.log.findings == []


def test_segments_that_are_deleted_meanwhile_are_not_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    partition = dirty(stage)
    run = stage.log._home.workers.run

    def deleting(job: object) -> object:
        answers = list(run(job))  # type: ignore[arg-type]
        partition.delete_before(3)
        yield from answers

    monkeypatch.setattr(stage.log._home.workers, "run", deleting)
    with pytest.raises(CompactionFailed, match="deleted meanwhile"):
        partition.compact(roll=False)

    assert (partition.start_offset, list(shown(partition))) == (3, [3, 4])
    assert states(stage.files) == set()


def test_segments_that_are_deleted_while_they_are_read_are_no_missing_files(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    partition = dirty(stage)
    run = stage.log._home.workers.run

    def deleting(job: object) -> object:
        partition.delete_before(3)
        yield from run(job)  # type: ignore[arg-type]

    monkeypatch.setattr(stage.log._home.workers, "run", deleting)
    with pytest.raises(CompactionFailed, match="deleted meanwhile"):
        partition.compact(roll=False)

    assert (partition.start_offset, list(shown(partition))) == (3, [3, 4])


def test_a_partition_that_is_deleted_while_it_is_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    partition = dirty(stage)
    run = stage.log._home.workers.run

    def deleting(job: object) -> object:
        stage.log.delete("table")
        yield from run(job)  # type: ignore[arg-type]

    monkeypatch.setattr(stage.log._home.workers, "run", deleting)
    with pytest.raises(Closed):
        partition.compact(roll=False)


def test_damage_is_quarantined_and_what_is_before_it_is_compacted() -> None:
    stage = Stage(tail_cache_bytes=0)
    partition = table(stage)
    put(partition, a="1")
    put(partition, a="2")
    partition.roll()
    put(partition, a="3")
    partition.roll()
    path = f"{FOLDER}/{2:020d}.log"
    stage.files.open(path).write([b"?"], 65)

    with pytest.raises(CompactionFailed, match=r"00000000000000000002\.log is damaged at position 0"):
        partition.compact()
    assert stage.files.exists(f"{FOLDER}/{2:020d}.damage")
    done = partition.compact()

    assert done.end_offset == 2
    assert [record.offset for record in partition._reader.records_in(partition.read(0))] == [1]


def test_bytes_that_a_failed_write_has_left_are_not_taken_for_records() -> None:
    stage = Stage()
    partition = table(stage)
    put(partition, a="1", b="1")
    stage.files.fail("sync", ".log")
    with pytest.raises(Exception, match="a sync"):
        partition.append([Record(b"lost", b"b")])
    stage.files.heal()
    partition.heal()
    put(partition, a="2")

    partition.compact()

    assert shown(partition) == {1: ("b", "1"), 2: ("a", "2")}
