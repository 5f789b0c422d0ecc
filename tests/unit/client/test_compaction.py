"""What a broker answers to the wish to compact, and what is made of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from runnel.client import (
    Busy,
    CannotCompact,
    Node,
    NotCompacted,
    NotPlain,
    Partition,
    Refused,
    Topic,
    cleanness,
    compact,
)
from runnel.client.connection import Connection
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.own import OwnApi
from runnel.protocol.versions import Api
from tests.unit.client.scripted_broker import scripted_broker

NOBODY_WRITES = {"throttle_time": 0, "topics": []}


def admin(broker, *, timeout=60.0, **settings):
    """Of a cluster with one broker, which leads the three partitions of a topic."""
    topic = Topic("table", "", False, tuple(Partition(number, 1, (1,), (1,)) for number in range(3)))
    return SimpleNamespace(
        connection=Connection("127.0.0.1:1", settings, timeout),
        cluster=lambda: SimpleNamespace(brokers=(Node(1, *broker.address),)),
        described=lambda names: [topic],
    )


def answer(code=ErrorCode.NONE, message=None, **rest):
    counts = {"records_before": 9, "records_after": 4, "bytes_before": 900, "bytes_after": 400}
    clean = {"clean_offset": 7, "clean_time": -1, "end_offset": 7}
    return {"throttle_time": 0, "error_code": code, "error_message": message} | clean | counts | rest


def answers(*each):
    return {OwnApi.COMPACT_TOPIC: each, Api.DESCRIBE_PRODUCERS: [NOBODY_WRITES]}


def test_each_partition_is_asked_for_on_one_connection():
    with scripted_broker(answers(answer(), answer(clean_time=5, clean_offset=3))) as broker:
        first, second = compact(admin(broker), "table", [2, 0])
    asked = [body for key, _, body in broker.asked if key == OwnApi.COMPACT_TOPIC]
    assert [(each["partition_index"], each["dry_run"]) for each in asked] == [(0, False), (2, False)]
    assert (first.now.partition, first.now.offset, first.now.time, first.now.end) == (0, 7, None, 7)
    assert (second.now.partition, second.now.offset, second.now.time) == (2, 3, 5)
    assert first[1:] == (9, 4, 900, 400)


def test_to_tell_how_clean_it_is_nothing_is_compacted():
    with scripted_broker(answers(answer())) as broker:
        assert cleanness(admin(broker), "table", [1])[1].offset == 7
    assert [body["dry_run"] for key, _, body in broker.asked if key == OwnApi.COMPACT_TOPIC] == [True]


def test_another_broker_cannot_be_asked():
    with scripted_broker({Api.METADATA: []}) as broker:
        with pytest.raises(CannotCompact) as told:
            compact(admin(broker), "table", [0])
        assert cleanness(admin(broker), "table", [0]) == {}
    assert str(told.value) == (
        f"the broker at 127.0.0.1:{broker.address[1]} cannot compact on demand (Apache Kafka compacts by itself: see "
        "the configs min.cleanable.dirty.ratio and max.compaction.lag.ms)"
    )


def test_a_topic_that_is_not_compacted_is_told():
    with scripted_broker(answers(answer(ErrorCode.POLICY_VIOLATION))) as broker:
        with pytest.raises(NotCompacted, match='topic "table" is not compacted'):
            compact(admin(broker), "table", [0])
        assert cleanness(admin(broker), "table", [0]) == {}


def test_a_cluster_with_tls_is_told_before_anything_is_asked():
    tls = {"security.protocol": "ssl"}
    with scripted_broker({}) as broker:
        with pytest.raises(NotPlain, match='compacting topic "table" failed'):
            compact(admin(broker, **tls), "table", [0])
        assert cleanness(admin(broker, **tls), "table", [0]) == {}
    assert broker.asked == []


def test_what_the_broker_says_of_a_failure_is_told():
    reason = "compaction of partition table-0 failed: the worker ended too early"
    with (
        scripted_broker(answers(answer(ErrorCode.KAFKA_STORAGE_ERROR, reason))) as broker,
        pytest.raises(Refused, match=f'compacting topic "table" failed: {reason}'),
    ):
        compact(admin(broker), "table", [0])


def test_a_broker_that_has_moved_on_is_asked_again():
    moved = answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with scripted_broker(answers(moved, answer())) as broker:
        assert compact(admin(broker), "table", [0])[0].records_after == 4
    with scripted_broker(answers(moved)) as broker, pytest.raises(Busy, match="not leader or follower"):
        compact(admin(broker, timeout=2.0), "table", [0])
