"""Where partitions begin and end, which offset belongs to a time, what is set for a topic: asked of a cluster."""

from __future__ import annotations

import pickle
import time

import pytest

from runnel.client import Admin, InvalidAddress, UnknownPartition, UnknownTopic, Unreachable, positions
from runnel.client.cluster import Cluster
from runnel.client.errors import OffsetsGone
from tests.contract.raw_reading import lost_answers

NOW = 1_900_000_000_000


@pytest.fixture
def cluster(bootstrap):
    with Cluster(bootstrap) as cluster:
        yield cluster


def test_starts_and_ends_of_many_partitions_are_found_in_one_go(cluster, producer, wide):
    for number, count in enumerate([3, 0, 1]):
        for _ in range(count):
            producer.produce(wide, b"x", partition=number)
    producer.flush()
    places = cluster.topic(wide).places
    assert places == [(wide, 0), (wide, 1), (wide, 2)]
    assert positions.earliest(cluster, places) == dict.fromkeys(places, 0)
    assert positions.latest(cluster, places) == {(wide, 0): 3, (wide, 1): 0, (wide, 2): 1}


def test_nothing_is_asked_for_no_partitions(cluster):
    assert positions.latest(cluster, []) == {}


def test_an_open_transaction_holds_the_end_back(cluster, producer, topic, open_transaction):
    producer.produce(topic, b"before")
    producer.flush()
    open_transaction(topic, 0)
    producer.produce(topic, b"after")
    producer.flush()
    assert positions.latest(cluster, [(topic, 0)]) == {(topic, 0): 1}
    assert positions.written(cluster, [(topic, 0)]) == {(topic, 0): 3}


def test_the_configs_of_a_topic_are_told(cluster, admin, topic):
    admin.alter(topic, configs={"max.message.bytes": "20000"})
    assert cluster.configs(topic) == {config.name: config.value for config in admin.configs([topic])[topic]}
    assert cluster.configs(topic)["max.message.bytes"] == "20000"
    with pytest.raises(UnknownTopic):
        cluster.configs("nobody.made.it")


def test_an_offset_belongs_to_a_time(cluster, producer, kept):
    for timestamp in (1_000, 2_000, 3_000):
        producer.produce(kept, b"x", timestamp=timestamp)
        producer.flush()
    found = {at: positions.at_times(cluster, {(kept, 0): at})[kept, 0] for at in (0, 1_000, 1_001, 3_000, 3_001)}
    assert found == {0: 0, 1_000: 0, 1_001: 1, 3_000: 2, 3_001: 3}


def test_a_record_that_comes_while_the_end_is_asked_for_belongs_to_the_time(cluster, producer, kept, monkeypatch):
    """Whoever begins there would never see it."""
    ask = positions.latest

    def record_comes(*asked):
        producer.produce(kept, b"x", timestamp=3_000)
        producer.flush()
        return ask(*asked)

    producer.produce(kept, b"x", timestamp=1_000)
    producer.flush()
    monkeypatch.setattr(positions, "latest", record_comes)
    assert positions.at_times(cluster, {(kept, 0): 2_000}) == {(kept, 0): 1}


def test_the_newest_record_is_the_one_with_the_largest_time(cluster, producer, kept):
    assert positions.newest(cluster, [(kept, 0)]) == {(kept, 0): None}
    for timestamp in (1_000, 3_000, 2_000):
        producer.produce(kept, b"x", timestamp=timestamp)
        producer.flush()
    assert positions.newest(cluster, [(kept, 0)]) == {(kept, 0): positions.Found(1, 3_000)}


def test_offsets_that_are_gone_are_told_with_their_range(cluster, admin, producer, topic):
    for _ in range(5):
        producer.produce(topic, b"x")
    producer.flush()
    admin.delete_records(topic, {0: 3})
    assert positions.earliest(cluster, [(topic, 0)]) == {(topic, 0): 3}
    positions.checked(cluster, {(topic, 0): 3})
    with pytest.raises(OffsetsGone) as told:
        positions.checked(cluster, {(topic, 0): 1})
    assert told.value.gone == (1, 3)
    assert told.value.what == f"offsets 1 to 2 of {topic}-0 are gone: it begins at 3 now"
    with pytest.raises(OffsetsGone) as told:
        positions.checked(cluster, {(topic, 0): 9})
    assert told.value.gone == (5, 9)


def test_a_pattern_finds_the_topics_that_fit_it_whole(cluster, admin, name):
    for end in ("a", "b", "b-more"):
        admin.create(f"{name}.{end}", partitions=1)
    try:
        assert list(positions.matching(cluster, rf"{name}\.[ab]")) == [f"{name}.a", f"{name}.b"]
    finally:
        for end in ("a", "b", "b-more"):
            admin.delete(f"{name}.{end}")


def test_internal_topics_fit_no_pattern(cluster, topic, open_transaction):
    open_transaction(topic, 0)  # a cluster has the topic of its transactions by now
    assert not [found for found in positions.matching(cluster, ".*") if found.startswith("__")]


def test_a_topic_that_is_made_again_has_another_id(cluster, admin, name):
    admin.create(name, partitions=1)
    first = cluster.topic(name).id
    admin.delete(name)
    admin.create(name, partitions=2)
    assert cluster.topic(name).id == first, "it is remembered until somebody asks"
    again = cluster.topic(name, fresh=True)
    assert first is not None
    assert again.id not in (first, None)
    assert list(again.leaders) == [0, 1]
    admin.delete(name)


def test_new_partitions_are_found(cluster, admin, topic):
    assert len(cluster.topic(topic).leaders) == 1
    admin.add_partitions(topic, 3)
    assert positions.latest(cluster, [(topic, 2)]) == {(topic, 2): 0}


def test_a_topic_that_is_not_there_is_told(cluster, name):
    with pytest.raises(UnknownTopic, match=f'there is no topic "{name}"'):
        positions.latest(cluster, [(name, 0)])


def test_a_partition_that_is_not_there_is_told(cluster, topic):
    with pytest.raises(UnknownPartition, match=f'topic "{topic}" has no partition 7'):
        positions.latest(cluster, [(topic, 7)])


def test_a_topic_that_was_deleted_is_told(cluster, admin, name):
    admin.create(name, partitions=1)
    assert positions.latest(cluster, [(name, 0)]) == {(name, 0): 0}
    admin.delete(name)
    with pytest.raises(UnknownTopic):
        positions.latest(cluster, [(name, 0)])


def test_answers_that_get_lost_are_asked_for_again(cluster, wide, monkeypatch):
    with lost_answers(monkeypatch, every=2) as lost:
        for _ in range(5):
            assert positions.latest(cluster, [(wide, 0), (wide, 2)]) == {(wide, 0): 0, (wide, 2): 0}
    assert len(lost) >= 4


def test_a_pickled_cluster_is_the_same_without_its_connections(cluster, topic):
    assert cluster.topic(topic).name == topic
    with pickle.loads(pickle.dumps(cluster)) as again:
        assert (again.bootstrap, again.security, again.timeout) == (
            cluster.bootstrap, cluster.security, cluster.timeout,
        )  # fmt: skip
        assert positions.earliest(again, [(topic, 0)]) == {(topic, 0): 0}


def test_a_closed_cluster_can_be_asked_again(cluster, topic):
    assert positions.earliest(cluster, [(topic, 0)]) == {(topic, 0): 0}
    cluster.close()
    assert positions.earliest(cluster, [(topic, 0)]) == {(topic, 0): 0}


def test_no_broker_at_all_is_told_at_once_if_asked_so():
    before = time.monotonic()
    with Cluster("127.0.0.1:1,127.0.0.1:2", timeout=3_600) as cluster, pytest.raises(Unreachable, match="refused"):
        cluster.reach()
    assert time.monotonic() - before < 3_600


def test_no_broker_at_all_is_told_in_the_end():
    with Cluster("127.0.0.1:1", timeout=0.1) as cluster, pytest.raises(Unreachable, match="refused"):
        cluster.topic("orders")


def test_one_broker_of_the_bootstrap_list_is_enough(bootstrap, topic):
    with Cluster(f"127.0.0.1:1,{bootstrap}") as cluster:
        assert cluster.topic(topic).name == topic


def test_an_address_that_is_none_is_told():
    with pytest.raises(InvalidAddress):
        Cluster("nowhere:x")


def test_admin_and_cluster_tell_the_same(admin: Admin, cluster: Cluster, wide: str):
    told = admin.topic(wide)
    found = cluster.topic(wide)
    assert found.id is not None
    assert [each.number for each in told.partitions] == list(found.leaders)
    assert [each.leader for each in told.partitions] == [
        leader.node.id if leader else None for leader in found.leaders.values()
    ]
