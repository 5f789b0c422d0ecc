"""Fetch and ListOffsets with isolation level 1: what readers of committed records get, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import SERVED, Api
from tests.broker_wire import fetch_body, records_in
from tests.unit.broker.transactions.stage import READ_COMMITTED, Stage

FETCHES = range(SERVED[Api.FETCH].least, SERVED[Api.FETCH].most + 1)
LISTS = range(2, SERVED[Api.LIST_OFFSETS].most + 1)  # version 1 knows no isolation
LATEST, EARLIEST, NEWEST = -1, -2, -3


def body_of(stage: Stage, offset: int = 0, *, committed: bool = True, **limits: int) -> dict[str, Any]:
    topic = stage.node.topics.find("orders")
    assert topic is not None
    body = fetch_body({"orders": {0: offset}}, isolation_level=READ_COMMITTED if committed else 0, **limits)
    body["topics"][0]["topic_id"] = topic.id
    return body


def fetch(stage: Stage, version: int = 16, offset: int = 0, *, committed: bool = True, **limits: int) -> Any:
    answer = stage.ask(Api.FETCH, body_of(stage, offset, committed=committed, **limits), version)
    (found,) = answer["responses"][0]["partitions"]
    assert found["error_code"] == ErrorCode.NONE
    return found


def offsets_in(fetched: Any) -> list[int]:
    return [record.offset for record in records_in(fetched["records"])]


def aborted_in(fetched: Any) -> list[tuple[int, int]]:
    return [(each["producer_id"], each["first_offset"]) for each in fetched["aborted_transactions"]]


def waiting(stage: Stage, offset: int = 0, *, committed: bool = True, min_bytes: int = 1) -> asyncio.Task[Any]:
    body = body_of(stage, offset, committed=committed, max_wait=10_000, min_bytes=min_bytes)
    task = stage.begin(Api.FETCH, body, 16)
    for _ in range(5):
        stage.turn()
    return task


def given(task: asyncio.Task[Any]) -> list[int]:
    (found,) = task.result()["responses"][0]["partitions"]
    return offsets_in(found)


@pytest.mark.parametrize("version", FETCHES)
def test_nothing_is_given_from_the_first_open_transaction_on(transactional: Stage, version: int) -> None:
    done, still_open = transactional.producer("done"), transactional.producer("open")
    done.write("orders", b"0")
    done.end(committed=True)  # its marker is at 1
    still_open.write("orders", b"2")
    done.write("orders", b"3")
    done.end(committed=True)
    found = fetch(transactional, version)
    assert offsets_in(found) == [0, 1]
    assert (found["high_watermark"], found["last_stable_offset"]) == (5, 2)
    assert offsets_in(fetch(transactional, version, committed=False)) == [0, 1, 2, 3, 4]
    assert fetch(transactional, version, committed=False)["last_stable_offset"] == 2
    still_open.end(committed=True)
    assert offsets_in(fetch(transactional, version)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("version", FETCHES)
def test_the_aborted_transactions_are_named_and_only_to_those_who_ask_for_committed_records(
    transactional: Stage, version: int
) -> None:
    producer = transactional.producer()
    producer_id = producer.producer.producer_id
    for committed in (False, True, False):
        producer.write("orders", b"a", b"b")
        producer.end(committed=committed)
    assert aborted_in(fetch(transactional, version)) == [(producer_id, 0), (producer_id, 6)]
    assert fetch(transactional, version, committed=False)["aborted_transactions"] is None
    assert aborted_in(fetch(transactional, version, 1)) == [(producer_id, 0), (producer_id, 6)]
    assert aborted_in(fetch(transactional, version, 3)) == [(producer_id, 6)]
    assert aborted_in(fetch(transactional, version, 3, partition_max_bytes=1)) == []  # only what is in the answer
    assert aborted_in(fetch(transactional, version, 9)) == []


def test_where_nothing_was_aborted_the_list_is_empty_and_not_null(transactional: Stage) -> None:
    assert fetch(transactional)["aborted_transactions"] == []


@pytest.mark.parametrize("committed", [True, False])
def test_who_waits_gets_the_records_when_the_transaction_ends(transactional: Stage, committed: bool) -> None:
    producer = transactional.producer()
    task = waiting(transactional)
    producer.write("orders", b"one")
    for _ in range(10):
        transactional.turn()
    assert not task.done()
    producer.end(committed=committed)
    transactional.until(task.done)
    assert given(task) == [0, 1]


def test_who_reads_everything_does_not_wait_for_the_end(transactional: Stage) -> None:
    producer = transactional.producer()
    task = waiting(transactional, committed=False)
    producer.write("orders", b"one")
    transactional.until(task.done)
    assert given(task) == [0]


def test_who_waits_behind_an_open_transaction_gets_what_is_there_when_the_time_is_up(transactional: Stage) -> None:
    transactional.producer().write("orders", b"one")
    task = waiting(transactional)
    assert not task.done()
    transactional.advance(10_000)
    transactional.until(task.done)
    assert given(task) == []


def test_records_of_an_open_transaction_do_not_count_for_the_least_size(transactional: Stage) -> None:
    producer = transactional.producer()
    producer.write("orders", b"x" * 2_000)
    task = waiting(transactional, min_bytes=1_000)
    assert not task.done()
    producer.end(committed=True)
    transactional.until(task.done)
    assert given(task) == [0, 1]


def test_an_end_that_brings_too_little_is_not_enough_for_the_least_size(transactional: Stage) -> None:
    """Bytes of a transaction that is still open are not bytes that a reader of committed records can have."""
    small, large = transactional.producer("small"), transactional.producer("large")
    small.write("orders", b"x")
    task = waiting(transactional, min_bytes=1_000)
    large.write("orders", b"x" * 2_000)
    small.end(committed=True)
    for _ in range(10):
        transactional.turn()
    assert not task.done()
    large.end(committed=True)
    transactional.until(task.done)
    assert given(task) == [0, 1, 2, 3]


def test_a_time_out_of_the_transaction_lets_readers_go_on(transactional: Stage) -> None:
    transactional.producer(timeout=1_000).write("orders", b"hangs")
    plain = transactional.producer("other")
    plain.write("orders", b"fine")
    plain.end(committed=True)
    assert transactional.values() == []
    transactional.advance(12_000)
    transactional.until(lambda: transactional.values() == [b"fine"])


def listed(stage: Stage, version: int, timestamp: int, *, committed: bool) -> int:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    body = {"replica_id": -1, "isolation_level": READ_COMMITTED if committed else 0, "timeout": 1_000}
    answer = stage.ask(Api.LIST_OFFSETS, body | {"topics": [{"name": "orders", "partitions": [asked]}]}, version)
    (found,) = answer["topics"][0]["partitions"]
    assert found["error_code"] == ErrorCode.NONE
    return int(found["offset"])


@pytest.mark.parametrize("version", LISTS)
def test_the_end_of_what_is_committed_is_where_the_first_open_transaction_begins(
    transactional: Stage, version: int
) -> None:
    producer = transactional.producer()
    producer.write("orders", b"0")
    producer.end(committed=True)
    transactional.clock.advance(1_000)
    between = transactional.clock.now()
    producer.write("orders", b"2")
    assert listed(transactional, version, LATEST, committed=True) == 2
    assert listed(transactional, version, LATEST, committed=False) == 3
    assert listed(transactional, version, EARLIEST, committed=True) == 0
    assert listed(transactional, version, between, committed=True) == -1
    assert listed(transactional, version, between, committed=False) == 2
    if version >= 7:
        assert listed(transactional, version, NEWEST, committed=False) == 2
    producer.end(committed=True)
    assert listed(transactional, version, LATEST, committed=True) == 4
    assert listed(transactional, version, between, committed=True) == 2
