import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import SERVED, Api
from tests.unit.broker.node_stage import NEWEST, NodeStage

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
OF_TOPIC, OF_BROKER, OF_ALL_BROKERS, STATIC, DEFAULT, OF_LOGGER, OF_GROUP = 1, 2, 3, 4, 5, 6, 8


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[NodeStage]:
    stage = NodeStage(tmp_path / "data", {"log.retention.hours": "24", "num.io.threads": "3"})
    yield stage
    stage.close()


def described(
    stage: NodeStage, kind: int, name: str, *keys: str, documented: bool = False, version: int = NEWEST
) -> dict[str, Any]:
    body = {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}],
        "include_synonyms": True,
        "include_documentation": documented,
    }
    (result,) = stage.ask(Api.DESCRIBE_CONFIGS, body, version)["results"]
    assert (result["resource_type"], result["resource_name"]) == (kind, name)
    return result


def config(stage: NodeStage, kind: int, name: str, key: str) -> dict[str, Any]:
    (found,) = described(stage, kind, name, key)["configs"]
    return dict(found)


def synonyms(found: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(each["name"], each["value"], each["source"]) for each in found["synonyms"]]


def changed(stage: NodeStage, kind: int, name: str, key: str, value: str) -> None:
    change = {"name": key, "config_operation": 0, "value": value}
    resource = {"resource_type": kind, "resource_name": name, "configs": [change]}
    answer = stage.ask(Api.INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": False})
    assert answer["responses"][0]["error_code"] == ErrorCode.NONE, answer


# --- topics


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_the_brokers_own_topics_are_shown_as_they_are_kept_and_cannot_be_changed(stage: NodeStage, name: str) -> None:
    found = config(stage, TOPIC, name, "cleanup.policy")
    assert (found["value"], found["config_source"], found["read_only"]) == ("compact", OF_TOPIC, True)
    settings = stage.node.topics.find(name).partition(0).settings
    for key in ("retention.ms", "segment.bytes", "max.compaction.lag.ms", "segment.ms"):
        assert config(stage, TOPIC, name, key)["value"] == str(settings.by_name()[key])
    change = {"name": "cleanup.policy", "config_operation": 0, "value": "delete"}
    resource = {"resource_type": TOPIC, "resource_name": name, "configs": [change]}
    for validate_only in (True, False):
        answer = stage.ask(Api.INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": validate_only})
        assert answer["responses"][0]["error_code"] == ErrorCode.INVALID_REQUEST
    assert config(stage, TOPIC, name, "cleanup.policy")["value"] == "compact"


def test_a_topics_own_value_wins(stage: NodeStage) -> None:
    stage.create("orders", retention_ms="5000")

    found = config(stage, TOPIC, "orders", "retention.ms")

    assert (found["value"], found["config_source"], found["read_only"]) == ("5000", OF_TOPIC, False)
    assert synonyms(found) == [
        ("retention.ms", "5000", OF_TOPIC),
        ("log.retention.hours", "24", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]


def test_a_topic_has_what_the_broker_was_started_with(stage: NodeStage) -> None:
    stage.create("orders")

    found = config(stage, TOPIC, "orders", "retention.ms")

    assert (found["value"], found["config_source"]) == ("86400000", STATIC)


def test_a_change_for_this_broker_wins_over_one_for_all_brokers(stage: NodeStage) -> None:
    stage.create("orders")
    changed(stage, BROKER, "", "log.retention.ms", "7000")
    assert config(stage, TOPIC, "orders", "retention.ms")["value"] == "7000"

    changed(stage, BROKER, "1", "log.retention.ms", "6000")

    found = config(stage, TOPIC, "orders", "retention.ms")
    assert (found["value"], found["config_source"]) == ("6000", OF_BROKER)
    assert synonyms(found)[:2] == [
        ("log.retention.ms", "6000", OF_BROKER),
        ("log.retention.ms", "7000", OF_ALL_BROKERS),
    ]


def test_what_nobody_set_is_a_default(stage: NodeStage) -> None:
    stage.create("orders")

    found = config(stage, TOPIC, "orders", "flush.messages")

    assert (found["value"], found["config_source"]) == ("9223372036854775807", DEFAULT)


def test_what_is_ignored_is_shown_and_its_documentation_says_so(stage: NodeStage) -> None:
    stage.create("orders", min_insync_replicas="2")

    (found,) = described(stage, TOPIC, "orders", "min.insync.replicas", documented=True)["configs"]

    assert (found["value"], found["config_source"]) == ("2", OF_TOPIC)
    assert found["documentation"] == "ignored: there is one replica, and it is in sync"


def test_all_of_kafkas_topic_configurations_are_shown(stage: NodeStage) -> None:
    stage.create("orders")

    names = [found["name"] for found in described(stage, TOPIC, "orders")["configs"]]

    assert len(names) == 33
    assert "internal.segment.bytes" not in names


def test_a_name_that_does_not_exist_is_left_out(stage: NodeStage) -> None:
    stage.create("orders")

    assert described(stage, TOPIC, "orders", "no.such.name")["configs"] == []


@pytest.mark.parametrize(
    ("name", "code"), [("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("a b", ErrorCode.INVALID_TOPIC)]
)
def test_a_topic_that_is_not_there_is_told(stage: NodeStage, name: str, code: ErrorCode) -> None:
    result = described(stage, TOPIC, name)

    assert (result["error_code"], result["error_message"]) == (code, f"there is no topic {name!r}")


# --- brokers


def test_a_broker_shows_where_its_values_come_from(stage: NodeStage) -> None:
    hours = config(stage, BROKER, "1", "log.retention.hours")
    partitions = config(stage, BROKER, "1", "num.partitions")

    assert (hours["value"], hours["config_source"], hours["read_only"]) == ("24", STATIC, True)
    assert (partitions["value"], partitions["config_source"], partitions["config_type"]) == ("1", DEFAULT, 3)


def test_a_setting_without_a_value_shows_those_that_count_instead(stage: NodeStage) -> None:
    found = config(stage, BROKER, "1", "log.retention.ms")

    assert found["value"] is None
    assert synonyms(found)[0] == ("log.retention.hours", "24", STATIC)


def test_the_data_directory_is_shown(stage: NodeStage) -> None:
    assert config(stage, BROKER, "1", "log.dirs")["value"] == stage.data


def test_a_password_is_never_shown(stage: NodeStage) -> None:
    found = config(stage, BROKER, "1", "ssl.key.password")

    assert (found["is_sensitive"], found["value"]) == (True, None)


def test_an_empty_name_shows_what_was_changed_for_all_brokers(stage: NodeStage) -> None:
    assert described(stage, BROKER, "")["configs"] == []

    changed(stage, BROKER, "", "message.max.bytes", "2000000")

    (found,) = described(stage, BROKER, "")["configs"]
    assert (found["name"], found["value"], found["config_source"]) == ("message.max.bytes", "2000000", OF_ALL_BROKERS)


@pytest.mark.parametrize("name", ["2", "one"])
def test_another_broker_is_refused(stage: NodeStage, name: str) -> None:
    result = described(stage, BROKER, name)

    assert result["error_code"] == ErrorCode.INVALID_REQUEST
    assert result["error_message"] == f"there is no broker {name!r} here: expected 1 or nothing, for all brokers"


# --- loggers, groups, client metrics, and others


def test_loggers_are_shown_with_kafkas_names_for_levels(stage: NodeStage) -> None:
    logging.getLogger("runnel.broker.node").setLevel(logging.ERROR)
    try:
        found = config(stage, LOGGER, "1", "runnel.broker.node")
    finally:
        logging.getLogger("runnel.broker.node").setLevel(logging.NOTSET)

    assert (found["value"], found["config_source"]) == ("ERROR", OF_LOGGER)


def test_the_loggers_of_another_broker_are_refused(stage: NodeStage) -> None:
    result = described(stage, LOGGER, "")

    assert (result["error_code"], result["error_message"]) == (
        ErrorCode.INVALID_REQUEST,
        "there is no broker '' here: expected 1",
    )


def test_a_group_has_its_own_values_and_those_of_the_broker(stage: NodeStage) -> None:
    changed(stage, GROUP, "readers", "consumer.session.timeout.ms", "50000")

    own = config(stage, GROUP, "readers", "consumer.session.timeout.ms")
    other = config(stage, GROUP, "readers", "share.auto.offset.reset")

    assert (own["value"], own["config_source"]) == ("50000", OF_GROUP)
    assert (other["value"], other["config_source"]) == ("latest", DEFAULT)


def test_client_metrics_have_their_defaults(stage: NodeStage) -> None:
    assert config(stage, METRICS, "any", "interval.ms")["value"] == "300000"


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [(3, "a", "resource type 3 has no configuration"), (GROUP, "", "a name is missing")],
)
def test_what_has_no_configuration_is_refused(stage: NodeStage, kind: int, name: str, says: str) -> None:
    result = described(stage, kind, name)

    assert (result["error_code"], result["error_message"]) == (ErrorCode.INVALID_REQUEST, says)


def test_each_resource_gets_its_own_answer(stage: NodeStage) -> None:
    stage.create("orders")
    resources = [
        {"resource_type": TOPIC, "resource_name": name, "configuration_keys": ["retention.ms"]}
        for name in ("nowhere", "orders")
    ]

    answer = stage.ask(
        Api.DESCRIBE_CONFIGS, {"resources": resources, "include_synonyms": False, "include_documentation": False}
    )

    assert [result["error_code"] for result in answer["results"]] == [3, 0]
    assert answer["results"][1]["configs"][0]["synonyms"] == []


def test_a_resource_that_is_named_twice_gets_two_answers(stage: NodeStage) -> None:
    stage.create("orders")
    resources = [
        {"resource_type": TOPIC, "resource_name": "orders", "configuration_keys": [key]}
        for key in ("retention.ms", "segment.ms")
    ]

    answer = stage.ask(
        Api.DESCRIBE_CONFIGS, {"resources": resources, "include_synonyms": False, "include_documentation": False}
    )

    assert [result["resource_name"] for result in answer["results"]] == ["orders", "orders"]
    assert [result["configs"][0]["name"] for result in answer["results"]] == ["retention.ms", "segment.ms"]


@pytest.mark.parametrize("version", range(SERVED[Api.DESCRIBE_CONFIGS].least, SERVED[Api.DESCRIBE_CONFIGS].most + 1))
def test_every_version_is_answered(stage: NodeStage, version: int) -> None:
    stage.create("orders", segment_ms="9000")

    (found,) = described(stage, TOPIC, "orders", "segment.ms", version=version)["configs"]

    assert found["value"] == "9000"
