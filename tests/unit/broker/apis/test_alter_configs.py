import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runnel.broker.cluster import METADATA_TOPIC
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.node_stage import NEWEST, NodeStage

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[NodeStage]:
    stage = NodeStage(tmp_path / "data", {"message.max.bytes": "1000000"})
    stage.create("orders")
    yield stage
    stage.close()


def resource(kind: int, name: str, *changes: tuple[str, int, str | None]) -> dict[str, Any]:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def altered(
    stage: NodeStage,
    *resources: dict[str, Any],
    api: Api = Api.INCREMENTAL_ALTER_CONFIGS,
    validate_only: bool = False,
    version: int = NEWEST,
) -> list[tuple[int, str | None]]:
    answer = stage.ask(api, {"resources": resources, "validate_only": validate_only}, version)
    return [(each["error_code"], each["error_message"]) for each in answer["responses"]]


OK = [(ErrorCode.NONE, None)]


def configs_of(stage: NodeStage, topic: str = "orders") -> dict[str, str]:
    found = stage.node.topics.find(topic)
    assert found is not None
    return dict(found.configs)


# --- topics


def test_a_change_is_in_force_at_once(stage: NodeStage) -> None:
    partition = stage.node.topics.find("orders").partition(0)  # type: ignore[union-attr]

    assert altered(stage, resource(TOPIC, "orders", ("retention.ms", SET, "5000"))) == OK

    assert partition.settings.retention_ms == 5000


def test_a_change_survives_a_restart(stage: NodeStage) -> None:
    altered(stage, resource(TOPIC, "orders", ("retention.ms", SET, "5000")))

    stage.restart()

    assert configs_of(stage) == {"retention.ms": "5000"}
    assert stage.node.topics.find("orders").settings.retention_ms == 5000  # type: ignore[union-attr]


def test_what_is_deleted_has_its_default_again(stage: NodeStage) -> None:
    altered(stage, resource(TOPIC, "orders", ("retention.ms", SET, "5000"), ("segment.ms", SET, "6000")))

    assert altered(stage, resource(TOPIC, "orders", ("retention.ms", DELETE, None))) == OK

    assert configs_of(stage) == {"segment.ms": "6000"}


def test_a_list_grows_from_its_default_and_shrinks(stage: NodeStage) -> None:
    altered(stage, resource(TOPIC, "orders", ("cleanup.policy", APPEND, "compact")))
    assert configs_of(stage) == {"cleanup.policy": "delete,compact"}

    altered(stage, resource(TOPIC, "orders", ("cleanup.policy", APPEND, "compact")))
    assert configs_of(stage) == {"cleanup.policy": "delete,compact"}

    altered(stage, resource(TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete")))
    assert configs_of(stage) == {"cleanup.policy": "compact"}


def test_a_check_changes_nothing(stage: NodeStage) -> None:
    assert altered(stage, resource(TOPIC, "orders", ("retention.ms", SET, "5000")), validate_only=True) == OK
    assert altered(stage, resource(BROKER, "1", ("message.max.bytes", SET, "7")), validate_only=True) == OK

    assert configs_of(stage) == {}
    assert stage.node.settings.message_max_bytes == 1_000_000


def test_a_resource_is_changed_as_a_whole_or_not_at_all(stage: NodeStage) -> None:
    ((code, _),) = altered(stage, resource(TOPIC, "orders", ("segment.ms", SET, "6000"), ("no.such", SET, "1")))

    assert code == ErrorCode.INVALID_CONFIG
    assert configs_of(stage) == {}


def test_each_resource_gets_its_own_answer(stage: NodeStage) -> None:
    changes = ("segment.ms", SET, "6000")

    answers = altered(stage, resource(TOPIC, "nowhere", changes), resource(TOPIC, "orders", changes))

    assert answers == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic 'nowhere'"), *OK]
    assert configs_of(stage) == {"segment.ms": "6000"}


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (
            ("retention.ms", SET, "abc"),
            ErrorCode.INVALID_CONFIG,
            "setting retention.ms = 'abc' (expected a whole number of at least -1)",
        ),
        (
            ("retention.ms", SET, "-2"),
            ErrorCode.INVALID_CONFIG,
            "setting retention.ms = '-2' (expected a whole number of at least -1)",
        ),
        (
            ("retention.sm", SET, "1"),
            ErrorCode.INVALID_CONFIG,
            "setting retention.sm = '1' (expected a topic configuration that Kafka knows, such as retention.ms)",
        ),
        (
            ("compression.type", SET, "pigeon"),
            ErrorCode.INVALID_CONFIG,
            "setting compression.type = 'pigeon' (expected one of uncompressed, zstd, lz4, snappy, gzip, producer)",
        ),
        (
            ("remote.storage.enable", SET, "true"),
            ErrorCode.INVALID_CONFIG,
            "setting remote.storage.enable = 'true' (expected it to be left out: there is no remote storage)",
        ),
        (("preallocate", SET, "yes"), ErrorCode.INVALID_CONFIG, "setting preallocate = 'yes' (expected true or false)"),
        (
            ("cleanup.policy", SET, "shred"),
            ErrorCode.INVALID_CONFIG,
            "setting cleanup.policy = 'shred' (expected some of compact, delete)",
        ),
        (
            ("retention.ms", APPEND, "1"),
            ErrorCode.INVALID_CONFIG,
            "retention.ms is no list: nothing can be added or taken away",
        ),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST, "retention.ms has no value"),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST, "there is no operation 9"),
    ],
)
def test_a_change_of_a_topic_that_cannot_be_is_refused(
    stage: NodeStage, change: tuple[str, int, str | None], code: ErrorCode, says: str
) -> None:
    assert altered(stage, resource(TOPIC, "orders", change)) == [(code, says)]


def test_what_stands_there_twice_is_refused(stage: NodeStage) -> None:
    twice = ("segment.ms", SET, "6000")

    assert altered(stage, resource(TOPIC, "orders", twice, twice)) == [
        (ErrorCode.INVALID_REQUEST, "segment.ms stands there more than once")
    ]
    both = altered(stage, resource(TOPIC, "orders", twice), resource(TOPIC, "orders", twice))
    assert both == [(ErrorCode.INVALID_REQUEST, "the resource stands there more than once")] * 2
    assert configs_of(stage) == {}


def test_all_topics_together_cannot_be_changed(stage: NodeStage) -> None:
    assert altered(stage, resource(TOPIC, "", ("segment.ms", SET, "6000"))) == [
        (ErrorCode.INVALID_REQUEST, "a topic has to be named: there are no configurations for all topics")
    ]


# --- brokers


def test_a_change_of_the_broker_reaches_its_topics_at_once_and_after_a_restart(stage: NodeStage) -> None:
    partition = stage.node.topics.find("orders").partition(0)  # type: ignore[union-attr]

    assert altered(stage, resource(BROKER, "", ("message.max.bytes", SET, "7000"))) == OK
    assert (stage.node.settings.message_max_bytes, partition.settings.max_message_bytes) == (7000, 7000)

    stage.restart()
    assert stage.node.settings.message_max_bytes == 7000


def test_a_change_of_the_broker_reaches_its_log_at_once_and_after_a_restart(stage: NodeStage) -> None:
    def care() -> tuple[int, int, int]:
        settings = stage.node.log._home.settings
        return settings.cleaner_backoff_ms, settings.cleaner_dedupe_buffer_bytes, settings.producer_expiration_ms

    changes = {
        "log.cleaner.backoff.ms": "7",
        "log.cleaner.dedupe.buffer.size": "2000000",
        "producer.id.expiration.ms": "9",
    }
    assert altered(stage, resource(BROKER, "", *((name, SET, value) for name, value in changes.items()))) == OK
    assert care() == (7, 2_000_000, 9)
    stage.restart()
    assert care() == (7, 2_000_000, 9)
    assert altered(stage, resource(BROKER, "", *((name, DELETE, None) for name in changes))) == OK
    assert care() == (15_000, 134_217_728, 86_400_000)


def test_what_is_deleted_is_again_what_the_broker_was_started_with(stage: NodeStage) -> None:
    altered(stage, resource(BROKER, "1", ("message.max.bytes", SET, "7000")))

    assert altered(stage, resource(BROKER, "1", ("message.max.bytes", DELETE, None))) == OK

    assert stage.node.settings.message_max_bytes == 1_000_000


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        (
            "1",
            ("num.partitions", SET, "5"),
            "num.partitions cannot be changed at run time: give it when the broker is started",
        ),
        ("1", ("log.retention.ms", SET, "x"), "setting log.retention.ms = 'x' (expected a whole number)"),
        (
            "1",
            ("log.retention.ms", SET, "0"),
            "setting log.retention.ms = 0 (expected -1 for ever, or at least 1)",
        ),
        (
            "1",
            ("log.retention.m", SET, "5"),
            "setting log.retention.m = '5' (expected a broker configuration that Kafka knows, "
            "such as log.retention.ms)",
        ),
        (
            "1",
            ("ssl.key.password", SET, "secret"),
            "setting ssl.key.password = '[hidden]' (expected it to be left out: "
            "there is no authentication and no encryption yet)",
        ),
        ("", ("cordoned.log.dirs", SET, "*"), "cordoned.log.dirs cannot be set for all brokers: name one"),
        (
            "2",
            ("log.retention.ms", SET, "5"),
            "there is no broker '2' here: expected 1 or nothing, for all brokers",
        ),
    ],
)
def test_a_change_of_a_broker_that_cannot_be_is_refused(
    stage: NodeStage, name: str, change: tuple[str, int, str | None], says: str
) -> None:
    assert altered(stage, resource(BROKER, name, change)) == [(ErrorCode.INVALID_REQUEST, says)]


# --- loggers, groups, client metrics


def test_the_level_of_a_logger_changes_at_once_and_can_be_given_back(stage: NodeStage) -> None:
    logger = logging.getLogger("runnel.broker.topics")

    assert altered(stage, resource(LOGGER, "1", ("runnel.broker.topics", SET, "DEBUG"))) == OK
    assert logger.level == logging.DEBUG

    assert altered(stage, resource(LOGGER, "1", ("runnel.broker.topics", DELETE, None))) == OK
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (
            ("root", SET, "DEBUG"),
            ErrorCode.INVALID_CONFIG,
            "setting root = 'DEBUG' (expected a logger of this broker, such as runnel)",
        ),
        (
            ("runnel", SET, "LOUD"),
            ErrorCode.INVALID_CONFIG,
            "setting runnel = 'LOUD' (expected one of FATAL, ERROR, WARN, INFO, DEBUG, TRACE)",
        ),
        (("runnel", APPEND, "INFO"), ErrorCode.INVALID_REQUEST, "the level of runnel is no list"),
    ],
)
def test_a_level_that_cannot_be_is_refused(
    stage: NodeStage, change: tuple[str, int, str | None], code: ErrorCode, says: str
) -> None:
    assert altered(stage, resource(LOGGER, "1", change)) == [(code, says)]


def test_a_subscription_to_client_metrics_is_refused(stage: NodeStage) -> None:
    assert altered(stage, resource(METRICS, "all", ("interval.ms", SET, "5000"))) == [
        (
            ErrorCode.INVALID_CONFIG,
            "setting interval.ms = '5000' (expected it to be left out: clients' own metrics are not taken)",
        )
    ]


def test_a_groups_configurations_are_kept_over_a_restart(stage: NodeStage) -> None:
    altered(stage, resource(GROUP, "readers", ("consumer.session.timeout.ms", SET, "50000")))
    stage.restart()

    resources = stage.ask(Api.LIST_CONFIG_RESOURCES, {"resource_types": [GROUP]})["config_resources"]

    assert [(each["resource_name"], each["resource_type"]) for each in resources] == [("readers", GROUP)]


# --- AlterConfigs replaces all


def test_all_configurations_are_replaced(stage: NodeStage) -> None:
    altered(stage, resource(TOPIC, "orders", ("retention.ms", SET, "5000")))

    assert altered(stage, resource(TOPIC, "orders", ("segment.ms", SET, "6000")), api=Api.ALTER_CONFIGS) == OK

    assert configs_of(stage) == {"segment.ms": "6000"}


@pytest.mark.parametrize(
    ("asked", "code", "says"),
    [
        (resource(TOPIC, "orders", ("segment.ms", SET, None)), 42, "segment.ms has no value"),
        (resource(TOPIC, "nowhere", ("segment.ms", SET, "1")), 3, "there is no topic 'nowhere'"),
        (
            resource(LOGGER, "1", ("runnel", SET, "INFO")),
            42,
            "the levels of loggers are changed one by one: not all are replaced",
        ),
        (resource(GROUP, "", ("share.session.timeout.ms", SET, "1")), 42, "a group has to be named"),
        (resource(7, "a", ("segment.ms", SET, "1")), 42, "resource type 7 has no configuration"),
    ],
)
def test_a_replacement_that_cannot_be_is_refused(stage: NodeStage, asked: dict[str, Any], code: int, says: str) -> None:
    assert altered(stage, asked, api=Api.ALTER_CONFIGS) == [(code, says)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_alter_configs_is_answered(stage: NodeStage, version: int) -> None:
    changes = resource(TOPIC, "orders", ("segment.ms", SET, str(version + 1)))

    assert altered(stage, changes, api=Api.ALTER_CONFIGS, version=version) == OK
    assert configs_of(stage) == {"segment.ms": str(version + 1)}


def test_the_older_version_of_incremental_alter_configs_is_answered(stage: NodeStage) -> None:
    assert altered(stage, resource(TOPIC, "orders", ("segment.ms", SET, "4")), version=0) == OK


def test_a_change_that_changes_nothing_is_not_written(stage: NodeStage) -> None:
    change = (
        resource(TOPIC, "orders", ("segment.ms", SET, "4")),
        resource(BROKER, "1", ("message.max.bytes", SET, "7000")),
        resource(GROUP, "readers", ("share.session.timeout.ms", SET, "50000")),
    )
    assert altered(stage, *change) == OK * 3
    metadata = stage.node.log.partition(METADATA_TOPIC)
    written = metadata.end_offset

    assert altered(stage, *change) == OK * 3

    assert metadata.end_offset == written
