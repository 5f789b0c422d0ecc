"""An app that has outgrown one machine: the same file on Apache Kafka, executors of their own and PostgreSQL."""

from __future__ import annotations

import pytest

from runnel import Broker
from runnel.client import Admin
from tests.contract.views.postgres_server import postgres_server
from tests.interop.kafka_server import kafka_server
from tests.pipeline.stage import PARTITIONS, Stage

pytestmark = pytest.mark.servers

CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture
def at_home(tmp_path):
    """Our broker, SQLite, and one process of Spark's."""
    with Broker() as broker:
        broker.create_topic("clicks", PARTITIONS, configs={"retention.ms": "-1"})
        yield Stage(broker, tmp_path / "home")


@pytest.fixture
def outgrown(tmp_path):
    with kafka_server(tmp_path / "kafka") as kafka, postgres_server() as postgres:
        with Admin(kafka.bootstrap) as admin:
            admin.create("clicks", partitions=PARTITIONS, configs={"retention.ms": "-1"})
        yield Stage(kafka, tmp_path / "outgrown", postgres.url, CLUSTER)


def results(stage):
    return stage.counts(), stage.stays(), sorted(stage.read("clicks.rejected"))


def test_the_same_app_gives_the_same_everywhere_and_survives_its_driver(at_home, outgrown):
    """The first run is killed after its tasks have written two batches; the second one goes on, and is written to by
    the driver.
    """
    for stage in (at_home, outgrown):
        stage.send(400, broken=0.02)
    died = outgrown.run(by_tasks=True, die_at="publish.commit:after:2")
    assert died.code != 0, died.log
    for stage in (at_home, outgrown):
        stage.send(100, seed=2)
    for stage in (at_home, outgrown):
        run = stage.run(rows=500)  # a batch costs seconds there
        assert run.code == 0, run.log
    assert results(outgrown) == results(at_home)
    assert outgrown.counts() == outgrown.expected_counts()
    assert outgrown.stays() == outgrown.expected_stays()
