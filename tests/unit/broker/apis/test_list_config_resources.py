from collections.abc import Iterator
from pathlib import Path

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.node_stage import NodeStage

TOPIC, BROKER, LOGGER = 2, 4, 8


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[NodeStage]:
    stage = NodeStage(tmp_path / "data", {"node.id": "7"})
    stage.create("orders")
    yield stage
    stage.close()


def test_everything_that_has_configurations_is_listed(stage: NodeStage) -> None:
    found = stage.ask(Api.LIST_CONFIG_RESOURCES, {"resource_types": []})["config_resources"]

    listed = {(each["resource_type"], each["resource_name"]) for each in found}
    assert {(TOPIC, "orders"), (BROKER, "7"), (LOGGER, "7")} <= listed


def test_only_the_types_that_are_asked_for_are_listed(stage: NodeStage) -> None:
    found = stage.ask(Api.LIST_CONFIG_RESOURCES, {"resource_types": [BROKER]})["config_resources"]

    assert [(each["resource_type"], each["resource_name"]) for each in found] == [(BROKER, "7")]


def test_a_type_that_does_not_exist_is_refused(stage: NodeStage) -> None:
    answer = stage.ask(Api.LIST_CONFIG_RESOURCES, {"resource_types": [BROKER, 99]})

    assert (answer["error_code"], answer["config_resources"]) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_the_older_version_lists_no_subscription(stage: NodeStage) -> None:
    answer = stage.ask(Api.LIST_CONFIG_RESOURCES, {}, version=0)

    assert (answer["error_code"], answer["config_resources"]) == (ErrorCode.NONE, [])
