"""What a reader makes of answers that a real broker gives rarely."""

from __future__ import annotations

from uuid import UUID

import pytest

from runnel.client import Busy, Refused, positions
from runnel.client.errors import TopicReplaced
from runnel.client.fetch import Fetcher
from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from runnel.records import Record, build_batch
from tests.unit.client.scripted_cluster import (
    asked,
    fetched,
    give_up_soon,
    listed,
    metadata,
    scripted_cluster,
    throttled,
)


def batch(offset, *values):
    return build_batch([Record(value, None, 1) for value in values], base_offset=offset)


def ranges(cluster, start=0, end=3, **options):
    return [(each.start, each.end) for each in Fetcher(cluster).read("orders", 0, start, end, **options)]


def positions_asked(broker):
    return [body["topics"][0]["partitions"][0]["fetch_offset"] for body in asked(broker, Api.FETCH)]


def test_the_next_answer_is_asked_for_before_the_last_is_handed_out():
    with scripted_cluster({Api.FETCH: [fetched(batch(0, b"a")), fetched(batch(1, b"b", b"c"))]}) as (cluster, broker):
        reading = Fetcher(cluster).read("orders", 0, 0, 3)
        next(reading)
        next(reading)
        assert positions_asked(broker) == [0, 1]
        assert list(reading) == []


def test_a_throttled_answer_has_no_partition_and_is_asked_for_again():
    with scripted_cluster({Api.FETCH: [throttled(), fetched(batch(0, b"a", b"b", b"c"))]}) as (cluster, broker):
        assert ranges(cluster) == [(0, 3)]
    assert positions_asked(broker) == [0, 0]


def test_an_empty_answer_ends_the_range_when_all_of_it_is_committed_and_on_the_brokers_disk():
    answers = {Api.FETCH: [fetched(batch(0, b"a")), fetched(stable=3)], Api.LIST_OFFSETS: [listed(1)]}
    with scripted_cluster(answers) as (cluster, _):
        assert ranges(cluster) == [(0, 1)]


def test_an_empty_answer_of_a_remote_tier_that_is_slow_is_asked_for_again():
    """Kafka gives no error when its remote storage takes longer than a fetch may: nothing of the range is missing."""
    answers = {
        Api.FETCH: [fetched(stable=3), fetched(batch(0, b"a", b"b", b"c"))],
        Api.LIST_OFFSETS: [listed(2)],
    }
    with scripted_cluster(answers) as (cluster, broker):
        assert ranges(cluster) == [(0, 3)]
    (body,) = asked(broker, Api.LIST_OFFSETS)
    assert body["topics"][0]["partitions"][0]["timestamp"] == positions.EARLIEST_LOCAL


def test_an_empty_answer_of_a_follower_that_lags_is_asked_for_again():
    with scripted_cluster({Api.FETCH: [fetched(stable=1), fetched(batch(0, b"a", b"b", b"c"))]}) as (cluster, _):
        assert ranges(cluster) == [(0, 3)]


def test_what_is_never_committed_is_told():
    with scripted_cluster({Api.FETCH: [fetched(stable=2)]}) as (cluster, broker):
        give_up_soon(cluster, broker)
        with pytest.raises(Busy) as told:
            ranges(cluster)
    assert told.value.what == (
        "reading orders-0 from offset 0 failed: only what is before offset 2 is committed, and 3 was asked for"
    )


def test_a_batch_that_is_cut_off_is_asked_for_with_more_room():
    whole = batch(0, b"a", b"b", b"c")
    with scripted_cluster({Api.FETCH: [fetched(whole[:40]), fetched(whole)]}) as (cluster, broker):
        assert ranges(cluster) == [(0, 3)]
    small, large = (body["max_bytes"] for body in asked(broker, Api.FETCH))
    assert large > small


def test_a_batch_that_never_comes_whole_is_told():
    with (
        scripted_cluster({Api.FETCH: [fetched(batch(0, b"a")[:40])]}) as (cluster, _),
        pytest.raises(Refused, match="a batch of more than"),
    ):
        ranges(cluster)


def test_bytes_that_are_no_batch_are_told():
    with (
        scripted_cluster({Api.FETCH: [fetched(bytes(100))]}) as (cluster, _),
        pytest.raises(Refused, match=r"the answer of 127.0.0.1:\d+ has a batch of format 0"),
    ):
        ranges(cluster)


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID]
)
def test_a_leader_that_is_none_any_more_is_looked_for_again(code):
    with scripted_cluster({Api.FETCH: [fetched(code=code), fetched(batch(0, b"a", b"b", b"c"))]}) as (cluster, broker):
        assert ranges(cluster) == [(0, 3)]
    assert len(asked(broker, Api.METADATA)) == 2


def test_a_topic_with_another_id_is_told():
    with scripted_cluster({Api.FETCH: [fetched(code=ErrorCode.UNKNOWN_TOPIC_ID)]}) as (cluster, broker):
        broker.answers[Api.METADATA] = [metadata(broker), metadata(broker, topic_id=UUID(int=8))]
        with pytest.raises(TopicReplaced) as told:
            ranges(cluster)
    assert (told.value.expected, told.value.found) == (str(UUID(int=7)), str(UUID(int=8)))


def test_a_connection_that_ends_between_two_answers_is_made_again():
    answers = [fetched(batch(0, b"a")), b"", fetched(batch(1, b"b", b"c"))]
    with scripted_cluster({Api.FETCH: answers}) as (cluster, broker):
        assert ranges(cluster) == [(0, 1), (1, 3)]
    assert positions_asked(broker) == [0, 1, 1]


def test_no_more_is_asked_for_than_the_rest_of_the_range_may_need():
    answers = [fetched(batch(number, b"x" * 10_000)) for number in range(3)]
    with scripted_cluster({Api.FETCH: answers}) as (cluster, broker):
        ranges(cluster)
    first, *rest = (body["max_bytes"] for body in asked(broker, Api.FETCH))
    assert first == 3 * 1024 + 64 * 1024
    assert all(20_000 < size < 2 * first for size in rest)
