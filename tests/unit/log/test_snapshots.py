import pytest

from runnel.log.producers import Producers
from runnel.log.snapshots import newest_snapshot, remove_snapshots, snapshot_offsets, snapshot_path, write_snapshot
from runnel.records import Producer, Record, build_batch, parse_header
from runnel.testing import FaultyFiles
from tests.unit.log.stage import DATA, Stage, fill

FOLDER = "/orders-0"


def producers(sequence: int) -> Producers:
    known = Producers()
    known.replay(parse_header(build_batch([Record(b"tea")], producer=Producer(7, 0, sequence))), 0)
    return known


def folder_with(*offsets: int) -> FaultyFiles:
    files = FaultyFiles()
    files.make_directory(FOLDER)
    for offset in offsets:
        write_snapshot(files, FOLDER, offset, producers(offset))
    return files


def sequence_of(found: tuple[int, Producers] | None) -> tuple[int, int] | None:
    if found is None:
        return None
    state = found[1].get(7)
    assert state is not None
    return found[0], state.batches[-1].last_sequence


def test_a_snapshot_is_named_by_its_offset() -> None:
    assert snapshot_path(FOLDER, 1_042) == "/orders-0/00000000000000001042.snapshot"


@pytest.mark.parametrize(("end", "found"), [(5, None), (10, (10, 10)), (29, (10, 10)), (30, (30, 30)), (99, (30, 30))])
def test_the_newest_snapshot_that_is_not_after_the_end_is_used(end: int, found: tuple[int, int] | None) -> None:
    assert sequence_of(newest_snapshot(folder_with(30, 10), FOLDER, end)) == found


def test_an_older_snapshot_is_used_when_the_newest_is_broken(caplog: pytest.LogCaptureFixture) -> None:
    files = folder_with(10, 30)
    files.open(snapshot_path(FOLDER, 30)).write([b"?"], 20)

    assert sequence_of(newest_snapshot(files, FOLDER, 99)) == (10, 10)
    assert "using an older one" in caplog.text


def test_other_files_are_no_snapshots() -> None:
    files = folder_with(10)
    for name in ("x.snapshot", "00000000000000000020.log", "00000000000000000030.snapshot.tmp"):
        files.open(f"{FOLDER}/{name}", create=True)

    assert snapshot_offsets(files, FOLDER) == [10]


@pytest.mark.parametrize(
    ("which", "left"),
    [
        ({"keep": {10, 30}}, [10, 30]),
        ({"before": 20}, [20, 30]),
        ({"after": 20}, [10, 20]),
        ({"keep": {10, 30}, "after": 20}, [10]),
        ({}, [10, 20, 30]),
    ],
)
def test_snapshots_that_are_not_needed_are_removed(which: dict[str, object], left: list[int]) -> None:
    files = folder_with(10, 20, 30)
    remove_snapshots(files, FOLDER, **which)  # type: ignore[arg-type]

    assert snapshot_offsets(files, FOLDER) == left


def test_a_partition_keeps_a_snapshot_of_each_segment_and_of_the_last_checkpoint() -> None:
    stage = Stage()
    partition = stage.partition(segment_bytes=1_024)
    for _ in range(4):
        fill(partition, 5)
        stage.log.checkpoint()

    bases = [int(name[:20]) for name in stage.files.list(f"{DATA}/orders-0") if name.endswith(".log")]
    assert snapshot_offsets(stage.files, f"{DATA}/orders-0") == sorted({*bases, 20} - {0})
