"""Heartbeat in all its versions."""

from __future__ import annotations

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import SERVED, Api
from tests.unit.broker.apis.group_stage import GroupStage


@pytest.mark.parametrize("version", range(SERVED[Api.HEARTBEAT].most + 1))
def test_a_member_is_alive_and_a_stranger_unknown(stage: GroupStage, version: int) -> None:
    joined = stage.stable()
    asked = {"group_id": "g", "generation_id": 1, "group_instance_id": None}
    assert stage.ask(Api.HEARTBEAT, version, **asked, member_id=joined["member_id"])["error_code"] == ErrorCode.NONE
    answer = stage.ask(Api.HEARTBEAT, version, **asked, member_id="stranger")
    assert answer["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_fenced_instance_is_told_so(stage: GroupStage) -> None:
    stage.stable(group_instance_id="i-1")
    answer = stage.ask(Api.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="old", group_instance_id="i-1")
    assert answer["error_code"] == ErrorCode.FENCED_INSTANCE_ID
