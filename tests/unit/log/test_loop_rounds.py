"""Rounds that an event loop runs: on a disk in memory, whose syncs are answered when the test says so."""

import asyncio
import errno
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from runnel.errors import PartitionFailed
from runnel.files import DiskFiles
from runnel.log import Log, LogSettings, TopicSettings, group_commit, loop_rounds, open_log
from runnel.log.appends import Append
from runnel.log.loop_rounds import MOST_BYTES
from runnel.log.writer import Writer
from runnel.records import TRANSACTIONAL, Producer, Record, build_batch
from runnel.testing import Crashed, FaultyFiles
from tests.threaded_syncs import ThreadedSyncs
from tests.turned_loop import TurnedLoop
from tests.unit.log.loop_stage import HeldFiles, HeldSyncs, LoopStage
from tests.unit.log.stage import batch, fill

PATIENCE = 60


# --- a round


def test_what_is_submitted_in_one_turn_of_the_loop_is_one_round() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    writes, syncs = stage.count("write", "orders-0/"), stage.count("sync", "orders-0/")
    appends = [partition.submit(batch(b"%d" % number)) for number in range(3)]
    assert stage.count("write", "orders-0/") == writes

    stage.loop.turn()
    assert stage.count("write", "orders-0/") == writes + 1
    stage.answer()

    assert [append.result(timeout=0).base_offset for append in appends] == [1, 2, 3]
    assert stage.count("write", "orders-0/") == writes + 1
    assert stage.count("sync", "orders-0/") == syncs + 1


def test_nothing_is_seen_or_answered_before_the_sync_is() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    append = partition.submit(batch(b"tea"))
    stage.loop.turn_until_idle()

    assert not append.done
    assert partition.end_offset == 1
    stage.answer()
    assert append.done
    assert partition.end_offset == 2


def test_what_comes_during_a_round_is_the_next_one() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    first = partition.submit(batch(b"tea"))
    stage.loop.turn_until_idle()
    second = partition.submit(batch(b"milk"))
    stage.loop.turn_until_idle()
    writes = stage.count("write", "orders-0/")
    stage.held.given.released = True
    next(iter(stage.loop.readers.values()))()
    stage.loop.turn()

    assert (first.done, second.done) == (True, False)
    assert stage.count("write", "orders-0/") == writes + 1, "it began when a turn brought nothing more"
    stage.answer()
    assert second.result(timeout=0).base_offset == 2


@pytest.mark.parametrize(("seconds", "writes"), [(60.0, 1), (-1.0, 2)])
def test_the_next_round_takes_along_what_each_turn_brings_for_a_while(
    monkeypatch: pytest.MonkeyPatch, seconds: float, writes: int
) -> None:
    monkeypatch.setattr(loop_rounds, "GATHERING_SECONDS", seconds)
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    appends = [partition.submit(batch(b"tea"))]
    stage.loop.turn_until_idle()
    appends.append(partition.submit(batch(b"milk")))
    before = stage.count("write", "orders-0/")
    stage.held.given.released = True
    next(iter(stage.loop.readers.values()))()
    stage.held.given.released = False
    for value in (b"sugar", b"lemon"):
        appends.append(partition.submit(batch(value)))
        stage.loop.turn()
    for _ in range(writes):  # the end of one round begins the next, which may not be watched
        stage.answer()

    assert [append.result(timeout=0).base_offset for append in appends] == [1, 2, 3, 4]
    assert stage.count("write", "orders-0/") == before + writes


def test_a_batch_of_a_transaction_waits_for_another_look_at_the_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its producer sends those for the other partitions right behind it, in requests of their own."""
    monkeypatch.setattr(loop_rounds, "GATHERING_SECONDS", 60.0)
    stage = LoopStage()
    partitions = [stage.partition_with_a_record(topic) for topic in ("orders", "parts")]
    appends: list[Append] = []
    for partition in partitions:
        producer = Producer(1, 0, 0)
        sent = build_batch([Record(b"tea", None, 1)], producer=producer, attributes=TRANSACTIONAL)
        appends.append(partition.submit(sent))
        stage.loop.turn()
    stage.answer()

    assert [append.result(timeout=0).base_offset for append in appends] == [1, 1]
    assert stage.held.given.begun == 1


def test_the_answers_of_a_round_are_given_together() -> None:
    stage = LoopStage()
    inside: list[bool] = []
    together = Together()
    stage.log.close()
    stage.log = stage.open()
    stage.log.commit_on(stage.loop, lambda: together)
    partition = stage.partition()
    fill(partition, 1)
    partition.submit(batch(b"tea")).when_done(lambda _: inside.append(together.entered))
    stage.answer()

    assert inside == [True]


class Together:
    entered = False

    def __enter__(self) -> None:
        self.entered = True

    def __exit__(self, *_: object) -> None:
        self.entered = False


def test_a_relaxed_append_is_answered_by_the_loop_without_a_sync() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record(flush_ms=1_000)
    append = partition.submit(batch(b"tea"))
    stage.loop.turn()

    assert append.done
    assert partition.synced_offset == 0


# --- a moment for the disk


class AwaitedSyncs(HeldSyncs):
    """They may come as a loop waits for them."""

    comes = True

    def __init__(self) -> None:
        super().__init__()
        self.awaited: list[float] = []

    def wait_a_while(self, seconds: float) -> list[tuple[int, OSError | None]]:
        self.awaited.append(seconds)
        return self.wait() if self.comes else []


class OneByOneSyncs(AwaitedSyncs):
    def wait_a_while(self, seconds: float) -> list[tuple[int, OSError | None]]:
        self.awaited.append(seconds)
        if not self.comes:
            return []
        self.comes = False
        self.wait()
        return [(0, None)]


def awaiting_stage(monkeypatch: pytest.MonkeyPatch, syncs: type[AwaitedSyncs] = AwaitedSyncs) -> Any:
    """What takes less than a minute is quick."""
    monkeypatch.setattr(loop_rounds, "AWAITED_SECONDS", 60.0)
    monkeypatch.setattr(HeldFiles, "kind", syncs)
    return LoopStage()


def test_a_quick_sync_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = awaiting_stage(monkeypatch)
    partition = stage.partition_with_a_record()
    appends = []
    for _ in range(3):
        appends.append(partition.submit(batch(b"tea")))
        stage.loop.turn()
        assert appends[-1].done

    assert [append.result(timeout=0).base_offset for append in appends] == [1, 2, 3]
    assert stage.held.given.awaited == [60.0] * 3


def test_after_a_slow_sync_the_loop_waits_for_none_until_one_is_quick_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = awaiting_stage(monkeypatch)
    partition, syncs = stage.partition_with_a_record(), stage.held.given
    syncs.comes = False

    def append_one(*, slow: bool) -> int:
        append = partition.submit(batch(b"tea"))
        stage.loop.turn()
        assert not append.done
        stage.rounds._begun -= 61 if slow else 0
        stage.answer()
        assert append.done
        return len(syncs.awaited)

    assert [append_one(slow=slow) for slow in (True, True, False, False)] == [1, 1, 1, 2]


def test_what_is_large_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = awaiting_stage(monkeypatch)
    partition = stage.partition_with_a_record()
    append = partition.submit(batch(b"t" * loop_rounds.AWAITED_BYTES))
    stage.loop.turn()
    assert not append.done
    stage.answer()

    assert append.done
    assert not stage.held.given.awaited


def test_where_much_is_going_on_no_sync_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = awaiting_stage(monkeypatch)
    partition = stage.partition_with_a_record()

    def append_together(count: int) -> int:
        appends = [partition.submit(batch(b"tea")) for _ in range(count)]
        stage.loop.turn()
        stage.answer()
        assert all(append.done for append in appends)
        return len(stage.held.given.awaited)

    few, many = loop_rounds.AWAITED_APPENDS, loop_rounds.AWAITED_APPENDS + 1
    assert [append_together(count) for count in (few, many, many, few)] == [1, 1, 1, 2]


def test_of_several_syncs_the_rest_is_waited_for_as_well_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = awaiting_stage(monkeypatch, OneByOneSyncs)
    partitions = [stage.partition_with_a_record(topic) for topic in ("orders", "parts")]
    appends = [partition.submit(batch(b"tea")) for partition in partitions]
    stage.loop.turn()

    assert [append.done for append in appends] == [False, False]
    first, second = stage.held.given.awaited
    assert second < first == 60.0
    stage.rounds._note([(1, None)])
    stage.loop.turn_until_idle()
    assert [append.done for append in appends] == [True, True]


# --- failures


def test_a_failed_sync_is_told_and_fails_its_partition_alone() -> None:
    stage = LoopStage()
    ill, well = stage.partition_with_a_record("ill"), stage.partition_with_a_record("well")
    stage.files.fail("sync", "ill-0/", errno.EIO)
    lost, kept = ill.submit(batch(b"tea")), well.submit(batch(b"tea"))
    stage.answer()

    assert kept.result(timeout=0).base_offset == 1
    with pytest.raises(PartitionFailed, match="a sync failed"):
        lost.result(timeout=0)
    assert ill.failed
    assert ill.end_offset == 1
    assert ill.heal()
    assert ill.append_batch(batch(b"tea")).base_offset == 1


def test_a_failed_write_is_told_and_fails_its_partition_alone() -> None:
    stage = LoopStage()
    ill, well = stage.partition_with_a_record("ill"), stage.partition_with_a_record("well")
    stage.files.fail("write", "ill-0/", errno.EIO)
    lost, kept = ill.submit(batch(b"tea")), well.submit(batch(b"tea"))
    stage.answer()

    assert kept.result(timeout=0).base_offset == 1
    with pytest.raises(PartitionFailed, match="a write failed"):
        lost.result(timeout=0)


def test_a_sync_that_cannot_be_begun_counts_as_failed() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    stage.held.given.refuses = True
    append = partition.submit(batch(b"tea"))
    stage.loop.turn_until_idle()

    with pytest.raises(PartitionFailed, match="could not be begun"):
        append.result(timeout=0)


def test_a_crash_while_a_failure_is_dealt_with_ends_the_round_once() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    stage.files.fail("write", "orders-0/", errno.EIO)
    partition.submit(batch(b"tea"))
    stage.files.crash_at = stage.files.operations + 2  # the write, then the truncation
    with pytest.raises(Crashed):
        stage.loop.turn()


def test_a_defect_in_the_middle_of_a_round_does_not_end_all_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = LoopStage()
    ill, well = stage.partition_with_a_record("ill"), stage.partition_with_a_record("well")
    lost = ill.submit(batch(b"tea"))
    stage.loop.turn_until_idle()
    waiting = well.submit(batch(b"tea"))
    break_publish(monkeypatch, "ill-0")
    stage.held.given.released = True
    with pytest.raises(RuntimeError, match="a defect"):
        stage.loop.turn_until_idle()
    stage.loop.turn_until_idle()

    with pytest.raises(PartitionFailed):
        lost.result(timeout=0)
    assert waiting.result(timeout=0).base_offset == 1


def break_publish(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    publish = Writer.publish

    def fail(writer: Writer, *, synced: bool) -> list[Append]:
        if writer.name == name:
            raise RuntimeError("a defect")
        return publish(writer, synced=synced)

    monkeypatch.setattr(Writer, "publish", fail)


def test_a_defect_in_a_round_is_told_to_those_whose_write_failed_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = LoopStage()
    ill, defect = stage.partition_with_a_record("ill"), stage.partition_with_a_record("defect")
    stage.files.fail("write", "ill-0/", errno.EIO)
    appends = [ill.submit(batch(b"tea")), defect.submit(batch(b"tea"))]
    stage.loop.turn_until_idle()
    break_publish(monkeypatch, "defect-0")
    stage.held.given.released = True
    with pytest.raises(RuntimeError, match="a defect"):
        stage.loop.turn_until_idle()

    for append in appends:
        with pytest.raises(PartitionFailed):
            append.result(timeout=0)


def test_a_defect_before_anything_is_written_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = LoopStage()
    first, second = stage.partition_with_a_record("first"), stage.partition_with_a_record("second")
    prepare = Writer.prepare

    def fail(writer: Writer, syncs: Any) -> int | None:
        if writer.name == "second-0":
            raise RuntimeError("a defect")
        return prepare(writer, syncs)

    monkeypatch.setattr(Writer, "prepare", fail)
    appends = [first.submit(batch(b"tea")), second.submit(batch(b"tea"))]
    with pytest.raises(RuntimeError, match="a defect"):
        stage.loop.turn()
    stage.loop.turn_until_idle()
    assert [append.done for append in appends] == [False, False], "it is the thread's now"
    stage.log.commit()

    assert [append.result(timeout=0).base_offset for append in appends] == [1, 1]


def test_a_defect_that_meets_whoever_waits_does_not_keep_back_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = LoopStage()
    ill, well = stage.partition_with_a_record("ill"), stage.partition_with_a_record("well")
    ill.submit(batch(b"tea"))
    stage.loop.turn_until_idle()
    follows = well.submit(batch(b"tea"))
    break_publish(monkeypatch, "ill-0")
    with pytest.raises(RuntimeError, match="a defect"):
        well.roll()
    stage.answer()

    assert follows.result(timeout=0).base_offset == 1


def test_where_no_thread_can_be_started_a_failure_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = LoopStage()
    ill, well = stage.partition_with_a_record("ill"), stage.partition_with_a_record("well")
    stage.files.fail("sync", "ill-0/", errno.EIO)
    lost = ill.submit(batch(b"tea"))
    stage.loop.turn_until_idle()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(stage.commits, "_background", True)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    stage.answer()

    with pytest.raises(PartitionFailed):
        lost.result(timeout=0)
    assert well.append_batch(batch(b"tea")).base_offset == 1


def test_a_thread_that_could_not_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with open_log(tmp_path / "data", files=DiskFiles()) as log:
        partition = log.partition("orders")
        start = threading.Thread.start
        attempts: list[str] = []

        def refuse_once(thread: threading.Thread) -> None:
            attempts.append(thread.name)
            if len(attempts) == 1:
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refuse_once)
        with pytest.raises(RuntimeError, match="new thread"):
            partition.submit(batch(b"tea"))

        assert partition.submit(batch(b"milk")).result(PATIENCE).base_offset == 1
        assert attempts == ["runnel-commit"] * 2


def test_syncs_that_nobody_can_ask_about_count_as_failed() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    append = partition.submit(batch(b"tea"))
    stage.loop.turn_until_idle()
    stage.held.given.broken = OSError(errno.EBADF, "the ring is gone")
    stage.partition_with_a_record("other")

    with pytest.raises(PartitionFailed, match="the ring is gone"):
        append.result(timeout=0)


def test_a_file_that_is_dropped_from_the_open_ones_is_synced_without_opening_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    write = Writer.write

    def write_and_drop(writer: Writer) -> bool:
        stage.log._home.open_files.forget_folder("/data/orders-0")
        is_due = write(writer)
        stage.log._home.open_files.forget_folder("/data/orders-0")
        return is_due

    monkeypatch.setattr(Writer, "write", write_and_drop)
    stage.files.fail("open", "orders-0/", errno.EMFILE, times=100)
    append = partition.submit(batch(b"tea"))
    stage.answer()

    assert append.result(timeout=0).base_offset == 1


def test_the_loop_goes_on_after_a_failure() -> None:
    stage = LoopStage()
    ill, well = stage.partition_with_a_record("ill"), stage.partition_with_a_record("well")
    stage.files.fail("sync", "ill-0/", errno.EIO)
    ill.submit(batch(b"tea"))
    stage.answer()
    append = well.submit(batch(b"tea"))
    stage.answer()

    assert append.result(timeout=0).base_offset == 1


# --- what the loop leaves to the thread


def left_to_the_thread(stage: LoopStage, append: Append) -> bool:
    """Here nothing runs in the background, so it waits until `commit`."""
    writes = stage.count("write")
    stage.answer()
    left = not append.done and stage.count("write") == writes
    stage.log.commit()
    assert append.done
    return left


def test_a_plain_append_is_not_left_to_the_thread() -> None:
    stage = LoopStage()

    assert not left_to_the_thread(stage, stage.partition_with_a_record().submit(batch(b"tea")))


def test_the_first_append_of_an_epoch_is_left_to_the_thread() -> None:
    stage = LoopStage()

    assert left_to_the_thread(stage, stage.partition().submit(batch(b"tea")))


def test_a_roll_by_size_is_left_to_the_thread() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record(segment_bytes=1_200)
    fill(partition, 1)
    append = partition.submit(batch(bytes(1_000)))

    assert left_to_the_thread(stage, append)
    assert stage.count("rename", "00000000000000000002.log") == 1


def test_a_roll_by_time_is_left_to_the_thread() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record(segment_ms=1_000)
    stage.clock.advance(1_000)

    assert left_to_the_thread(stage, partition.submit(batch(b"tea")))


def test_an_append_to_a_file_that_is_not_open_is_left_to_the_thread() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    stage.log._home.open_files.forget_folder("/data/orders-0")

    assert left_to_the_thread(stage, partition.submit(batch(b"tea")))


def test_a_large_round_is_left_to_the_thread() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record(max_message_bytes=2 * MOST_BYTES)

    assert left_to_the_thread(stage, partition.submit(batch(bytes(MOST_BYTES))))


def test_one_append_that_is_left_takes_its_round_along() -> None:
    stage = LoopStage()
    plain = stage.partition_with_a_record().submit(batch(b"tea"))

    assert left_to_the_thread(stage, stage.partition("new").submit(batch(b"tea")))
    assert plain.result(timeout=0).base_offset == 1


def test_the_background_thread_commits_what_the_loop_leaves_and_what_other_threads_submit(tmp_path: Path) -> None:
    async def submit(log: Log) -> None:
        partition = log.partition("orders")  # new: its epoch has to be written first
        append = partition.submit(batch(b"tea"))
        assert (await asyncio.to_thread(append.result, PATIENCE)).base_offset == 0
        append = await asyncio.to_thread(partition.submit, batch(b"milk"))
        assert (await asyncio.to_thread(append.result, PATIENCE)).base_offset == 1

    run_with_log(tmp_path, submit)


def test_where_files_cannot_be_synced_so_the_thread_commits(tmp_path: Path) -> None:
    class PlainFiles(DiskFiles):
        def syncs(self) -> None:  # type: ignore[override]
            return None

    async def submit(log: Log) -> None:
        log.partition("orders").append_batch(batch(b"tea"))
        append = log.partition("orders").submit(batch(b"milk"))
        assert (await asyncio.to_thread(append.result, PATIENCE)).base_offset == 1
        assert log._commits._loop_rounds is None

    run_with_log(tmp_path, submit, PlainFiles())


# --- turns


def test_the_loop_steps_aside_for_others_and_comes_back() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    append = partition.submit(batch(b"tea"))
    writes = stage.count("write", "orders-0/")
    with stage.log._commits.exclusive():
        stage.loop.turn_until_idle()
        assert stage.count("write", "orders-0/") == writes
    stage.answer()

    assert append.result(timeout=0).base_offset == 1


def test_another_thread_waits_for_the_end_of_the_round() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    append = partition.submit(batch(b"tea"))
    stage.loop.turn_until_idle()
    seen: list[bool] = []

    def roll() -> None:
        partition.roll()
        seen.append(append.done)

    thread = threading.Thread(target=roll)
    thread.start()
    while not stage.log._commits._asking:
        pass
    stage.answer()
    thread.join(PATIENCE)

    assert seen == [True]


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_the_loop_goes_before_those_who_ask_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    append = partition.submit(batch(b"tea"))
    has_turn, goes_on, asked = threading.Event(), threading.Event(), threading.Event()
    seen: list[bool] = []

    class Watched(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            asked.set()
            return super().wait(timeout)

    def sweep() -> None:
        with stage.commits.exclusive():
            has_turn.set()
            goes_on.wait(PATIENCE)
        with stage.commits.exclusive():
            seen.append(append.done)
        asked.set()

    monkeypatch.setattr(loop_rounds, "SECONDS_TO_GO_FIRST", PATIENCE)
    had_turn = Watched()
    had_turn.set()
    monkeypatch.setattr(stage.rounds, "_had_turn", had_turn)
    sweeping = in_thread(sweep)
    assert has_turn.wait(PATIENCE)
    stage.loop.turn_until_idle()  # it asks, and steps aside
    goes_on.set()
    assert asked.wait(PATIENCE)
    stage.answer()
    sweeping.join(PATIENCE)

    assert seen == [True]


def test_a_loop_that_is_busy_with_something_else_is_not_waited_for_any_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    append = partition.submit(batch(b"tea"))
    monkeypatch.setattr(loop_rounds, "SECONDS_TO_GO_FIRST", 0.001)
    with stage.commits.exclusive():
        stage.loop.turn_until_idle()
    sweeping = in_thread(partition.roll)
    sweeping.join(PATIENCE)

    assert not sweeping.is_alive()
    assert not append.done
    stage.log.commit()
    assert append.done


def test_whoever_deletes_a_partition_does_not_keep_the_loop_from_ending_its_round() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    stage.partition_with_a_record("other")
    append = partition.submit(batch(b"tea"))
    stage.loop.turn_until_idle()
    deleting = in_thread(lambda: stage.log.delete("other"))
    while not stage.commits._asking:
        assert deleting.is_alive()
    opening = in_thread(lambda: stage.log.partition("new"))  # as a callback of the loop may do
    opening.join(PATIENCE)

    assert not opening.is_alive()
    stage.answer()
    deleting.join(PATIENCE)
    assert not deleting.is_alive()
    assert append.done


def test_the_round_of_a_loop_that_was_stopped_is_ended_by_whoever_wants_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    append = partition.submit(batch(b"tea"))
    stage.loop.turn_until_idle()
    monkeypatch.setattr(group_commit, "SECONDS_TO_LOOK_AGAIN", 0.001)
    asking = in_thread(partition.roll)
    while not stage.commits._asking:
        assert asking.is_alive()
    monkeypatch.setattr(stage.loop, "is_running", lambda: False)
    asking.join(PATIENCE)

    assert not asking.is_alive()
    assert append.result(timeout=0).base_offset == 1


def test_what_comes_after_a_loop_was_stopped_with_a_round_planned_is_the_background_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open_log("/data", files=HeldFiles(), settings=LogSettings(low_disk_bytes=0)) as log:
        loop = TurnedLoop()
        log.commit_on(loop, nullcontext)
        partition = log.partition("orders")
        fill(partition, 1)
        planned = partition.submit(batch(b"tea"))
        monkeypatch.setattr(loop, "is_running", lambda: False)

        assert partition.submit(batch(b"milk")).result(PATIENCE).base_offset == 2
        assert planned.result(PATIENCE).base_offset == 1


def test_a_loop_that_is_closed_while_it_gets_the_turn_begins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    begin, syncs = stage.commits.begin, stage.held.given.begun

    def close_first() -> list[Writer] | None:
        stage.rounds.close()
        return begin()

    monkeypatch.setattr(stage.commits, "begin", close_first)
    append = partition.submit(batch(b"tea"))
    stage.loop.turn_until_idle()

    assert stage.held.given.begun == syncs
    stage.log.close()
    assert append.result(timeout=0).base_offset == 1


def test_whoever_closes_the_log_in_the_loop_s_own_thread_ends_its_round() -> None:
    answered: list[bool] = []

    def run() -> None:
        files = HeldFiles()
        log = open_log("/data", files=files, settings=LogSettings(low_disk_bytes=0))
        loop = TurnedLoop()
        log.commit_on(loop, nullcontext)
        partition = log.partition("orders")
        fill(partition, 1)
        append = partition.submit(batch(b"tea"))
        loop.turn()
        in_thread(lambda: partition.submit(batch(b"milk"))).join(PATIENCE)
        while not log._commits._asking:  # the background's thread: closing waits for it
            pass
        log.close()
        answered.append(append.done)

    running = in_thread(run)
    running.join(PATIENCE)

    assert answered == [True]


def test_whoever_waits_in_the_loop_s_own_thread_ends_the_round() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    first = partition.submit(batch(b"tea"))
    stage.loop.turn_until_idle()
    second = partition.submit(batch(b"milk"))

    assert partition.append_batch(batch(b"sugar")).base_offset == 3
    assert (first.done, second.done) == (True, True)
    third = partition.submit(batch(b"cups"))
    stage.answer()
    assert third.result(timeout=0).base_offset == 4


def test_closing_ends_the_round_and_commits_what_waits() -> None:
    stage = LoopStage()
    partition = stage.partition_with_a_record()
    first = partition.submit(batch(b"tea"))
    stage.loop.turn_until_idle()
    second = partition.submit(batch(b"milk"))
    stage.log.close()

    assert [append.result(timeout=0).base_offset for append in (first, second)] == [1, 2]
    stage.loop.turn_until_idle()
    assert stage.loop.readers == {}


# --- with loops and disks as they are


def test_a_loop_commits_what_many_callbacks_submit(tmp_path: Path) -> None:
    async def submit(log: Log) -> None:
        partitions = [log.partition("orders", number, TopicSettings(segment_bytes=20_000)) for number in range(3)]
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[int]] = []
        for number in range(600):
            answer: asyncio.Future[int] = loop.create_future()

            def tell(append: Append, answer: asyncio.Future[int] = answer) -> None:
                loop.call_soon_threadsafe(answer.set_result, append.result(0).base_offset)

            partitions[number % 3].submit(batch(bytes(300))).when_done(tell)
            answers.append(answer)
            if number % 7 == 0:
                await asyncio.sleep(0)
        offsets = await asyncio.wait_for(asyncio.gather(*answers), PATIENCE)
        assert offsets == [number // 3 for number in range(600)]
        assert [len(list(partition.records())) for partition in partitions] == [200] * 3

    run_with_log(tmp_path, submit)


def test_a_loop_commits_on_a_disk_in_memory_as_well(tmp_path: Path) -> None:
    async def submit(log: Log) -> None:
        partition = log.partition("orders")
        partition.append_batch(batch(b"tea"))
        append = partition.submit(batch(b"milk"))
        assert (await asyncio.to_thread(append.result, PATIENCE)).base_offset == 1

    files = FaultyFiles()
    for folder in list(tmp_path.parents)[-2::-1]:
        files.make_directory(str(folder))
    files.make_directory(str(tmp_path))
    run_with_log(tmp_path, submit, files)
    assert any(line.startswith("sync") and "orders-0" in line for line in files.history)


def test_a_hanging_sync_does_not_stop_the_loop(tmp_path: Path) -> None:
    goes_on = threading.Event()

    class HangingSyncs(ThreadedSyncs):
        def _sync(self, number: int, file: Any) -> None:
            goes_on.wait(PATIENCE)
            super()._sync(number, file)

    class HangingFiles(DiskFiles):
        def syncs(self) -> HangingSyncs:  # type: ignore[override]
            return HangingSyncs()

    async def submit(log: Log) -> None:
        partition = log.partition("orders")
        partition.append_batch(batch(b"tea"))
        append = partition.submit(batch(b"milk"))
        for _ in range(1_000):
            await asyncio.sleep(0)
        later = partition.submit(batch(b"sugar"))
        await asyncio.sleep(0)
        assert (append.done, later.done, partition.end_offset) == (False, False, 1)
        goes_on.set()
        assert (await asyncio.to_thread(later.result, PATIENCE)).base_offset == 2
        assert append.done

    run_with_log(tmp_path, submit, HangingFiles())


def run_with_log(folder: Path, work: Any, files: Any = None) -> None:
    """In a loop that commits, on a log that is closed in a thread, as a broker closes it."""

    async def run() -> None:
        log = open_log(folder / "data", files=files or DiskFiles())
        log.commit_on(asyncio.get_running_loop(), nullcontext)
        try:
            await asyncio.wait_for(work(log), PATIENCE)
        finally:
            await asyncio.to_thread(log.close)

    asyncio.run(run())
