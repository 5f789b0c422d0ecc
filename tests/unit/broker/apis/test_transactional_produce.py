"""Produce inside of transactions, in all its versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runnel.broker.apis.produce import LoneBatch, Production, handle
from runnel.broker.request import Later
from runnel.broker.transactions import ProducerEpoch, Status, TopicPartition
from runnel.protocol.decode import read_response
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import Producer, Record, build_batch
from runnel.replay import JournaledState
from tests.unit.broker.node_stage import bytes_of, request_of
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


@pytest.mark.parametrize("version", SECOND)
@pytest.mark.parametrize("ill", ["/orders-0/", "/__transaction_state-0/"])
def test_a_disk_that_is_ill_is_told_of_the_first_batch_as_of_any_other(
    transactional: Stage, version: int, ill: str
) -> None:
    producer, other = transactional.producer(), transactional.producer("other")
    transactional.files.fail("sync", ill)
    codes = [produce(other, version), produce(producer, version)]  # one finds it, and one is refused for it
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    transactional.files.heal()
    transactional.advance(2_000)
    transactional.node.log.maintain()
    assert produce(producer, version) == ErrorCode.NONE
    assert producer.end(committed=True) == ErrorCode.NONE
    assert transactional.values() == [b"x"]


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
    answers: list[Callable[[None], object]] = []

    def add(*asked: Any) -> None:
        *asked, then = asked
        real(*asked, then if not answers else lambda refused: None)
        answers.append(then)

    real = transactions.add_then
    monkeypatch.setattr(transactions, "add_then", add)
    bodies = [producer.produce_body("orders", 0, producer.batch((b"%d" % n,), n)) for n in range(3)]
    first = transactional.begin(Api.PRODUCE, bodies[0], 12)
    second = transactional.begin(Api.PRODUCE, bodies[1], 12)
    transactional.until(first.done)
    third = transactional.begin(Api.PRODUCE, bodies[2], 12)
    for _ in range(10):
        transactional.turn()
    assert not second.done()
    assert not third.done()
    for held in answers[1:]:  # answers come in the order of the questions
        held(None)
    transactional.until(lambda: second.done() and third.done())
    codes = [task.result()["responses"][0]["partition_responses"][0]["error_code"] for task in (first, second, third)]
    assert codes == [ErrorCode.NONE] * 3
    monkeypatch.undo()
    producer.end(committed=True)
    assert transactional.values() == [b"0", b"1", b"2"]


def test_partitions_join_with_the_batches_of_one_request_in_one_decision(transactional: Stage) -> None:
    producer = transactional.producer()
    body = producer.produce_body("orders", 0, producer.batch((b"a",), 0))
    data = body["topic_data"][0]["partition_data"]
    data += [{"index": 1, "records": producer.batch((b"b",), 0)}, {"index": 7, "records": producer.batch((b"c",), 0)}]
    journal = transactional.node.log.partition("__transaction_state")
    before = journal.end_offset
    answer = transactional.ask(Api.PRODUCE, body, 12)
    codes = [each["error_code"] for each in answer["responses"][0]["partition_responses"]]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert journal.end_offset == before + 1
    assert transactional.get().partitions == {ORDERS, ORDERS._replace(partition=1)}
    producer.end(committed=True)
    assert (transactional.values(), transactional.values(number=1)) == ([b"a"], [b"b"])


def test_a_refusal_is_told_for_each_batch_of_a_request(transactional: Stage) -> None:
    producer = transactional.producer()
    body = producer.produce_body("orders", 0, producer.batch((b"a",), 0))
    body["topic_data"][0]["partition_data"].append({"index": 1, "records": producer.batch((b"b",), 0)})
    transactional.producer()
    answer = transactional.ask(Api.PRODUCE, body, 12)
    codes = [each["error_code"] for each in answer["responses"][0]["partition_responses"]]
    assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH] * 2


def test_what_was_added_durably_is_written_without_a_question(
    transactional: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = transactional.producer(generation=1)
    producer.add(("orders", 0), ("orders", 1))

    def admit(*_: Any) -> None:
        raise AssertionError("the coordinator was asked")

    monkeypatch.setattr(transactional.node.transactions, "admit", admit)
    for version in FIRST:
        assert produce(producer, version, version - 3) == ErrorCode.NONE


@pytest.mark.parametrize("version", [*FIRST, *SECOND])
def test_a_batch_that_has_not_to_be_admitted_takes_the_short_way(transactional: Stage, version: int) -> None:
    """And is answered byte for byte as on the long one: sent twice, it is answered as the first time."""
    producer = transactional.producer(generation=1 if version in FIRST else 2)
    body = producer.produce_body("orders", 0, producer.batch((b"x",), 0))
    asked = request_of(Api.PRODUCE, version, body)
    first = handle(transactional.node, asked)
    assert not isinstance(first, LoneBatch)
    answered(transactional, first)
    if version in FIRST:
        producer.add(("orders", 0))
    way = handle(transactional.node, asked)
    assert isinstance(way, LoneBatch)
    short, long = (
        bytes_of(Api.PRODUCE, version, answered(transactional, given))
        for given in (way, Production(transactional.node, asked).start())
    )
    assert short == long
    (result,) = read_response(Api.PRODUCE, version, short)["responses"][0]["partition_responses"]
    assert (result["error_code"], result["base_offset"]) == (ErrorCode.NONE, 0)


def answered(transactional: Stage, given: Any) -> Any:
    told: list[Any] = []
    assert isinstance(given, Later)
    given.then(told.append)
    transactional.until(lambda: bool(told))
    return told[0]


def test_what_was_added_and_is_not_durable_yet_waits(transactional: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = transactional.producer(generation=1)
    transactions = transactional.node.transactions
    asked: list[TopicPartition] = []
    real = transactions.admit

    def admit(name: str, who: ProducerEpoch, places: list[TopicPartition], *more: Any) -> None:
        asked.extend(places)
        real(name, who, places, *more)

    monkeypatch.setattr(transactions, "admit", admit)
    monkeypatch.setattr(JournaledState, "durable_offset", transactional.partition("__transaction_state").end_offset)
    producer.add(("orders", 0))
    assert produce(producer, 11) == ErrorCode.NONE
    assert asked == [ORDERS]


@pytest.mark.parametrize("committed", [True, False])
def test_that_a_partition_was_in_the_last_transaction_does_not_count(transactional: Stage, committed: bool) -> None:
    producer = transactional.producer(generation=1)
    producer.add(("orders", 0), ("orders", 1))
    assert produce(producer, 11) == ErrorCode.NONE
    assert producer.end(committed=committed) == ErrorCode.NONE
    assert produce(producer, 11, number=1) == ErrorCode.TRANSACTION_ABORTABLE
    producer.add(("orders", 0))
    assert produce(producer, 11, number=1) == ErrorCode.TRANSACTION_ABORTABLE
    assert produce(producer, 11, 1) == ErrorCode.NONE


def test_a_fenced_producer_does_not_write_where_its_successor_may(transactional: Stage) -> None:
    old = transactional.producer(generation=1)
    old.add(("orders", 0))
    new = transactional.producer(generation=1)
    new.add(("orders", 0))
    end = transactional.partition().end_offset
    assert produce(old, 11) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert transactional.partition().end_offset == end
    assert produce(new, 11) == ErrorCode.NONE


def test_a_refusal_of_the_coordinator_is_told_with_its_reason(transactional: Stage) -> None:
    producer = transactional.producer(generation=1)
    answer = transactional.ask(Api.PRODUCE, producer.produce_body("orders", 0, producer.batch((b"x",), 0)), 11)
    (result,) = answer["responses"][0]["partition_responses"]
    assert result["error_message"] == "orders-0 was not added to the transaction of 't'"
