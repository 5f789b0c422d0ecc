"""JoinGroup in all its versions."""

from __future__ import annotations

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import SERVED, Api
from tests.unit.broker.apis.group_stage import GroupStage
from tests.unit.broker.transactions.stage import Stage


@pytest.mark.parametrize("version", range(SERVED[Api.JOIN_GROUP].most + 1))
def test_a_member_gets_the_generation_in_every_version(stage: GroupStage, version: int) -> None:
    answer = stage.join(version=version)
    assert answer["error_code"] == ErrorCode.NONE
    assert answer["generation_id"] == 1
    assert answer["leader"] == answer["member_id"]
    assert answer["member_id"].startswith("-")  # after the client id, of which there is none
    assert answer["protocol_name"] == "range"
    assert answer["protocol_type"] == ("consumer" if version >= 7 else None)
    assert [member["member_id"] for member in answer["members"]] == [answer["member_id"]]


@pytest.mark.parametrize("version", range(SERVED[Api.JOIN_GROUP].most + 1))
def test_only_from_version_4_on_a_member_is_sent_back_for_an_id(stage: GroupStage, version: int) -> None:
    answer = stage.ask(
        Api.JOIN_GROUP,
        version,
        group_id="g",
        session_timeout=10_000,
        rebalance_timeout=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
        reason=None,
    )
    assert answer["error_code"] == (ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else ErrorCode.NONE)


@pytest.mark.parametrize("version", range(SERVED[Api.JOIN_GROUP].most + 1))
def test_an_error_is_told_in_every_version(stage: GroupStage, version: int) -> None:
    answer = stage.join("", version)
    assert answer["error_code"] == ErrorCode.INVALID_GROUP_ID
    assert answer["generation_id"] == -1
    assert answer["protocol_name"] == (None if version >= 7 else "")
    assert answer["members"] == []


def test_version_0_has_its_session_timeout_for_a_rebalance_timeout(stage: GroupStage) -> None:
    stage.join(version=0, session_timeout=12_345)
    (member,) = stage.node.groups._groups["g"].members
    assert member.rebalance_timeout == member.session_timeout == 12_345


def test_a_static_leader_that_comes_back_may_skip_the_assignment(stage: GroupStage) -> None:
    first = stage.stable(group_instance_id="i-1")
    answer = stage.join(group_instance_id="i-1")
    assert answer["skip_assignment"]
    assert answer["generation_id"] == first["generation_id"]
    assert answer["member_id"] != first["member_id"]
    assert answer["members"][0]["group_instance_id"] == "i-1"


def test_a_classic_member_of_a_consumer_group_is_told_that_nothing_can_be_stored(transactional: Stage) -> None:
    heartbeat = {
        "group_id": "g",
        "member_id": "ann",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": ["orders"],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    assert not transactional.ask(Api.CONSUMER_GROUP_HEARTBEAT, heartbeat)["error_code"]
    wish = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "member_id": "",
        "group_instance_id": "i-1",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"}],
        "reason": None,
    }
    transactional.files.fail("sync", "/__consumer_offsets-0/")
    for _ in range(2):
        joined = transactional.ask(Api.JOIN_GROUP, wish)
        assert joined["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    sync = {
        "group_id": "g",
        "generation_id": 1,
        "member_id": "bob",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [],
    }
    assert transactional.ask(Api.SYNC_GROUP, sync)["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
