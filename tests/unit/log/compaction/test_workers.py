"""The real process on the real disk."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runnel.errors import Closed, CompactionFailed
from runnel.log import Log, LogSettings, Partition, TopicSettings, open_log
from runnel.log.compaction import workers
from runnel.log.compaction.worker import LOWEST, ORPHANED
from tests.unit.log.compaction.table import put, shown

LIMIT = 60


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with open_log(tmp_path / "data", settings=LogSettings(low_disk_bytes=0), background=False) as log:
        yield log


def dirty(log: Log) -> Partition:
    partition = log.partition("table", 0, TopicSettings(cleanup_policy="compact", segment_bytes=1_024))
    for number in range(100):
        put(partition, **{f"key{number % 5}": f"{number:060}"})
    return partition


def test_a_process_of_its_own_compacts(log: Log) -> None:
    partition = dirty(log)

    done = partition.compact()

    assert (done.records_before, done.records_after, done.end_offset) == (100, 5, 100)
    assert list(shown(partition)) == [95, 96, 97, 98, 99]
    assert not any(".cleaned" in name or ".swap" in name for name in os.listdir(f"{log.path}/table-0"))


def test_what_it_has_done_is_there_after_a_restart(tmp_path: Path) -> None:
    settings = LogSettings(low_disk_bytes=0)
    with open_log(tmp_path / "data", settings=settings, background=False) as log:
        dirty(log).compact()
    with open_log(tmp_path / "data", settings=settings, background=False) as log:
        partition = log.partition("table")
        assert list(shown(partition)) == [95, 96, 97, 98, 99]
        assert partition.cleaned_up_to == 100


def test_it_has_the_lowest_priority_and_ends_with_its_owner(log: Log) -> None:
    partition = dirty(log)
    partition.roll()
    segments = list(partition._writer.segments)[:-1]
    job = partition._compactor._job(partition.compaction_plan(), segments, partition._aborted)
    process = subprocess.Popen(workers.COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stdin is not None
    process.stdin.write(replace(job, cpu_percent=1).to_json() + "\n")  # it will rest for long
    process.stdin.flush()
    waiting = threading.Event()
    for _ in range(LIMIT * 100):
        if os.getpriority(os.PRIO_PROCESS, process.pid) == LOWEST:
            break
        waiting.wait(0.01)
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == LOWEST
    assert process.poll() is None
    process.stdin.close()

    assert process.wait(LIMIT) == ORPHANED


def test_a_worker_that_fails_says_why_and_changes_nothing(log: Log) -> None:
    partition = dirty(log)
    partition.roll()
    os.rename(f"{log.path}/table-0/{0:020d}.log", f"{log.path}/hidden")
    with pytest.raises(CompactionFailed, match=r"compaction of partition table-0 failed: it ended with 1: .*No such"):
        partition.compact()
    os.rename(f"{log.path}/hidden", f"{log.path}/table-0/{0:020d}.log")

    assert partition.cleaned_up_to == 0
    assert len(shown(partition)) == 100
    assert partition.compact().records_after == 5


def test_a_worker_that_talks_nonsense_is_ended(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "COMMAND", ("sh", "-c", "read job; echo hello; exec sleep 600"))

    with pytest.raises(CompactionFailed, match="no answer of a compaction: 'hello"):
        dirty(log).compact()


def test_a_worker_that_ends_too_early_is_noticed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "COMMAND", ("sh", "-c", "read job"))

    with pytest.raises(CompactionFailed, match="ended too early"):
        dirty(log).compact()


def test_a_worker_that_is_killed_is_noticed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "COMMAND", ("sh", "-c", "read job; kill -9 $$"))

    with pytest.raises(CompactionFailed, match=f"it ended with -{int(signal.SIGKILL)}"):
        dirty(log).compact()


def test_a_segment_that_is_not_what_the_worker_says_is_not_taken(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "Cleaned": {
            "base_offset": 0, "next_offset": 12, "size": 5, "bytes_before": 1, "records_before": 1, "records_after": 1,
            "horizon": None, "unchanged": False,
        }
    }  # fmt: skip
    script = f"read job; echo 1234 > {log.path}/table-0/{0:020d}.cleaned.log; echo 12 >> {log.path}/table-0/{0:020d}"
    monkeypatch.setattr(workers, "COMMAND", ("sh", "-c", f"{script}.cleaned.log; echo '{json.dumps(told)}'"))
    partition = dirty(log)

    with pytest.raises(CompactionFailed, match="has not the size"):
        partition.compact()
    assert len(shown(partition)) == 100


def test_closing_the_log_ends_a_worker_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tmp_path / "started"
    monkeypatch.setattr(workers, "COMMAND", ("sh", "-c", f"read job; echo $$ > {started}; exec sleep 600"))
    log = open_log(tmp_path / "data", settings=LogSettings(low_disk_bytes=0), background=False)
    partition = dirty(log)
    raised: list[BaseException] = []

    def compact() -> None:
        try:
            partition.compact()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=compact)
    thread.start()
    waiting = threading.Event()
    for _ in range(LIMIT * 100):
        if started.exists() and started.read_text():
            break
        waiting.wait(0.01)
    log.close()
    thread.join(LIMIT)

    assert not thread.is_alive()
    assert [type(error) for error in raised] == [Closed]
    assert open_log(tmp_path / "data", background=False).was_clean
