"""Small ranges that are read at once give what they give one by one."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from runnel.client import Producer
from runnel.client.fetch import Fetcher
from runnel.pipeline.source.aside import directory_of, path_of, read_aside
from runnel.pipeline.source.left_out import LeftOut, write_left_out
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import ranges
from runnel.pipeline.source.rows import Rows
from runnel.pipeline.source.small_ranges import SmallRanges
from tests.filling import AT_ONCE

NOON = 1_700_000_000_000
MOMENT = Moment(3, NOON, NOON - 5_000)
TIMED = {"schema": "n int, at timestamp", "time": "at", "late": "10 seconds", "ahead": "1 minute", "idle": None}
PARTITIONS = 3


def timed(n, seconds=0):
    at = datetime.fromtimestamp(NOON / 1000 + seconds, UTC).isoformat()
    return f'{{"n": {n}, "at": "{at}"}}'.encode()


def send(bootstrap, topic, values, partition):
    with Producer(bootstrap, settings=AT_ONCE) as producer:
        for value in values:
            producer.produce(topic, value, partition=partition, key=b"k", headers=[("h", b"v")])


def planned(source, start=None):
    first = start or source.planner.first()
    return ranges(first, source.planner.next(first))


def one_row_each(bench, bootstrap, make_topic):
    """A source, and the ranges of its partitions."""
    topic = make_topic(PARTITIONS)
    for partition in range(PARTITIONS):
        send(bootstrap, topic, [timed(partition)], partition)
    source = bench(topic, **TIMED)
    return source, planned(source)


def told(source, read):
    directory = directory_of(source.spec.path, MOMENT.batch)
    found = [read_aside(directory, source.spec.number, each) for each in read]
    return [(each.in_time, each.gone, each.rows.to_pylist()) for each in found]


def rows_in(batches):
    found = list(batches)
    return pa.Table.from_batches(found).to_pylist() if found else []


def both_ways(bench, topic, read=None, **declared):
    """What each way makes of the same ranges, and the sources."""
    sources = [bench(topic, **declared) for _ in range(2)]
    for each in sources:
        each.with_metadata()
    at_once, by_one = sources
    read = read or planned(at_once)
    assert len(read) > 1
    found = rows_in(SmallRanges(at_once.spec, at_once.cluster, read, MOMENT))
    expected = [row for each in read for row in rows_in(Rows(by_one.spec, by_one.cluster, each, MOMENT))]
    return (found, told(at_once, read)), (expected, told(by_one, read)), at_once


def files_of(source):
    return [each.name for each in directory_of(source.spec.path, MOMENT.batch).iterdir()]


def test_one_file_has_the_counts_of_all(bench, bootstrap, make_topic):
    topic = make_topic(PARTITIONS)
    for partition in range(PARTITIONS):
        send(bootstrap, topic, [timed(10 * partition + n) for n in range(partition + 1)], partition)
    at_once, by_one, source = both_ways(bench, topic, **TIMED)
    assert at_once == by_one
    assert [(row["n"], row["_topic"], row["_partition"], row["_offset"]) for row in at_once[0]] == [
        (0, topic, 0, 0),
        (10, topic, 1, 0),
        (11, topic, 1, 1),
        (20, topic, 2, 0),
        (21, topic, 2, 1),
        (22, topic, 2, 2),
    ]
    assert [in_time for in_time, _, _ in at_once[1]] == [1, 2, 3]
    assert files_of(source) == ["0.json"]


def test_one_request_brings_them_all(bench, bootstrap, make_topic, monkeypatch):
    source, read = one_row_each(bench, bootstrap, make_topic)

    def none(*_, **__):
        pytest.fail("a range was asked for by itself")

    monkeypatch.setattr(Fetcher, "read", none)
    assert [row["n"] for row in rows_in(SmallRanges(source.spec, source.cluster, read, MOMENT))] == [0, 1, 2]


@pytest.mark.parametrize(
    "odd",
    [b"broken", None, timed(1, -6), timed(1, 61), b'{"n": 1}', b'{"n": 1} {"n": 2}', b""],
    ids=["broken", "no value", "late", "ahead", "no time", "two values", "empty"],
)
def test_where_one_stands_out_each_range_is_told_by_itself(bench, bootstrap, make_topic, odd):
    topic = make_topic(PARTITIONS)
    for partition in range(PARTITIONS):
        values = [timed(n) for n in range(4)]
        send(bootstrap, topic, [*values[:2], odd, *values[2:]] if partition == 1 else values, partition)
    at_once, by_one, source = both_ways(bench, topic, **TIMED)
    assert at_once == by_one
    assert [in_time for in_time, _, _ in at_once[1]] == [4, 4, 4]
    assert [len(aside) for _, _, aside in at_once[1]] == [0, 1, 0]
    assert "0.json" not in files_of(source)


def test_a_range_may_begin_and_end_in_the_midst_of_a_batch(bench, bootstrap, make_topic):
    topic = make_topic(2)
    for partition in range(2):
        with Producer(bootstrap, settings={"linger.ms": "200"}) as producer:
            for n in range(10):
                producer.produce(topic, timed(n), partition=partition)
    whole = planned(bench(topic, **TIMED))
    read = [type(each)(each.topic, each.partition, 3, 7, each.topic_id, each.partitions) for each in whole]
    at_once, by_one, _ = both_ways(bench, topic, read, **TIMED)
    assert at_once == by_one
    assert [row["n"] for row in at_once[0]] == [3, 4, 5, 6, 3, 4, 5, 6]


def test_rows_that_the_batch_leaves_out_are_left_out(bench, bootstrap, make_topic):
    topic = make_topic(2)
    for partition in range(2):
        send(bootstrap, topic, [timed(n) for n in range(3)], partition)
    source = bench(topic, **TIMED)
    read = planned(source)
    write_left_out(source.spec.path, MOMENT.batch, [LeftOut(0, topic, 1, 2, "it raises")])
    rows = rows_in(SmallRanges(source.spec, source.cluster, read, MOMENT))
    assert [row["n"] for row in rows] == [0, 1, 2, 0, 1]
    assert [(in_time, [row["reason"] for row in aside]) for in_time, _, aside in told(source, read)] == [
        (3, []),
        (2, ["it raises"]),
    ]


def test_a_task_that_is_ended_early_leaves_no_counts(bench, bootstrap, make_topic):
    source, read = one_row_each(bench, bootstrap, make_topic)
    rows = iter(SmallRanges(source.spec, source.cluster, read, MOMENT))
    next(rows)
    rows.close()
    directory = directory_of(source.spec.path, MOMENT.batch)
    assert [read_aside(directory, 0, each) for each in read] == [None] * PARTITIONS


def test_what_was_put_aside_before_is_told_rather_than_counts(bench, bootstrap, make_topic):
    """A row was found to raise when all had been counted once."""
    source, read = one_row_each(bench, bootstrap, make_topic)
    rows_in(SmallRanges(source.spec, source.cluster, read, MOMENT))
    write_left_out(source.spec.path, MOMENT.batch, [LeftOut(0, read[0].topic, 0, 0, "it raises")])
    rows_in(SmallRanges(source.spec, source.cluster, read, MOMENT))
    assert path_of(directory_of(source.spec.path, MOMENT.batch), 0, read[0]).exists()
    assert [in_time for in_time, _, _ in told(source, read)] == [0, 1, 1]


@pytest.mark.parametrize("seed", range(8))
def test_both_ways_tell_the_same(bench, bootstrap, make_topic, seed):
    """Half of the seeds have nothing that stands out."""
    chosen = random.Random(seed)
    topic = make_topic(PARTITIONS)
    odd = [b"broken", None, timed(-1, -6), timed(-2, 61), b'{"n": -3}'] if seed % 2 else []
    for partition in range(PARTITIONS):
        many = [chosen.choice([timed(n), *odd]) for n in range(chosen.randrange(1, 40))]
        while many:
            sent, many = many[:7], many[7:]
            send(bootstrap, topic, sent, partition)
    at_once, by_one, _ = both_ways(bench, topic, **TIMED)
    assert at_once == by_one
