"""AddPartitionsToTxn in all its versions."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.broker.transactions import Status, TopicPartition
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.transactions.stage import Stage, TransactionalProducer

ORDERS = ("orders", 0)
Results = dict[tuple[str, int], ErrorCode]
ONE_AT_A_TIME = range(4)
MANY = (4, 5)


def asked(producer: TransactionalProducer, places: tuple[tuple[str, int], ...], *, verify: bool = False) -> Any:
    return {
        "transactional_id": producer.name,
        "producer_id": producer.producer.producer_id,
        "producer_epoch": producer.producer.epoch,
        "verify_only": verify,
        "topics": [{"name": topic, "partitions": [number]} for topic, number in places],
    }


def results(topics: Any) -> Results:
    return {
        (topic["name"], each["partition_index"]): ErrorCode(each["partition_error_code"])
        for topic in topics
        for each in topic["results_by_partition"]
    }


def add(producer: TransactionalProducer, version: int, *places: tuple[str, int], verify: bool = False) -> Results:
    body = asked(producer, places, verify=verify)
    if version < 4:
        body = {f"v3_and_below_{name}": value for name, value in body.items()}
        answer = producer.stage.ask(Api.ADD_PARTITIONS_TO_TXN, body, version)
        return results(answer["results_by_topic_v3_and_below"])
    answer = producer.stage.ask(Api.ADD_PARTITIONS_TO_TXN, {"transactions": [body]}, version)
    assert answer["error_code"] == ErrorCode.NONE
    (of_one,) = answer["results_by_transaction"]
    assert of_one["transactional_id"] == producer.name
    return results(of_one["topic_results"])


@pytest.mark.parametrize("version", range(6))
def test_partitions_that_are_added_begin_the_transaction(transactional: Stage, version: int) -> None:
    producer = transactional.producer(generation=1)
    places = (ORDERS, ("orders", 1))
    assert add(producer, version, *places) == dict.fromkeys(places, ErrorCode.NONE)
    known = transactional.get()
    assert (known.status, known.partitions) == (Status.ONGOING, {TopicPartition(*place) for place in places})
    assert add(producer, version, ORDERS) == {ORDERS: ErrorCode.NONE}
    assert transactional.get() == known


@pytest.mark.parametrize("version", range(6))
def test_nothing_is_added_if_one_partition_does_not_exist(transactional: Stage, version: int) -> None:
    producer = transactional.producer(generation=1)
    assert add(producer, version, ORDERS, ("orders", 2), ("nothing", 0), ("orders", -1)) == {
        ORDERS: ErrorCode.OPERATION_NOT_ATTEMPTED,
        ("orders", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("orders", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert transactional.get().status is Status.EMPTY


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("topic", ["__transaction_state", "__consumer_offsets"])
def test_an_internal_topic_is_nobodys(transactional: Stage, version: int, topic: str) -> None:
    """A marker in the broker's own state would be the end of it."""
    producer = transactional.producer(generation=1)
    assert add(producer, version, ORDERS, (topic, 0)) == {
        ORDERS: ErrorCode.OPERATION_NOT_ATTEMPTED,
        (topic, 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert transactional.get().status is Status.EMPTY


@pytest.mark.parametrize("version", range(6))
def test_a_fenced_producer_adds_nothing(transactional: Stage, version: int) -> None:
    old = transactional.producer(generation=1)
    transactional.producer(generation=1)
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert add(old, version, ORDERS) == {ORDERS: fenced}
    assert transactional.get().status is Status.EMPTY


@pytest.mark.parametrize("version", range(6))
def test_an_unknown_producer_adds_nothing(transactional: Stage, version: int) -> None:
    producer = TransactionalProducer(transactional, "unknown", 1)
    assert add(producer, version, ORDERS) == {ORDERS: ErrorCode.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize("version", range(6))
def test_it_takes_a_transactional_id(transactional: Stage, version: int) -> None:
    producer = TransactionalProducer(transactional, "", 1)
    assert add(producer, version, ORDERS) == {ORDERS: ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("version", MANY)
def test_whether_partitions_belong_to_a_transaction_can_be_asked(transactional: Stage, version: int) -> None:
    producer = transactional.producer(generation=1)
    assert add(producer, version, ORDERS, verify=True) == {ORDERS: ErrorCode.TRANSACTION_ABORTABLE}
    producer.add(ORDERS)
    known = transactional.get()
    assert add(producer, version, ORDERS, ("orders", 1), verify=True) == {
        ORDERS: ErrorCode.NONE,
        ("orders", 1): ErrorCode.TRANSACTION_ABORTABLE,
    }
    assert transactional.get() == known
    transactional.producer(generation=1)
    assert add(producer, version, ORDERS, verify=True) == {ORDERS: ErrorCode.PRODUCER_FENCED}


@pytest.mark.parametrize("version", MANY)
def test_many_transactions_are_answered_each_on_its_own(transactional: Stage, version: int) -> None:
    ann, bob = transactional.producer("ann", 1), transactional.producer("bob", 1)
    transactional.producer("bob", 1)
    body = {"transactions": [asked(ann, (ORDERS,)), asked(bob, (ORDERS,))]}
    answer = transactional.ask(Api.ADD_PARTITIONS_TO_TXN, body, version)
    assert {each["transactional_id"]: results(each["topic_results"]) for each in answer["results_by_transaction"]} == {
        "ann": {ORDERS: ErrorCode.NONE},
        "bob": {ORDERS: ErrorCode.PRODUCER_FENCED},
    }
