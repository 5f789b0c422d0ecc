"""What is made of one answer for several ranges: those that came whole, and no error."""

from __future__ import annotations

from uuid import UUID

from runnel.client.small_ranges import SmallRange, read_small
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import Record, build_batch
from tests.unit.client.scripted_cluster import (
    TOPIC_ID,
    asked,
    fetched,
    give_up_soon,
    metadata,
    scripted_cluster,
    throttled,
)

BOTH = [SmallRange("orders", 0, 0, 2), SmallRange("orders", 1, 5, 7)]


def batch(offset, *values):
    return build_batch([Record(value, None, 1) for value in values], base_offset=offset)


def answer(*told):
    """With a part for each partition, in this order: its number, its records, its error."""
    parts = []
    for number, records, code in told:
        (part,) = fetched(records, code=code)["responses"][0]["partitions"]
        parts.append({**part, "partition_index": number})
    whole = fetched()
    whole["responses"][0]["partitions"] = parts
    return whole


def found(*told, ranges=BOTH):
    with scripted_cluster({Api.FETCH: [answer(*told)]}, partitions=2) as (cluster, _):
        return {place: (each.start, each.end, each.size) for place, each in read_small(cluster, ranges).items()}


FIRST = (0, batch(0, b"a", b"b"), ErrorCode.NONE)
SECOND = (1, batch(5, b"c", b"d"), ErrorCode.NONE)
FOUND = {("orders", 0): (0, 2, len(FIRST[1])), ("orders", 1): (5, 7, len(SECOND[1]))}


def test_one_request_asks_for_all_ranges():
    with scripted_cluster({Api.FETCH: [answer(FIRST, SECOND)]}, partitions=2) as (cluster, broker):
        assert read_small(cluster, BOTH).keys() == FOUND.keys()
    (request,) = asked(broker, Api.FETCH)
    (topic,) = request["topics"]
    assert [(each["partition"], each["fetch_offset"]) for each in topic["partitions"]] == [(0, 0), (1, 5)]
    assert topic["topic_id"] == TOPIC_ID


def test_a_broker_may_answer_in_another_order():
    assert found(SECOND, FIRST) == FOUND


def test_a_partition_of_which_the_broker_says_no_is_left_to_others():
    assert found((0, b"", ErrorCode.NOT_LEADER_OR_FOLLOWER), SECOND) == {("orders", 1): FOUND["orders", 1]}


def test_a_range_that_did_not_come_whole_is_left_to_others():
    assert found((0, batch(0, b"a"), ErrorCode.NONE), SECOND) == {("orders", 1): FOUND["orders", 1]}


def test_a_partition_that_the_answer_does_not_tell_is_left_to_others():
    assert found(FIRST) == {("orders", 0): FOUND["orders", 0]}


def test_one_that_nobody_asked_for_is_passed_over():
    assert found(FIRST, SECOND, ranges=BOTH[:1]) == {("orders", 0): FOUND["orders", 0]}


def test_bytes_that_are_no_batch_are_left_to_others():
    damaged = bytearray(FIRST[1])
    damaged[16] = 7  # the format
    assert found((0, bytes(damaged), ErrorCode.NONE), SECOND) == {("orders", 1): FOUND["orders", 1]}


def test_a_throttled_answer_has_none():
    with scripted_cluster({Api.FETCH: [throttled()]}, partitions=2) as (cluster, broker):
        assert read_small(cluster, BOTH) == {}
    assert len(asked(broker, Api.FETCH)) == 1


def test_a_topic_that_is_another_one_now_is_not_asked_for():
    with scripted_cluster({Api.FETCH: [answer(FIRST)]}, partitions=2) as (cluster, broker):
        others = [each._replace(topic_id=UUID(int=8)) for each in BOTH]
        assert read_small(cluster, others) == {}
        assert read_small(cluster, [BOTH[0]._replace(topic_id=TOPIC_ID)]).keys() == {("orders", 0)}
    assert len(asked(broker, Api.FETCH)) == 1


def test_partitions_without_a_leader_are_left_to_others():
    with scripted_cluster({Api.FETCH: [answer(FIRST)]}, partitions=2) as (cluster, broker):
        broker.answers[Api.METADATA] = [metadata(broker, partitions=2, leader=-1)]
        assert read_small(cluster, BOTH) == {}


def test_a_broker_that_is_gone_is_not_waited_for():
    with scripted_cluster({Api.FETCH: [answer(FIRST)]}, partitions=2) as (cluster, broker):
        give_up_soon(cluster, broker)
        cluster.topic("orders")
        cluster.close()
        broker.answers[Api.FETCH] = []
    assert read_small(cluster, BOTH) == {}
