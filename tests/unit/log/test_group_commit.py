import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runnel.errors import Closed, PartitionFailed
from runnel.files import DiskFile, DiskFiles
from runnel.log import Appended, Record, TopicSettings, open_log
from runnel.log.appends import Append
from runnel.log.group_commit import GroupCommit
from runnel.records import Producer, build_batch
from runnel.testing import FaultyFiles
from tests.unit.log.stage import Stage, batch, fill, value_at

PATIENCE = 60


# --- one sync for many


def test_appends_that_wait_together_share_one_sync() -> None:
    stage = Stage()
    partition = stage.partition()
    appends = [partition.submit(batch(b"%d" % number)) for number in range(100)]
    before = stage.count("sync", ".log")
    stage.log.commit()

    assert stage.count("sync", ".log") == before + 1
    assert [append.result(timeout=0).base_offset for append in appends] == list(range(100))


def test_appends_that_wait_together_share_one_write() -> None:
    stage = Stage()
    partition = stage.partition()
    for number in range(100):
        partition.submit(batch(b"%d" % number))
    before = stage.count("write", ".log")
    stage.log.commit()

    assert stage.count("write", ".log") == before + 1


def test_a_round_syncs_each_partition_that_was_written_once() -> None:
    stage = Stage()
    partitions = [stage.partition(topic) for topic in ("a", "b", "c")]
    for partition in partitions[:2] * 10:
        partition.submit(batch(b"tea"))
    stage.log.commit()

    assert [stage.count("sync", f"{topic}-0/00000000000000000000.log") for topic in "abc"] == [1, 1, 0]


def test_a_round_with_nothing_to_do_touches_no_disk() -> None:
    stage = Stage()
    fill(stage.partition(), 1)
    before = stage.files.operations
    stage.log.commit()

    assert stage.files.operations == before


def test_a_blocking_append_runs_its_own_round() -> None:
    stage = Stage()
    partition = stage.partition()
    before = stage.count("sync", ".log")

    assert partition.append_batch(batch(b"tea")).base_offset == 0
    assert stage.count("sync", ".log") == before + 1


def test_a_blocking_append_takes_along_what_waits_in_other_partitions() -> None:
    stage = Stage()
    waiting = stage.partition("other").submit(batch(b"milk"))
    stage.partition().append_batch(batch(b"tea"))

    assert waiting.result(timeout=0).base_offset == 0


def test_appends_of_one_partition_keep_their_order_whoever_commits_them() -> None:
    stage = Stage()
    partition = stage.partition()
    partition.submit(batch(b"first"))
    partition.append_batch(batch(b"second"))
    partition.submit(batch(b"third"))
    stage.log.commit()

    assert [record.value for record in partition.records()] == [b"first", b"second", b"third"]


# --- what readers see


def test_nothing_is_seen_before_its_round() -> None:
    stage = Stage()
    partition = stage.partition()
    append = partition.submit(batch(b"tea"))

    assert not append.done
    assert partition.end_offset == 0
    assert list(partition.records()) == []


def test_the_end_that_readers_see_has_moved_when_the_answer_comes() -> None:
    stage = Stage()
    partition = stage.partition()
    ends: list[int] = []
    partition.submit(batch(b"tea", b"milk")).when_done(lambda _: ends.append(partition.end_offset))
    stage.log.commit()

    assert ends == [2]


def test_watchers_are_told_of_each_round_once() -> None:
    stage = Stage()
    partition = stage.partition()
    told: list[int] = []
    with partition.watched(lambda: told.append(partition.end_offset)):
        for _ in range(3):
            partition.submit(batch(b"tea"))
        stage.log.commit()
        partition.append_batch(batch(b"tea"))
    partition.append_batch(batch(b"tea"))

    assert told == [3, 4]


def test_a_watcher_that_fails_does_not_keep_the_writer_from_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    partition = stage.partition()

    def fail() -> None:
        raise RuntimeError("no time for this")

    with partition.watched(fail):
        assert partition.append_batch(batch(b"tea")).base_offset == 0
    assert not partition.failed
    assert "no time for this" in caplog.text


def test_a_callback_that_fails_does_not_keep_others_from_their_answer() -> None:
    stage = Stage()
    partition = stage.partition()

    def fail(append: Append) -> None:
        raise RuntimeError("no time for this")

    partition.submit(batch(b"tea")).when_done(fail)
    later = partition.submit(batch(b"milk"))
    stage.log.commit()

    assert later.result(timeout=0).base_offset == 1
    assert not partition.failed


# --- relaxed topics


def test_a_relaxed_append_is_answered_and_seen_without_a_sync() -> None:
    stage = Stage()
    partition = stage.partition(flush_ms=1_000)
    before = stage.count("sync", ".log")

    assert partition.append_batch(batch(b"tea")).base_offset == 0
    assert stage.count("sync", ".log") == before
    assert [record.value for record in partition.records()] == [b"tea"]
    assert partition.synced_offset == 0


def test_a_relaxed_topic_is_synced_after_so_many_records() -> None:
    stage = Stage()
    partition = stage.partition(flush_messages=5)
    partition.append_batch(batch(b"1", b"2"))
    partition.append_batch(batch(b"3", b"4"))
    assert partition.synced_offset == 0

    partition.append_batch(batch(b"5"))

    assert partition.synced_offset == 5


def test_a_relaxed_topic_is_synced_in_the_first_round_after_its_time() -> None:
    stage = Stage()
    partition = stage.partition(flush_ms=1_000)
    partition.append_batch(batch(b"tea"))
    stage.clock.advance(999)
    stage.log.commit()
    assert partition.synced_offset == 0

    stage.clock.advance(1)
    stage.log.commit()

    assert partition.synced_offset == 1


def test_the_time_of_a_relaxed_topic_counts_from_its_first_unsynced_record() -> None:
    stage = Stage()
    partition = stage.partition(flush_ms=1_000)
    for _ in range(3):
        partition.append_batch(batch(b"tea"))
        stage.clock.advance(400)
    stage.log.commit()

    assert partition.synced_offset == 3


def test_a_relaxed_topic_that_was_synced_by_count_is_not_synced_again_by_time() -> None:
    stage = Stage()
    partition = stage.partition(flush_messages=1_000, flush_ms=500)
    partition.append_batch(batch(b"tea"))
    partition.settings = TopicSettings()
    partition.append_batch(batch(b"milk"))
    before = stage.count("sync", ".log")
    stage.clock.advance(10_000)
    stage.log.commit()

    assert stage.count("sync", ".log") == before


@pytest.mark.parametrize("settings", [{"flush_messages": 1}, {"flush_ms": 0}])
def test_a_topic_that_flushes_at_once_is_not_relaxed(settings: dict[str, Any]) -> None:
    stage = Stage()
    partition = stage.partition(**settings)
    partition.append_batch(batch(b"tea"))

    assert partition.synced_offset == 1


class AnnouncedFile(DiskFile):
    """A file that tells when it is synced."""

    __slots__ = ("synced",)
    synced: threading.Event

    def sync(self) -> None:
        super().sync()
        self.synced.set()


class AnnouncedFiles(DiskFiles):
    def __init__(self) -> None:
        self.segment_synced = threading.Event()

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        if not path.endswith(".log"):
            return super().open(path, create=create)
        file = AnnouncedFile(path, os.O_RDWR)
        file.synced = self.segment_synced
        return file


def test_the_background_syncs_a_relaxed_topic_when_its_time_has_come(tmp_path: Path) -> None:
    files = AnnouncedFiles()
    with open_log(tmp_path / "data", files=files) as log:
        log.partition("orders", 0, TopicSettings(flush_ms=1)).append_batch(batch(b"tea"))

        assert files.segment_synced.wait(PATIENCE)


def test_a_relaxed_topic_in_the_last_round_starts_no_thread() -> None:
    before = set(threading.enumerate())
    stage = Stage()
    writer = stage.partition(flush_ms=3_600_000)._writer
    commits = GroupCommit(stage.clock, 1, background=True)
    append = writer.submit(batch(b"tea"))
    commits.enlist(writer, wake=False)
    commits.close()

    assert append.done
    assert set(threading.enumerate()) == before


# --- duplicates


def test_a_duplicate_waits_for_the_sync_of_the_first_one() -> None:
    stage = Stage()
    partition = stage.partition()
    sent = batch(b"tea", producer=Producer(7, 0, 0))
    first, again = partition.submit(sent), partition.submit(sent)
    assert not again.done

    stage.log.commit()

    assert first.result(timeout=0).duplicate is False
    assert again.result(timeout=0) == first.appended._replace(duplicate=True)
    assert stage.count("sync", ".log") == 1


def test_a_duplicate_of_what_is_synced_needs_no_sync() -> None:
    stage = Stage()
    partition = stage.partition()
    sent = batch(b"tea", producer=Producer(7, 0, 0))
    partition.append_batch(sent)
    before = stage.files.operations

    assert partition.append_batch(sent).duplicate
    assert stage.files.operations == before


def test_a_duplicate_is_lost_with_the_first_one() -> None:
    stage = Stage()
    partition = stage.partition()
    sent = batch(b"tea", producer=Producer(7, 0, 0))
    appends = [partition.submit(sent), partition.submit(sent)]
    stage.files.fail("sync", ".log")
    stage.log.commit()

    assert [type(append.error) for append in appends] == [PartitionFailed, PartitionFailed]


# --- partitions apart


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failing_partition_does_not_disturb_the_others_of_its_round(operation: str) -> None:
    stage = Stage()
    ill, well = stage.partition("ill"), stage.partition("well")
    stage.files.fail(operation, "ill-0/00000000000000000000.log")
    lost, kept = ill.submit(batch(b"tea")), well.submit(batch(b"tea"))
    stage.log.commit()

    assert kept.result(timeout=0).base_offset == 0
    with pytest.raises(PartitionFailed):
        lost.result(timeout=0)


def test_partitions_are_synced_side_by_side_and_each_hears_of_its_own_failure() -> None:
    stage = Stage(sync_workers=4)
    partitions = [stage.partition(f"p{number}") for number in range(8)]
    stage.files.fail("sync", "p3-0/00000000000000000000.log", errno.ENOSPC)
    appends = [partition.submit(batch(b"tea")) for partition in partitions]
    stage.log.commit()

    assert [append.error is not None for append in appends] == [number == 3 for number in range(8)]


# --- many threads


def test_appends_of_many_threads_all_land_once(tmp_path: Path) -> None:
    threads, count = 16, 25
    with open_log(tmp_path / "data") as log:
        partitions = [log.partition("orders", number) for number in range(3)]
        answers: list[tuple[int, int, bytes]] = []

        def write(thread: int) -> None:
            for number in range(count):
                value = b"%d-%d" % (thread, number)
                which = (thread + number) % len(partitions)
                appended = partitions[which].append([Record(value)])
                answers.append((which, appended.base_offset, value))

        run_all(threads, write)
        held = [
            (which, record.offset, record.value)
            for which, partition in enumerate(partitions)
            for record in partition.records()
        ]
        assert sorted(answers) == held


def test_submits_of_many_threads_all_land_once(tmp_path: Path) -> None:
    threads, count = 8, 200
    with open_log(tmp_path / "data") as log:
        partition = log.partition("orders")
        appends: list[list[Append]] = [[] for _ in range(threads)]

        def write(thread: int) -> None:
            for number in range(count):
                appends[thread].append(partition.submit(batch(b"%d-%d" % (thread, number))))

        run_all(threads, write)
        answers = [[append.result(PATIENCE).base_offset for append in mine] for mine in appends]
        assert sorted(offset for mine in answers for offset in mine) == list(range(threads * count))
        assert all(mine == sorted(mine) for mine in answers), "a thread's appends keep their order"
        values = [record.value for record in partition.records()]
        assert all(
            values[offset] == b"%d-%d" % (thread, number)
            for thread, mine in enumerate(answers)
            for number, offset in enumerate(mine)
        )


def run_all(threads: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def run(thread: int) -> None:
        try:
            work(thread)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    assert failures == []


# --- the end


def test_closing_commits_what_waits() -> None:
    stage = Stage()
    append = stage.partition().submit(batch(b"tea"))
    stage.log.close()

    assert append.result(timeout=0) == Appended(0, 0, -1, 0)


def test_a_closed_partition_refuses_writes() -> None:
    stage = Stage()
    partition = stage.partition()
    stage.log.close()

    with pytest.raises(Closed, match="partition orders-0 is closed"):
        partition.append_batch(batch(b"tea"))


def test_appends_that_race_with_closing_are_answered(tmp_path: Path) -> None:
    log = open_log(tmp_path / "data")
    partition = log.partition("orders")
    started = threading.Event()
    kept: list[int] = []

    def write() -> None:
        while True:
            try:
                kept.append(partition.append([Record(b"tea")]).base_offset)
            except Closed:
                return
            started.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert started.wait(PATIENCE)
    log.close()
    writer.join(PATIENCE)

    assert not writer.is_alive()
    with open_log(tmp_path / "data", background=False) as log:
        assert log.was_clean
        assert [record.offset for record in log.partition("orders").records()] == kept


def test_a_power_cut_after_the_answers_takes_none_of_them() -> None:
    stage = Stage(files=FaultyFiles())
    partition = stage.partition()
    for number in range(20):
        partition.submit(build_batch([Record(value_at(number))]))
    stage.log.commit()
    stage.lose_power(seed=5)

    assert [record.value for record in stage.partition().records()] == [value_at(number) for number in range(20)]
