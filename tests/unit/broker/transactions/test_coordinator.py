"""The coordinator at work: markers, time-outs, expiry, and what a stop, a crash or an ill disk leave."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from runnel.broker.apis import compact_topic
from runnel.broker.apis.fetch import Fetching
from runnel.broker.transactions import OFFSETS, Status, TopicPartition, Transaction, deciding
from runnel.broker.transactions.ending import Ending
from runnel.broker.transactions.endings import COMPLETED_AFTER, COMPLETED_AT_ONCE
from runnel.broker.transactions.entries import entry_of
from runnel.broker.transactions.records import read_value, write_key
from runnel.errors import Transient
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import TRANSACTIONAL, Record, build_batch, parse_header
from runnel.records import Producer as RecordProducer
from runnel.replay import Decision
from tests.broker_wire import fetch_body
from tests.unit.broker.transactions.stage import TIMEOUT, Stage, TransactionalProducer, values_in

DAY = 24 * 60 * 60 * 1000
WEEK = 7 * DAY
SWEEP = 10_000  # how often transactions that last too long are looked for
HOUR = 3_600_000
GENERATIONS = pytest.mark.parametrize("generation", [1, 2])
OUTCOMES = pytest.mark.parametrize("committed", [True, False])
OUTAGE = "/orders-1/"  # a part of a path: the disk fails for one partition alone
TRIES = 50
LONGEST = 900_000  # the longest time-out that a producer may ask for


def with_records(stage: Stage, generation: int = 2, name: str = "t", **more: Any) -> TransactionalProducer:
    """A producer with an open transaction over two partitions and an offset."""
    producer = stage.producer(name, generation, **more)
    assert not producer.write("orders", b"one")
    assert not producer.write("orders", b"two", number=1)
    assert not producer.commit_offset(7)
    return producer


def seen(stage: Stage) -> tuple[list[bytes], list[bytes], int]:
    return stage.values(), stage.values(number=1), stage.committed_offset()


def mark(stage: Stage, place: TopicPartition, prepared: Transaction) -> None:
    """One of the markers, as if the process had ended before the others."""
    alone = prepared._replace(partitions=frozenset({place}))
    ending = Ending(stage.node, "t", alone, stage.node.transactions.coordinator_epoch())
    told: list[BaseException | None] = []
    ending.when_done(told.append)
    ending.start()
    stage.until(lambda: bool(told))
    assert told == [None]


ALL = ([b"one"], [b"two"], 7)
NOTHING: tuple[list[bytes], list[bytes], int] = ([], [], -1)


def outcome(*, committed: bool) -> tuple[list[bytes], list[bytes], int]:
    return ALL if committed else NOTHING


# --- ends


@GENERATIONS
@OUTCOMES
def test_all_of_a_transaction_counts_or_nothing(stage: Stage, generation: int, committed: bool) -> None:
    producer = with_records(stage, generation)
    assert seen(stage) == ([], [], -2)
    assert not producer.end(committed=committed)
    assert seen(stage) == outcome(committed=committed)
    assert not stage.partition().open_transactions()
    assert (stage.node.transactions.committed, stage.node.transactions.aborted) == (committed, not committed)


@GENERATIONS
@OUTCOMES
def test_the_markers_carry_the_epoch_of_the_generation(stage: Stage, generation: int, committed: bool) -> None:
    producer = with_records(stage, generation)
    before = producer.producer
    producer.end(committed=committed)
    marker = parse_header(bytes(stage.fetch(offset=1)["records"]))
    assert marker.is_control
    assert (marker.producer_id, marker.producer_epoch) == (before.producer_id, generation - 1)
    assert producer.producer == before._replace(epoch=generation - 1)


@GENERATIONS
@OUTCOMES
def test_the_next_transaction_need_not_wait(stage: Stage, generation: int, committed: bool) -> None:
    producer = stage.producer(generation=generation)
    for _ in range(3):
        assert not producer.write("orders", b"x")
        assert not producer.end(committed=committed)
    assert stage.values() == ([b"x"] * 3 if committed else [])


@GENERATIONS
@OUTCOMES
def test_an_end_whose_answer_got_lost_is_answered_again(stage: Stage, generation: int, committed: bool) -> None:
    producer = with_records(stage, generation)
    body, version = producer.end_body(committed=committed), producer.end_version
    first = stage.ask(Api.END_TXN, body, version)
    stage.quiet()
    end = stage.partition().end_offset
    assert stage.ask(Api.END_TXN, body, version) == first
    assert stage.ask(Api.END_TXN, producer.end_body(committed=not committed), version)["error_code"] == (
        ErrorCode.INVALID_TXN_STATE
    )
    assert stage.partition().end_offset == end  # no second marker
    assert seen(stage) == outcome(committed=committed)


def test_two_ends_at_once_have_the_same_answer_and_one_marker(stage: Stage) -> None:
    producer = with_records(stage)
    body = producer.end_body(committed=True)
    both = [stage.begin(Api.END_TXN, body, 5) for _ in range(2)]
    stage.until(lambda: all(task.done() for task in both))
    assert both[0].result() == both[1].result()
    stage.quiet()
    assert stage.partition().end_offset == 2


def test_nothing_is_marked_before_the_outcome_is_durable(stage: Stage) -> None:
    """A marker that is on the disk, while the outcome gets lost, would tear the transaction."""
    producer = with_records(stage)
    transactions = stage.node.transactions
    stage.files.fail("sync", "/__transaction_state-0/")

    async def look_while_it_is_decided_only() -> None:
        handler = deciding.end(stage.clock.now(), "t", producer.producer, 2, None, committed=True)
        decided = asyncio.wrap_future(transactions._durable.submit(handler), loop=stage.loop)
        assert stage.get().status is Status.PREPARE_COMMIT
        transactions._abort_overdue()
        with pytest.raises(Transient):
            await decided

    stage.run(look_while_it_is_decided_only())
    for _ in range(20):
        stage.turn()
    assert stage.values() == []
    assert stage.partition().has_transaction(*producer.producer)
    stage.files.heal()
    stage.advance(2_000)
    stage.node.log.maintain()
    assert stage.get().status is Status.ONGOING
    assert not producer.end(committed=False)
    assert seen(stage) == NOTHING


# --- another producer of the same name


@GENERATIONS
def test_whoever_begins_ends_the_transaction_of_its_forerunner(stage: Stage, generation: int) -> None:
    old = with_records(stage, generation)
    new = stage.producer(generation=generation)
    assert seen(stage) == NOTHING
    assert new.producer == old.producer._replace(epoch=2)
    assert old.write("orders", b"late") in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    assert old.commit_offset(9) in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    for committed in (True, False):
        assert old.end(committed=committed) == ErrorCode.PRODUCER_FENCED
    assert not new.write("orders", b"new")
    assert not new.end(committed=True)
    assert stage.values() == [b"new"]
    assert stage.values(committed=False)[:1] == [b"one"]


def test_a_fenced_producer_does_not_write_into_a_partition_that_its_successor_has_open(stage: Stage) -> None:
    old = stage.producer()
    assert not old.write("orders", b"old")
    new = stage.producer()
    assert not new.write("orders", b"new")
    assert old.write("orders", b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert not new.end(committed=True)
    assert stage.values() == [b"new"]


def test_two_that_begin_at_once_get_different_epochs(stage: Stage) -> None:
    with_records(stage)
    body = {"transactional_id": "t", "transaction_timeout": TIMEOUT, "producer_id": -1, "producer_epoch": -1}
    body |= {"enable2_pc": False, "keep_prepared_txn": False}
    tasks = [stage.begin(Api.INIT_PRODUCER_ID, body) for _ in range(3)]
    stage.until(lambda: all(task.done() for task in tasks))
    answers = [task.result() for task in tasks]
    assert [answer["error_code"] for answer in answers] == [ErrorCode.NONE] * 3
    assert len({answer["producer_epoch"] for answer in answers}) == 3
    assert {answer["producer_id"] for answer in answers} == {stage.get().producer_id}


# --- time


@GENERATIONS
def test_a_transaction_that_lasts_too_long_is_aborted_and_its_producer_fenced(
    stage: Stage, generation: int, caplog: pytest.LogCaptureFixture
) -> None:
    producer = with_records(stage, generation)
    stage.advance(TIMEOUT)
    assert stage.get().status is Status.ONGOING
    stage.advance(SWEEP)
    stage.until_is(Status.COMPLETE_ABORT)
    assert seen(stage) == NOTHING
    assert "transaction 't' has been open for longer than its time-out of 60000 ms" in caplog.text
    assert producer.end(committed=True) == ErrorCode.PRODUCER_FENCED
    assert producer.write("orders", b"late") in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    assert not producer.initialise()
    assert not producer.write("orders", b"new")
    assert not producer.end(committed=True)
    assert stage.values() == [b"new"]


def test_a_clock_that_is_set_aborts_no_transaction_before_its_time_and_keeps_none_open(stage: Stage) -> None:
    for hours, name in ((1, "forward"), (-2, "back")):
        stage.producer(name).write("orders", name.encode())
        stage.clock._now += hours * HOUR
        stage.advance(SWEEP)
        until_looked_at(stage)
        stage.advance(TIMEOUT - 3 * SWEEP)
        until_looked_at(stage)
        stage.quiet()
        assert stage.get(name).status is Status.ONGOING
        stage.advance(5 * SWEEP)
        stage.until_is(Status.COMPLETE_ABORT, name)


def until_looked_at(stage: Stage) -> None:
    """The log's threads take the time that they need until they tell which transactions are open."""
    before = stage.clock.elapsed() - SWEEP
    stage.until(lambda: (stage.node.transactions._ages._looked_at or 0) > before)


def test_the_time_goes_on_where_the_broker_is_started_again(stage: Stage) -> None:
    stage.producer().write("orders", b"one")
    stage.advance(TIMEOUT - SWEEP)
    stage.restart()
    assert stage.get().status is Status.ONGOING
    stage.advance(2 * SWEEP)
    stage.until_is(Status.COMPLETE_ABORT)


def test_each_transaction_has_its_own_time_out(stage: Stage) -> None:
    stage.producer("short", timeout=5_000).write("orders", b"short")
    stage.producer("long", timeout=500_000).write("orders", b"long")
    stage.advance(2 * SWEEP)
    stage.until_is(Status.COMPLETE_ABORT, "short")
    assert stage.get("long").status is Status.ONGOING


def test_the_time_runs_from_the_first_record_on_and_not_from_the_last(stage: Stage) -> None:
    producer = stage.producer()
    stage.advance(2 * TIMEOUT)
    assert not producer.write("orders", b"first")
    for _ in range(5):
        stage.advance(TIMEOUT // 4)
        producer.write("orders", b"more")
    stage.advance(SWEEP)
    stage.until_is(Status.COMPLETE_ABORT)


def test_what_was_ended_in_time_is_left_alone(stage: Stage) -> None:
    producer = with_records(stage)
    producer.end(committed=True)
    stage.advance(2 * TIMEOUT)
    assert stage.get().status is Status.COMPLETE_COMMIT
    assert not producer.write("orders", b"more")


def test_a_time_out_that_is_no_longer_allowed_or_none_at_all_is_refused(stage: Stage) -> None:
    producer = TransactionalProducer(stage, "t", 2)
    for timeout in (0, -1, 900_001):
        assert producer.initialise(timeout) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert stage.node.transactions.get("t") is None
    assert not producer.initialise(900_000)


def test_a_name_that_nobody_uses_is_forgotten_in_time(stage: Stage) -> None:
    stage.node.settings = replace(stage.node.settings, transactional_id_expiration_ms=WEEK)
    idle = stage.producer("idle")
    open_one = stage.producer("open", timeout=900_000)
    stage.clock.advance(WEEK)
    assert not open_one.write("orders", b"x")
    stage.advance(2 * 60 * 60 * 1000)
    stage.until(lambda: stage.node.transactions.get("idle") is None)
    assert stage.node.transactions.get("open") is not None
    assert idle.write("orders", b"x") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert not idle.initialise()
    assert idle.producer.epoch == 0
    stage.kill()
    assert set(stage.node.transactions.all()) == {"idle", "open"}


def test_a_name_that_was_forgotten_stays_forgotten(stage: Stage) -> None:
    stage.producer("idle")
    stage.clock.advance(WEEK)
    stage.advance(2 * 60 * 60 * 1000)
    stage.until(lambda: not stage.node.transactions.all())
    stage.restart()
    assert stage.node.transactions.all() == {}


def test_however_many_names_nobody_uses_they_are_forgotten(stage: Stage) -> None:
    """More than one decision holds: after a long stop all of them have expired."""
    idle = Transaction(5, 0, 60_000, Status.EMPTY, updated=stage.clock.now())
    for number in range(600):
        entry = entry_of(stage.clock.now(), f"{number:030000d}", idle)
        stage.node.transactions._durable.submit(lambda _, entry=entry: Decision(None, [entry]))
    stage.until(lambda: len(stage.node.transactions.all()) == 600)
    stage.clock.advance(WEEK)
    stage.advance(2 * 60 * 60 * 1000)
    stage.until(lambda: not stage.node.transactions.all())
    stage.kill()
    assert stage.node.transactions.all() == {}


# --- the end of a process


@GENERATIONS
@pytest.mark.parametrize("crash", [Stage.restart, Stage.kill, Stage.lose_power])
def test_an_open_transaction_goes_on_after_a_restart(crash: object, stage: Stage, generation: int) -> None:
    producer = with_records(stage, generation)
    before = stage.get()
    crash(stage)  # type: ignore[operator]
    assert stage.get() == before
    assert seen(stage) == ([], [], -2)
    assert not producer.write("orders", b"more")
    assert not producer.end(committed=True)
    assert seen(stage) == ([b"one", b"more"], [b"two"], 7)


def test_an_open_transaction_is_aborted_in_time_also_when_the_broker_was_restarted(stage: Stage) -> None:
    with_records(stage)
    stage.clock.advance(TIMEOUT)
    stage.kill()
    stage.advance(SWEEP + 1_000)
    stage.until_is(Status.COMPLETE_ABORT)
    assert seen(stage) == NOTHING


@GENERATIONS
@OUTCOMES
@pytest.mark.parametrize("crash", [Stage.restart, Stage.kill, Stage.lose_power])
@pytest.mark.parametrize("marked", [(), (0,), (1,), (OFFSETS,), (0, 1, OFFSETS)])
def test_what_was_decided_is_carried_out_after_a_crash(
    stage: Stage, generation: int, committed: bool, crash: object, marked: tuple[object, ...],
) -> None:  # fmt: skip
    """Whichever of the markers were written."""
    producer = with_records(stage, generation)
    transactions = stage.node.transactions
    handler = deciding.end(stage.clock.now(), "t", producer.producer, generation, None, committed=committed)
    stage.run(transactions._decided(handler))
    prepared = stage.get()
    for place in sorted(prepared.partitions):
        if (place if place == OFFSETS else place.partition) in marked:
            mark(stage, place, prepared)
    crash(stage)  # type: ignore[operator]
    stage.until_is(Status.COMPLETE_COMMIT if committed else Status.COMPLETE_ABORT)
    assert seen(stage) == outcome(committed=committed)
    assert not producer.end(committed=committed)
    assert not producer.write("orders", b"next")
    assert not producer.end(committed=True)


@GENERATIONS
@OUTCOMES
@pytest.mark.parametrize("crash", [Stage.restart, Stage.kill, Stage.lose_power])
def test_an_end_is_recognised_after_a_restart(crash: object, stage: Stage, generation: int, committed: bool) -> None:
    producer = with_records(stage, generation)
    body, version = producer.end_body(committed=committed), producer.end_version
    first = stage.ask(Api.END_TXN, body, version)
    crash(stage)  # type: ignore[operator]
    stage.quiet()
    assert stage.ask(Api.END_TXN, body, version) == first
    assert seen(stage) == outcome(committed=committed)


@pytest.mark.parametrize("crash", [Stage.restart, Stage.kill, Stage.lose_power])
def test_a_producer_that_asks_for_its_next_epoch_again_gets_the_same_after_a_restart(
    crash: object, stage: Stage
) -> None:
    producer = stage.producer()
    before = producer.producer
    assert not producer.initialise(keep=True)
    given, producer.producer = producer.producer, before
    crash(stage)  # type: ignore[operator]
    assert not producer.initialise(keep=True)
    assert producer.producer == given == before._replace(epoch=1)


def test_a_stop_while_an_end_is_under_way_lets_the_next_start_finish_it(stage: Stage) -> None:
    producer = with_records(stage)
    stage.files.fail("sync", OUTAGE)
    assert not producer.end_soon(committed=True)
    following = stage.begin(Api.END_TXN, producer.end_body(committed=False), 5)
    stage.turn()
    stage.node.stop()
    stage.advance(6_000)
    stage.until(following.done)
    assert following.result()["error_code"] in (ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS)
    stage.files.heal()
    stage.restart()
    stage.quiet()
    assert seen(stage) == ALL


# --- partitions that vanish


@OUTCOMES
def test_a_topic_that_is_deleted_inside_a_transaction_holds_nobody_up(stage: Stage, committed: bool) -> None:
    stage.create("other")
    producer = with_records(stage)
    assert not producer.write("other", b"gone")
    stage.delete("other")
    assert not producer.end(committed=committed)
    assert seen(stage) == outcome(committed=committed)


def test_a_topic_that_was_made_anew_inside_a_transaction_has_none_of_it(stage: Stage) -> None:
    stage.create("other")
    producer = with_records(stage)
    assert not producer.write("other", b"gone")
    stage.delete("other")
    stage.create("other")
    assert not producer.end(committed=True)
    assert (stage.values("other"), seen(stage)) == ([], ALL)


def test_a_topic_that_is_deleted_after_a_crash_with_markers_missing_holds_nobody_up(stage: Stage) -> None:
    producer = with_records(stage)
    handler = deciding.end(stage.clock.now(), "t", producer.producer, 2, None, committed=True)
    stage.run(stage.node.transactions._decided(handler))
    stage.node.transactions.start = lambda: None  # type: ignore[method-assign]
    stage.delete("orders")
    stage.kill()
    stage.until_is(Status.COMPLETE_COMMIT)


# --- an ill disk


@GENERATIONS
@OUTCOMES
@pytest.mark.parametrize("part", [OUTAGE, "/__consumer_offsets-0/"])
def test_the_next_transaction_waits_for_markers_that_an_ill_disk_holds_back(
    stage: Stage, generation: int, committed: bool, part: str, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """A marker that came behind its first record would end it, too."""
    producer = with_records(stage, generation, timeout=LONGEST)  # the clock runs on until the log's threads are done
    stage.files.fail("sync", part)
    assert not producer.end_soon(committed=committed)
    stage.until(lambda: "could not be written to" in caplog.text)
    following = begin_next(stage, producer)
    for _ in range(10):
        stage.turn()
    assert not following.done()
    stage.files.heal()
    assert _answer_at_last(stage, following, partial(begin_next, stage, producer)) == ErrorCode.NONE
    assert not producer.write("orders", b"next", number=1)
    assert seen(stage) == outcome(committed=committed)
    assert stage.partition(number=1).has_transaction(*producer.producer)
    assert not producer.end(committed=True)
    assert stage.values(number=1) == [*outcome(committed=committed)[1], b"next"]


def begin_next(stage: Stage, producer: TransactionalProducer) -> asyncio.Task[Any]:
    """The request with which a producer's next transaction begins."""
    if producer.generation == 1:
        return stage.begin(Api.ADD_PARTITIONS_TO_TXN, producer.add_body(("orders", 0)), 3)
    return stage.begin(Api.PRODUCE, producer.produce_body("orders", 0, producer.batch((b"next",), 0)), 12)


def _code_of(answer: dict[str, Any]) -> ErrorCode:
    if "responses" in answer:
        return ErrorCode(answer["responses"][0]["partition_responses"][0]["error_code"])
    if "results_by_topic_v3_and_below" in answer:
        (topic,) = answer["results_by_topic_v3_and_below"]
        return ErrorCode(topic["results_by_partition"][0]["partition_error_code"])
    if "topics" in answer:
        return ErrorCode(answer["topics"][0]["partitions"][0]["error_code"])
    return ErrorCode(answer["error_code"])


def _answer_at_last(
    stage: Stage, asked: asyncio.Task[dict[str, Any]], ask_again: Callable[[], asyncio.Task[dict[str, Any]]]
) -> ErrorCode:
    """The clock is ours and the log's threads are not: on a busy machine it runs ahead of them, and whoever waits is
    told to come again, as often as that happens."""
    for _ in range(TRIES):
        stage.until(partial(_heals, stage, asked))
        if _code_of(asked.result()) != ErrorCode.CONCURRENT_TRANSACTIONS:
            break
        asked = ask_again()
    return _code_of(asked.result())


def _heals(stage: Stage, asked: asyncio.Task[object]) -> bool:
    stage.advance(1_000)
    stage.node.log.maintain()
    # Of the machine's time, which the log's threads need: a time-out of the stage's goes by meanwhile.
    time.sleep(0.001)
    return asked.done()


@GENERATIONS
def test_who_has_to_wait_too_long_for_an_end_is_told_to_come_again(stage: Stage, generation: int) -> None:
    producer = with_records(stage, generation, timeout=LONGEST)
    stage.files.fail("sync", OUTAGE)
    assert not producer.end_soon(committed=True)
    waiting = [begin_next(stage, producer), stage.begin(Api.END_TXN, producer.end_body(committed=False), 5)]
    stage.turn()
    for _ in range(6):
        stage.advance(1_000)
    stage.until(lambda: all(each.done() for each in waiting))
    assert {_code_of(each.result()) for each in waiting} == {ErrorCode.CONCURRENT_TRANSACTIONS}
    stage.files.heal()
    again = partial(begin_next, stage, producer)
    assert _answer_at_last(stage, again(), again) == ErrorCode.NONE
    assert seen(stage) == ALL


def test_a_batch_does_not_pass_one_that_waited_too_long_for_an_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = with_records(stage)
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=True)
    bodies = [
        producer.produce_body("orders", 0, producer.batch((value,), sequence))
        for sequence, value in enumerate((b"first", b"second"))
    ]
    first = stage.begin(Api.PRODUCE, bodies[0], 12)
    stage.turn()
    stage.advance(3_000)
    second = stage.begin(Api.PRODUCE, bodies[1], 12)
    stage.turn()
    stage.advance(2_000)
    stage.until(first.done)
    held[0]()
    stage.until(second.done)
    assert [_code_of(each.result()) for each in (first, second)] == [ErrorCode.CONCURRENT_TRANSACTIONS] * 2
    monkeypatch.undo()
    for body in bodies:
        assert _code_of(stage.ask(Api.PRODUCE, body, 12)) == ErrorCode.NONE
    assert not producer.end(committed=True)
    assert stage.values() == [b"one", b"first", b"second"]


def test_in_the_first_generation_what_follows_an_addition_that_waits_for_an_end_waits_behind_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = with_records(stage, generation=1)
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=True)
    body = {"transactional_id": "t", "producer_id": producer.producer.producer_id, "group_id": "g"}
    asked = [
        stage.begin(Api.ADD_PARTITIONS_TO_TXN, producer.add_body(("orders", 0)), 3),
        stage.begin(Api.PRODUCE, producer.produce_body("orders", 0, producer.batch((b"next",), 1)), 11),
        stage.begin(Api.ADD_OFFSETS_TO_TXN, body | {"producer_epoch": producer.producer.epoch}, 3),
        stage.begin(Api.TXN_OFFSET_COMMIT, producer.offset_body(8), 4),
    ]
    for _ in range(10):
        stage.turn()
    assert not any(each.done() for each in asked)
    held[0]()
    stage.until(lambda: all(each.done() for each in asked))
    assert [_code_of(each.result()) for each in asked] == [ErrorCode.NONE] * 4
    monkeypatch.undo()
    assert not producer.end(committed=True)
    assert seen(stage) == ([b"one", b"next"], [b"two"], 8)


DEFECTS = [("add", 1), ("add", 2), ("verify", 1), ("end", 1), ("end", 2)]


@pytest.mark.parametrize(("decision", "generation"), DEFECTS)
def test_a_defect_behind_the_wait_for_an_end_is_answered(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, decision: str, generation: int
) -> None:
    caplog.set_level(logging.CRITICAL)
    producer = with_records(stage, generation)
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=True)
    if decision == "add":
        asked = begin_next(stage, producer)
    elif decision == "verify":
        asked = stage.begin(Api.PRODUCE, producer.produce_body("orders", 0, producer.batch((b"next",), 1)), 11)
    else:
        asked = stage.begin(Api.END_TXN, producer.end_body(committed=True), producer.end_version)
    stage.turn()

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(deciding, decision, fail)
    held[0]()
    stage.until(asked.done)
    assert _code_of(asked.result()) == ErrorCode.UNKNOWN_SERVER_ERROR


# --- who reads what is committed


def held_back(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """The markers are not handed to the log before these are called."""
    start, held = Ending.start, []
    monkeypatch.setattr(Ending, "start", lambda ending: held.append(partial(start, ending)))
    return held


def begin_fetch(stage: Stage, number: int = 0, *, committed: bool = True, **limits: int) -> asyncio.Task[Any]:
    body = fetch_body({"orders": {number: 0}}, isolation_level=int(committed), **limits)
    return stage.begin(Api.FETCH, body, 11)


def begin_list_offsets(stage: Stage, number: int = 0, *, committed: bool, version: int = 7) -> asyncio.Task[Any]:
    latest = {"partition_index": number, "current_leader_epoch": -1, "timestamp": -1}
    body = {"replica_id": -1, "isolation_level": int(committed), "topics": [{"name": "orders", "partitions": [latest]}]}
    return stage.begin(Api.LIST_OFFSETS, body | {"timeout": 1_000}, version)


@GENERATIONS
@OUTCOMES
def test_an_end_is_answered_while_its_markers_are_on_their_way_and_readers_wait_for_them(
    stage: Stage, generation: int, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = with_records(stage, generation)
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=committed)
    fetches = [begin_fetch(stage), begin_fetch(stage, max_wait=500)]
    offsets = [begin_list_offsets(stage, committed=True), begin_list_offsets(stage, committed=False)]
    for _ in range(10):
        stage.turn()
    assert not any(each.done() for each in (*fetches, *offsets))
    (start,) = held
    start()
    stage.until(lambda: all(each.done() for each in (*fetches, *offsets)))
    for each in fetches:
        (answer,) = each.result()["responses"][0]["partitions"]
        assert values_in(answer["records"], answer["aborted_transactions"]) == outcome(committed=committed)[0]
        assert answer["last_stable_offset"] == 2
    assert [each.result()["topics"][0]["partitions"][0]["offset"] for each in offsets] == [2, 2]


def test_those_who_read_something_else_do_not_wait_for_markers(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = stage.producer()
    assert not producer.write("orders", b"one")
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=True)
    others = [begin_fetch(stage, committed=False), begin_fetch(stage, 1)]
    stage.until(lambda: all(each.done() for each in others))
    held[0]()


def test_readers_wait_for_markers_but_for_a_moment(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = with_records(stage)
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=True)
    waiting = [begin_fetch(stage), begin_list_offsets(stage, committed=True)]
    stage.turn()
    assert not any(each.done() for each in waiting)
    stage.advance(1_000)
    stage.until(lambda: all(each.done() for each in waiting))
    assert stage.values() == []  # nor does who comes later wait again
    held[0]()
    stage.quiet()
    assert stage.values() == [b"one"]


def test_readers_do_not_wait_for_markers_that_an_ill_disk_refused(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    producer = with_records(stage)
    stage.files.fail("sync", OUTAGE)
    assert not producer.end_soon(committed=True)
    stage.until(lambda: "could not be written to" in caplog.text)
    assert (stage.values(), stage.values(number=1)) == ([b"one"], [])
    stage.files.heal()
    stage.advance(2_000)
    stage.node.log.maintain()
    stage.advance(2_000)
    stage.quiet()
    assert seen(stage) == ALL


def end_of(stage: Stage, number: int = 0, *, committed: bool = True, version: int = 7) -> tuple[ErrorCode, int]:
    asked = begin_list_offsets(stage, number, committed=committed, version=version)
    stage.until(asked.done)
    (answer,) = asked.result()["topics"][0]["partitions"]
    return ErrorCode(answer["error_code"]), answer["offset"]


NOT_AVAILABLE = (ErrorCode.OFFSET_NOT_AVAILABLE, -1)


def test_the_end_of_what_is_committed_is_not_told_while_a_marker_is_refused(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    producer = with_records(stage)
    stage.files.fail("sync", OUTAGE)
    assert not producer.end_soon(committed=True)
    stage.until(lambda: "could not be written to" in caplog.text)
    assert end_of(stage) == (ErrorCode.NONE, 2)  # its marker is there
    assert [end_of(stage, 1, version=version) for version in (5, 11)] == [NOT_AVAILABLE] * 2
    assert end_of(stage, 1, version=4) == (ErrorCode.NONE, 0)
    assert end_of(stage, 1, committed=False) == (ErrorCode.NONE, 1)
    stage.files.heal()
    stage.advance(2_000)
    stage.node.log.maintain()
    stage.advance(2_000)
    stage.quiet()
    assert end_of(stage, 1) == (ErrorCode.NONE, 2)


@OUTCOMES
def test_the_end_of_what_is_committed_is_not_told_while_a_marker_is_late(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    producer = with_records(stage)
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=committed)
    stage.advance(1_000)
    assert end_of(stage) == (NOT_AVAILABLE if committed else (ErrorCode.NONE, 0))
    held[0]()
    stage.quiet()
    assert end_of(stage) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize("stable", [True, False])
def test_who_asks_for_offsets_waits_for_those_that_are_committed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    producer = with_records(stage)
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=True)
    asked = begin_offset_fetch(stage, stable=stable)
    for _ in range(10):
        stage.turn()
    assert not asked.done()
    held[0]()
    stage.until(asked.done)
    assert offset_in(asked) == (ErrorCode.NONE, 7)


@pytest.mark.parametrize("stable", [True, False])
def test_an_old_offset_is_not_told_while_a_committed_one_is_late(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    producer, other = with_records(stage), stage.producer("other")
    assert not other.commit_offset(3, group="h")
    assert not other.end(committed=True)
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=True)
    stage.advance(1_000)
    asked = [begin_offset_fetch(stage, group, stable=stable) for group in ("g", "h")]
    stage.until(lambda: all(each.done() for each in asked))
    assert [offset_in(each) for each in asked] == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1), (ErrorCode.NONE, 3)]
    held[0]()
    stage.quiet()
    assert stage.committed_offset(stable=stable) == 7


def begin_offset_fetch(stage: Stage, group: str = "g", *, stable: bool) -> asyncio.Task[Any]:
    topics = [{"name": "orders", "partition_indexes": [0]}]
    return stage.begin(Api.OFFSET_FETCH, {"group_id": group, "topics": topics, "require_stable": stable}, 7)


def offset_in(asked: asyncio.Task[Any]) -> tuple[ErrorCode, int]:
    (answer,) = asked.result()["topics"][0]["partitions"]
    assert answer["error_code"] == asked.result()["error_code"]
    return ErrorCode(answer["error_code"]), answer["committed_offset"]


def test_readers_do_not_look_through_ends_that_are_late(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ill disk can hold back thousands."""
    held = held_back(monkeypatch)
    for name in ("a", "b"):
        assert not with_records(stage, name=name).end_soon(committed=True)
    stage.advance(1_000)
    asked: list[Ending] = []
    real = Ending.holds_up_readers
    monkeypatch.setattr(Ending, "holds_up_readers", lambda each, places: asked.append(each) or real(each, places))
    assert stage.values() == []
    assert asked == []
    for start in held:
        start()
    stage.quiet()
    assert stage.values() == [b"one", b"one"]


def test_who_deletes_all_records_deletes_the_markers_that_are_on_their_way(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = with_records(stage)
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=True)
    places = [{"partition_index": 0, "offset": -1}]
    body = {"topics": [{"name": "orders", "partitions": places}], "timeout": 1_000}
    asked = stage.begin(Api.DELETE_RECORDS, body)
    for _ in range(10):
        stage.turn()
    assert not asked.done()
    held[0]()
    stage.until(asked.done)
    (answer,) = asked.result()["topics"][0]["partitions"]
    assert (answer["error_code"], answer["low_watermark"]) == (ErrorCode.NONE, 2)


def test_a_compaction_begins_behind_the_markers_that_are_on_their_way(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.create("table", cleanup_policy="compact")
    producer = stage.producer()
    record = Record(b"tea", b"key", stage.clock.now())
    batch = build_batch([record], producer=RecordProducer(*producer.producer, 0), attributes=TRANSACTIONAL)
    assert _code_of(stage.ask(Api.PRODUCE, producer.produce_body("table", 0, batch), 12)) == ErrorCode.NONE
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=True)
    request = SimpleNamespace(body={"name": "table", "partition_index": 0, "dry_run": True})
    asked = stage.loop.create_task(compact_topic.handle(stage.node, request))  # type: ignore[arg-type]
    for _ in range(10):
        stage.turn()
    assert not asked.done()
    held[0]()
    stage.until(asked.done)
    assert asked.result()["end_offset"] == 2


def test_a_defect_behind_a_readers_wait_reaches_its_connection(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = with_records(stage)
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=True)
    fetch = begin_fetch(stage)
    stage.turn()

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Fetching, "_read_now", fail)
    held[0]()
    stage.until(fetch.done)
    assert isinstance(fetch.exception(), RuntimeError)


def test_a_reader_does_not_go_on_to_wait_for_a_topic_that_was_deleted_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = with_records(stage)
    gone = stage.partition()
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=True)
    fetch = stage.begin(Api.FETCH, fetch_body({"orders": {0: 1}}, isolation_level=1, max_wait=500), 11)
    stage.turn()
    stage.delete("orders")
    assert not fetch.done()
    held[0]()
    stage.until(fetch.done)
    (answer,) = fetch.result()["responses"][0]["partitions"]
    assert answer["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert gone not in stage.node.waits._waiting


# --- an outcome that gets lost


def test_an_outcome_that_could_not_be_stored_is_none(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    producer = with_records(stage)
    stage.files.fail("sync", "/__transaction_state-0/")
    assert producer.end(committed=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert producer.end(committed=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE  # while it is ill
    assert stage.values() == []
    stage.files.heal()
    stage.advance(2_000)
    stage.node.log.maintain()
    assert stage.get().status is Status.ONGOING
    assert not producer.end(committed=True)
    assert seen(stage) == ALL


def test_that_an_end_is_complete_may_get_lost_and_is_made_up_for(stage: Stage) -> None:
    """Otherwise the producer would be told to come again for ever."""
    producer = with_records(stage)
    transactions = stage.node.transactions
    handler = deciding.end(stage.clock.now(), "t", producer.producer, 2, None, committed=True)
    stage.run(transactions._decided(handler))
    prepared = stage.get()
    for place in prepared.partitions:
        mark(stage, place, prepared)
    stage.advance(SWEEP + 1_000)
    stage.until_is(Status.COMPLETE_COMMIT)
    assert seen(stage) == ALL


# --- that an end is complete is written down when there is time


def journaled(stage: Stage, name: str = "t") -> list[Status]:
    """What stands in the journal, one after the other."""
    records = stage.node.log.partition("__transaction_state").records()
    return [read_value(each.value).status for each in records if each.value and each.key == write_key(name)]


def ends(stage: Stage) -> tuple[int, int]:
    return stage.partition().end_offset, stage.partition(number=1).end_offset


@GENERATIONS
@OUTCOMES
def test_the_next_transaction_is_written_over_the_end_of_the_last(
    stage: Stage, generation: int, committed: bool
) -> None:
    producer = stage.producer(generation=generation)
    for _ in range(2):
        assert not producer.write("orders", b"x")
        assert not producer.end(committed=committed)
    prepared = Status.PREPARE_COMMIT if committed else Status.PREPARE_ABORT
    assert journaled(stage) == [Status.EMPTY, Status.ONGOING, prepared, Status.ONGOING, prepared]


@GENERATIONS
@OUTCOMES
def test_that_an_end_is_complete_is_written_down_a_moment_later(stage: Stage, generation: int, committed: bool) -> None:
    producer = with_records(stage, generation)
    assert not producer.end(committed=committed)
    complete = Status.COMPLETE_COMMIT if committed else Status.COMPLETE_ABORT
    assert stage.get().status is complete
    assert complete not in journaled(stage)
    stage.advance(COMPLETED_AFTER)
    stage.until(lambda: complete in journaled(stage))
    before = ends(stage)
    stage.kill()
    stage.quiet()
    assert ends(stage) == before  # nothing is marked again
    assert not producer.write("orders", b"next")
    assert not producer.end(committed=True)


def test_what_is_complete_stays_so_while_it_cannot_be_written_down(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    producer = with_records(stage)
    assert not producer.end(committed=True)
    before = ends(stage)
    stage.files.fail("sync", "/__transaction_state-0/", times=100)
    stage.node.log.checkpoint()  # meets the ill disk first, and nothing is lost
    stage.advance(COMPLETED_AFTER)
    stage.turn()
    assert stage.get().status is Status.COMPLETE_COMMIT
    assert Status.COMPLETE_COMMIT not in journaled(stage)
    stage.files.heal()
    assert stage.node.log.partition("__transaction_state").heal()
    stage.advance(COMPLETED_AFTER)
    stage.until(lambda: Status.COMPLETE_COMMIT in journaled(stage))
    stage.until(lambda: not stage.node.transactions._endings.marked)

    assert ends(stage) == before, "nothing is marked again"
    assert not producer.write("orders", b"next")


def test_many_ends_are_completed_in_few_decisions(stage: Stage) -> None:
    names = [str(number) for number in range(COMPLETED_AT_ONCE + 2)]
    for name in names:
        producer = stage.producer(name)
        assert not producer.write("orders", b"x")
        assert not producer.end(committed=True)
    before = stage.node.log.partition("__transaction_state").synced_offset
    stage.advance(COMPLETED_AFTER)
    stage.until(lambda: all(Status.COMPLETE_COMMIT in journaled(stage, name) for name in names))
    batches = list(stage.node.log.partition("__transaction_state").batches(before))
    assert [header.count for header, _ in batches] == [COMPLETED_AT_ONCE, 2]


def test_a_stop_writes_down_what_is_complete(stage: Stage) -> None:
    producer = with_records(stage)
    assert not producer.end(committed=True)
    before = ends(stage)
    stage.restart()
    assert journaled(stage)[-1] is Status.COMPLETE_COMMIT
    assert ends(stage) == before


def test_an_end_that_comes_through_while_the_broker_stops_leaves_the_next_start_nothing_to_write(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = with_records(stage)
    held = held_back(monkeypatch)
    assert not producer.end_soon(committed=True)
    stage.node.stop()
    held.pop()()
    stage.until(lambda: not stage.node.transactions.are_ending)
    before = ends(stage)
    stage.restart()
    assert held == []
    assert ends(stage) == before
    assert journaled(stage)[-1] is Status.COMPLETE_COMMIT
    assert seen(stage) == ALL


@GENERATIONS
@OUTCOMES
@pytest.mark.parametrize("crash", [Stage.kill, Stage.lose_power])
def test_a_crash_before_that_is_written_down_writes_the_markers_once_more(
    stage: Stage, generation: int, committed: bool, crash: object
) -> None:
    producer = with_records(stage, generation)
    assert not producer.end(committed=committed)
    before = ends(stage)
    crash(stage)  # type: ignore[operator]
    stage.quiet()
    assert ends(stage) == (before[0] + 1, before[1] + 1)
    assert seen(stage) == outcome(committed=committed)
    assert not producer.write("orders", b"next")
    assert not producer.end(committed=True)
    assert stage.values() == [*outcome(committed=committed)[0], b"next"]


@GENERATIONS
@OUTCOMES
@pytest.mark.parametrize("crash", [Stage.kill, Stage.lose_power])
def test_a_crash_after_the_next_transaction_has_begun_marks_nothing_again(
    stage: Stage, generation: int, committed: bool, crash: object
) -> None:
    """A second marker of the last one would end it."""
    producer = with_records(stage, generation)
    assert not producer.end(committed=committed)
    assert not producer.write("orders", b"next")
    before = ends(stage)
    crash(stage)  # type: ignore[operator]
    for _ in range(10):
        stage.turn()
    assert ends(stage) == before
    assert stage.get().status is Status.ONGOING
    assert stage.partition().has_transaction(*producer.producer)
    assert not producer.end(committed=True)
    assert stage.values() == [*outcome(committed=committed)[0], b"next"]


@GENERATIONS
def test_a_begin_that_gets_lost_leaves_the_last_transaction_ended(stage: Stage, generation: int) -> None:
    producer = with_records(stage, generation)
    assert not producer.end(committed=True)
    stage.files.fail("sync", "/__transaction_state-0/")
    by_adding = generation == 1
    told = ErrorCode.COORDINATOR_NOT_AVAILABLE if by_adding else ErrorCode.KAFKA_STORAGE_ERROR
    assert producer.write("orders", b"lost") == told
    stage.files.heal()
    stage.advance(2_000)
    stage.node.log.maintain()
    assert seen(stage) == ALL
    assert stage.get().status is Status.PREPARE_COMMIT  # what is known of its markers went with the state
    stage.advance(SWEEP)
    stage.until_is(Status.COMPLETE_COMMIT)
    assert not producer.write("orders", b"next")
    assert not producer.end(committed=True)
    assert seen(stage) == ([b"one", b"next"], [b"two"], 7)


def test_an_end_is_answered_also_if_its_state_is_not_known_any_more_when_it_is_durable(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = with_records(stage)

    def ill(*_: object) -> Transaction | None:
        raise Transient("the disk is ill", hint="wait")

    monkeypatch.setattr(stage.node.transactions._endings, "get", ill)
    assert producer.end(committed=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    monkeypatch.undo()
    assert not producer.end(committed=True)
    assert seen(stage) == ALL


@GENERATIONS
@OUTCOMES
def test_a_transaction_without_partitions_ends(stage: Stage, generation: int, committed: bool) -> None:
    producer = stage.producer(generation=generation)
    body = {
        "v3_and_below_transactional_id": "t",
        "v3_and_below_producer_id": producer.producer.producer_id,
        "v3_and_below_producer_epoch": producer.producer.epoch,
        "v3_and_below_topics": [],
    }
    stage.ask(Api.ADD_PARTITIONS_TO_TXN, body, 3)
    assert stage.get().status is Status.ONGOING
    assert not producer.end(committed=committed)
    assert stage.get().status is (Status.COMPLETE_COMMIT if committed else Status.COMPLETE_ABORT)


def test_an_ill_disk_does_not_stop_the_care(stage: Stage) -> None:
    producer = with_records(stage)
    stage.files.fail("sync", "/__transaction_state-0/")
    assert producer.end(committed=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    stage.advance(TIMEOUT + SWEEP)  # the sweep finds nothing to look at
    stage.files.heal()
    stage.advance(SWEEP)
    stage.node.log.maintain()
    stage.advance(2 * SWEEP)
    stage.until_is(Status.COMPLETE_ABORT)
    assert seen(stage) == NOTHING


# --- what is known at once


def test_a_partition_that_joins_after_a_loss_is_not_known_before_it_is_durable(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """After a loss the journal goes on at the offset that got lost: the same number does not mean that none joined."""
    caplog.set_level(logging.CRITICAL)
    first, other = with_records(stage), stage.producer("other")
    transactions = stage.node.transactions
    assert not other.end(committed=False)
    stage.files.fail("sync", "/__transaction_state-0/")
    assert other.write("orders", b"x") == ErrorCode.KAFKA_STORAGE_ERROR
    stage.files.heal()
    stage.advance(2_000)
    stage.node.log.maintain()
    place = TopicPartition("more", 0)
    with stage.node.log._commits.exclusive():  # nothing becomes durable inside
        joined = transactions.add("t", first.producer, [place], 2)
        assert not transactions.has("t", first.producer, place)
    stage.until(joined.done)
    assert transactions.has("t", first.producer, place)


# --- fresh ids


def test_an_end_is_answered_whatever_keeps_it_from_a_fresh_id(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    producer = with_records(stage)

    async def fail() -> int:
        raise RuntimeError("a defect")

    monkeypatch.setattr(stage.node.producer_ids, "next", fail)
    monkeypatch.setattr(Transaction, "is_exhausted", True)

    assert producer.end(committed=True) == ErrorCode.UNKNOWN_SERVER_ERROR
