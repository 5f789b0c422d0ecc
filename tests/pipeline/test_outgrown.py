"""An app that has outgrown one machine: the same file on three brokers of Apache Kafka, with executors of their own,
and on PostgreSQL. Its driver dies, and later one of the brokers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from runnel.client import Admin, positions
from runnel.client.cluster import Cluster
from runnel.protocol.versions import Api
from tests.contract.views.postgres_server import postgres_server
from tests.interop.kafka_server import KafkaServer, kafka_cluster
from tests.pipeline.stage import LIMIT, PARTITIONS, Stage
from tests.pipeline.waiting import wait_until

pytestmark = pytest.mark.servers

CLUSTER = "local-cluster[2,1,1024]"
CONTROLLER = 1  # it has to stay
VIEW, STREAM = "clicks_per_minute", "long_stays"
FEW = 25  # clicks, a second each: a partition that is away for a moment does not become late by so many
HOUR = 3_600
MOST_TRIES = 40
SMALL = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "broker.session.timeout.ms": "4000",
    "auto.leader.rebalance.enable": "false",
}


@dataclass
class Brokers:
    nodes: dict[int, KafkaServer]

    @property
    def bootstrap(self):
        return ",".join(server.bootstrap for server in self.nodes.values())

    def kill(self, node):
        self.nodes[node].process.kill()
        self.nodes[node].process.wait()


@pytest.fixture
def brokers(tmp_path):
    with kafka_cluster(tmp_path / "kafka", SETTINGS, jvm_options=SMALL) as nodes:
        brokers = Brokers(nodes)
        with Admin(brokers.bootstrap, timeout=LIMIT) as admin:
            wait_until(lambda: len(admin.cluster().brokers) == 3)
            admin.create("clicks", partitions=PARTITIONS, configs={"retention.ms": "-1"})
        yield brokers


@pytest.fixture
def cluster(brokers):
    with Cluster(brokers.bootstrap, timeout=LIMIT) as cluster:
        yield cluster


@pytest.fixture
def stage(brokers, tmp_path, monkeypatch):
    # Spark's workers start executors with options of their own: only this reaches them, too.
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    with postgres_server() as postgres:
        yield Stage(brokers, tmp_path / "data", postgres.url, CLUSTER)


def test_the_same_app_gives_the_same_and_survives_its_driver_and_a_broker(brokers, cluster, stage, tmp_path):
    """The first driver is killed after its tasks have written two batches. The second one writes by itself, and loses
    the broker that leads a part of its input and coordinates its transactions, in the middle of one.
    """
    victim = one_that_leads(cluster)
    stage.app = app_coordinated_by(cluster, victim)
    stage.send(400, broken=0.02)
    died = stage.run(by_tasks=True, die_at="publish.commit:after:2")
    assert died.code != 0, died.log
    with stage.live(tmp_path / "log", rows=500) as app:
        app.wait_until(lambda: is_all_told(stage), "it goes on where the first one was")
        send_until_a_transaction_is_open(stage, app, cluster, victim)
        brokers.kill(victim)
        stage.send(FEW, seed=3, broken=0.1)
        stage.send(FEW, seed=4, behind=HOUR)
        stage.send(FEW, seed=5)
        app.wait_until(lambda: is_all_told(stage), "it goes on without the broker")
        assert app.stop() == 0, app.log
    assert victim not in leaders(cluster)
    assert_exact(stage)
    assert_replicated(brokers)


def one_that_leads(cluster):
    """A broker that leads a partition of the input, and may die."""
    return min(leaders(cluster) - {CONTROLLER})


def leaders(cluster):
    return {leader.node.id for leader in cluster.topic("clicks", fresh=True).leaders.values() if leader}


def app_coordinated_by(cluster, node):
    """The name of an app whose stream's transactions that broker coordinates."""
    for number in range(100):
        name = f"shop-{number}"
        found = cluster.settled(lambda name=name: cluster.coordinator(transactions_of(name), "looking for it"))
        if found.id == node:
            return name
    raise AssertionError(f"broker {node} coordinates none")


def transactions_of(app):
    return f"runnel.{app}.{STREAM}"


def send_until_a_transaction_is_open(stage, app, cluster, coordinator):
    """Clicks, until the stream is found writing; an app that is too quick for us is told on the next ones."""
    name = transactions_of(stage.app)
    node = cluster.settled(lambda: cluster.coordinator(name, "looking for it"))
    assert node.id == coordinator
    places = cluster.topic(STREAM, fresh=True).places
    for number in range(MOST_TRIES):
        before = positions.latest(cluster, places)
        stage.send(FEW, seed=100 + number)
        deadline = time.monotonic() + LIMIT
        while positions.latest(cluster, places) == before:
            assert time.monotonic() < deadline, "the stream does not go on"
            told = cluster.ask(node, Api.DESCRIBE_TRANSACTIONS, {"transactional_ids": [name]}, "looking for it")
            if told["transaction_states"][0]["transaction_state"] == "Ongoing":
                return
            app.assert_running()


def is_all_told(stage):
    """Whether both outputs have told of each click, or of some too often."""
    in_time = sum(stage.counts().values())
    return (
        in_time + len(stage.late(VIEW)) + stage.broken >= stage.sent
        and len(stage.stays()) >= len(stage.expected_stays(stage.late(STREAM)))
        and len(stage.read("clicks.rejected")) >= 2 * stage.broken  # by each of the two
    )


def assert_exact(stage):
    late = stage.late(VIEW)
    assert stage.counts() == stage.expected_counts(late)
    assert sum(stage.counts().values()) + len(late) + stage.broken == stage.sent
    assert stage.stays() == stage.expected_stays(stage.late(STREAM))
    for each in (late, stage.late(STREAM)):
        assert len(each) == len(set(each)) >= FEW
    assert len(stage.read("clicks.rejected")) == 2 * stage.broken > 0


def assert_replicated(brokers):
    """All topics, whoever made them."""
    with Admin(brokers.bootstrap, timeout=LIMIT) as admin:
        topics = {topic.name: topic.partitions for topic in admin.topics(internal=True)}
    made = {STREAM, f"{STREAM}.late", f"{VIEW}.late", "clicks.rejected", "__transaction_state", "__consumer_offsets"}
    assert made < set(topics)
    assert {len(partition.replicas) for partitions in topics.values() for partition in partitions} == {3}
