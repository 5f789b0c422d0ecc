"""LeaveGroup in all its versions."""

from __future__ import annotations

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.apis.group_stage import GroupStage


@pytest.mark.parametrize("version", range(3))
def test_one_member_leaves(stage: GroupStage, version: int) -> None:
    joined = stage.stable()
    asked = {"group_id": "g", "member_id": joined["member_id"]}
    assert stage.ask(Api.LEAVE_GROUP, version, **asked)["error_code"] == ErrorCode.NONE
    assert stage.ask(Api.LEAVE_GROUP, version, **asked)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3, 6))
def test_each_of_many_has_its_own_answer(stage: GroupStage, version: int) -> None:
    stage.stable(group_instance_id="i-1")
    members = [
        {"member_id": "", "group_instance_id": "i-1", "reason": None},
        {"member_id": "stranger", "group_instance_id": None, "reason": "why not"},
    ]
    answer = stage.ask(Api.LEAVE_GROUP, version, group_id="g", members=members)
    assert answer["error_code"] == ErrorCode.NONE
    assert [(each["member_id"], each["group_instance_id"], each["error_code"]) for each in answer["members"]] == [
        ("", "i-1", ErrorCode.NONE),
        ("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]


@pytest.mark.parametrize("version", range(6))
def test_a_group_needs_a_name(stage: GroupStage, version: int) -> None:
    members = [{"member_id": "m", "group_instance_id": None, "reason": None}]
    answer = stage.ask(Api.LEAVE_GROUP, version, group_id="", member_id="m", members=members)
    assert answer["error_code"] == ErrorCode.INVALID_GROUP_ID


def test_of_a_group_that_does_not_exist_everybody_is_unknown(stage: GroupStage) -> None:
    members = [{"member_id": name, "group_instance_id": None, "reason": None} for name in ("a", "b")]
    answer = stage.ask(Api.LEAVE_GROUP, 5, group_id="nowhere", members=members)
    assert answer["error_code"] == ErrorCode.NONE
    assert [each["error_code"] for each in answer["members"]] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert stage.ask(Api.LEAVE_GROUP, 1, group_id="nowhere", member_id="a")["error_code"] == 25
