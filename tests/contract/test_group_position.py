"""The position of somebody who reads without the group's help, as offsets of a group."""

from __future__ import annotations

import pytest

from runnel.client import Consumer, Groups, lag
from runnel.client.cluster import Cluster
from runnel.client.group_position import GroupPosition
from runnel.errors import RunnelError


@pytest.fixture
def cluster(bootstrap):
    with Cluster(bootstrap) as cluster:
        yield cluster


def test_a_position_is_committed_and_its_lag_can_be_asked_for(admin, cluster, producer, topic, name):
    for _ in range(10):
        producer.submit(topic, b"")
    producer.flush()
    position = GroupPosition(cluster, name)
    position.commit({(topic, 0): 3})
    position.commit({(topic, 0): 4})
    assert Groups(admin).committed(name) == {(topic, 0): 4}
    assert [(each.committed, each.end, each.lag) for each in lag(admin, name)] == [(4, 10, 6)]
    group = Groups(admin).describe(name)
    assert (group.state, group.members) == ("empty", ())


def test_a_group_that_has_members_is_theirs(bootstrap, admin, cluster, producer, topic, name):
    producer.produce(topic, b"")
    with Consumer(bootstrap, topic, group=name, follow=True) as consumer:
        list(consumer.records(1))
        with pytest.raises(RunnelError, match=name):
            GroupPosition(cluster, name).commit({(topic, 0): 0})
        assert len(Groups(admin).describe(name).members) == 1


def test_a_partition_that_is_not_there_is_told(cluster, topic, name):
    cluster.timeout = 1.0  # it could be new, and not known to every broker yet
    with pytest.raises(RunnelError):
        GroupPosition(cluster, name).commit({(topic, 99): 0})


def test_nothing_is_asked_for_where_there_is_no_position(name):
    GroupPosition(Cluster("127.0.0.1:1"), name).commit({})
