"""The topics that an app makes: what they take."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from runnel import Broker
from runnel.client import Admin
from runnel.client.cluster import Cluster
from runnel.client.committed import committed
from runnel.client.errors import InvalidConfig
from runnel.durable import VARIABLE
from runnel.pipeline.kafka import LARGEST, ROOM, Kafka
from runnel.pipeline.markers import Marker
from runnel.pipeline.sinks.publisher import Publisher
from runnel.pipeline.source.aside import REJECTED, SCHEMA

STEPS = ("topic.make",)
ITS_OWN = 1_048_588  # a broker's, where nobody says more
ROOT = Path(__file__).parents[3]
MAKER = "import sys; from tests.unit.pipeline.test_kafka import make; make(sys.argv[1])"


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


def largest(broker, topic):
    with Admin(broker.bootstrap) as admin:
        return {config.name: config.value for config in admin.configs([topic])[topic]}[LARGEST]


def test_a_topic_beside_others_takes_their_largest_records_and_what_is_said_of_them(broker):
    broker.create_topic("orders")
    broker.create_topic("pictures", configs={LARGEST: 5_000_000})
    beside = {"orders.rejected": {"orders"}, "late": {"orders", "pictures"}}
    kafka = Kafka(broker.bootstrap)
    assert kafka.make_topics({"orders.rejected": {}, "late": {}, "marks": {}}, partitions=1, beside=beside)
    assert largest(broker, "orders.rejected") == str(ITS_OWN + ROOM)
    assert largest(broker, "late") == str(5_000_000 + ROOM)
    assert largest(broker, "marks") == str(ITS_OWN)


def test_a_record_as_large_as_its_topic_takes_fits_into_the_one_beside_with_what_is_said_of_it(broker):
    large = random.Random(1).randbytes(ITS_OWN - 200)  # there is nothing to compress
    broker.create_topic("orders")
    beside = {"orders.rejected": {"orders"}}
    Kafka(broker.bootstrap).make_topics({"orders.rejected": {}, "marks": {}}, partitions=1, beside=beside)
    about = {"kind": REJECTED, "reason": "no JSON", "stream": "orders", "topic": "orders", "partition": 0, "offset": 7}
    row = {**about, "timestamp": 0, "key": None, "value": large, "headers": []}
    with Cluster(broker.bootstrap) as cluster:
        publisher = Publisher(cluster, "pages", name="pages", marks="marks", late="pages.late")
        publisher.open()
        publisher.publish(Marker("pages", 0, "7c3e", {}), {}, pa.Table.from_pylist([row], schema=SCHEMA))
        assert [value for _, value in committed(cluster, "orders.rejected")] == [large]


def test_a_topic_is_made_beside_one_that_is_not_there(broker):
    made = Kafka(broker.bootstrap).make_topics({"orders.rejected": {}}, beside={"orders.rejected": {"orders"}})
    assert made == ["orders.rejected"]


def test_a_topic_is_made_also_where_no_such_limit_is_allowed(broker, monkeypatch):
    create = Admin.create

    def refusing(admin, name, *, configs, **how):
        if LARGEST in configs:
            raise InvalidConfig(name, "not here")
        create(admin, name, configs=configs, **how)

    broker.create_topic("orders")
    monkeypatch.setattr(Admin, "create", refusing)
    configs = {"orders.rejected": {"retention.ms": "-1"}}
    made = Kafka(broker.bootstrap).make_topics(configs, partitions=1, beside={"orders.rejected": {"orders"}})
    assert made == ["orders.rejected"]
    assert largest(broker, "orders.rejected") == str(ITS_OWN)


def make(bootstrap):
    """Some topics, as a query does before it begins."""
    configs = {"marks": {"cleanup.policy": "compact"}, "orders.rejected": {}, "pages.late": {}}
    beside = {"orders.rejected": {"orders"}, "pages.late": {"orders"}}
    return Kafka(bootstrap).make_topics(configs, partitions=1, beside=beside)


@pytest.mark.parametrize(
    "points",
    [
        ["before:1"],
        ["after:1"],
        ["after:2"],
        ["before:1", "before:1"],
        ["after:1", "after:1", "after:1"],
        ["before:2", "after:1"],
    ],
    ids=", ".join,
)
def test_who_dies_while_topics_are_made_is_followed_by_one_that_makes_the_rest(broker, points):
    """Once, again and again, and while the death before is made good."""
    broker.create_topic("orders", configs={LARGEST: 5_000_000})
    for point in points:
        where = os.environ | {VARIABLE: f"{STEPS[0]}:{point}"}
        died = subprocess.run([sys.executable, "-c", MAKER, broker.bootstrap], cwd=ROOT, env=where, check=False)
        assert died.returncode == -signal.SIGKILL
    make(broker.bootstrap)
    assert make(broker.bootstrap) == []
    assert largest(broker, "marks") == str(ITS_OWN)
    for side in ("orders.rejected", "pages.late"):
        assert largest(broker, side) == str(5_000_000 + ROOM)
    with Admin(broker.bootstrap) as admin:
        configs = {config.name: config.value for config in admin.configs(["marks"])["marks"]}
        assert configs["cleanup.policy"] == "compact"
        assert [len(admin.topic(topic).partitions) for topic in ("marks", "orders.rejected", "pages.late")] == [1, 1, 1]
