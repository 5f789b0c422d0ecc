"""AddOffsetsToTxn in all its versions."""

from __future__ import annotations

import pytest

from runnel.broker.transactions import OFFSETS, Status
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.transactions.stage import Stage, TransactionalProducer

EVERY = pytest.mark.parametrize("version", range(5))


def add(producer: TransactionalProducer, version: int, group: str = "g") -> ErrorCode:
    body = {"transactional_id": producer.name, "producer_id": producer.producer.producer_id, "group_id": group}
    answer = producer.stage.ask(Api.ADD_OFFSETS_TO_TXN, body | {"producer_epoch": producer.producer.epoch}, version)
    return ErrorCode(answer["error_code"])


@EVERY
def test_the_offsets_of_a_group_join_the_transaction(transactional: Stage, version: int) -> None:
    producer = transactional.producer(generation=1)
    assert add(producer, version) == ErrorCode.NONE
    assert (transactional.get().status, transactional.get().partitions) == (Status.ONGOING, {OFFSETS})


@EVERY
def test_a_fenced_producer_adds_nothing(transactional: Stage, version: int) -> None:
    old = transactional.producer(generation=1)
    transactional.producer(generation=1)
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert add(old, version) == fenced
    assert transactional.get().status is Status.EMPTY


@EVERY
def test_it_takes_a_transactional_id_and_a_group_and_a_known_producer(transactional: Stage, version: int) -> None:
    producer = transactional.producer(generation=1)
    assert add(producer, version, group="") == ErrorCode.INVALID_GROUP_ID
    assert add(TransactionalProducer(transactional, "", 1), version) == ErrorCode.INVALID_REQUEST
    unknown = TransactionalProducer(transactional, "unknown", 1)
    assert add(unknown, version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert transactional.get().status is Status.EMPTY
