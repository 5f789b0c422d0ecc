"""WriteTxnMarkers in all its versions: how a transaction that hangs is ended."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.transactions.stage import Stage, TransactionalProducer

EVERY = pytest.mark.parametrize("version", [1, 2])


def mark(producer: TransactionalProducer, version: int, topic: str = "orders", number: int = 0, **more: Any) -> Any:
    marker = {
        "producer_id": producer.producer.producer_id,
        "producer_epoch": producer.producer.epoch,
        "transaction_result": False,
        "topics": [{"name": topic, "partition_indexes": [number]}],
        "coordinator_epoch": 0,
        "transaction_version": 0,
    }
    answer = producer.stage.ask(Api.WRITE_TXN_MARKERS, {"markers": [marker | more]}, version)
    (told,) = answer["markers"]
    assert told["producer_id"] == producer.producer.producer_id
    (found,) = told["topics"]
    (partition,) = found["partitions"]
    assert (found["name"], partition["partition_index"]) == (topic, number)
    return ErrorCode(partition["error_code"])


@EVERY
@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_ends_the_transaction_in_one_partition(transactional: Stage, version: int, committed: bool) -> None:
    producer = transactional.producer()
    producer.write("orders", b"one")
    producer.write("orders", b"two", number=1)
    assert mark(producer, version, transaction_result=committed) == ErrorCode.NONE
    assert transactional.values() == ([b"one"] if committed else [])
    assert transactional.partition(number=1).open_transactions()


@EVERY
def test_an_old_epoch_is_refused(transactional: Stage, version: int) -> None:
    producer = transactional.producer()
    producer.write("orders", b"one")
    producer.end(committed=True)
    assert mark(producer, version, producer_epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH


@EVERY
def test_an_old_coordinator_is_refused(transactional: Stage, version: int) -> None:
    producer = transactional.producer()
    producer.write("orders", b"one")
    assert mark(producer, version, coordinator_epoch=0) == ErrorCode.NONE
    assert mark(producer, version, coordinator_epoch=-1) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


@EVERY
@pytest.mark.parametrize(
    ("topic", "number"), [("nothing", 0), ("orders", 2), ("orders", -1), ("__transaction_state", 0)]
)
def test_a_partition_that_does_not_exist_or_is_the_brokers_own_is_refused(
    transactional: Stage, version: int, topic: str, number: int
) -> None:
    producer = transactional.producer()
    assert mark(producer, version, topic, number) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@EVERY
def test_no_coordinator_is_newer_than_this_one(transactional: Stage, version: int) -> None:
    """A marker of one would stop all later ones of the producer: its transactions could never end."""
    producer = transactional.producer()
    producer.write("orders", b"one")
    for epoch in (1, 2**31 - 1):
        assert mark(producer, version, coordinator_epoch=epoch) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert not producer.end(committed=True)
    assert transactional.values() == [b"one"]
