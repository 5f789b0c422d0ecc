"""The shared transaction against an Apache Kafka whose transactions are of the first generation."""

import pytest

from runnel.client import Admin
from runnel.client.bodies import bodies
from runnel.client.cluster import Cluster
from runnel.client.errors import Fenced
from runnel.client.ticket import Generation
from runnel.client.transaction import Transaction
from runnel.client.writing import write
from runnel.records import Record
from tests.contract.raw_reading import final_values
from tests.interop.kafka_server import kafka_server

pytestmark = pytest.mark.servers

PLACE = ("orders", 0)


@pytest.fixture(scope="module", params=[0, 1])
def cluster(request, tmp_path_factory):
    feature = ["--feature", f"transaction.version={request.param}"]
    with kafka_server(tmp_path_factory.mktemp("kafka"), formatting=feature) as kafka:
        with Admin(kafka.bootstrap) as admin:
            admin.create(PLACE[0], partitions=1)
        with Cluster(kafka.bootstrap, timeout=120) as cluster:
            yield cluster


def test_what_the_cluster_says_is_believed(cluster):
    transaction = Transaction(cluster, "shop")
    transaction.init()
    assert transaction.generation is Generation.FIRST
    tickets = []
    for number in range(4):
        tickets.append(transaction.begin([PLACE]))
        write(cluster, tickets[-1], {PLACE: bodies([Record(b"%d" % number)])})
        if number == 1:
            transaction.abort()
        else:
            transaction.commit()
    assert final_values(cluster, *PLACE) == [b"0", b"2", b"3"]
    assert len({(ticket.producer_id, ticket.epoch) for ticket in tickets}) == 4, "every one has an epoch of its own"
    second = Transaction(cluster, "shop")
    ticket = second.begin([PLACE])
    for stale in tickets:
        with pytest.raises(Fenced):
            write(cluster, stale, {PLACE: bodies([Record(b"late")])}, sequences={PLACE: 1})
    with pytest.raises(Fenced):
        transaction.begin([PLACE])
    write(cluster, ticket, {PLACE: bodies([Record(b"of the second")])})
    second.commit()
    assert final_values(cluster, *PLACE) == [b"0", b"2", b"3", b"of the second"]
