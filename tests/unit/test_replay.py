"""Handlers decide, replays change, and an answer means that all it rests on is durable."""

from __future__ import annotations

import errno
import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from random import Random

import pytest

from runnel.errors import (
    BatchTooLarge,
    Closed,
    InvalidSetting,
    PartitionFailed,
    ReplayFailed,
    Transient,
)
from runnel.files import DISK, Files, read_file
from runnel.log import Append, Log, LogSettings, TopicSettings, open_log
from runnel.log.journal import PartitionJournal
from runnel.records import Record, build_batch
from runnel.replay import Decision, Entry, JournaledState, SnapshotFile
from runnel.settings import TimestampType
from runnel.testing import FaultyFiles, StoppedClock

Shelf = dict[str, str]  # a state: what stands where
Handler = Callable[[Shelf], Decision[str]]

TIME = 1_700_000_000_000
SNAPSHOT = "/shelf.snapshot"


def put(place: str, *things: str) -> Handler:
    """Put the things there, one after the other; the answer is what stood there before."""

    def handler(shelf: Shelf) -> Decision[str]:
        return Decision(shelf.get(place, "nothing"), [Entry(place.encode(), thing.encode(), TIME) for thing in things])

    return handler


def look(place: str) -> Handler:
    return lambda shelf: Decision(shelf.get(place, "nothing"))


def replay(shelf: Shelf, entry: Entry) -> None:
    assert entry.key is not None
    assert entry.value is not None
    shelf[entry.key.decode()] = entry.value.decode()
    if entry.value == b"poison":
        raise ValueError("poison")


def dump(shelf: Shelf) -> bytes:
    return json.dumps(shelf).encode()


def shelf_in(log: Log, files: Files = DISK, snapshot: str = SNAPSHOT) -> JournaledState[Shelf]:
    journal = PartitionJournal(log.partition("shelf"))
    return JournaledState(journal, dict, replay, SnapshotFile(snapshot, dump, json.loads, files))


class Bench:
    """A shelf on a disk that a test breaks; nothing becomes durable before `commit`."""

    def __init__(self, files: FaultyFiles | None = None) -> None:
        self.files = files or FaultyFiles()
        self.log = open_log("/data", files=self.files, clock=StoppedClock(), chance=Random(1), background=False)
        self.partition = self.log.partition("shelf")
        self.shelf = shelf_in(self.log, self.files)

    def submit(self, *handlers: Handler) -> list[Future[str]]:
        return [self.shelf.submit(handler) for handler in handlers]

    def answers(self, *handlers: Handler) -> list[str]:
        futures = self.submit(*handlers)
        self.log.commit()
        return [future.result(0) for future in futures]

    def content(self) -> Shelf:
        """What a reader is told. Nothing may be on its way: nobody commits."""
        return self.shelf.submit(lambda shelf: Decision(dict(shelf))).result(0)

    def restarted(self) -> Bench:
        return Bench(self.files.crash(Random(1)))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def outcomes(futures: list[Future[str]]) -> list[str]:
    """An answer, an error's name, or that there is none yet."""
    return [_outcome(future) if future.done() else "..." for future in futures]


def _outcome(future: Future[str]) -> str:
    error = future.exception()
    return type(error).__name__ if error else future.result()


# --- deciding


def test_a_decision_is_there_after_a_restart(bench: Bench) -> None:
    assert bench.answers(put("left", "a jar"), put("right", "a cup")) == ["nothing", "nothing"]

    assert bench.content() == {"left": "a jar", "right": "a cup"}
    assert bench.restarted().content() == {"left": "a jar", "right": "a cup"}


def test_keys_values_and_times_of_entries_are_the_same_at_run_time_and_at_start() -> None:
    entries = [Entry(b"key", None, 5), Entry(None, b"value", 7), Entry(b"", b"", 3)]
    seen: list[list[Entry]] = []

    def remember(state: list[Entry], entry: Entry) -> None:
        state.append(entry)

    files = FaultyFiles()
    log = open_log("/data", files=files, background=False)
    settings = TopicSettings(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    journal = PartitionJournal(log.partition("entries", settings=settings))
    for _ in range(2):
        state: JournaledState[list[Entry]] = JournaledState(journal, list, remember)
        futures = [state.submit(lambda _: Decision(None, entries if not seen else ()))]
        log.commit()
        futures[0].result(0)
        seen.append(state.read(list))

    assert seen == [entries, entries]


def test_a_decision_is_answered_when_it_is_durable(bench: Bench) -> None:
    futures = bench.submit(put("left", "a jar"))

    assert outcomes(futures) == ["..."]
    bench.log.commit()
    assert outcomes(futures) == ["nothing"]


def test_the_next_handler_sees_a_decision_that_is_not_durable_yet(bench: Bench) -> None:
    assert bench.answers(put("left", "a jar"), put("left", "a cup"), put("left", "a pot")) == [
        "nothing",
        "a jar",
        "a cup",
    ]


def test_many_decisions_share_one_sync(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    before = len(bench.files.history)

    bench.answers(*(put("left", f"jar {number}") for number in range(100)))

    assert [line.split()[0] for line in bench.files.history[before:]].count("sync") == 1


def test_a_decision_is_one_batch(bench: Bench) -> None:
    bench.answers(put("left", "a jar", "a cup", "a pot"))

    assert bench.partition.end_offset == 3
    assert bench.partition.read(0, max_bytes=1).next_offset == 3


def test_a_reader_of_speculative_state_waits_for_it(bench: Bench) -> None:
    futures = bench.submit(look("left"), put("left", "a jar"), look("left"))

    assert outcomes(futures) == ["nothing", "...", "..."]
    bench.log.commit()
    assert outcomes(futures) == ["nothing", "nothing", "a jar"]


def test_answers_come_in_the_order_of_the_decisions(bench: Bench) -> None:
    order: list[int] = []
    handlers = [look("left"), put("left", "a jar"), look("left"), put("left", "a cup"), look("left")]

    for number, future in enumerate(bench.submit(*handlers)):
        future.add_done_callback(lambda _, number=number: order.append(number))
    bench.log.commit()

    assert order == [0, 1, 2, 3, 4]


def test_a_decision_is_not_taken_back_by_cancelling_its_answer(bench: Bench) -> None:
    (future,) = bench.submit(put("left", "a jar"))

    assert not future.cancel()
    bench.log.commit()
    assert outcomes([future]) == ["nothing"]


def test_a_decision_is_written_while_the_disk_is_low() -> None:
    files = FaultyFiles(capacity=1_000_000)
    log = open_log("/data", files=files, background=False, settings=LogSettings(low_disk_bytes=2_000_000))
    future = shelf_in(log, files).submit(put("left", "a jar"))
    log.commit()

    assert future.result(0) == "nothing"


def test_a_journal_is_not_subject_to_retention_and_relaxed_syncs() -> None:
    log = open_log("/data", files=FaultyFiles(), background=False)
    partition = log.partition("shelf", settings=TopicSettings(retention_ms=1, retention_bytes=1, flush_messages=9))

    PartitionJournal(partition)

    assert partition.settings == TopicSettings(retention_ms=-1)


# --- handlers that fail


def refuse(shelf: Shelf) -> Decision[str]:
    raise LookupError(f"{len(shelf)} places are taken")


def test_a_handler_that_raises_changes_nothing(bench: Bench) -> None:
    (future,) = bench.submit(refuse)

    with pytest.raises(LookupError, match="0 places are taken"):
        future.result(0)
    assert bench.content() == {}
    assert bench.partition.end_offset == 0


def test_an_error_of_a_handler_waits_for_what_it_saw_like_any_answer(bench: Bench) -> None:
    futures = bench.submit(put("left", "a jar"), refuse, look("left"))

    assert outcomes(futures) == ["...", "...", "..."]
    bench.log.commit()
    assert outcomes(futures) == ["nothing", "LookupError", "a jar"]


def test_a_handler_that_returns_no_decision_fails_alone(bench: Bench) -> None:
    futures = bench.submit(lambda shelf: None, look("left"))  # type: ignore[arg-type, return-value]

    assert outcomes(futures) == ["TypeError", "nothing"]


def test_a_handler_may_not_ask_for_another_decision(bench: Bench) -> None:
    (future,) = bench.submit(lambda _: bench.shelf.submit(look("left")))  # type: ignore[arg-type, return-value]

    with pytest.raises(RuntimeError, match="may only read"):
        future.result(0)
    assert bench.content() == {}


def test_a_decision_that_cannot_be_replayed_is_not_written(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))

    futures = bench.submit(put("right", "a cup", "poison"))

    with pytest.raises(ReplayFailed, match=r"offset 2 of partition shelf-0 .*ValueError\('poison'\)"):
        futures[0].result(0)
    assert bench.content() == {"left": "a jar"}
    assert bench.partition.end_offset == 1


def test_a_rebuilt_state_has_the_decisions_that_are_on_their_way(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    futures = bench.submit(put("left", "a cup", "a pot"), put("right", "poison"), look("left"), put("left", "a can"))
    futures += bench.submit(look("left"))

    bench.log.commit()

    assert outcomes(futures) == ["a jar", "ReplayFailed", "a pot", "a pot", "a can"]
    assert bench.restarted().content() == {"left": "a can"}


def test_a_decision_that_becomes_durable_during_a_rebuild_is_there_once(bench: Bench) -> None:
    class SlowJournal(PartitionJournal):
        def read(self, offset: int) -> Iterator[tuple[int, Entry]]:
            with ThreadPoolExecutor(1) as committer:
                committer.submit(bench.log.commit).result()
            return super().read(offset)

    def add(shelf: Shelf, entry: Entry) -> None:
        shelf["left"] = shelf.get("left", "") + (entry.value or b"").decode()
        assert entry.value != b"poison"

    bench.shelf = JournaledState(SlowJournal(bench.partition), dict, add)
    futures = bench.submit(put("left", "a jar "), put("left", "poison"), put("left", "a cup "), look("left"))
    bench.log.commit()

    assert outcomes(futures) == ["nothing", "ReplayFailed", "a jar ", "a jar a cup "]


def test_a_decision_that_is_too_large_is_refused_before_it_changes_anything(bench: Bench) -> None:
    replayed: list[int] = []
    shelf: JournaledState[Shelf] = JournaledState(
        PartitionJournal(bench.partition), dict, lambda _, entry: replayed.append(entry.timestamp)
    )

    (future,) = [shelf.submit(put("left", "a" * 2_000_000))]

    assert outcomes([future]) == [BatchTooLarge.__name__]
    assert replayed == []


def test_a_decision_may_be_as_large_as_the_partition_allows() -> None:
    limit = 1_000
    bench = Bench()
    bench.partition.settings = TopicSettings(max_message_bytes=limit)
    sizes = range(limit - 120, limit)

    futures = bench.submit(*(put("left", "a" * size) for size in sizes))
    bench.log.commit()

    batches = [build_batch([Record(b"a" * size, b"left", TIME)]) for size in sizes]
    assert [future.exception(0) is None for future in futures] == [len(batch) <= limit for batch in batches]


def test_an_append_that_is_refused_late_leaves_nothing_in_the_state(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    (future,) = bench.submit(lambda _: Decision("", [Entry(b"left", b"a cup", 2**70)]))

    assert future.exception(0) is not None
    assert bench.content() == {"left": "a jar"}


# --- when the disk fails


def test_a_lost_decision_and_all_after_it_get_the_error(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    futures = bench.submit(look("left"), put("left", "a cup"), look("left"), refuse, put("right", "a pot"))

    bench.files.fail("sync")
    bench.log.commit()

    assert outcomes(futures) == ["a jar"] + ["PartitionFailed"] * 4


def test_lost_decisions_are_not_in_the_state(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    bench.submit(put("left", "a cup"), put("right", "a pot"))
    bench.files.fail("sync")
    bench.log.commit()

    assert bench.partition.heal()
    assert bench.content() == {"left": "a jar"}
    assert bench.answers(put("left", "a can")) == ["a jar"]
    assert bench.restarted().content() == {"left": "a can"}


def test_decisions_before_the_lost_one_keep_their_answers() -> None:
    """A full segment is synced in the middle of a round: what is in it is durable, and what follows may be lost."""
    bench = Bench()
    bench.partition.settings = TopicSettings(segment_bytes=1024)
    futures = bench.submit(*(put("left", f"{number:0500}") for number in range(4)))

    bench.files.fail("sync", path_part=".log", after=1)
    bench.log.commit()

    assert [future.exception(0) is None for future in futures] == [True, False, False, False]
    assert bench.partition.heal()
    assert bench.content() == {"left": f"{0:0500}"}


def test_until_the_journal_is_well_nobody_is_told_what_a_restart_could_contradict(bench: Bench) -> None:
    """The lost decision still stands in the file, because the disk refused to cut it off."""
    bench.answers(put("left", "a jar"))
    futures = bench.submit(put("left", "a cup"))
    bench.files.fail("sync")
    bench.files.fail("truncate")
    bench.log.commit()

    futures += bench.submit(look("left"), put("left", "a pot"), refuse)

    assert outcomes(futures) == ["PartitionFailed", "Transient", "Transient", "Transient"]
    assert Bench(bench.files.kill()).content() == {"left": "a cup"}


def test_a_disk_failure_that_loses_nothing_keeps_readers_going(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    bench.files.fail("create")
    bench.partition.roll()
    assert bench.partition.failed

    futures = bench.submit(look("left"), put("left", "a cup"), look("left"))

    assert outcomes(futures) == ["a jar", "Transient", "a jar"]


def test_while_the_journal_cannot_be_read_each_decision_gets_a_transient_error() -> None:
    bench = Bench().restarted()
    bench.answers(put("left", "a jar"))
    bench = bench.restarted()
    bench.files.fail("read", times=2)

    futures = bench.submit(look("left"), put("left", "a cup"))

    for future in futures:
        with pytest.raises(Transient, match="rebuilding the state of partition shelf-0 failed"):
            future.result(0)
    assert bench.answers(put("left", "a cup")) == ["a jar"]


class HurriedJournal(PartitionJournal):
    """The round may end before the one who submitted asks for its outcome: here it does when `hurry` is set."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.partition)
        self._bench = bench
        self.hurry = False

    def append(self, entries: Sequence[Entry]) -> Append:
        append = super().append(entries)
        if self.hurry:
            self._bench.log.commit()
        return append


@pytest.fixture
def hurried(bench: Bench) -> HurriedJournal:
    journal = HurriedJournal(bench)
    bench.shelf = JournaledState(journal, dict, replay)
    return journal


def test_a_loss_that_is_known_before_the_decision_is_made_is_noticed(bench: Bench, hurried: HurriedJournal) -> None:
    bench.answers(put("left", "a jar"))
    hurried.hurry = True
    bench.files.fail("sync")

    assert outcomes(bench.submit(put("left", "a cup"))) == [PartitionFailed.__name__]
    assert bench.partition.heal()
    assert bench.content() == {"left": "a jar"}


def test_a_callback_may_submit_also_if_the_answer_is_known_inside_of_another_decision(
    bench: Bench, hurried: HurriedJournal
) -> None:
    more: list[Future[str]] = []
    (first,) = bench.submit(put("left", "a jar"))
    first.add_done_callback(lambda _: more.extend(bench.submit(look("left"))))
    hurried.hurry = True

    (second,) = bench.submit(put("left", "a cup"))

    assert outcomes([first, second, *more]) == ["nothing", "a jar", "a cup"]


def test_a_state_is_rebuilt_without_lost_decisions_that_are_not_answered_yet(
    bench: Bench, hurried: HurriedJournal
) -> None:
    more: list[Future[str]] = []
    (first,) = bench.submit(put("left", "a jar"))
    first.add_done_callback(lambda _: bench.partition.heal() and more.extend(bench.submit(look("left"))))
    hurried.hurry = True
    bench.files.fail("sync")

    (second,) = bench.submit(put("left", "a cup"))

    assert outcomes([first, second, *more]) == ["PartitionFailed", "PartitionFailed", "nothing"]


def test_a_closed_log_is_told(bench: Bench) -> None:
    bench.shelf.start()
    bench.log.close()

    assert outcomes(bench.submit(put("left", "a jar"))) == [Closed.__name__]


# --- starting


def test_an_entry_that_cannot_be_replayed_stops_the_start(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    PartitionJournal(bench.partition).append([Entry(b"left", b"poison", TIME)])
    bench.log.commit()

    with pytest.raises(ReplayFailed, match=r"offset 1 of partition shelf-0"):
        Bench(bench.files.kill()).shelf.start()


def test_a_start_from_a_snapshot_replays_only_what_is_after_it(bench: Bench) -> None:
    bench.answers(put("left", "a jar"), put("left", "a cup"))
    assert bench.shelf.fold() == 2
    bench.answers(put("left", "a pot"))
    replayed: list[bytes | None] = []

    def listen(shelf: Shelf, entry: Entry) -> None:
        replayed.append(entry.value)
        replay(shelf, entry)

    snapshot = SnapshotFile(SNAPSHOT, dump, json.loads, bench.files)
    JournaledState(PartitionJournal(bench.partition), dict, listen, snapshot).start()

    assert replayed == [b"a pot"]


def corrupt(files: FaultyFiles, change: Callable[[bytes], bytes]) -> None:
    content = change(read_file(files, SNAPSHOT))
    file = files.open(SNAPSHOT)
    file.truncate(0)
    file.write([content], 0)
    file.sync()


DAMAGES = {
    "empty": lambda content: b"",
    "cut": lambda content: content[:-1],
    "longer": lambda content: content + b" ",
    "another offset": lambda content: content[:13] + b"\x07" + content[14:],
    "another byte": lambda content: content[:-2] + b"!" + content[-1:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_broken_snapshot_is_replaced_by_all_the_records(
    bench: Bench, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    bench.answers(put("left", "a jar"), put("right", "a cup"))
    bench.shelf.fold()
    corrupt(bench.files, damage)

    with caplog.at_level(logging.WARNING):
        assert bench.restarted().content() == {"left": "a jar", "right": "a cup"}
    assert SNAPSHOT in caplog.text


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_broken_snapshot_of_deleted_records_stops_the_start(bench: Bench, damage: Callable[[bytes], bytes]) -> None:
    bench.answers(put("left", "a jar"))
    bench.shelf.fold(trim=True)
    corrupt(bench.files, damage)

    with pytest.raises(ReplayFailed, match=r"snapshot /shelf.snapshot cannot be used: .* \(restore the file"):
        bench.restarted().shelf.start()


def test_a_missing_snapshot_is_replaced_by_all_the_records(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    bench.shelf.fold()
    bench.files.remove(SNAPSHOT)

    assert Bench(bench.files.kill()).content() == {"left": "a jar"}


def test_a_missing_snapshot_of_deleted_records_stops_the_start(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    bench.shelf.fold(trim=True)
    bench.files.remove(SNAPSHOT)

    with pytest.raises(
        ReplayFailed, match=r"snapshot /shelf.snapshot does not exist, .*shelf-0 has the offsets 1 to 1"
    ):
        Bench(bench.files.kill()).shelf.start()


def test_deleted_records_without_any_snapshot_stop_the_start(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    bench.partition.delete_before(1)

    with pytest.raises(ReplayFailed, match="a snapshot does not exist"):
        JournaledState(PartitionJournal(bench.partition), dict, replay).start()


@pytest.mark.parametrize("offset", [0, 3])
def test_a_snapshot_that_does_not_fit_the_journal_stops_the_start(bench: Bench, offset: int) -> None:
    """Before the journal's start records are missing in between; after its end, it has lost what was acknowledged."""
    bench.answers(put("left", "a jar"), put("left", "a cup"))
    bench.partition.delete_before(1)
    SnapshotFile(SNAPSHOT, dump, json.loads, bench.files).write({}, offset)

    with pytest.raises(ReplayFailed, match=f"is from offset {offset}, but .* has the offsets 1 to 2"):
        bench.restarted().shelf.start()


def test_a_dump_that_load_does_not_know_is_replaced_by_all_the_records(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    SnapshotFile(SNAPSHOT, lambda _: b"of another version", json.loads, bench.files).write({}, 1)

    assert bench.content() == {"left": "a jar"}


def test_a_snapshot_that_cannot_be_read_now_is_a_transient_error(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    bench.shelf.fold(trim=True)
    bench = bench.restarted()
    bench.files.fail("read", path_part=SNAPSHOT)

    with pytest.raises(Transient, match="rebuilding"):
        bench.shelf.start()
    assert bench.content() == {"left": "a jar"}


# --- folding


def test_a_fold_has_only_what_is_durable(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    futures = bench.submit(put("left", "a cup"))

    assert bench.shelf.fold() == 1
    assert SnapshotFile(SNAPSHOT, dump, json.loads, bench.files).read() == ({"left": "a jar"}, 1)
    bench.log.commit()
    assert outcomes(futures) == ["a jar"]
    assert bench.restarted().content() == {"left": "a cup"}


def test_a_fold_goes_on_from_the_last_one(bench: Bench) -> None:
    for number in range(4):
        bench.answers(put("left", str(number)), put(str(number), "a jar"))
        assert bench.shelf.fold(trim=True) == 2 * number + 2
    assert bench.partition.start_offset == 8
    assert bench.restarted().content() == {"left": "3", **dict.fromkeys("0123", "a jar")}


def test_a_fold_of_nothing_new_writes_nothing(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    bench.shelf.fold()
    before = len(bench.files.history)

    assert bench.shelf.fold() == 1
    assert bench.files.history[before:] == []


def test_a_fold_does_not_trim_on_the_word_of_a_snapshot_that_it_did_not_write_itself(bench: Bench) -> None:
    """A process that was killed may have left a snapshot whose name is not on the disk yet."""
    bench.answers(put("left", "a jar"))
    bench.files.fail("sync_directory", path_part="/")
    with pytest.raises(Transient, match=r"folding partition shelf-0 into snapshot /shelf.snapshot"):
        bench.shelf.fold(trim=True)

    bench = Bench(bench.files.kill())
    bench.shelf.start()
    bench.shelf.fold(trim=True)

    for number in range(50):
        assert Bench(bench.files.crash(Random(number))).content() == {"left": "a jar"}


def test_a_fold_that_fails_deletes_nothing(bench: Bench) -> None:
    bench.answers(put("left", "a jar"))
    bench.shelf.fold()
    bench.answers(put("left", "a cup"))
    bench.files.fail("write", path_part=SNAPSHOT, error=errno.ENOSPC)

    with pytest.raises(Transient, match="folding"):
        bench.shelf.fold(trim=True)
    assert bench.partition.start_offset == 0
    assert bench.restarted().content() == {"left": "a cup"}


def test_a_fold_needs_a_snapshot_file(bench: Bench) -> None:
    with pytest.raises(InvalidSetting, match="SnapshotFile"):
        JournaledState(PartitionJournal(bench.partition), dict, replay).fold()


# --- callbacks and threads


def test_what_follows_decisions_is_told_in_their_order_when_they_are_durable(bench: Bench) -> None:
    told: list[tuple[str | None, str | None]] = []

    def tell(answer: str | None, error: Exception | None) -> None:
        told.append((answer, error and type(error).__name__))

    for handler in (put("left", "a jar"), refuse, look("left")):
        bench.shelf.decide(handler, tell)

    assert told == []
    bench.log.commit()
    assert told == [("nothing", None), (None, "LookupError"), ("a jar", None)]


def test_what_follows_a_lost_decision_hears_of_it(bench: Bench) -> None:
    told: list[Exception | None] = []
    bench.shelf.decide(put("left", "a jar"), lambda _, error: told.append(error))

    bench.files.fail("sync")
    bench.log.commit()

    assert [type(error) for error in told] == [PartitionFailed]


def test_what_follows_a_decision_and_raises_keeps_no_answer_from_others(bench: Bench) -> None:
    bench.shelf.decide(put("left", "a jar"), lambda _answer, _error: 1 // 0)
    futures = bench.submit(look("left"))

    bench.log.commit()

    assert outcomes(futures) == ["a jar"]


def test_it_is_known_how_far_decisions_are_durable(bench: Bench) -> None:
    bench.answers(put("left", "a jar", "a cup"))
    bench.submit(put("left", "a pot"))

    assert (bench.shelf.next_offset, bench.shelf.durable_offset) == (3, 2)
    bench.log.commit()
    assert (bench.shelf.next_offset, bench.shelf.durable_offset) == (3, 3)


def test_a_callback_may_submit(bench: Bench) -> None:
    more: list[Future[str]] = []
    (future,) = bench.submit(put("left", "a jar"))
    future.add_done_callback(lambda _: more.extend(bench.submit(put("left", "a cup"), look("left"))))

    bench.log.commit()
    bench.log.commit()

    assert outcomes([future, *more]) == ["nothing", "a jar", "a cup"]


def test_a_callback_that_raises_keeps_no_answer_from_others(bench: Bench) -> None:
    futures = bench.submit(put("left", "a jar"), look("left"))
    futures[0].add_done_callback(lambda _: 1 // 0)

    bench.log.commit()

    assert outcomes(futures) == ["nothing", "a jar"]


def test_an_answer_waits_until_the_one_before_it_is_given(bench: Bench) -> None:
    giving, go_on = threading.Event(), threading.Event()
    (first,) = bench.submit(put("left", "a jar"))
    first.add_done_callback(lambda _: giving.set() or go_on.wait())
    with ThreadPoolExecutor(1) as committer:
        committer.submit(bench.log.commit)
        giving.wait()
        (second,) = bench.submit(look("left"))
        early = second.done()
        go_on.set()

    assert not early
    assert second.result(0) == "a jar"


def count(state: dict[str, int], entry: Entry) -> None:
    state["count"] = state.get("count", 0) + 1


def step(number: int) -> Callable[[dict[str, int]], Decision[int]]:
    return lambda state: Decision(state.get("count", 0), [Entry(None, str(number).encode(), TIME)])


def look_at_count(state: dict[str, int]) -> Decision[int]:
    return Decision(state.get("count", 0))


def run_together(*works: Callable[[], None]) -> None:
    with ThreadPoolExecutor(len(works)) as threads:
        for outcome in [threads.submit(work) for work in works]:
            outcome.result()


def test_many_threads_decide_one_after_the_other(tmp_path) -> None:  # type: ignore[no-untyped-def]
    threads, each = 8, 100
    answers: list[int] = []

    def counter(log: Log) -> JournaledState[dict[str, int]]:
        snapshot = SnapshotFile(tmp_path / "snapshot", lambda state: json.dumps(state).encode(), json.loads)
        return JournaledState(PartitionJournal(log.partition("count")), dict, count, snapshot)

    with open_log(tmp_path / "data") as log:
        state = counter(log)

        def work() -> None:
            for number in range(each):
                answer = state.run(step(number))
                assert state.read(lambda state: state["count"]) > answer
                answers.append(answer)
                if number % 10 == 0:
                    state.fold(trim=number % 20 == 0)

        run_together(*[work] * threads)
    with open_log(tmp_path / "data") as log:
        assert counter(log).read(lambda state: state["count"]) == threads * each
    assert sorted(answers) == list(range(threads * each))


def test_answers_are_in_order_whichever_thread_gives_them(tmp_path) -> None:  # type: ignore[no-untyped-def]
    orders: list[list[int]] = [[], [], [], []]

    with open_log(tmp_path / "data") as log:
        state: JournaledState[dict[str, int]] = JournaledState(PartitionJournal(log.partition("count")), dict, count)

        def work(order: list[int]) -> None:
            futures = []
            for number in range(300):
                handler = step(number) if number % 3 else look_at_count
                futures.append(state.submit(handler))
                futures[-1].add_done_callback(lambda _, number=number: order.append(number))
            for future in futures:
                future.result()

        run_together(*(partial(work, order) for order in orders))

    assert orders == [list(range(300))] * 4


def persist(action: Callable[[], int]) -> int:
    while True:
        with suppress(Transient):
            return action()


def test_threads_folds_and_a_disk_that_fails_again_and_again_get_along() -> None:
    acknowledged: list[int] = []
    files = FaultyFiles()
    files.fail("sync", path_part=".log", after=10)
    done = threading.Event()

    def counter(log: Log, files: Files) -> JournaledState[dict[str, int]]:
        snapshot = SnapshotFile(SNAPSHOT, lambda state: json.dumps(state).encode(), json.loads, files)
        return JournaledState(PartitionJournal(log.partition("count")), dict, count, snapshot)

    def work(state: JournaledState[dict[str, int]]) -> None:
        for number in range(50):
            acknowledged.append(persist(lambda number=number: state.run(step(number))))
            persist(lambda: state.read(len))

    def disturb(log: Log, state: JournaledState[dict[str, int]]) -> None:
        while not done.is_set():
            if log.partition("count").failed:
                log.maintain()
                files.fail("sync", path_part=".log", after=10)
            state.fold(trim=True)

    with open_log("/data", files=files) as log:
        state = counter(log, files)
        with ThreadPoolExecutor(1) as other:
            disturbed = other.submit(disturb, log, state)
            run_together(*[partial(work, state)] * 4)
            done.set()
            disturbed.result()
        files.heal()
        log.maintain()
        total = state.read(lambda state: state["count"])
    left = files.kill()
    with open_log("/data", files=left) as log:
        assert counter(log, left).read(lambda state: state["count"]) == total
    assert len(set(acknowledged)) == 4 * 50
    assert max(acknowledged) < total
