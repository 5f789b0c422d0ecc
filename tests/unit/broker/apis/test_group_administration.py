"""DescribeGroups, ListGroups, DeleteGroups and OffsetDelete in all their versions."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.apis.group_stage import GroupStage

NOT_ASKED = -(2**31)


@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_is_described_with_its_members(stage: GroupStage, version: int) -> None:
    joined = stage.stable(group_instance_id="i-1")
    answer = stage.ask(Api.DESCRIBE_GROUPS, version, groups=["g"], include_authorized_operations=False)
    (group,) = answer["groups"]
    assert (group["group_id"], group["error_code"], group["group_state"]) == ("g", ErrorCode.NONE, "Stable")
    assert (group["protocol_type"], group["protocol_data"]) == ("consumer", "range")
    (member,) = group["members"]
    assert (member["member_id"], member["client_id"], member["client_host"]) == (
        joined["member_id"],
        "",
        "/127.0.0.1",
    )
    assert member["group_instance_id"] == ("i-1" if version >= 4 else None)
    assert member["member_metadata"].startswith(b"\x00\x00\x00\x00\x00\x01\x00\x06orders")
    assert member["member_assignment"] == b"mine"
    assert group["authorized_operations"] == NOT_ASKED


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_does_not_exist_is_dead(stage: GroupStage, version: int) -> None:
    stage.join("forming")
    answer = stage.ask(Api.DESCRIBE_GROUPS, version, groups=["nobody", "forming"], include_authorized_operations=False)
    nobody, forming = answer["groups"]
    assert (nobody["group_id"], nobody["group_state"], nobody["members"]) == ("nobody", "Dead", [])
    assert nobody["error_code"] == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
    assert nobody["error_message"] == ("Group nobody not found." if version >= 6 else None)
    assert (forming["group_state"], forming["protocol_data"]) == ("CompletingRebalance", "")
    assert forming["members"][0]["member_metadata"] == b""


@pytest.mark.parametrize("version", range(3, 7))
def test_what_a_client_may_do_is_told_when_it_asks(stage: GroupStage, version: int) -> None:
    stage.stable()
    answer = stage.ask(Api.DESCRIBE_GROUPS, version, groups=["g", "nobody"], include_authorized_operations=True)
    everything = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
    assert [group["authorized_operations"] for group in answer["groups"]] == [
        everything,
        NOT_ASKED if version >= 6 else everything,
    ]


# --- ListGroups


@pytest.mark.parametrize("version", range(6))
def test_all_groups_are_listed(stage: GroupStage, version: int) -> None:
    stage.topic("orders")
    stage.commit(1, group="simple")
    stage.stable("g")
    answer = stage.ask(Api.LIST_GROUPS, version, states_filter=[], types_filter=[])
    assert answer["error_code"] == ErrorCode.NONE
    listed = {each["group_id"]: each for each in answer["groups"]}
    assert {name: each["protocol_type"] for name, each in listed.items()} == {"simple": "", "g": "consumer"}
    if version >= 4:
        assert {name: each["group_state"] for name, each in listed.items()} == {"simple": "Empty", "g": "Stable"}
    if version >= 5:
        assert {each["group_type"] for each in listed.values()} == {"classic"}


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (["Stable"], [], {"g"}),
        (["stable", "EMPTY"], [], {"g", "simple"}),
        (["Dead"], [], set()),
        (["nonsense"], [], set()),
        ([], ["classic"], {"g", "simple"}),
        ([], ["Classic", "consumer"], {"g", "simple"}),
        ([], ["consumer"], set()),
        (["Stable"], ["share"], set()),
    ],
)
def test_groups_are_listed_by_state_and_type(stage: GroupStage, states: Any, types: Any, expected: set[str]) -> None:
    stage.topic("orders")
    stage.commit(1, group="simple")
    stage.stable("g")
    answer = stage.ask(Api.LIST_GROUPS, 5, states_filter=states, types_filter=types)
    assert {each["group_id"] for each in answer["groups"]} == expected


# --- DeleteGroups


@pytest.mark.parametrize("version", range(3))
def test_each_group_that_is_to_be_deleted_has_its_own_answer(stage: GroupStage, version: int) -> None:
    stage.topic("orders")
    stage.commit(1, group="simple")
    stage.stable("g")
    answer = stage.ask(Api.DELETE_GROUPS, version, groups_names=["g", "nobody", "simple", "simple"])
    assert [(each["group_id"], each["error_code"]) for each in answer["results"]] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ("simple", ErrorCode.NONE),
    ]
    assert stage.node.groups.names() == ["g"]


# --- OffsetDelete


def deleted(stage: GroupStage, group: str, *topics: tuple[str, list[int]]) -> Any:
    asked = [
        {"name": name, "partitions": [{"partition_index": number} for number in numbers]} for name, numbers in topics
    ]
    return stage.ask(Api.OFFSET_DELETE, 0, group_id=group, topics=asked)


def test_offsets_are_deleted_unless_a_member_is_subscribed(stage: GroupStage) -> None:
    stage.topic("orders")
    stage.topic("clicks", 2)
    for topic in ("orders", "clicks"):
        stage.commit(1, topic)
    stage.stable()
    answer = deleted(stage, "g", ("orders", [0]), ("clicks", [0, 1, 5]), ("nowhere", [0]))
    assert answer["error_code"] == ErrorCode.NONE
    assert {
        (topic["name"], each["partition_index"]): each["error_code"]
        for topic in answer["topics"]
        for each in topic["partitions"]
    } == {
        ("orders", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("clicks", 0): ErrorCode.NONE,
        ("clicks", 1): ErrorCode.NONE,
        ("clicks", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [place.topic for place in stage.node.groups.fetch("g", None).result(60)] == ["orders"]


def test_offsets_of_a_group_that_cannot_be_looked_into_stay(stage: GroupStage) -> None:
    assert deleted(stage, "nobody", ("orders", [0]))["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND
    stage.stable("c", protocol_type="connect")
    assert deleted(stage, "c", ("orders", [0])) == {
        "error_code": ErrorCode.NON_EMPTY_GROUP,
        "throttle_time": 0,
        "topics": [],
    }
