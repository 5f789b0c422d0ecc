"""EndTxn in all its versions. The rules are tested with `deciding`, the markers with the coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.broker.transactions import Status
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.transactions.stage import Stage, TransactionalProducer

EVERY = pytest.mark.parametrize("version", range(6))
OUTCOMES = pytest.mark.parametrize("committed", [True, False])


def end(producer: TransactionalProducer, version: int, *, committed: bool = True) -> Any:
    return producer.stage.ask(Api.END_TXN, producer.end_body(committed=committed), version)


def generation(version: int) -> int:
    return 2 if version >= 5 else 1


@EVERY
@OUTCOMES
def test_who_is_told_of_an_end_reads_what_it_left(transactional: Stage, version: int, committed: bool) -> None:
    producer = transactional.producer(generation=generation(version))
    producer.write("orders", b"one")
    answer = end(producer, version, committed=committed)
    assert answer["error_code"] == ErrorCode.NONE
    assert transactional.values() == ([b"one"] if committed else [])
    transactional.until_is(Status.COMPLETE_COMMIT if committed else Status.COMPLETE_ABORT)


@OUTCOMES
def test_the_second_generation_is_told_its_next_epoch(transactional: Stage, committed: bool) -> None:
    producer = transactional.producer()
    producer.write("orders", b"one")
    answer = end(producer, 5, committed=committed)
    assert (answer["producer_id"], answer["producer_epoch"]) == (producer.producer.producer_id, 1)


@EVERY
def test_a_fenced_producer_ends_nothing(transactional: Stage, version: int) -> None:
    old = transactional.producer(generation=generation(version))
    new = transactional.producer(generation=generation(version))
    new.write("orders", b"one")
    for committed in (True, False):
        answer = end(old, version, committed=committed)
        fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
        assert answer["error_code"] == fenced
        if version >= 5:
            assert (answer["producer_id"], answer["producer_epoch"]) == (-1, -1)
    assert transactional.get().status is Status.ONGOING


@EVERY
def test_a_commit_of_nothing_is_refused(transactional: Stage, version: int) -> None:
    producer = transactional.producer(generation=generation(version))
    assert end(producer, version)["error_code"] == ErrorCode.INVALID_TXN_STATE


@EVERY
def test_it_takes_a_transactional_id_and_a_known_producer(transactional: Stage, version: int) -> None:
    assert end(TransactionalProducer(transactional, "", 1), version)["error_code"] == ErrorCode.INVALID_REQUEST
    unknown = TransactionalProducer(transactional, "unknown", 1)
    assert end(unknown, version)["error_code"] == ErrorCode.INVALID_PRODUCER_ID_MAPPING
