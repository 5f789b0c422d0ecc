"""SyncGroup in all its versions."""

from __future__ import annotations

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import SERVED, Api
from tests.unit.broker.apis.group_stage import GroupStage

VERSIONS = range(SERVED[Api.SYNC_GROUP].most + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_gets_its_own_assignment(stage: GroupStage, version: int) -> None:
    answer = stage.sync(stage.join(), version=version)
    assert (answer["error_code"], answer["assignment"]) == (ErrorCode.NONE, b"mine")
    assert answer["protocol_name"] == ("range" if version >= 5 else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_is_told(stage: GroupStage, version: int) -> None:
    answer = stage.sync(stage.join() | {"generation_id": 9}, version=version)
    assert (answer["error_code"], answer["assignment"]) == (ErrorCode.ILLEGAL_GENERATION, b"")


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name"), [("consumer", "roundrobin"), ("consumer", None), (None, "range")]
)
def test_a_protocol_that_was_not_elected_is_refused(
    stage: GroupStage, protocol_type: str | None, protocol_name: str | None
) -> None:
    joined = stage.join()
    answer = stage.ask(
        Api.SYNC_GROUP,
        5,
        group_id="g",
        generation_id=1,
        member_id=joined["member_id"],
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=[],
    )
    assert answer["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
