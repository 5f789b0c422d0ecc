"""What one broker answers to questions about a cluster: its directory, leaders, reassignments, quorum, features."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runnel.broker.apis import describe_log_dirs
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import SERVED, Api
from runnel.records import Producer, Record, build_batch
from tests.unit.broker.node_stage import NodeStage

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[NodeStage]:
    stage = NodeStage(tmp_path / "data", {"broker.rack": "left"})
    stage.create("orders", partitions=2)
    yield stage
    stage.close()


def versions(api: Api) -> range:
    return range(SERVED[api].least, SERVED[api].most + 1)


# --- DescribeLogDirs


def directory(stage: NodeStage, topics: list[dict[str, Any]] | None, version: int = 4) -> dict[str, Any]:
    (found,) = stage.ask(Api.DESCRIBE_LOG_DIRS, {"topics": topics}, version)["results"]
    return dict(found)


@pytest.mark.parametrize("version", versions(Api.DESCRIBE_LOG_DIRS))
def test_the_data_directory_tells_the_size_of_its_partitions(stage: NodeStage, version: int) -> None:
    batch = build_batch([Record(value=b"x" * 100, timestamp=1)])
    stage.node.topics.find("orders").partition(1).append_batch(batch)  # type: ignore[union-attr]

    found = directory(
        stage, [{"topic": "orders", "partitions": [0, 1, 2]}, {"topic": "no", "partitions": [0]}], version
    )

    assert (found["error_code"], found["log_dir"]) == (ErrorCode.NONE, stage.data)
    (topic,) = found["topics"]
    told = [(each["partition_index"], each["partition_size"], each["offset_lag"]) for each in topic["partitions"]]
    assert (topic["name"], told) == ("orders", [(0, 0, 0), (1, len(batch), 0)])


@pytest.mark.parametrize("is_open", [False, True])
def test_a_topic_that_is_deleted_while_it_is_looked_at_is_left_out(
    stage: NodeStage, monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    stage.create("other")
    for _ in range(3):
        partition = stage.node.topics.find("orders").partition(1)  # type: ignore[union-attr]
        partition.append_batch(build_batch([Record(value=b"x" * 100, timestamp=1)]))
        partition.roll()
    stage.restart()
    topic = stage.node.topics.find("orders")
    assert topic is not None
    if is_open:
        topic.open_all()
    look = describe_log_dirs._described

    def deleted_before(*told: Any) -> Any:
        topic.leave()
        for number in range(2):
            stage.node.log.delete("orders", number)
        return look(*told)

    monkeypatch.setattr(describe_log_dirs, "_described", deleted_before)
    found = directory(stage, None)
    assert [each["name"] for each in found["topics"] if not each["name"].startswith("__")] == ["other"]


def test_the_data_directory_tells_of_all_topics_and_of_its_disk(stage: NodeStage) -> None:
    found = directory(stage, None)

    assert "orders" in [topic["name"] for topic in found["topics"]]
    assert found["total_bytes"] == shutil.disk_usage(stage.data).total
    assert 0 < found["usable_bytes"] <= found["total_bytes"]


# --- ElectLeaders


@pytest.mark.parametrize("version", versions(Api.ELECT_LEADERS))
def test_no_election_is_needed(stage: NodeStage, version: int) -> None:
    asked = [{"topic": "orders", "partitions": [0, 2]}]

    answer = stage.ask(Api.ELECT_LEADERS, {"election_type": 0, "topic_partitions": asked, "timeout": 1}, version)

    (topic,) = answer["replica_election_results"]
    assert [
        (each["partition_id"], each["error_code"], each["error_message"]) for each in topic["partition_result"]
    ] == [
        (0, ErrorCode.ELECTION_NOT_NEEDED, "the only replica leads already"),
        (2, UNKNOWN, "there is no partition orders-2"),
    ]


def test_of_all_partitions_none_needs_an_election(stage: NodeStage) -> None:
    answer = stage.ask(Api.ELECT_LEADERS, {"election_type": 1, "topic_partitions": None, "timeout": 1})

    assert (answer["error_code"], answer["replica_election_results"]) == (ErrorCode.NONE, [])


def test_an_unknown_kind_of_election_is_refused(stage: NodeStage) -> None:
    answer = stage.ask(Api.ELECT_LEADERS, {"election_type": 5, "topic_partitions": None, "timeout": 1})

    assert answer["error_code"] == ErrorCode.INVALID_REQUEST


# --- reassignments


@pytest.mark.parametrize(
    ("topic", "partition", "replicas", "code", "says"),
    [
        ("orders", 0, [1], ErrorCode.NONE, None),
        ("orders", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
        (
            "orders",
            0,
            [2],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "the replicas [2] are asked for, and the only broker is 1",
        ),
        (
            "orders",
            0,
            [],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "the replicas [] are asked for, and the only broker is 1",
        ),
        ("orders", 2, [1], UNKNOWN, "there is no partition orders-2"),
        ("nowhere", 0, None, UNKNOWN, "there is no partition nowhere-0"),
    ],
)
@pytest.mark.parametrize("version", versions(Api.ALTER_PARTITION_REASSIGNMENTS))
def test_a_partition_can_stay_where_it_is(
    stage: NodeStage,
    version: int,
    topic: str,
    partition: int,
    replicas: list[int] | None,
    code: ErrorCode,
    says: str | None,
) -> None:
    topics = [{"name": topic, "partitions": [{"partition_index": partition, "replicas": replicas}]}]
    body = {"timeout": 1, "topics": topics, "allow_replication_factor_change": False}

    answer = stage.ask(Api.ALTER_PARTITION_REASSIGNMENTS, body, version)

    (result,) = answer["responses"][0]["partitions"]
    assert (result["partition_index"], result["error_code"], result["error_message"]) == (partition, code, says)


def test_nothing_is_being_reassigned(stage: NodeStage) -> None:
    answer = stage.ask(Api.LIST_PARTITION_REASSIGNMENTS, {"timeout": 1, "topics": None})

    assert (answer["error_code"], answer["topics"]) == (ErrorCode.NONE, [])


# --- DescribeUserScramCredentials


@pytest.mark.parametrize("users", [None, []])
def test_no_user_has_credentials(stage: NodeStage, users: list[dict[str, str]] | None) -> None:
    answer = stage.ask(Api.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": users})

    assert (answer["error_code"], answer["results"]) == (ErrorCode.NONE, [])


def test_a_user_that_is_named_has_none_and_is_told_once(stage: NodeStage) -> None:
    users = [{"name": "bob"}, {"name": "eve"}, {"name": "eve"}]

    answer = stage.ask(Api.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": users})

    assert [(each["user"], each["error_code"], each["error_message"]) for each in answer["results"]] == [
        ("bob", ErrorCode.RESOURCE_NOT_FOUND, "the user 'bob' has no credentials"),
        ("eve", ErrorCode.DUPLICATE_RESOURCE, "the user 'eve' is named more than once"),
    ]


# --- DescribeQuorum


@pytest.mark.parametrize("version", versions(Api.DESCRIBE_QUORUM))
def test_the_quorum_is_this_broker(stage: NodeStage, version: int) -> None:
    asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]

    answer = stage.ask(Api.DESCRIBE_QUORUM, {"topics": asked}, version)

    (partition,) = answer["topics"][0]["partitions"]
    (voter,) = partition["current_voters"]
    assert (partition["error_code"], partition["leader_id"], voter["replica_id"]) == (ErrorCode.NONE, 1, 1)
    assert partition["high_watermark"] == voter["log_end_offset"] > 0
    assert partition["observers"] == []
    if version >= 2:
        assert answer["nodes"] == [
            {"node_id": 1, "listeners": [{"name": "PLAINTEXT", "host": "broker.example", "port": 9092}]}
        ]


def test_there_is_no_other_quorum(stage: NodeStage) -> None:
    asked = [{"topic_name": "orders", "partitions": [{"partition_index": 0}]}]

    (partition,) = stage.ask(Api.DESCRIBE_QUORUM, {"topics": asked})["topics"][0]["partitions"]

    assert (partition["error_code"], partition["leader_id"]) == (UNKNOWN, -1)
    assert partition["error_message"] == "expected __cluster_metadata-0, which is all that is voted on"


# --- UpdateFeatures


@pytest.mark.parametrize("version", versions(Api.UPDATE_FEATURES))
@pytest.mark.parametrize(
    ("feature", "level", "mistake"),
    [
        ("transaction.version", 2, None),
        ("transaction.version", 1, "'transaction.version' cannot be updated to version 1: it stays at 2"),
        ("share.version", 1, "'share.version' cannot be updated: this broker does not have it"),
    ],
)
def test_a_feature_stays_as_it_is(
    stage: NodeStage, version: int, feature: str, level: int, mistake: str | None
) -> None:
    update = {"feature": feature, "max_version_level": level, "upgrade_type": 1, "allow_downgrade": False}

    answer = stage.ask(
        Api.UPDATE_FEATURES, {"timeout": 1, "feature_updates": [update], "validate_only": False}, version
    )

    if mistake is None:
        assert (answer["error_code"], answer["error_message"]) == (ErrorCode.NONE, None)
    else:
        assert (answer["error_code"], answer["error_message"]) == (
            ErrorCode.INVALID_UPDATE_VERSION,
            f"the feature {mistake}",
        )


def test_an_update_of_nothing_succeeds(stage: NodeStage) -> None:
    answer = stage.ask(Api.UPDATE_FEATURES, {"timeout": 1, "feature_updates": [], "validate_only": False})

    assert answer["error_code"] == ErrorCode.NONE


# --- DescribeCluster


def cluster(stage: NodeStage, version: int = 2, endpoint_type: int = 1, asked: bool = False) -> dict[str, Any]:
    body = {
        "include_cluster_authorized_operations": asked,
        "endpoint_type": endpoint_type,
        "include_fenced_brokers": True,
    }
    return stage.ask(Api.DESCRIBE_CLUSTER, body, version)


@pytest.mark.parametrize("version", versions(Api.DESCRIBE_CLUSTER))
def test_the_cluster_is_this_broker(stage: NodeStage, version: int) -> None:
    answer = cluster(stage, version)

    (broker,) = answer["brokers"]
    assert (answer["error_code"], answer["cluster_id"]) == (ErrorCode.NONE, stage.node.cluster_id)
    assert (answer["controller_id"], broker["broker_id"], broker["host"], broker["port"], broker["rack"]) == (
        1,
        1,
        "broker.example",
        9092,
        "left",
    )


def test_what_may_be_done_is_told_if_it_is_asked_for(stage: NodeStage) -> None:
    assert cluster(stage)["cluster_authorized_operations"] == -(2**31)
    assert cluster(stage, asked=True)["cluster_authorized_operations"] > 0


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_other_endpoints_than_brokers_are_refused(stage: NodeStage, endpoint_type: int, code: ErrorCode) -> None:
    answer = cluster(stage, endpoint_type=endpoint_type)

    assert (answer["error_code"], answer["brokers"]) == (code, [])


# --- DescribeProducers


def test_the_producers_of_a_partition_are_told(stage: NodeStage) -> None:
    partition = stage.node.topics.find("orders").partition(0)  # type: ignore[union-attr]
    records = [Record(value=b"a", timestamp=5), Record(value=b"b", timestamp=6)]
    partition.append_batch(build_batch(records, producer=Producer(7, 3, 0)))
    asked = [{"name": "orders", "partition_indexes": [0, 1, 2]}]

    (topic,) = stage.ask(Api.DESCRIBE_PRODUCERS, {"topics": asked})["topics"]

    first, second, missing = topic["partitions"]
    assert first["active_producers"] == [
        {
            "producer_id": 7,
            "producer_epoch": 3,
            "last_sequence": 1,
            "last_timestamp": 6,
            "coordinator_epoch": -1,
            "current_txn_start_offset": -1,
        }
    ]
    assert (second["error_code"], second["active_producers"]) == (ErrorCode.NONE, [])
    assert (missing["error_code"], missing["error_message"]) == (UNKNOWN, "there is no partition orders-2")
