"""OffsetCommit in all its versions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from runnel.broker.groups.offsets import TopicPartition
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import SERVED, Api
from tests.unit.broker.apis.group_stage import GroupStage

VERSIONS = range(SERVED[Api.OFFSET_COMMIT].least, SERVED[Api.OFFSET_COMMIT].most + 1)


def asked(stage: GroupStage, version: int, parts: list[dict[str, Any]], topic: str = "orders", **more: Any) -> Any:
    found = stage.node.topics.find(topic)
    fields = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time": -1,
        "topics": [{"name": topic, "topic_id": found and found.id, "partitions": parts}],
    }
    return stage.ask(Api.OFFSET_COMMIT, version, **fields | more)


def part(index: int = 0, offset: int = 5, metadata: str | None = "note") -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": offset,
        "committed_leader_epoch": 0,
        "committed_metadata": metadata,
    }


def errors(answer: Any) -> list[int]:
    return [each["error_code"] for topic in answer["topics"] for each in topic["partitions"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_partition_has_its_own_answer(stage: GroupStage, version: int) -> None:
    stage.topic("orders", 2)
    parts = [part(0), part(7), part(1, metadata="m" * 4_097), part(-1)]
    answer = asked(stage, version, parts)
    assert errors(answer) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    topic = stage.node.topics.find("orders")
    assert topic is not None
    (answered,) = answer["topics"]
    assert answered["topic_id"] == topic.id if version >= 10 else answered["name"] == "orders"
    committed = stage.node.groups.fetch("g", None).result(60)
    assert list(committed) == [TopicPartition("orders", 0)]
    value = committed[TopicPartition("orders", 0)]
    assert (value.offset, value.metadata, value.topic_id) == (5, "note", topic.id)
    assert value.leader_epoch == (0 if version >= 6 else -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_topic_is_told(stage: GroupStage, version: int) -> None:
    topics = [{"name": "nowhere", "topic_id": UUID(int=9), "partitions": [part(0), part(1)]}]
    expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors(asked(stage, version, [], topics=topics)) == [expected] * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_of_a_group_that_does_not_exist_is_refused(stage: GroupStage, version: int) -> None:
    stage.topic("orders")
    answer = asked(stage, version, [part()], generation_id_or_member_epoch=3, member_id="m")
    assert errors(answer) == [ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION]


def test_who_is_no_member_is_refused_for_all_partitions_that_are_right(stage: GroupStage) -> None:
    stage.topic("orders")
    stage.stable()
    answer = asked(stage, 9, [part(0), part(5)])
    assert errors(answer) == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_metadata_is_empty_metadata(stage: GroupStage, version: int) -> None:
    stage.topic("orders")
    assert errors(asked(stage, version, [part(metadata=None)])) == [ErrorCode.NONE]
    assert stage.node.groups.fetch("g", None).result(60)[TopicPartition("orders", 0)].metadata == ""


@pytest.mark.parametrize("version", range(2, 5))
def test_a_retention_of_its_own_is_kept(stage: GroupStage, version: int) -> None:
    stage.topic("orders")
    asked(stage, version, [part()], retention_time=1_000)
    value = stage.node.groups.fetch("g", None).result(60)[TopicPartition("orders", 0)]
    assert value.expires_at == value.committed_at + 1_000


@pytest.mark.parametrize("version", range(2, 5))
def test_the_longest_retention_has_no_end(stage: GroupStage, version: int) -> None:
    stage.topic("orders")
    assert errors(asked(stage, version, [part()], retention_time=2**63 - 1)) == [ErrorCode.NONE]
    value = stage.node.groups.fetch("g", None).result(60)[TopicPartition("orders", 0)]
    assert value.expires_at == 2**63 - 1
