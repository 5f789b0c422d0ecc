"""OffsetFetch in all its versions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.apis.group_stage import GroupStage


def fetched(stage: GroupStage, version: int, topics: Any, group: str = "g") -> Any:
    """The answer for one group, in any version."""
    if version < 8:
        return stage.ask(Api.OFFSET_FETCH, version, group_id=group, topics=topics, require_stable=True)
    asked = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}
    (answer,) = stage.ask(Api.OFFSET_FETCH, version, groups=[asked], require_stable=True)["groups"]
    assert answer["group_id"] == group
    return answer


def offsets(answer: Any) -> dict[int, tuple[int, str]]:
    (topic,) = answer["topics"]
    assert all(each["error_code"] == ErrorCode.NONE for each in topic["partitions"])
    return {each["partition_index"]: (each["committed_offset"], each["metadata"]) for each in topic["partitions"]}


@pytest.mark.parametrize("version", range(1, 11))
def test_what_is_committed_is_told_and_what_is_not_is_minus_one(stage: GroupStage, version: int) -> None:
    stage.topic("orders", 2)
    stage.commit(5)
    topic = stage.node.topics.find("orders")
    assert topic is not None
    asked = [{"name": "orders", "topic_id": topic.id, "partition_indexes": [0, 1]}]
    answer = fetched(stage, version, asked)
    assert offsets(answer) == {0: (5, "note"), 1: (-1, "")}
    assert answer["error_code"] == ErrorCode.NONE


@pytest.mark.parametrize("version", range(2, 11))
def test_all_that_is_committed_is_told_when_no_topics_are_named(stage: GroupStage, version: int) -> None:
    stage.topic("orders", 3)
    stage.commit(5, partition=2)
    answer = fetched(stage, version, None)
    assert offsets(answer) == {2: (5, "note")}
    topic = stage.node.topics.find("orders")
    assert topic is not None
    (told,) = answer["topics"]
    assert told["topic_id"] == topic.id if version >= 10 else told["name"] == "orders"


@pytest.mark.parametrize("version", range(1, 11))
def test_a_group_that_does_not_exist_has_nothing(stage: GroupStage, version: int) -> None:
    stage.topic("orders")
    topic = stage.node.topics.find("orders")
    assert topic is not None
    asked = [{"name": "orders", "topic_id": topic.id, "partition_indexes": [0]}]
    assert offsets(fetched(stage, version, asked, "nobody")) == {0: (-1, "")}
    if version >= 2:
        assert fetched(stage, version, None, "nobody")["topics"] == []


def test_an_unknown_topic_id_is_told(stage: GroupStage) -> None:
    answer = fetched(stage, 10, [{"topic_id": UUID(int=9), "partition_indexes": [0, 1]}])
    (topic,) = answer["topics"]
    assert topic["topic_id"] == UUID(int=9)
    assert [each["error_code"] for each in topic["partitions"]] == [ErrorCode.UNKNOWN_TOPIC_ID] * 2


def test_many_groups_are_told_in_the_order_they_were_asked_for(stage: GroupStage) -> None:
    stage.topic("orders")
    stage.commit(1, group="a")
    stage.commit(2, group="b")
    asked = [{"group_id": name, "topics": None} for name in ("b", "nobody", "a")]
    answer = stage.ask(Api.OFFSET_FETCH, 8, groups=asked, require_stable=False)
    assert [each["group_id"] for each in answer["groups"]] == ["b", "nobody", "a"]
    assert offsets(answer["groups"][0]) == {0: (2, "note")}
    assert answer["groups"][1]["topics"] == []


def test_what_was_committed_for_an_earlier_topic_of_the_same_name_is_not_told(stage: GroupStage) -> None:
    stage.topic("orders")
    stage.commit(5)
    stage.node.topics.when_deleted.clear()  # as if the process had died before the offsets were forgotten
    stage.loop.run_until_complete(stage.node.topics.delete("orders"))
    stage.topic("orders")
    assert offsets(fetched(stage, 7, [{"name": "orders", "partition_indexes": [0]}])) == {0: (-1, "")}


def test_the_offsets_of_a_deleted_topic_are_forgotten(stage: GroupStage) -> None:
    stage.topic("orders")
    stage.commit(5)
    stage.loop.run_until_complete(stage.node.topics.delete("orders"))
    assert stage.node.groups.fetch("g", None).result(60) == {}
