"""The raw client against a real Apache Kafka of three brokers, whose leaders move and die while it reads and writes."""

import time
from functools import partial

import pytest

from runnel.client import Admin, positions
from runnel.client.bodies import bodies
from runnel.client.cluster import Cluster
from runnel.client.fetch import Fetcher
from runnel.client.transaction import Transaction
from runnel.client.writing import write
from runnel.pipeline.source.offsets import ranges
from runnel.pipeline.source.rows import Rows
from runnel.records import Record
from tests.contract.raw_reading import final_values, records_in
from tests.contract.source.bench import BATCH, Bench
from tests.interop.kafka_server import kafka_cluster, launch, stop, wait_until_ready

pytestmark = pytest.mark.servers

LIMIT = 180.0
PARTITIONS = 6
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "5000",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with kafka_cluster(tmp_path_factory.mktemp("kafka"), SETTINGS) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def bootstrap(nodes):
    return ",".join(server.bootstrap for server in nodes.values())


@pytest.fixture
def cluster(bootstrap):
    with Cluster(bootstrap, timeout=LIMIT) as cluster:
        yield cluster


def made(bootstrap, cluster, name):
    """A topic of which every broker leads some partitions."""
    with Admin(bootstrap, timeout=60) as admin:
        deadline = time.monotonic() + LIMIT
        while len(admin.cluster().brokers) < 3:
            assert time.monotonic() < deadline, "a broker is missing"
        admin.create(name, partitions=PARTITIONS, replication_factor=3)
    assert {leader.node.id for leader in cluster.topic(name, fresh=True).leaders.values() if leader} == {1, 2, 3}
    return [(name, partition) for partition in range(PARTITIONS)]


def whole(cluster, places):
    """Of each partition, the values that readers see in the end."""
    return {place: final_values(cluster, *place) for place in places}


def test_many_leaders_are_written_and_read_side_by_side(bootstrap, cluster):
    places = made(bootstrap, cluster, "side-by-side")
    transaction = Transaction(cluster, "side-by-side")
    expected = {place: [] for place in places}
    for number in range(5):
        ticket = transaction.begin(places)
        texts = {place: [b"%d %d" % (number, place[1])] * 500 for place in places}
        write(cluster, ticket, {place: bodies(map(Record, each), batch_bytes=2_000) for place, each in texts.items()})
        if number == 3:
            transaction.abort()
            continue
        transaction.commit()
        for place, each in texts.items():
            expected[place] += each
    assert whole(cluster, places) == expected
    assert positions.earliest(cluster, places) == dict.fromkeys(places, 0)


def test_a_leader_that_moves_is_followed_by_readers_and_writers(nodes, bootstrap, cluster):
    """Leaders are handed over in order while a range is read and a transaction written."""
    places = made(bootstrap, cluster, "moves")
    transaction = Transaction(cluster, "moves")
    ticket = transaction.begin(places)
    texts = [b"%d" % number * 1_000 for number in range(100)]
    write(cluster, ticket, {place: bodies(map(Record, texts), batch_bytes=10_000) for place in places})
    transaction.commit()
    assert whole(cluster, places) == dict.fromkeys(places, texts)
    ends = positions.latest(cluster, places)
    readings = {place: Fetcher(cluster, fetch_bytes=10_000).read(*place, 0, ends[place]) for place in places}
    found = {place: records_in(next(reading)) for place, reading in readings.items()}
    ticket = transaction.begin(places)
    sequences = write(cluster, ticket, {place: bodies([Record(b"before")]) for place in places})
    before = {place: cluster.leader(place).node.id for place in places}
    with moved(nodes, 2):
        for place, reading in readings.items():
            for fetched in reading:
                found[place] += records_in(fetched)
        write(cluster, ticket, {place: bodies([Record(b"after")]) for place in places}, sequences=sequences)
        after = {place: cluster.leader(place).node.id for place in places}
        transaction.commit()
        assert 2 in before.values()
        assert 2 not in after.values()
        for records in found.values():
            assert [record.value for record in records] == texts
        assert whole(cluster, places) == {place: [*texts, b"before", b"after"] for place in places}


class moved:  # noqa: N801  # it reads as a statement
    """One broker ends in peace, which hands its leaders over, and comes back at the end."""

    def __init__(self, nodes, number):
        self._nodes = nodes
        self._number = number

    def __enter__(self):
        stop(self._nodes[self._number].process)

    def __exit__(self, *_):
        revive(self._nodes, self._number)


def revive(nodes, number):
    dead = nodes[number]
    port = int(dead.bootstrap.rpartition(":")[2])
    nodes[number] = launch(dead.directory, port, number)
    wait_until_ready(nodes[number], port)


def test_a_source_follows_a_leader_that_moves(nodes, bootstrap, cluster, tmp_path, monkeypatch):
    """While its tasks read, and while the next batch is planned."""
    places = made(bootstrap, cluster, "source-moves")
    source = Bench(bootstrap, tmp_path, "source-moves")
    start = source.planner.first()
    values = [b'{"n": %d, "more": "%s"}' % (number, b"x" * 1_000) for number in range(100)]

    def fill(name):
        transaction = Transaction(cluster, name)
        ticket = transaction.begin(places)
        write(cluster, ticket, {place: bodies(map(Record, values), batch_bytes=10_000) for place in places})
        transaction.commit()
        assert [len(each) for each in whole(cluster, places).values()] in ([100] * PARTITIONS, [200] * PARTITIONS)

    fill("source-moves-1")
    end = source.planner.next(start)
    monkeypatch.setattr("runnel.pipeline.source.rows.Fetcher", partial(Fetcher, fetch_bytes=10_000))
    tasks = [iter(Rows(source.spec, source.cluster, each, BATCH)) for each in ranges(start, end)]
    found = {number: [row["n"] for row in next(task).to_pylist()] for number, task in enumerate(tasks)}
    assert 2 in {leading(source.cluster, place) for place in places}
    with moved(nodes, 2):
        for number, task in enumerate(tasks):
            found[number] += [row["n"] for batch in task for row in batch.to_pylist()]
        assert found == {number: list(range(100)) for number in range(PARTITIONS)}
        fill("source-moves-2")
        rows, last = source.read(start=end)
        assert len(rows) == 100 * PARTITIONS
        assert 2 not in {leading(source.cluster, place) for place in places}
    assert source.planner.next(last) == last
    assert [each.in_time for each in source.aside(start, end)] == [100] * PARTITIONS
    source.cluster.close()


def test_transactions_stay_whole_when_leaders_and_the_coordinator_are_killed(nodes, bootstrap, cluster):
    places = made(bootstrap, cluster, "killed")
    name, victim = one_that_can_lose_its_coordinator(cluster)
    transaction = Transaction(cluster, name, timeout=LIMIT)
    transaction.init()
    assert victim in {leading(cluster, place) for place in places}
    expected: dict = {place: [] for place in places}
    for number in range(8):
        ticket = transaction.begin(places)
        texts = [b"%d %d" % (number, each) for each in range(50)]
        if number == 3:
            nodes[victim].process.kill()
            nodes[victim].process.wait()
        write(cluster, ticket, {place: bodies(map(Record, texts), batch_bytes=200) for place in places})
        transaction.commit()
        for place in places:
            expected[place] += texts
    assert whole(cluster, places) == expected
    assert victim not in {leading(cluster, place) for place in places}
    revive(nodes, victim)


def one_that_can_lose_its_coordinator(cluster):
    """A transactional id whose coordinator is not the node that has to stay, and that node."""
    for number in range(100):
        node = cluster.settled(lambda name=f"killed-{number}": cluster.coordinator(name, "looking for it"))
        if node.id != 1:
            return f"killed-{number}", node.id
    raise AssertionError("node 1 coordinates all")


def leading(cluster, place):
    return cluster.leader(place).node.id
