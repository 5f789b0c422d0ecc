from typing import Any

import pytest

from runnel.errors import InvalidSetting
from runnel.log.compaction.planning import Plan, SealedSegment, planned
from runnel.settings import INT64_MAX, TopicSettings

NOW = 100_000


def sealed(*sizes: int, newest: int = 0, oldest: int = 0, damaged: int = -1) -> list[SealedSegment]:
    """Segments of ten offsets each."""
    return [
        SealedSegment(10 * number, 10 * number + 10, size, oldest, newest, number == damaged)
        for number, size in enumerate(sizes)
    ]


def plan(segments: list[SealedSegment], first_dirty: int = 0, stable: int = 10**6, **settings: Any) -> Plan:
    return planned(segments, first_dirty, stable, TopicSettings(**settings), NOW)


def test_all_sealed_segments_may_be_cleaned() -> None:
    assert plan(sealed(5, 6, 7)) == Plan(3, 0, 30, 0, 18, 0)


def test_without_a_sealed_segment_there_is_nothing_to_clean() -> None:
    assert plan([], first_dirty=4) == Plan(0, 4, 4, 0, 0, None)


def test_what_is_clean_is_told_from_what_is_dirty() -> None:
    found = plan(sealed(5, 6, 7), first_dirty=10)

    assert (found.clean_bytes, found.dirty_bytes) == (5, 13)
    assert found.dirty_ratio == 13 / 18


def test_a_segment_of_which_a_part_is_clean_counts_as_dirty() -> None:
    assert plan(sealed(5, 6), first_dirty=15).dirty_bytes == 6


@pytest.mark.parametrize(("stable", "segments"), [(30, 3), (29, 2), (20, 2), (10, 1), (9, 0)])
def test_an_open_transaction_holds_back_its_segment_and_all_behind_it(stable: int, segments: int) -> None:
    assert plan(sealed(5, 6, 7), stable=stable).segments == segments


def test_a_segment_with_a_record_inside_of_the_lag_is_not_cleaned() -> None:
    segments = sealed(5, newest=NOW - 500)

    assert plan(segments, min_compaction_lag_ms=500).segments == 1
    assert plan(segments, min_compaction_lag_ms=501).segments == 0


def test_a_clean_segment_is_not_too_young() -> None:
    assert plan(sealed(5, newest=NOW), first_dirty=10, min_compaction_lag_ms=500).segments == 1


def test_a_damaged_segment_stops_the_work() -> None:
    assert plan(sealed(5, 6, 7, damaged=1)).segments == 1


@pytest.mark.parametrize(("ratio", "due"), [(0.7, True), (0.75, True), (0.76, False)])
def test_the_dirty_ratio_decides(ratio: float, due: bool) -> None:
    settings = TopicSettings(min_cleanable_dirty_ratio=ratio)

    assert plan(sealed(1, 3), first_dirty=10).is_due(settings, NOW, None) is due


def test_nothing_dirty_is_not_due_whatever_the_ratio() -> None:
    settings = TopicSettings(min_cleanable_dirty_ratio=0.0)

    assert not plan(sealed(1, 3), first_dirty=20).is_due(settings, NOW, None)


@pytest.mark.parametrize(("lag", "due"), [(1_000, False), (999, True), (INT64_MAX, False)])
def test_the_longest_lag_decides_whatever_the_ratio(lag: int, due: bool) -> None:
    settings = TopicSettings(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=lag)

    assert plan(sealed(9, 1, oldest=NOW - 1_000), first_dirty=10).is_due(settings, NOW, None) is due


@pytest.mark.parametrize(("horizon", "due"), [(NOW, True), (NOW + 1, False), (None, False)])
def test_a_tombstone_that_may_go_is_reason_enough(horizon: int | None, due: bool) -> None:
    assert plan(sealed(1), first_dirty=10).is_due(TopicSettings(), NOW, horizon) is due


# --- the settings


def test_the_settings_are_kafkas() -> None:
    settings = TopicSettings.from_names(
        {
            "min.cleanable.dirty.ratio": "0.25",
            "min.compaction.lag.ms": "1",
            "max.compaction.lag.ms": "2",
            "delete.retention.ms": "3",
        }
    )

    assert settings == TopicSettings(
        min_cleanable_dirty_ratio=0.25, min_compaction_lag_ms=1, max_compaction_lag_ms=2, delete_retention_ms=3
    )


def test_the_defaults_are_kafkas() -> None:
    settings = TopicSettings()

    assert settings.min_cleanable_dirty_ratio == 0.5
    assert (settings.min_compaction_lag_ms, settings.max_compaction_lag_ms) == (0, INT64_MAX)
    assert settings.delete_retention_ms == 24 * 60 * 60 * 1_000


@pytest.mark.parametrize("ratio", ["-0.1", "1.1", "much", "nan"])
def test_a_ratio_is_between_0_and_1(ratio: str) -> None:
    with pytest.raises(InvalidSetting, match=r"min\.cleanable\.dirty\.ratio"):
        TopicSettings.from_names({"min.cleanable.dirty.ratio": ratio})


def test_a_ratio_is_a_number() -> None:
    with pytest.raises(InvalidSetting, match=r"min\.cleanable\.dirty\.ratio"):
        TopicSettings(min_cleanable_dirty_ratio=True)
