"""Raw record batches of a range of offsets: what a reader of committed records gets, and nothing else."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer as KafkaProducer

from runnel.client import UnknownPartition, UnknownTopic, positions
from runnel.client.cluster import Cluster
from runnel.client.connection import LOGGER
from runnel.client.errors import Busy, OffsetsGone, TopicReplaced
from runnel.client.fetch import Fetcher
from runnel.client.wire import Wire
from runnel.protocol.versions import Api
from runnel.records import parse_header
from tests.contract.raw_reading import (
    LIMIT,
    compacted,
    final_values,
    lost_answers,
    quota,
    read,
    records_in,
    transact,
    transactional,
    values,
    write,
)


@pytest.fixture
def cluster(bootstrap):
    with Cluster(bootstrap) as cluster:
        yield cluster


@pytest.fixture
def client(bootstrap):
    """Makes producers of librdkafka; batches end where they are flushed."""

    def make(**settings):
        return KafkaProducer({"bootstrap.servers": bootstrap, "logger": LOGGER, "linger.ms": 1_000} | settings)

    return make


# --- what is there


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_all_records_come_as_they_were_written(cluster, client, topic, codec):
    producer = client(**{"compression.type": codec})
    expected = [b"%d" % number * 20 for number in range(500)]
    write(producer, topic, expected[:200], expected[200:], key=b"k", headers=[("h", b"1"), ("none", None)])
    found = read(cluster, topic)
    assert [record.value for record in found] == expected
    assert [record.offset for record in found] == list(range(500))
    assert {(record.key, record.headers) for record in found} == {(b"k", (("h", b"1"), ("none", None)))}


def test_null_keys_and_values_come_as_such(cluster, client, topic):
    write(client(), topic, [None, b"", b"x"])
    assert [(record.key, record.value) for record in read(cluster, topic)] == [(None, None), (None, b""), (None, b"x")]


def test_a_range_inside_of_batches_gives_them_whole_and_says_what_to_keep(cluster, client, topic):
    write(client(), topic, [b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6"])
    (fetched,) = Fetcher(cluster).read(topic, 0, 1, 5)
    (part,) = fetched.parts
    assert (fetched.start, fetched.end) == (1, 5)
    assert parse_header(part).base_offset == 0
    assert [record.value for record in records_in(fetched)] == [b"1", b"2", b"3", b"4"]


def test_an_empty_range_gives_nothing_and_asks_nobody():
    with Cluster("127.0.0.1:1", timeout=0.1) as nowhere:
        assert list(Fetcher(nowhere).read("orders", 0, 5, 5)) == []


def test_ranges_of_many_answers_follow_each_other(cluster, client, topic):
    producer = client()
    expected = [b"%04d" % number * 250 for number in range(200)]
    for start in range(0, 200, 10):
        write(producer, topic, expected[start : start + 10])
    fetched = list(Fetcher(cluster, fetch_bytes=25_000).read(topic, 0, 3, 199))
    assert len(fetched) >= 5
    assert [each.start for each in fetched] == [3, *(each.end for each in fetched[:-1])]
    assert fetched[-1].end == 199
    assert [record.value for each in fetched for record in records_in(each)] == expected[3:199]


def test_a_batch_that_is_larger_than_an_answer_comes_all_the_same(cluster, client, topic):
    write(client(), topic, [b"x" * 300_000, b"y" * 300_000], [b"z"])
    found = [
        record.value for each in Fetcher(cluster, fetch_bytes=1_000).read(topic, 0, 0, 3) for record in records_in(each)
    ]
    assert [len(value or b"") for value in found] == [300_000, 300_000, 1]


def test_a_reader_that_stops_half_way_leaves_nothing_behind(cluster, client, topic):
    producer = client()
    for _ in range(5):
        write(producer, topic, [b"x" * 50_000])
    for _ in range(20):
        reading = Fetcher(cluster, fetch_bytes=1_000).read(topic, 0, 0, 5)
        assert next(reading).start == 0
        reading.close()
        assert len(read(cluster, topic)) == 5


def test_answers_that_get_lost_are_asked_for_again(cluster, client, topic, monkeypatch):
    producer = client()
    for number in range(20):
        write(producer, topic, [b"%d" % number * 10_000])
    with lost_answers(monkeypatch, every=3) as lost:
        fetched = list(Fetcher(cluster, fetch_bytes=1_000).read(topic, 0, 0, 20))
    assert [record.offset for each in fetched for record in records_in(each)] == list(range(20))
    assert lost.count(Api.FETCH) >= 5


def test_a_reader_over_its_quota_waits_and_gets_everything(cluster, client, topic, monkeypatch):
    write(client(), topic, *([b"x" * 20_000] for _ in range(10)))
    pauses = []
    receive = Wire.receive

    def receive_and_note(self, sent, doing, **rest):
        answer = receive(self, sent, doing, **rest)
        pauses.append(answer.get("throttle_time", 0))
        return answer

    monkeypatch.setattr(Wire, "receive", receive_and_note)
    deadline = time.monotonic() + LIMIT
    with quota(cluster, consumer_byte_rate=100_000.0):
        while not any(pauses):  # a quota is of some seconds, and Kafka needs a moment to live by a new one
            assert time.monotonic() < deadline, "nobody was throttled"
            fetched = Fetcher(cluster, fetch_bytes=20_000).read(topic, 0, 0, 10)
            assert [record.offset for each in fetched for record in records_in(each)] == list(range(10))


# --- what is not


def test_aborted_records_and_markers_are_left_out(cluster, client, topic, name):
    one, other = transactional(client, f"{name}-one"), transactional(client, f"{name}-other")
    plain = client()
    transact(one, topic, b"committed", commit=True)
    one.begin_transaction()
    write(one, topic, [b"aborted"])
    write(plain, topic, [b"in between"])
    transact(other, topic, b"other committed", commit=True)
    one.abort_transaction(LIMIT)
    transact(one, topic, b"committed again", commit=True)
    transact(other, topic, b"other aborted", commit=False)
    assert final_values(cluster, topic) == [b"committed", b"in between", b"other committed", b"committed again"]


def test_a_range_that_ends_in_aborted_records_and_markers_ends(cluster, client, topic, name):
    producer = transactional(client, name)
    transact(producer, topic, b"committed", commit=True)
    transact(producer, topic, b"aborted", commit=False)
    assert final_values(cluster, topic) == [b"committed"]
    end = positions.latest(cluster, [(topic, 0)])[topic, 0]
    assert end == 4
    assert [record.value for record in read(cluster, topic, start=0, end=end)] == [b"committed"]
    assert read(cluster, topic, start=1, end=end) == []


def test_what_is_read_from_the_middle_of_an_aborted_transaction_on_is_left_out(cluster, client, topic, name):
    producer = transactional(client, name)
    producer.begin_transaction()
    write(producer, topic, [b"a", b"b"], [b"c"])
    producer.abort_transaction(LIMIT)
    write(client(), topic, [b"plain"])
    assert final_values(cluster, topic) == [b"plain"]
    for start in range(4):
        assert [record.value for record in read(cluster, topic, start=start)] == [b"plain"]


def test_compaction_leaves_gaps_which_are_passed_over(cluster, client, admin, name):
    admin.create(
        name,
        partitions=1,
        configs={"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"},
    )
    producer = client()
    for number in range(10):
        write(producer, name, [b"%d" % number], key=b"same")
    write(producer, name, [b"another"], key=b"other")
    end = positions.latest(cluster, [(name, 0)])[name, 0]
    compacted(admin, cluster, producer, name)
    found = read(cluster, name, end=end)
    assert 0 < len(found) < end
    assert found[-1].value == b"another"
    for stop in range(1, end):
        kept = [record.offset for record in found if record.offset < stop]
        assert [record.offset for record in read(cluster, name, end=stop)] == kept
    admin.delete(name)


# --- what is wrong


def test_offsets_that_were_deleted_are_told_with_the_range_that_is_gone(cluster, client, admin, topic):
    write(client(), topic, [b"0"], [b"1"], [b"2"], [b"3"])
    admin.delete_records(topic, {0: 2})
    with pytest.raises(OffsetsGone) as told:
        read(cluster, topic, start=1)
    assert (told.value.topic, told.value.partition, told.value.gone) == (topic, 0, (1, 2))
    assert "read on from 2" in told.value.hint
    assert [record.value for record in read(cluster, topic, start=2)] == [b"2", b"3"]


def test_a_start_behind_the_end_is_told(cluster, client, topic):
    write(client(), topic, [b"0"])
    with pytest.raises(OffsetsGone, match=f"{topic}-0 ends at 1, before offset 7"):
        read(cluster, topic, start=7, end=9)


def test_an_end_that_does_not_come_is_told(bootstrap, client, topic):
    write(client(), topic, [b"0"])
    with Cluster(bootstrap) as cluster:
        assert len(read(cluster, topic)) == 1
        cluster.timeout = 0.5  # not for the connection, which a busy machine may take longer for
        with pytest.raises(Busy, match="only what is before offset 1 is comm"):
            read(cluster, topic, start=0, end=2)


def test_a_topic_that_was_made_again_is_told(cluster, client, admin, name):
    admin.create(name, partitions=1)
    write(client(), name, [b"0"])
    first = cluster.topic(name).id
    assert len(read(cluster, name)) == 1
    admin.delete(name)
    admin.create(name, partitions=1)
    write(client(), name, [b"another"])
    with pytest.raises(TopicReplaced) as told:
        list(Fetcher(cluster).read(name, 0, 0, 1, topic_id=first))
    assert told.value.what.startswith(f'topic "{name}" was deleted and created again: its id is ')
    assert values(cluster, name) == [b"another"]
    admin.delete(name)


def test_what_is_remembered_of_a_topic_that_was_made_again_does_no_harm(cluster, client, admin, name):
    admin.create(name, partitions=1)
    write(client(), name, [b"0"])
    assert len(read(cluster, name)) == 1
    admin.delete(name)
    admin.create(name, partitions=1)
    write(client(), name, [b"another"])
    with Cluster(cluster.bootstrap) as other:
        now = other.topic(name).id
    assert cluster.topic(name).id != now
    (fetched,) = Fetcher(cluster).read(name, 0, 0, 1, topic_id=now)
    assert [record.value for record in records_in(fetched)] == [b"another"]
    admin.delete(name)


def test_a_topic_that_was_deleted_is_told(cluster, client, admin, name):
    admin.create(name, partitions=1)
    write(client(), name, [b"0"])
    assert len(read(cluster, name)) == 1
    admin.delete(name)
    with pytest.raises(UnknownTopic):
        list(Fetcher(cluster).read(name, 0, 0, 1))


def test_a_topic_and_a_partition_that_are_not_there_are_told(cluster, topic, name):
    with pytest.raises(UnknownTopic):
        list(Fetcher(cluster).read(f"{name}-missing", 0, 0, 1))
    with pytest.raises(UnknownPartition):
        list(Fetcher(cluster).read(topic, 3, 0, 1))
