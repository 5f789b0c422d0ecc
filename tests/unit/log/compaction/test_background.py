"""Compaction by the clock."""

import threading
from pathlib import Path

import pytest

from runnel.errors import CompactionFailed
from runnel.log import LogSettings, Partition, TopicSettings, open_log
from runnel.log.compaction.compactor import Compaction
from tests.unit.log.compaction.table import put, shown, table
from tests.unit.log.stage import Stage


def dirty(stage: Stage, topic: str, clean: int, more: int) -> Partition:
    """A topic with so many clean records and so many that are not, and an empty active segment."""
    partition = stage.partition(topic, cleanup_policy="compact", min_cleanable_dirty_ratio=0.5)
    for number in range(clean):
        put(partition, **{f"clean{number}": "v"})
    partition.compact()
    for number in range(more):
        put(partition, **{f"dirty{number}": "v"})
    partition.roll()
    return partition


@pytest.fixture
def compacted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics that are compacted, in order."""
    found: list[str] = []
    compact = Partition.compact

    def noted(self: Partition, *, roll: bool = True) -> Compaction:
        found.append(self.id.topic)
        return compact(self, roll=roll)

    monkeypatch.setattr(Partition, "compact", noted)
    return found


def test_the_dirtiest_comes_first_and_one_at_a_time(compacted: list[str]) -> None:
    stage = Stage(cleaner_backoff_ms=1_000)
    dirty(stage, "half", 5, 6)
    dirty(stage, "most", 5, 50)
    dirty(stage, "hardly", 50, 5)
    del compacted[:]

    for _ in range(4):
        stage.clock.advance(1_000)
        stage.log.maintain()

    assert compacted == ["most", "half"]


def test_it_looks_only_every_so_often(compacted: list[str]) -> None:
    stage = Stage(cleaner_backoff_ms=1_000)
    dirty(stage, "most", 0, 5)
    del compacted[:]

    stage.clock.advance(999)
    stage.log.maintain()
    assert compacted == []
    stage.clock.advance(1)
    stage.log.maintain()
    assert compacted == ["most"]


def test_a_topic_that_only_deletes_is_not_compacted(compacted: list[str]) -> None:
    stage = Stage(cleaner_backoff_ms=0)
    partition = table(stage, cleanup_policy="delete")
    put(partition, a="1")
    put(partition, a="2")
    partition.roll()

    stage.log.maintain()

    assert compacted == []
    assert list(shown(partition)) == [0, 1]


def test_a_failure_is_told_and_waited_for_longer_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(cleaner_backoff_ms=1_000)
    partition = table(stage, min_cleanable_dirty_ratio=0.0)
    put(partition, a="1")
    partition.roll()
    tried: list[int] = []

    def failing(self: Partition, *, roll: bool = True) -> Compaction:
        tried.append(stage.clock.elapsed() // 1_000)
        raise CompactionFailed("table-0", "it is ill")

    monkeypatch.setattr(Partition, "compact", failing)
    for _ in range(20):
        stage.clock.advance(1_000)
        stage.log.maintain()

    assert tried == [1, 2, 4, 8, 16]
    assert "compaction of partition table-0 failed: it is ill" in caplog.text


def test_a_defect_does_not_end_all_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(cleaner_backoff_ms=1_000)
    partition = table(stage, min_cleanable_dirty_ratio=0.0)
    put(partition, a="1")
    put(partition, a="2")
    partition.roll()
    with monkeypatch.context() as patch:
        patch.setattr(Partition, "compact", lambda *_, **__: 1 / 0)
        stage.clock.advance(1_000)
        stage.log.maintain()
    stage.clock.advance(1_000)
    stage.log.maintain()

    assert list(shown(partition)) == [1]


def test_it_runs_in_a_thread_beside_the_log(tmp_path: Path) -> None:
    settings = LogSettings(low_disk_bytes=0, cleaner_backoff_ms=0)
    with open_log(tmp_path / "data", settings=settings) as log:
        partition = log.partition("table", 0, TopicSettings(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0))
        put(partition, a="1")
        put(partition, a="2")
        partition.roll()
        waiting = threading.Event()
        for _ in range(6_000):
            if partition.cleaned_up_to == 2:
                break
            waiting.wait(0.01)

        assert list(shown(partition)) == [1]
