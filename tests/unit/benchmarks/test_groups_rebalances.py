"""The benchmark's members join and leave a group of our broker, in each protocol."""

import asyncio

import pytest

from benchmarks.groups_members import CONSUMER, COOPERATIVE, EAGER
from benchmarks.groups_rebalances import rebalanced
from runnel import Broker

INTERVAL = 0.05
AT_ONCE = {
    "group.consumer.min.heartbeat.interval.ms": 1,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.assignment.interval.ms": 0,
}


@pytest.mark.parametrize("protocol", [EAGER, COOPERATIVE, CONSUMER])
def test_a_member_joins_and_leaves_and_each_time_the_group_settles(protocol):
    with Broker(settings=AT_ONCE) as broker:
        broker.create_topic("rebalanced", partitions=30)
        host, _, port = broker.bootstrap.rpartition(":")
        done = asyncio.run(rebalanced((host, int(port)), "rebalanced", protocol, INTERVAL, cycles=2, calm=0))
    assert len(done.joins) == len(done.leaves) == 2
    for rebalance in (*done.joins, *done.leaves):
        assert 0 < rebalance.beyond <= rebalance.total
