"""TxnOffsetCommit in all its versions."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.broker.transactions import OFFSETS, Status
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.transactions.stage import Stage, TransactionalProducer

EVERY = pytest.mark.parametrize("version", range(6))
FIRST = range(5)


def commit(producer: TransactionalProducer, version: int, offset: int = 7, **more: Any) -> list[ErrorCode]:
    body = producer.offset_body(offset) | more
    answer = producer.stage.ask(Api.TXN_OFFSET_COMMIT, body, version)
    return [ErrorCode(each["error_code"]) for topic in answer["topics"] for each in topic["partitions"]]


def producer_of(stage: Stage, version: int, *, added: bool = True) -> TransactionalProducer:
    producer = stage.producer(generation=2 if version >= 5 else 1)
    if added and version < 5:
        assert not producer.add_offsets()
    return producer


def places(*numbers: int, topic: str = "orders", metadata: str | None = "") -> Any:
    facts = {"committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": metadata}
    return [{"name": topic, "partitions": [facts | {"partition_index": number} for number in numbers]}]


@EVERY
@pytest.mark.parametrize("committed", [True, False])
def test_an_offset_counts_when_the_transaction_is_committed(
    transactional: Stage, version: int, committed: bool
) -> None:
    producer = producer_of(transactional, version)
    assert commit(producer, version) == [ErrorCode.NONE]
    assert transactional.committed_offset() == -2
    assert transactional.committed_offset(stable=False) == -1
    producer.end(committed=committed)
    assert transactional.committed_offset() == (7 if committed else -1)


@pytest.mark.parametrize("version", FIRST)
def test_before_the_second_generation_the_offsets_have_to_be_added(transactional: Stage, version: int) -> None:
    producer = producer_of(transactional, version, added=False)
    refused = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
    assert commit(producer, version) == [refused]
    assert transactional.get().status is Status.EMPTY
    assert transactional.committed_offset() == -1


def test_in_the_second_generation_they_join_by_themselves(transactional: Stage) -> None:
    producer = producer_of(transactional, 5)
    assert commit(producer, 5) == [ErrorCode.NONE]
    assert transactional.get().partitions == {OFFSETS}


@EVERY
def test_a_fenced_producer_commits_nothing(transactional: Stage, version: int) -> None:
    old = producer_of(transactional, version)
    producer_of(transactional, version)
    assert commit(old, version) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert transactional.committed_offset() == -1


@EVERY
def test_an_unknown_producer_commits_nothing(transactional: Stage, version: int) -> None:
    unknown = TransactionalProducer(transactional, "unknown", 1)
    assert commit(unknown, version) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert commit(TransactionalProducer(transactional, "", 1), version) == [ErrorCode.INVALID_REQUEST]


@EVERY
def test_a_group_needs_a_name(transactional: Stage, version: int) -> None:
    assert commit(producer_of(transactional, version), version, group_id="") == [ErrorCode.INVALID_GROUP_ID]


@pytest.mark.parametrize("version", range(3, 6))
def test_whoever_claims_to_be_a_member_has_to_be_one(transactional: Stage, version: int) -> None:
    producer = producer_of(transactional, version)
    assert commit(producer, version, member_id="nobody", generation_id=3) == [ErrorCode.ILLEGAL_GENERATION]
    assert commit(producer, version, generation_id=3) == [ErrorCode.ILLEGAL_GENERATION]
    assert transactional.committed_offset() == -1


@EVERY
def test_each_partition_is_answered_on_its_own(transactional: Stage, version: int) -> None:
    producer = producer_of(transactional, version)
    assert commit(producer, version, topics=places(0, 2, -1)) == [
        ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]  # fmt: skip
    assert commit(producer, version, topics=places(0, topic="nothing")) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert commit(producer, version, topics=places(1, metadata="x" * 4_097)) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert commit(producer, version, topics=places(1, metadata=None)) == [ErrorCode.NONE]
    producer.end(committed=True)
    assert [transactional.committed_offset(number=number) for number in (0, 1)] == [7, 7]


@EVERY
def test_what_is_pending_is_still_pending_after_a_crash(transactional: Stage, version: int) -> None:
    producer = producer_of(transactional, version)
    commit(producer, version)
    transactional.kill()
    assert transactional.committed_offset() == -2
    producer.end(committed=True)
    transactional.kill()
    assert transactional.committed_offset() == 7


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("committed", [True, False])
def test_an_offset_whose_transaction_is_ended_before_it_is_answered_is_not_left_behind_the_marker(
    transactional: Stage, version: int, committed: bool
) -> None:
    """A client that gave up waiting for the answer ends its transaction; both become durable in one round."""
    producer, other = producer_of(transactional, version), transactional.producer("other")
    producer.write("orders", b"x")
    first = other.produce_body("orders", 1, other.batch((b"y",), 0))
    with transactional.node.log._commits.exclusive():
        under_way = [
            transactional.begin(Api.PRODUCE, first, 12),
            transactional.begin(Api.TXN_OFFSET_COMMIT, producer.offset_body(7), version),
            transactional.begin(Api.END_TXN, producer.end_body(committed=committed), producer.end_version),
        ]
        for _ in range(3):
            transactional.turn()
    transactional.until(lambda: all(each.done() for each in under_way))
    transactional.quiet()
    answer = transactional.answer_of(Api.TXN_OFFSET_COMMIT, version, under_way[1].result())
    code = ErrorCode(answer["topics"][0]["partitions"][0]["error_code"])
    assert code == (ErrorCode.CONCURRENT_TRANSACTIONS if version < 5 else ErrorCode.INVALID_PRODUCER_EPOCH)
    assert transactional.committed_offset() == -1
