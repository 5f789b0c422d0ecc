"""TxnOffsetCommit by members that speak the consumer protocol: a stale epoch is told as an old generation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.transactions.stage import Stage, TransactionalProducer

FIRST_WITH_MEMBERS = 3
VERSIONS = pytest.mark.parametrize("version", range(FIRST_WITH_MEMBERS, 6))


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Ann has partition 0 since epoch 1 and is in epoch 2; partition 1, which was hers, is bob's since epoch 2."""
    stage = Stage(group_consumer_assignment_interval_ms="0")
    stage.create("orders", 2)
    beat(stage, "ann", 0)
    beat(stage, "bob", 0)
    beat(stage, "ann", 1, 0, 1)
    beat(stage, "ann", 1, 0)
    beat(stage, "bob", 2)
    yield stage
    stage.close()


def beat(stage: Stage, member: str, epoch: int, *owned: int) -> dict[str, Any]:
    topic = stage.node.topics.find("orders")
    assert topic is not None
    joins = epoch == 0
    wish = {
        "group_id": "g",
        "member_id": member,
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 60_000 if joins else -1,
        "subscribed_topic_names": ["orders"] if joins else None,
        "subscribed_topic_regex": None,
        "server_assignor": "range" if joins else None,
        "topic_partitions": [{"topic_id": topic.id, "partitions": list(owned)}] if owned else [],
    }
    answer = stage.ask(Api.CONSUMER_GROUP_HEARTBEAT, wish)
    assert not answer["error_code"], answer
    return answer


def producer_of(stage: Stage, version: int) -> TransactionalProducer:
    producer = stage.producer(generation=2 if version >= 5 else 1)
    if version < 5:
        assert not producer.add_offsets()
    return producer


def commit(producer: TransactionalProducer, version: int, member: str, epoch: int, *numbers: int) -> list[ErrorCode]:
    facts = {"committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": ""}
    body = producer.offset_body(7) | {
        "member_id": member,
        "generation_id": epoch,
        "topics": [{"name": "orders", "partitions": [facts | {"partition_index": number} for number in numbers]}],
    }
    (topic,) = producer.stage.ask(Api.TXN_OFFSET_COMMIT, body, version)["topics"]
    return [ErrorCode(each["error_code"]) for each in topic["partitions"]]


@VERSIONS
def test_the_right_epoch_is_taken(stage: Stage, version: int) -> None:
    producer = producer_of(stage, version)
    assert commit(producer, version, "ann", 2, 0) == [ErrorCode.NONE]
    producer.end(committed=True)
    assert stage.committed_offset(number=0) == 7


@VERSIONS
def test_an_older_epoch_is_taken_for_what_the_member_has_had_since(stage: Stage, version: int) -> None:
    producer = producer_of(stage, version)
    assert commit(producer, version, "ann", 1, 0) == [ErrorCode.NONE]
    producer.end(committed=True)
    assert stage.committed_offset(number=0) == 7


@VERSIONS
@pytest.mark.parametrize(
    ("member", "epoch", "refused"),
    [
        ("ann", 1, ErrorCode.ILLEGAL_GENERATION),  # it is bob's now
        ("bob", 1, ErrorCode.ILLEGAL_GENERATION),  # it was not his then
        ("ann", 3, ErrorCode.ILLEGAL_GENERATION),  # nobody has got that far
        ("ann", -1, ErrorCode.ILLEGAL_GENERATION),
        ("eve", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("eve", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_others_are_refused_and_nothing_is_committed(
    stage: Stage, version: int, member: str, epoch: int, refused: ErrorCode
) -> None:
    producer = producer_of(stage, version)
    assert commit(producer, version, member, epoch, 1) == [refused]
    producer.end(committed=True)
    assert stage.committed_offset(number=1) == -1


@VERSIONS
def test_a_member_that_was_fenced_is_refused(stage: Stage, version: int) -> None:
    producer = producer_of(stage, version)
    assert commit(producer, version, "bob", 2, 1) == [ErrorCode.NONE]
    stage.node.groups.consumer.fence("g", "bob")
    assert commit(producer, version, "bob", 2, 1) == [ErrorCode.UNKNOWN_MEMBER_ID]


@VERSIONS
def test_a_producer_that_names_no_member_is_believed(stage: Stage, version: int) -> None:
    producer = producer_of(stage, version)
    assert commit(producer, version, "", -1, 1) == [ErrorCode.NONE]


@VERSIONS
def test_if_one_partition_is_refused_all_are(stage: Stage, version: int) -> None:
    producer = producer_of(stage, version)
    refused = commit(producer, version, "ann", 1, 0, 1)
    producer.end(committed=True)
    assert refused == [ErrorCode.ILLEGAL_GENERATION] * 2
    assert stage.committed_offset(number=0) == -1
