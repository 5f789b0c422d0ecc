from typing import Any

import pytest

from runnel.log.retention import SegmentFacts, expired
from runnel.settings import TopicSettings
from tests.unit.log.stage import DATA, Stage, batch, fill, offsets

NOW = 100_000


def count(*segments: tuple[int, int], retention_ms: int = -1, retention_bytes: int = -1) -> int:
    """How many of these segments, each a size and the time of its newest record, are to go."""
    settings = TopicSettings(retention_ms=retention_ms, retention_bytes=retention_bytes)
    return expired([SegmentFacts(*segment) for segment in segments], settings, NOW)


# --- the decision


def test_without_a_limit_nothing_goes() -> None:
    assert count((10**12, 0), (10**12, 0)) == 0


@pytest.mark.parametrize(("policy", "gone"), [("compact", 0), ("", 0), ("compact,delete", 2), ("delete", 2)])
def test_only_the_policy_to_delete_deletes(policy: str, gone: int) -> None:
    settings = TopicSettings.from_names({"cleanup.policy": policy, "retention.ms": 1, "retention.bytes": 0})

    assert expired([SegmentFacts(10, 0), SegmentFacts(10, 0)], settings, NOW) == gone


def test_a_segment_goes_when_its_newest_record_is_too_old() -> None:
    assert count((10, NOW - 501), (10, NOW - 500), retention_ms=500) == 1


def test_all_may_be_too_old() -> None:
    assert count((10, 0), (10, 1), retention_ms=500) == 2


def test_a_young_segment_protects_the_older_ones_behind_it() -> None:
    assert count((10, NOW), (10, 0), retention_ms=500) == 0


def test_a_time_in_the_future_is_not_too_old() -> None:
    assert count((10, NOW + 10**9), retention_ms=0) == 0


@pytest.mark.parametrize(("limit", "gone"), [(30, 0), (25, 0), (20, 1), (11, 1), (10, 2), (1, 2), (0, 3)])
def test_a_segment_goes_only_if_enough_is_left_without_it(limit: int, gone: int) -> None:
    assert count((10, NOW), (10, NOW), (10, NOW), retention_bytes=limit) == gone


def test_the_stricter_of_both_limits_decides() -> None:
    segments = [(10, 0), (10, NOW), (10, NOW)]

    assert count(*segments, retention_ms=500, retention_bytes=10) == 2
    assert count(*segments, retention_ms=500, retention_bytes=30) == 1


# --- what happens then


def stage_with_segments(**settings: Any) -> Stage:
    """Segments from offsets 0, 8 and 16, a minute apart."""
    stage = Stage()
    partition = stage.partition(**settings)
    for _ in range(3):
        fill(partition, 8)
        stage.clock.advance(60_000)
        partition.roll()
    return stage


def bases(stage: Stage) -> list[int]:
    return sorted(int(name[:20]) for name in stage.files.list(f"{DATA}/orders-0") if name.endswith(".log"))


def test_old_segments_are_deleted_with_all_their_files() -> None:
    stage = stage_with_segments(retention_ms=119_999)
    assert bases(stage) == [0, 8, 16, 24]

    assert stage.partition().apply_retention() == 2

    left = {name[:20] for name in stage.files.list(f"{DATA}/orders-0") if name[0] == "0"}
    assert left == {f"{base:020d}" for base in (16, 24)}


def test_the_start_moves_to_the_first_record_that_is_left() -> None:
    stage = stage_with_segments(retention_ms=119_999)
    partition = stage.partition()
    partition.apply_retention()

    assert partition.start_offset == 16
    assert offsets(partition) == list(range(16, 24))


def test_segments_are_deleted_until_the_partition_is_small_enough() -> None:
    stage = stage_with_segments(retention_ms=-1)
    partition = stage.partition()
    partition.settings = TopicSettings(retention_ms=-1, retention_bytes=partition.size // 3)

    assert partition.apply_retention() == 2
    assert partition.start_offset == 16


def test_the_active_segment_is_rolled_and_deleted_when_it_is_too_old() -> None:
    stage = Stage()
    partition = stage.partition(retention_ms=1_000)
    fill(partition, 5)
    stage.clock.advance(1_001)

    assert partition.apply_retention() == 1
    assert (partition.start_offset, partition.end_offset, bases(stage)) == (5, 5, [5])
    fill(partition, 1)
    assert offsets(partition) == [5]


def test_retention_without_limits_keeps_everything() -> None:
    stage = stage_with_segments(retention_ms=-1, retention_bytes=-1)
    stage.clock.advance(10**12)

    assert stage.partition().apply_retention() == 0
    assert stage.partition().start_offset == 0


def test_records_without_a_time_are_as_old_as_their_file() -> None:
    stage = Stage()
    partition = stage.partition(retention_ms=1_000)
    partition.append_batch(batch(b"tea"))
    stage.clock.advance(1_000)
    assert partition.apply_retention() == 0

    stage.clock.advance(1)

    assert partition.apply_retention() == 1


def test_the_new_start_is_durable() -> None:
    stage = stage_with_segments(retention_ms=119_999)
    stage.partition().apply_retention()
    stage.lose_power(seed=3)

    assert stage.partition().start_offset == 16


def test_a_failed_partition_deletes_nothing() -> None:
    stage = stage_with_segments(retention_ms=119_999)
    partition = stage.partition()
    partition.submit(batch(b"tea"))
    stage.files.fail("sync", ".log")
    stage.log.commit()

    assert partition.apply_retention() == 0
    assert offsets(partition) == list(range(24))


def test_maintenance_applies_retention_in_its_time() -> None:
    stage = Stage(retention_check_ms=5_000)
    partition = stage.partition(retention_ms=1_000)
    fill(partition, 5)
    stage.clock.advance(4_999)
    stage.log.maintain()
    assert partition.start_offset == 0

    stage.clock.advance(1)
    stage.log.maintain()

    assert partition.start_offset == 5


def test_a_partition_whose_settings_nobody_gave_is_left_alone() -> None:
    stage = Stage(retention_check_ms=1)
    fill(stage.partition(retention_ms=-1), 5)
    stage.kill()
    stage.clock.advance(10**12)
    stage.log.maintain()

    assert stage.partition(retention_ms=-1).start_offset == 0
