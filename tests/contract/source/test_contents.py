"""Whatever a topic holds: every record that a reader of committed records may see becomes a row, once."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import Producer as KafkaProducer

from runnel import Raw, Reading
from runnel.client import Admin, positions
from runnel.client.connection import LOGGER
from runnel.client.fetch import Fetcher
from runnel.client.wire import Wire
from runnel.pipeline.errors import EndLost, RecordsGone
from runnel.pipeline.source.left_out import LeftOut, write_left_out
from runnel.pipeline.source.offsets import ranges
from runnel.pipeline.source.rows import Rows
from tests.contract.raw_reading import (
    LIMIT,
    compacted,
    final_values,
    quota,
    transact,
    transactional,
    write,
)
from tests.contract.source.bench import BATCH

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def client(bootstrap):
    """Makes producers of librdkafka; batches end where they are flushed."""

    def make(**settings):
        return KafkaProducer({"bootstrap.servers": bootstrap, "logger": LOGGER, "linger.ms": 1_000} | settings)

    return make


def number(n):
    return b'{"n": %d}' % n


def numbers(rows):
    return [row["n"] for row in rows]


def settled(source, topic):
    """When the broker has written the markers of all transactions, which it does after it has answered."""
    final_values(source.cluster, topic)


def counted(source, start, end):
    return [(each.in_time, each.late, each.rejected) for each in source.aside(start, end)]


# --- what is there


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_of_every_kind(bench, client, make_topic, codec):
    topic = make_topic(1)
    write(client(**{"compression.type": codec}), topic, *([number(n) for n in range(at, at + 50)] for at in (0, 50)))
    source = bench(topic)
    start = source.planner.first()
    rows, end = source.read()
    assert numbers(rows) == list(range(100))
    assert counted(source, start, end) == [(100, 0, 0)]


def test_one_topic_with_batches_of_all_kinds(bench, client, make_topic):
    topic = make_topic(1)
    for at, codec in enumerate(CODECS):
        write(client(**{"compression.type": codec}), topic, [number(n) for n in range(10 * at, 10 * at + 10)])
    assert numbers(bench(topic).read()[0]) == list(range(50))


def test_keys_headers_and_values_that_are_null(bench, client, make_topic):
    topic = make_topic(1)
    producer = client()
    write(producer, topic, [b"plain", b""])
    write(producer, topic, [b"keyed"], key=b"k", headers=[("h", b"1"), ("h", None), ("", b"")])
    write(producer, topic, [None], key=b"gone")
    source = bench(topic, schema=Raw())
    source.with_metadata()
    start = source.planner.first()
    rows, end = source.read()
    assert [(row["value"], row["_key"], row["_offset"]) for row in rows] == [
        (b"plain", None, 0), (b"", None, 1), (b"keyed", b"k", 2),
    ]  # fmt: skip
    assert [[(each["key"], each["value"]) for each in row["_headers"]] for row in rows] == [
        [], [], [("h", b"1"), ("h", None), ("", b"")],
    ]  # fmt: skip
    assert counted(source, start, end) == [(3, 0, 1)]


def test_a_compacted_topic_with_gaps(bench, client, admin, make_topic):
    topic = make_topic(1, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    producer = client()
    for n in range(10):
        write(producer, topic, [number(n)], key=b"same")
    write(producer, topic, [number(10)], key=b"other")
    source = bench(topic)
    start = source.planner.first()
    end = source.planner.next(start)
    compacted(admin, source.cluster, producer, topic)
    (read,) = ranges(start, end)
    found = [row for batch in Rows(source.spec, source.cluster, read, BATCH) for row in batch.to_pylist()]
    assert 1 <= len(found) < 11
    assert numbers(found)[-1] == 10
    assert counted(source, start, end) == [(len(found), 0, 0)]
    admin.delete(topic)


# --- transactions


def test_aborted_records_and_the_ends_of_transactions_are_no_rows(bench, client, make_topic, name):
    topic = make_topic(1)
    one, other = transactional(client, f"{name}-one"), transactional(client, f"{name}-other")
    transact(one, topic, number(1), number(2), commit=True)
    one.begin_transaction()
    write(one, topic, [number(100)])
    write(client(), topic, [number(3)])
    transact(other, topic, number(4), commit=True)
    one.abort_transaction(LIMIT)
    transact(other, topic, number(101), commit=False)
    source = bench(topic)
    settled(source, topic)
    start = source.planner.first()
    rows, end = source.read()
    assert numbers(rows) == [1, 2, 3, 4]
    assert counted(source, start, end) == [(4, 0, 0)]
    assert end.next[topic, 0] == 10, "four rows, two aborted ones and the ends of four transactions"


def test_what_only_has_aborted_records_and_ends_of_transactions_is_read_to_its_end(bench, client, make_topic, name):
    topic = make_topic(1)
    producer = transactional(client, name)
    source = bench(topic)
    start = source.planner.first()
    transact(producer, topic, number(1), commit=False)
    settled(source, topic)
    rows, end = source.read(start=start)
    assert rows == []
    assert end.next[topic, 0] == 2
    assert counted(source, start, end) == [(0, 0, 0)]
    assert source.planner.next(end) == end


def test_an_open_transaction_holds_back_what_comes_after_it(bench, client, make_topic, name):
    topic = make_topic(1)
    producer = transactional(client, name)
    source = bench(topic)
    write(client(), topic, [number(1)])
    producer.begin_transaction()
    write(producer, topic, [number(2)])
    write(client(), topic, [number(3)])
    rows, end = source.read()
    assert numbers(rows) == [1]
    producer.commit_transaction(LIMIT)
    settled(source, topic)
    rows, end = source.read(start=end)
    assert numbers(rows) == [2, 3]


# --- a broker that takes its time


def test_a_source_over_its_quota_waits_and_gets_everything(bench, client, make_topic, monkeypatch):
    topic = make_topic(1)
    write(client(), topic, *([b"x" * 20_000] for _ in range(10)))
    pauses = []
    receive = Wire.receive

    def receive_and_note(self, sent, doing, **rest):
        answer = receive(self, sent, doing, **rest)
        pauses.append(answer.get("throttle_time", 0))
        return answer

    monkeypatch.setattr(Wire, "receive", receive_and_note)
    monkeypatch.setattr("runnel.pipeline.source.rows.Fetcher", partial(Fetcher, fetch_bytes=20_000))
    source = bench(topic, schema=Raw())
    deadline = time.monotonic() + LIMIT
    with quota(source.cluster, consumer_byte_rate=100_000.0):
        while not any(pauses):  # a quota is of some seconds, and Kafka needs a moment to live by a new one
            assert time.monotonic() < deadline, "nobody was throttled"
            assert [len(row["value"]) for row in source.read()[0]] == [20_000] * 10


# --- what is gone


def delete(bootstrap, topic, before):
    with Admin(bootstrap) as admin:
        admin.delete_records(topic, before)


def test_records_that_were_deleted_are_told_for_all_partitions_before_anything_is_read(
    bench, bootstrap, client, make_topic
):
    topic = make_topic(3)
    producer = client()
    for partition in range(3):
        for n in range(5):
            producer.produce(topic, number(n), partition=partition)
    producer.flush(LIMIT)
    source = bench(topic)
    start = source.planner.first()
    delete(bootstrap, topic, {0: 2, 2: 5})
    with pytest.raises(RecordsGone) as told:
        source.new_planner().next(start)
    assert told.value.gone == {f"{topic}-0": (0, 2), f"{topic}-2": (0, 5)}
    assert str(told.value) == (
        f"bench cannot go on: records were deleted before it read them: offsets 0 to 1 of {topic}-0, "
        f"offsets 0 to 4 of {topic}-2 (run it once with --skip-gone to go on behind them; "
        "a longer retention.ms keeps records for longer)"
    )


def test_records_that_are_deleted_between_the_plan_and_the_task_are_told(bench, bootstrap, client, make_topic):
    topic = make_topic(1)
    write(client(), topic, [number(n) for n in range(5)])
    source = bench(topic)
    start = source.planner.first()
    end = source.planner.next(start)
    delete(bootstrap, topic, {0: 3})
    (read,) = ranges(start, end)
    with pytest.raises(RecordsGone) as told:
        list(Rows(source.spec, source.cluster, read, BATCH))
    assert told.value.gone == {f"{topic}-0": (0, 3)}
    assert source.aside(start, end) == []


def test_records_that_were_deleted_are_skipped_if_so_chosen_and_counted(bench, bootstrap, client, make_topic):
    topic = make_topic(2)
    producer = client()
    write(producer, topic, [number(n) for n in range(5)])
    source = bench(topic)
    source.skip_gone()
    start = source.planner.first()
    delete(bootstrap, topic, {0: 3})
    rows, end = source.read(start=start)
    assert numbers(rows) == [3, 4]
    (found,) = source.aside(start, end)
    assert (found.in_time, found.gone) == (2, ((0, 3),))
    assert source.planner.next(end) == end


def test_a_range_that_is_gone_as_a_whole_is_skipped(bench, bootstrap, client, make_topic):
    topic = make_topic(1)
    write(client(), topic, [number(n) for n in range(5)])
    source = bench(topic)
    source.skip_gone()
    start = source.planner.first()
    end = source.planner.next(start)
    delete(bootstrap, topic, {0: 5})
    write(client(), topic, [number(5)])
    (read,) = ranges(start, end)
    assert list(Rows(source.spec, source.cluster, read, BATCH)) == []
    assert [each.gone for each in source.aside(start, end)] == [((0, 5),)]
    assert numbers(source.read(start=end)[0]) == [5]


def test_records_that_are_deleted_while_they_are_read_are_skipped(bench, bootstrap, client, make_topic, monkeypatch):
    topic = make_topic(1)
    write(client(), topic, *([b"%02d" % n * 10_000] for n in range(10)))
    monkeypatch.setattr("runnel.pipeline.source.rows.Fetcher", partial(Fetcher, fetch_bytes=1_000))
    source = bench(topic, schema=Raw())
    source.skip_gone()
    start = source.planner.first()
    end = source.planner.next(start)
    (read,) = ranges(start, end)
    rows = iter(Rows(source.spec, source.cluster, read, BATCH))
    found = next(rows).to_pylist()
    delete(bootstrap, topic, {0: 8})
    found += [row for batch in rows for row in batch.to_pylist()]
    (told,) = source.aside(start, end)
    ((first, behind),) = told.gone
    assert 1 <= first < behind == 8
    assert [int(row["value"][:2]) for row in found] == [*range(first), 8, 9]
    assert told.in_time + (behind - first) == 10


def test_a_large_batch_is_planned_although_its_first_records_are_gone(bench, bootstrap, client, make_topic):
    topic = make_topic(1)
    write(client(), topic, *([number(n) for n in range(at, at + 1000)] for at in range(0, 12_000, 1000)))
    source = bench(topic, read=Reading(rows=11_000))
    source.skip_gone()
    start = source.planner.first()
    delete(bootstrap, topic, {0: 1500})
    seen = []
    while (read := source.read(start=start))[1] != start:
        seen += numbers(read[0])
        start = read[1]
    assert seen == list(range(1500, 12_000))


def test_a_topic_that_is_found_on_the_way_is_read_from_where_it_begins(bench, bootstrap, client, make_topic):
    first = make_topic(1)
    write(client(), first, [number(0)])
    source = bench(first, read=Reading(topics=f"{first}.*"))
    _, end = source.read()
    more = f"{first}-more"
    with Admin(bootstrap) as admin:
        admin.create(more, partitions=1)
    write(client(), more, [number(n) for n in range(10, 15)])
    delete(bootstrap, more, {0: 3})
    source.clock.seconds += 11
    rows, later = source.read(start=end)
    assert numbers(rows) == [13, 14]
    assert type(later).from_json(later.to_json()) == later
    assert source.new_planner().next(later) == later


@pytest.mark.parametrize("skips", [False, True])
def test_a_topic_of_a_pattern_that_is_deleted_before_it_is_read_is_gone_as_a_whole(
    bench, bootstrap, client, make_topic, skips
):
    first = make_topic(1)
    more = f"{first}-more"
    with Admin(bootstrap) as admin:
        admin.create(more, partitions=1)
        write(client(), first, [number(0)])
        write(client(), more, [number(n) for n in range(5)])
        source = bench(first, read=Reading(topics=f"{first}.*"))
        if skips:
            source.skip_gone()
        start = source.planner.first()
        end = source.planner.next(start)
        admin.delete(more)
    kept, lost = ranges(start, end)
    assert [len(rows) for rows in Rows(source.spec, source.cluster, kept, BATCH)] == [1]
    if skips:
        assert list(Rows(source.spec, source.cluster, lost, BATCH)) == []
        assert [each.gone for each in source.aside(start, end)] == [(), ((0, 5),)]
        assert source.planner.next(end).next[first, 0] == 1
    else:
        with pytest.raises(RecordsGone) as told:
            list(Rows(source.spec, source.cluster, lost, BATCH))
        assert told.value.gone == {f"{more}-0": (0, 5)}


def test_an_end_that_was_lost_is_told(bench, client, make_topic):
    topic = make_topic(1)
    write(client(), topic, [number(1)])
    source = bench(topic)
    _, end = source.read()
    assert positions.latest(source.cluster, [(topic, 0)]) == {(topic, 0): 1}
    with pytest.raises(EndLost, match=f"bench cannot go on: {topic}-0 ends at offset 1, and was read up to offset 7"):
        source.planner.next(replace(end, next={(topic, 0): 7}))


# --- rows on which a body raises


def test_rows_that_a_batch_leaves_out_are_rejected_in_that_batch_only(bench, client, make_topic):
    topic = make_topic(1)
    write(client(), topic, [number(0), b"{", number(2), number(3), None, number(5)])
    source = bench(topic)
    write_left_out(source.spec.path, BATCH.batch, [LeftOut(0, topic, 0, offset, f"no {offset}") for offset in (3, 5)])
    write_left_out(source.spec.path, BATCH.batch, [LeftOut(1, topic, 0, 2, "of another input")])
    start = source.planner.first()
    rows, end = source.read()
    assert numbers(rows) == [0, 2]
    (found,) = source.aside(start, end)
    assert (found.in_time, found.rejected) == (2, 4)
    reasons = dict(zip(found.rows["offset"].to_pylist(), found.rows["reason"].to_pylist(), strict=True))
    assert (reasons[3], reasons[5]) == ("no 3", "no 5")
    assert found.rows["value"].to_pylist()[1] == number(3)
    assert numbers(source.read(BATCH._replace(batch=4))[0]) == [0, 2, 3, 5]
