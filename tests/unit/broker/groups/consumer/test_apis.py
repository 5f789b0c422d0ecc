"""The APIs of consumer groups, through the bytes of their requests and answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.node_stage import NEWEST, NodeStage

GROUP_KIND = 32


class Stage(NodeStage):
    def beat(self, member: str = "ann", epoch: int = 0, *, version: int = NEWEST, **more: Any) -> dict[str, Any]:
        joins = epoch == 0
        wish = {
            "group_id": "g",
            "member_id": member,
            "member_epoch": epoch,
            "instance_id": None,
            "rack_id": "r1" if joins else None,
            "rebalance_timeout": 60_000 if joins else -1,
            "subscribed_topic_names": ["orders"] if joins else None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [] if joins else None,
        }
        return self.ask(Api.CONSUMER_GROUP_HEARTBEAT, wish | more, version)

    def describe(self, name: str = "g", version: int = NEWEST) -> dict[str, Any]:
        asked = {"group_ids": [name], "include_authorized_operations": False}
        (group,) = self.ask(Api.CONSUMER_GROUP_DESCRIBE, asked, version)["groups"]
        return dict(group)

    def commit(self, member: str, epoch: int, *partitions: int, version: int = NEWEST) -> list[int]:
        topic = self.node.topics.find("orders")
        assert topic is not None
        asked = [
            {
                "partition_index": number,
                "committed_offset": 5,
                "committed_leader_epoch": -1,
                "committed_metadata": None,
                "commit_timestamp": -1,
            }
            for number in partitions
        ]
        body = {
            "group_id": "g",
            "generation_id_or_member_epoch": epoch,
            "member_id": member,
            "group_instance_id": None,
            "retention_time": -1,
            "topics": [{"name": "orders", "topic_id": topic.id, "partitions": asked}],
        }
        (answered,) = self.ask(Api.OFFSET_COMMIT, body, version)["topics"]
        return [each["error_code"] for each in answered["partitions"]]

    def fetch(self, member: str | None, epoch: int) -> dict[str, Any]:
        topic = self.node.topics.find("orders")
        assert topic is not None
        asked = [{"name": "orders", "topic_id": topic.id, "partition_indexes": [0]}]
        group = {"group_id": "g", "member_id": member, "member_epoch": epoch, "topics": asked}
        (answered,) = self.ask(Api.OFFSET_FETCH, {"groups": [group], "require_stable": False})["groups"]
        return dict(answered)

    def alter(self, **configs: str) -> dict[str, Any]:
        changes = [
            {"name": name.replace("_", "."), "config_operation": 0, "value": value} for name, value in configs.items()
        ]
        resource = {"resource_type": GROUP_KIND, "resource_name": "g", "configs": changes}
        body = {"resources": [resource], "validate_only": False}
        return dict(self.ask(Api.INCREMENTAL_ALTER_CONFIGS, body)["responses"][0])

    def group_configs(self) -> dict[str, str]:
        resource = {"resource_type": GROUP_KIND, "resource_name": "g", "configuration_keys": None}
        asked = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
        (result,) = self.ask(Api.DESCRIBE_CONFIGS, asked)["results"]
        return {each["name"]: each["value"] for each in result["configs"]}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, {"group.consumer.assignment.interval.ms": "0"})
    stage.create("orders", 2)
    yield stage
    stage.close()


@pytest.mark.parametrize("version", [0, 1])
def test_a_heartbeat_tells_epoch_interval_and_assignment(stage: Stage, version: int) -> None:
    topic = stage.node.topics.find("orders")
    assert topic is not None
    assert stage.beat(version=version) == {
        "throttle_time": 0,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "member_id": "ann",
        "member_epoch": 1,
        "heartbeat_interval": 5_000,
        "assignment": {"topic_partitions": [{"topic_id": topic.id, "partitions": [0, 1]}]},
    }


def test_in_version_0_the_broker_gives_an_id_and_in_version_1_it_does_not(stage: Stage) -> None:
    assert stage.beat("", version=0)["member_id"]
    assert stage.beat("", version=1)["error_code"] == ErrorCode.INVALID_REQUEST


def test_an_error_has_its_text(stage: Stage) -> None:
    answer = stage.beat(subscribed_topic_regex="(")
    assert answer["error_code"] == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer["error_message"] == "SubscribedTopicRegex `(` is not a valid regular expression: missing ): (."


def test_a_group_is_described(stage: Stage) -> None:
    topic = stage.node.topics.find("orders")
    assert topic is not None
    stage.beat(server_assignor="range")
    assignment = {"topic_partitions": [{"topic_id": topic.id, "topic_name": "orders", "partitions": [0, 1]}]}
    assert stage.describe() == {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "group_id": "g",
        "group_state": "Stable",
        "group_epoch": 1,
        "assignment_epoch": 1,
        "assignor_name": "range",
        "authorized_operations": -(2**31),
        "members": [
            {
                "member_id": "ann",
                "instance_id": None,
                "rack_id": "r1",
                "member_epoch": 1,
                "client_id": "",
                "client_host": "/127.0.0.1",
                "subscribed_topic_names": ["orders"],
                "subscribed_topic_regex": "",
                "assignment": assignment,
                "target_assignment": assignment,
                "member_type": 1,
            }
        ],
    }


def test_a_group_that_is_not_there_is_not_found(stage: Stage) -> None:
    missing = stage.describe("other")
    assert (missing["error_code"], missing["error_message"]) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group other not found.")


def test_a_classic_group_is_not_described_as_a_consumer_group(stage: Stage) -> None:
    assert stage.commit("", -1, 0) == [ErrorCode.NONE]
    assert stage.describe()["error_message"] == "Group g is not a consumer group."


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_consumer_group_is_dead_as_a_classic_one(stage: Stage, version: int, error: ErrorCode) -> None:
    stage.beat()
    asked = {"groups": ["g"], "include_authorized_operations": False}
    (group,) = stage.ask(Api.DESCRIBE_GROUPS, asked, version)["groups"]
    assert (group["error_code"], group["group_state"]) == (error, "Dead")


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ([], [], ["g"]),
        (["STABLE"], ["Consumer"], ["g"]),
        (["Empty"], [], []),
        ([], ["classic"], []),
    ],
)
def test_groups_are_listed_by_state_and_type(
    stage: Stage, states: list[str], types: list[str], found: list[str]
) -> None:
    stage.beat()
    groups = stage.ask(Api.LIST_GROUPS, {"states_filter": states, "types_filter": types})["groups"]
    assert [group["group_id"] for group in groups] == found
    for group in groups:
        assert (group["group_type"], group["protocol_type"], group["group_state"]) == ("consumer", "consumer", "Stable")


# --- offsets


def test_a_member_commits_and_fetches_with_its_epoch(stage: Stage) -> None:
    stage.beat()
    assert stage.commit("ann", 1, 0) == [ErrorCode.NONE]
    answer = stage.fetch("ann", 1)
    assert answer["topics"][0]["partitions"][0]["committed_offset"] == 5


def test_a_wrong_epoch_is_stale(stage: Stage) -> None:
    stage.beat()
    assert stage.commit("ann", 2, 0) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert stage.commit("ann", 0, 0) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert stage.commit("eve", 1, 0) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert stage.commit("ann", 1, 0, version=8) == [ErrorCode.UNSUPPORTED_VERSION]
    assert stage.fetch("ann", 2)["error_code"] == ErrorCode.STALE_MEMBER_EPOCH
    assert stage.fetch("eve", 1)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.fetch(None, -1)["error_code"] == ErrorCode.NONE


def test_an_earlier_epoch_commits_only_what_it_had(stage: Stage) -> None:
    stage.beat()
    stage.loop.run_until_complete(stage.node.topics.grow("orders", 3))
    topic = stage.node.topics.find("orders")
    assert topic is not None
    owned = [{"topic_id": topic.id, "partitions": [0, 1]}]
    assert stage.beat(epoch=1, topic_partitions=owned)["member_epoch"] == 2
    assert stage.commit("ann", 1, 0, 1, 2) == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH]


def test_offsets_of_subscribed_topics_stay(stage: Stage) -> None:
    stage.beat()
    stage.commit("ann", 1, 0)
    asked = {"group_id": "g", "topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]}
    answer = stage.ask(Api.OFFSET_DELETE, asked)
    assert answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    stage.beat(epoch=-1)
    answer = stage.ask(Api.OFFSET_DELETE, asked)
    assert answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NONE


def test_a_group_is_deleted_when_it_is_empty(stage: Stage) -> None:
    stage.beat()
    for epoch, error in ((1, ErrorCode.NON_EMPTY_GROUP), (-1, ErrorCode.NONE)):
        stage.beat(epoch=epoch)
        (result,) = stage.ask(Api.DELETE_GROUPS, {"groups_names": ["g"]})["results"]
        assert result["error_code"] == error
    assert stage.describe()["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND


# --- settings


def test_a_groups_own_configuration_counts_and_survives_a_restart(stage: Stage) -> None:
    assert stage.alter(consumer_heartbeat_interval_ms="6000")["error_code"] == ErrorCode.NONE
    assert stage.beat()["heartbeat_interval"] == 6_000
    stage.restart()
    assert stage.beat(epoch=1)["heartbeat_interval"] == 6_000
    assert stage.group_configs()["consumer.heartbeat.interval.ms"] == "6000"
    listed = stage.ask(Api.LIST_CONFIG_RESOURCES, {"resource_types": [GROUP_KIND]})["config_resources"]
    assert [each["resource_name"] for each in listed] == ["g"]


def test_a_groups_configuration_is_inherited_from_the_broker(stage: Stage) -> None:
    configs = stage.group_configs()
    assert configs["consumer.session.timeout.ms"] == "45000"
    assert configs["consumer.heartbeat.interval.ms"] == "5000"
    assert configs["consumer.assignment.interval.ms"] == "0"


@pytest.mark.parametrize(
    "configs",
    [
        {"consumer_session_timeout_ms": "1000"},
        {"consumer_session_timeout_ms": "60001"},
        {"consumer_heartbeat_interval_ms": "4999"},
        {"consumer_heartbeat_interval_ms": "many"},
    ],
)
def test_a_groups_configuration_stays_within_the_brokers_bounds(stage: Stage, configs: dict[str, str]) -> None:
    assert stage.alter(**configs)["error_code"] == ErrorCode.INVALID_CONFIG
    assert stage.group_configs()["consumer.session.timeout.ms"] == "45000"


def test_the_protocol_can_be_turned_off(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"group.coordinator.rebalance.protocols": "classic"})
    stage.create("orders")
    assert stage.beat()["error_code"] == ErrorCode.UNSUPPORTED_VERSION
    assert stage.describe()["error_code"] == ErrorCode.UNSUPPORTED_VERSION
    stage.close()


def test_a_regular_expression_is_resolved_in_a_thread(stage: Stage) -> None:
    stage.beat(subscribed_topic_names=None, subscribed_topic_regex="or.*")
    for _ in range(1_000):
        answer = stage.beat(epoch=max(1, stage.describe()["members"][0]["member_epoch"]), topic_partitions=[])
        if answer["assignment"] is not None and answer["assignment"]["topic_partitions"]:
            return
    raise AssertionError(f"not after 1,000 heartbeats: {stage.describe()}")


def test_a_stopping_broker_is_no_coordinator(stage: Stage) -> None:
    stage.node.groups.stop()
    assert stage.beat()["error_code"] == ErrorCode.NOT_COORDINATOR
