"""FindCoordinator in all its versions."""

from __future__ import annotations

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.apis.group_stage import GroupStage

HERE = (1, "broker.example", 9092)


@pytest.mark.parametrize("version", range(4))
def test_a_group_is_looked_after_here(stage: GroupStage, version: int) -> None:
    answer = stage.ask(Api.FIND_COORDINATOR, version, key="g", key_type=0)
    assert (answer["node_id"], answer["host"], answer["port"]) == HERE
    assert answer["error_code"] == ErrorCode.NONE


@pytest.mark.parametrize("version", range(4, 7))
def test_many_groups_are_looked_after_here(stage: GroupStage, version: int) -> None:
    answer = stage.ask(Api.FIND_COORDINATOR, version, key_type=0, coordinator_keys=["g", "h"])
    assert [each["key"] for each in answer["coordinators"]] == ["g", "h"]
    for each in answer["coordinators"]:
        assert (each["node_id"], each["host"], each["port"], each["error_code"]) == (*HERE, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("key_type", "error"), [(2, ErrorCode.COORDINATOR_NOT_AVAILABLE), (3, ErrorCode.INVALID_REQUEST)]
)
def test_what_nobody_looks_after_has_no_coordinator(stage: GroupStage, key_type: int, error: int) -> None:
    answer = stage.ask(Api.FIND_COORDINATOR, 2, key="t", key_type=key_type)
    assert (answer["error_code"], answer["node_id"]) == (error, -1)
    assert answer["error_message"]
    (each,) = stage.ask(Api.FIND_COORDINATOR, 6, key_type=key_type, coordinator_keys=["t"])["coordinators"]
    assert each["error_code"] == error


@pytest.mark.parametrize("version", range(1, 7))
def test_transactional_ids_have_a_coordinator(stage: GroupStage, version: int) -> None:
    answer = stage.ask(Api.FIND_COORDINATOR, version, key="t", key_type=1, coordinator_keys=["t"])
    if version >= 4:
        (answer,) = answer["coordinators"]
    assert (answer["error_code"], answer["node_id"], answer["host"], answer["port"]) == (ErrorCode.NONE, *HERE)
