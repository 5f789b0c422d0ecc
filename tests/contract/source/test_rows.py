"""What becomes of each record: a row, a late one, a rejected one; never two of them and never none."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from runnel import Raw, Text
from runnel.client import Producer
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import ranges
from runnel.pipeline.source.rows import Rows, beat
from tests.filling import AT_ONCE

NOON = 1_700_000_000_000
FARTHEST = 2**63 - 1
AT = datetime.fromtimestamp(NOON / 1000, UTC)
TIMED = {"schema": "n int, at timestamp", "time": "at", "late": "10 seconds", "ahead": "1 minute", "idle": None}


def send(bootstrap, topic, *values, partition=0, **about):
    with Producer(bootstrap, settings=AT_ONCE) as producer:
        for value in values:
            producer.produce(topic, value, partition=partition, **about)


def timed(n, seconds):
    at = datetime.fromtimestamp(NOON / 1000 + seconds, UTC).isoformat()
    return f'{{"n": {n}, "at": "{at}"}}'.encode()


def test_values_become_typed_columns(bench, bootstrap, make_topic):
    topic = make_topic(1)
    send(bootstrap, topic, b'{"page": "a", "price": 1.25, "tags": ["x"]}', b'{"price": 2}')
    rows, _ = bench(topic, schema="page string, price decimal(10,2), tags array<string>").read()
    assert [(row["page"], str(row["price"]), row["tags"]) for row in rows] == [
        ("a", "1.25", ["x"]),
        (None, "2.00", None),
    ]


def test_text_and_bytes(bench, bootstrap, make_topic):
    topic = make_topic(1)
    send(bootstrap, topic, b"ab", b"\xff")
    assert bench(topic, schema=Raw()).read()[0] == [{"value": b"ab"}, {"value": b"\xff"}]
    assert bench(topic, schema=Text()).read()[0] == [{"value": "ab"}]


def test_columns_that_the_body_does_not_use_are_null(bench, bootstrap, make_topic):
    topic = make_topic(1)
    send(bootstrap, topic, b'{"a": 1, "b": 2}')
    source = bench(topic, schema="a int, b int")
    source.using("b")
    assert source.read()[0] == [{"a": None, "b": 2}]


def test_metadata_of_the_records(bench, bootstrap, make_topic):
    topic = make_topic(2)
    send(bootstrap, topic, b'{"n": 1}', partition=1, key=b"k", timestamp=NOON, headers=[("h", b"v"), ("empty", None)])
    source = bench(topic)
    source.with_metadata()
    assert source.read()[0] == [
        {
            "n": 1,
            "_topic": topic,
            "_partition": 1,
            "_offset": 0,
            "_timestamp": AT,
            "_key": b"k",
            "_headers": [{"key": "h", "value": b"v"}, {"key": "empty", "value": None}],
        }
    ]


def test_columns_of_values_that_are_called_as_metadata_stay_what_they_are(bench, bootstrap, make_topic):
    topic = make_topic(1)
    value = {"_topic": "t", "_partition": 9, "_offset": 77, "_timestamp": "noon", "_key": "k", "_headers": 3}
    schema = "_topic string, _partition long, _offset long, _timestamp string, _key string, _headers int"
    send(bootstrap, topic, json.dumps(value).encode(), key=b"own", headers=[("h", b"v")])
    source = bench(topic, schema=schema)
    assert source.read()[0] == [value]
    source.using("_key")
    assert source.read()[0] == [dict.fromkeys(value) | {"_key": "k"}]


def test_the_record_s_own_time_is_the_event_time_whatever_its_value_says(bench, bootstrap, make_topic):
    topic = make_topic(1)
    send(bootstrap, topic, b'{"_timestamp": "noon", "n": 1}', timestamp=NOON)
    about = {"schema": "_timestamp string, n int", "time": "_timestamp", "late": "10 seconds"}
    assert bench(topic, **about).read()[0] == [{"_timestamp": AT, "n": 1, "_runnel_beat": False}]


@pytest.mark.parametrize("about", [{}, {"time": "_timestamp", "late": "10 seconds"}], ids=["metadata", "event time"])
def test_a_record_whose_time_no_timestamp_can_have_is_rejected(bench, bootstrap, make_topic, about):
    topic = make_topic(1, message_timestamp_after_max_ms=str(FARTHEST))
    send(bootstrap, topic, b'{"n": 1}', timestamp=NOON)
    send(bootstrap, topic, b'{"n": 2}', b"broken", timestamp=FARTHEST)
    source = bench(topic, **about)
    source.with_metadata()
    rows, end = source.read()
    assert [(row["n"], row["_timestamp"]) for row in rows] == [(1, AT)]
    (aside,) = source.aside(source.planner.first(), end)
    reasons = dict(zip(aside.rows["offset"].to_pylist(), aside.rows["reason"].to_pylist(), strict=True))
    assert reasons[1] == f"field _timestamp: {FARTHEST} milliseconds are more than a timestamp can have"
    assert (reasons.keys(), aside.in_time) == ({1, 2}, 1)


def test_every_record_is_counted_once(bench, bootstrap, make_topic):
    topic = make_topic(1)
    moment = Moment(7, NOON, NOON - 5_000)
    send(
        bootstrap,
        topic,
        timed(1, 0),
        b"broken",
        timed(2, -6),
        timed(3, -5),
        None,
        timed(4, 61),
        timed(5, 60),
        b'{"n": 6}',
        timed(7, 3),
    )
    source = bench(topic, **TIMED)
    start = source.planner.first()
    rows, end = source.read(moment)
    assert [row["n"] for row in rows] == [1, 3, 5, 7]
    (found,) = source.aside(start, end, moment)
    assert (found.in_time, found.late, found.rejected) == (4, 1, 4)
    told = [(row["kind"], row["offset"], row["reason"]) for row in found.rows.to_pylist()]
    assert [(kind, offset) for kind, offset, _ in told] == [
        ("rejected", 1),
        ("late", 2),
        ("rejected", 4),
        ("rejected", 5),
        ("rejected", 7),
    ]
    assert told[1][2] == str(NOON - 5_000)
    assert told[2][2] == "no value"
    assert told[3][2] == "field at: 2023-11-14 22:14:21.000000Z is too far ahead of the clock"
    assert told[4][2] == "field at: the event time is missing"


def test_what_is_put_aside_is_as_it_came(bench, bootstrap, make_topic):
    topic = make_topic(1)
    send(bootstrap, topic, b"broken", key=b"k", timestamp=NOON, headers=[("h", b"v")])
    source = bench(topic)
    start = source.planner.first()
    _, end = source.read()
    (found,) = source.aside(start, end)
    (row,) = found.rows.to_pylist()
    assert (row["key"], row["value"], row["timestamp"]) == (b"k", b"broken", NOON)
    assert (row["topic"], row["partition"], row["offset"]) == (topic, 0, 0)
    assert row["headers"] == [{"key": "h", "value": b"v"}]


def test_a_repeat_writes_the_same_file(bench, bootstrap, make_topic):
    topic = make_topic(1)
    send(bootstrap, topic, b"broken", b'{"n": 1}')
    source = bench(topic)
    start = source.planner.first()
    source.read()
    _, end = source.read()
    path = next(source.spec.path.glob("aside/3/*"))
    before = path.read_bytes()
    source.read()
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert len(source.aside(start, end)) == 1


def test_a_task_that_is_ended_early_leaves_no_file(bench, bootstrap, make_topic):
    topic = make_topic(1)
    send(bootstrap, topic, b'{"n": 1}')
    source = bench(topic)
    start = source.planner.first()
    end = source.planner.next(start)
    (read,) = ranges(start, end)
    rows = iter(Rows(source.spec, source.cluster, read, Moment(3, NOON, 0)))
    next(rows)
    rows.close()
    assert source.aside(start, end) == []


def test_the_record_s_own_time_as_event_time(bench, bootstrap, make_topic):
    topic = make_topic(1)
    for seconds in (0, -6):
        send(bootstrap, topic, b"line", timestamp=NOON + seconds * 1000)
    source = bench(topic, schema=Text(), time="_timestamp", late="10 seconds", idle=None)
    rows, _ = source.read(Moment(3, NOON, NOON - 5_000))
    assert [(row["value"], row["_timestamp"]) for row in rows] == [("line", AT)]


@pytest.mark.parametrize(("watermark", "at"), [(0, None), (NOON, NOON + 10_000 + 60_000)])
def test_a_beat_is_the_watermark_and_what_passed(bench, make_topic, watermark, at):
    source = bench(make_topic(1), **TIMED)
    row = beat(source.spec, Moment(3, NOON, watermark), 60_000)
    if at is None:
        assert row is None
    else:
        expected = {"n": None, "at": datetime.fromtimestamp(at / 1000, UTC), "_runnel_beat": True}
        assert row.to_pylist() == [expected]
