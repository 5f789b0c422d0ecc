"""The administration tools of Apache Kafka's own distribution, on our broker."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runnel import Broker
from tests.interop.kafka_distribution import java_command, java_environment

pytestmark = pytest.mark.servers

CONFIGS = "kafka.admin.ConfigCommand"
TOOLS = "org.apache.kafka.tools"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"node.id": 1}) as broker:
        succeeds(broker, f"{TOOLS}.TopicCommand", "--create", "--topic", "orders", "--partitions", "2")
        yield broker


def run(broker: Broker, tool: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = java_command(tool, "--bootstrap-server", broker.bootstrap, *arguments)
    return subprocess.run(command, env=java_environment(), capture_output=True, text=True, check=False, timeout=120)


def succeeds(broker: Broker, tool: str, *arguments: str) -> str:
    ended = run(broker, tool, *arguments)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    return ended.stdout


def fails(broker: Broker, tool: str, *arguments: str) -> str:
    ended = run(broker, tool, *arguments)
    assert ended.returncode == 1
    return ended.stdout + ended.stderr


# --- kafka-configs


def test_kafka_configs_changes_and_shows_a_topic(broker: Broker) -> None:
    topic = ("--entity-type", "topics", "--entity-name", "orders")
    added = "retention.ms=5000,cleanup.policy=[compact,delete]"

    assert "Completed updating config for topic orders." in succeeds(
        broker, CONFIGS, *topic, "--alter", "--add-config", added
    )
    shown = succeeds(broker, CONFIGS, *topic, "--describe")
    assert "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in shown
    assert "cleanup.policy=compact,delete sensitive=false" in shown

    succeeds(broker, CONFIGS, *topic, "--alter", "--delete-config", "retention.ms")
    shown = succeeds(broker, CONFIGS, *topic, "--describe", "--all")
    assert "retention.ms=604800000 sensitive=false synonyms={DEFAULT_CONFIG:log.retention.hours=168}" in shown


def test_kafka_configs_says_what_is_wrong(broker: Broker) -> None:
    topic = ("--entity-type", "topics", "--entity-name", "orders", "--alter", "--add-config")

    assert "setting retention.ms = 'soon' (expected a whole number of at least -1)" in fails(
        broker, CONFIGS, *topic, "retention.ms=soon"
    )
    assert "such as retention.ms)" in fails(broker, CONFIGS, *topic, "retention.mss=1")


def test_kafka_configs_changes_and_shows_the_broker(broker: Broker) -> None:
    every = ("--entity-type", "brokers", "--entity-default")
    this = ("--entity-type", "brokers", "--entity-name", "1")

    succeeds(broker, CONFIGS, *every, "--alter", "--add-config", "message.max.bytes=2000000")
    succeeds(broker, CONFIGS, *this, "--alter", "--add-config", "log.retention.ms=7000")

    assert "message.max.bytes=2000000" in succeeds(broker, CONFIGS, *every, "--describe")
    assert "log.retention.ms=7000 sensitive=false" in succeeds(broker, CONFIGS, *this, "--describe")
    shown = succeeds(broker, CONFIGS, *this, "--describe", "--all")
    assert "node.id=1 sensitive=false synonyms={STATIC_BROKER_CONFIG:node.id=1" in shown
    assert "num.partitions cannot be changed at run time" in fails(
        broker, CONFIGS, *this, "--alter", "--add-config", "num.partitions=7"
    )


def test_kafka_configs_changes_and_shows_quotas(broker: Broker) -> None:
    client = ("--entity-type", "clients", "--entity-name", "slow")

    succeeds(broker, CONFIGS, *client, "--alter", "--add-config", "producer_byte_rate=1000")
    succeeds(
        broker,
        CONFIGS,
        *("--entity-type", "users", "--entity-default", "--alter", "--add-config", "consumer_byte_rate=2000"),
    )

    assert "client-id 'slow' are producer_byte_rate=1000.0" in succeeds(broker, CONFIGS, *client, "--describe")
    shown = succeeds(broker, CONFIGS, "--user-defaults", "--describe")
    assert "the default user-principal are consumer_byte_rate=2000.0" in shown
    users = ("--entity-type", "users")
    assert "the default user-principal are consumer_byte_rate=2000.0" in succeeds(broker, CONFIGS, *users, "--describe")
    succeeds(broker, CONFIGS, *users, "--entity-name", "bob", "--alter", "--add-config", "producer_byte_rate=3000")
    told = succeeds(broker, CONFIGS, *users, "--entity-name", "bob", "--describe")
    assert "user-principal 'bob' are producer_byte_rate=3000.0" in told
    assert "request_percentage is not enforced here" in fails(
        broker, CONFIGS, *client, "--alter", "--add-config", "request_percentage=5"
    )


def test_kafka_configs_changes_and_shows_loggers_and_groups(broker: Broker) -> None:
    logger = ("--entity-type", "broker-loggers", "--entity-name", "1")
    group = ("--entity-type", "groups", "--entity-name", "readers")

    succeeds(broker, CONFIGS, *logger, "--alter", "--add-config", "runnel.broker.topics=DEBUG")
    assert "runnel.broker.topics=DEBUG" in succeeds(broker, CONFIGS, *logger, "--describe")
    succeeds(broker, CONFIGS, *logger, "--alter", "--delete-config", "runnel.broker.topics")

    succeeds(broker, CONFIGS, *group, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in succeeds(broker, CONFIGS, *group, "--describe")


# --- kafka-features, kafka-metadata-quorum, kafka-cluster


def test_kafka_features_shows_what_is_finalised_and_changes_nothing(broker: Broker) -> None:
    lines = succeeds(broker, f"{TOOLS}.FeatureCommand", "describe").splitlines()
    for name, level in (("transaction.version", 2), ("group.version", 1)):
        assert any(name in line and f"FinalizedVersionLevel: {level}" in line for line in lines)
    assert "this broker does not have it" in fails(
        broker, f"{TOOLS}.FeatureCommand", "upgrade", "--feature", "share.version=1"
    )


def test_kafka_metadata_quorum_finds_one_voter(broker: Broker) -> None:
    status = succeeds(broker, f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
    replication = succeeds(broker, f"{TOOLS}.MetadataQuorumCommand", "describe", "--replication")

    assert f'CurrentVoters:          [{{"id": 1, "endpoints": ["PLAINTEXT://{broker.bootstrap}"]}}]' in status
    assert replication.splitlines()[1].split()[-1] == "Leader"


def test_kafka_cluster_tells_the_cluster_and_its_broker(broker: Broker) -> None:
    tool = f"{TOOLS}.ClusterTool"
    for arguments, expected in (
        (("cluster-id",), "Cluster ID: "),
        (("list-endpoints",), "127.0.0.1"),
    ):
        command = java_command(tool, *arguments, "--bootstrap-server", broker.bootstrap)
        ended = subprocess.run(command, env=java_environment(), capture_output=True, text=True, check=True)
        assert expected in ended.stdout


# --- kafka-reassign-partitions, kafka-leader-election, kafka-log-dirs, kafka-transactions, kafka-client-metrics


def test_kafka_reassign_partitions_leaves_a_partition_where_it_is(broker: Broker, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    here = [{"topic": "orders", "partition": 0, "replicas": [1]}]
    plan.write_text(json.dumps({"version": 1, "partitions": here}))
    file = ("--reassignment-json-file", str(plan))

    assert "No partition reassignments found." in succeeds(broker, REASSIGN, "--list")
    executed = succeeds(broker, REASSIGN, *file, "--execute")
    assert "Successfully started partition reassignment for orders-0" in executed
    assert "Reassignment of partition orders-0 is completed." in succeeds(broker, REASSIGN, *file, "--verify")
    assert "None of the specified partition reassignments are active." in succeeds(broker, REASSIGN, *file, "--cancel")


def test_kafka_leader_election_finds_the_leader_elected(broker: Broker) -> None:
    elect = (f"{TOOLS}.LeaderElectionCommand", "--election-type")
    one = ("--topic", "orders", "--partition", "0")

    succeeds(broker, *elect, "preferred", "--all-topic-partitions")
    assert "Valid replica already elected for partitions orders-0" in succeeds(broker, *elect, "unclean", *one)


def test_kafka_log_dirs_tells_the_data_directory(broker: Broker) -> None:
    told = succeeds(broker, f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", "orders").splitlines()[-1]

    (described,) = json.loads(told)["brokers"][0]["logDirs"]
    assert described["logDir"] == broker.data
    assert {each["partition"] for each in described["partitions"]} == {"orders-0", "orders-1"}


def test_kafka_transactions_finds_no_producer(broker: Broker) -> None:
    told = succeeds(
        broker, f"{TOOLS}.TransactionsCommand", "describe-producers", "--topic", "orders", "--partition", "1"
    )

    assert len(told.strip().splitlines()) == 1


def test_kafka_client_metrics_finds_no_subscription(broker: Broker) -> None:
    assert succeeds(broker, f"{TOOLS}.ClientMetricsCommand", "--list").strip() == ""
