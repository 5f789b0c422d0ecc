"""Produce inside of transactions, in all its versions."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from runnel.broker.transactions import Status, TopicPartition
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import Producer, Record, build_batch
from tests.unit.broker.transactions.stage import Stage, TransactionalProducer

FIRST, SECOND = range(3, 12), (12, 13)
ORDERS = TopicPartition("orders", 0)


def produce(
    producer: TransactionalProducer, version: int, sequence: int = 0, value: bytes = b"x", number: int = 0
) -> ErrorCode:
    body = producer.produce_body("orders", number, producer.batch((value,), sequence))
    answer = producer.stage.ask(Api.PRODUCE, body, version)
    (result,) = answer["responses"][0]["partition_responses"]
    return ErrorCode(result["error_code"])


@pytest.mark.parametrize("version", FIRST)
def test_in_the_first_generation_a_partition_has_to_be_added(transactional: Stage, version: int) -> None:
    producer = transactional.producer(generation=1)
    refused = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE
    assert produce(producer, version) == refused
    producer.add(("orders", 0))
    assert produce(producer, version, number=1) == refused
    assert produce(producer, version) == ErrorCode.NONE
    assert produce(producer, version, 1) == ErrorCode.NONE
    producer.end(committed=True)
    assert produce(producer, version, 2) == refused
    assert transactional.values() == [b"x", b"x"]


@pytest.mark.parametrize("version", SECOND)
def test_in_the_second_generation_a_partition_joins_with_its_first_batch(transactional: Stage, version: int) -> None:
    producer = transactional.producer()
    assert produce(producer, version) == ErrorCode.NONE
    assert (transactional.get().status, transactional.get().partitions) == (Status.ONGOING, {ORDERS})
    assert produce(producer, version, number=1) == ErrorCode.NONE
    assert len(transactional.get().partitions) == 2


@pytest.mark.parametrize("version", [*FIRST, *SECOND])
def test_a_fenced_producer_writes_nothing(transactional: Stage, version: int) -> None:
    old = transactional.producer(generation=1)
    old.add(("orders", 0))
    assert produce(old, version) == ErrorCode.NONE
    transactional.producer(generation=1)
    end = transactional.partition().end_offset
    assert produce(old, version, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert produce(old, version, number=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert transactional.partition().end_offset == end
    assert transactional.partition(number=1).end_offset == 0


@pytest.mark.parametrize("version", [*FIRST, *SECOND])
def test_an_unknown_producer_writes_nothing(transactional: Stage, version: int) -> None:
    producer = transactional.producer("mine")
    producer.name = "unknown"
    assert produce(producer, version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert transactional.partition().end_offset == 0


def test_a_batch_that_is_sent_twice_is_written_once(transactional: Stage) -> None:
    producer = transactional.producer()
    for _ in range(2):
        assert produce(producer, 12, 0) == ErrorCode.NONE
    producer.end(committed=True)
    assert transactional.values() == [b"x"]


def test_a_batch_that_comes_after_the_end_of_its_transaction_is_refused(transactional: Stage) -> None:
    producer = transactional.producer()
    produce(producer, 12)
    late = producer.produce_body("orders", 0, producer.batch((b"late",), 1))
    producer.end(committed=True)
    answer = transactional.ask(Api.PRODUCE, late, 12)
    (result,) = answer["responses"][0]["partition_responses"]
    assert result["error_code"] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert transactional.get().status is Status.COMPLETE_COMMIT
    assert transactional.values() == [b"x"]


def test_a_batch_outside_of_the_open_transaction_is_refused(transactional: Stage) -> None:
    producer = transactional.producer()
    produce(producer, 12)
    plain = build_batch([Record(b"plain", None, 1)], producer=Producer(*producer.producer, 1))
    answer = transactional.ask(Api.PRODUCE, producer.produce_body("orders", 0, plain), 12)
    (result,) = answer["responses"][0]["partition_responses"]
    assert result["error_code"] == ErrorCode.INVALID_TXN_STATE


def test_a_batch_never_overtakes_one_that_waits_to_be_admitted(
    transactional: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is admitted, the second still waits for the coordinator's answer, and then the third comes."""
    producer = transactional.producer()
    transactions = transactional.node.transactions
    answers: list[Future[None]] = []

    def add(*arguments: Any) -> Future[None]:
        answers.append(Future() if answers else real(*arguments))
        return answers[-1]

    real = transactions.add
    monkeypatch.setattr(transactions, "add", add)
    bodies = [producer.produce_body("orders", 0, producer.batch((b"%d" % n,), n)) for n in range(3)]
    first = transactional.begin(Api.PRODUCE, bodies[0], 12)
    second = transactional.begin(Api.PRODUCE, bodies[1], 12)
    transactional.until(first.done)
    third = transactional.begin(Api.PRODUCE, bodies[2], 12)
    for _ in range(10):
        transactional.turn()
    for held in answers[1:]:  # answers come in the order of the questions
        held.set_result(None)
    transactional.until(lambda: second.done() and third.done())
    codes = [task.result()["responses"][0]["partition_responses"][0]["error_code"] for task in (first, second, third)]
    assert codes == [ErrorCode.NONE] * 3
    monkeypatch.undo()
    producer.end(committed=True)
    assert transactional.values() == [b"0", b"1", b"2"]


def test_a_refusal_of_the_coordinator_is_told_with_its_reason(transactional: Stage) -> None:
    producer = transactional.producer(generation=1)
    answer = transactional.ask(Api.PRODUCE, producer.produce_body("orders", 0, producer.batch((b"x",), 0)), 11)
    (result,) = answer["responses"][0]["partition_responses"]
    assert result["error_message"] == "orders-0 was not added to the transaction of 't'"
