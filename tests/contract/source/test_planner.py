"""How far a batch goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runnel import Reading
from runnel.client import Admin, Producer
from runnel.client.errors import TopicReplaced, UnknownPartition
from runnel.pipeline.source import planner
from runnel.pipeline.source.followed import Followed
from tests.filling import AT_ONCE


def fill(bootstrap, topic, partition, count, *, first=0, timestamp=None):
    with Producer(bootstrap, settings=AT_ONCE) as producer:
        for number in range(first, first + count):
            stamp = {} if timestamp is None else {"timestamp": timestamp + number}
            producer.submit(topic, b'{"n": %d}' % number, partition=partition, **stamp)


def names(rows):
    return sorted(row["n"] for row in rows)


def test_everything_that_is_there_is_one_batch(bench, bootstrap, make_topic):
    topic = make_topic(2)
    fill(bootstrap, topic, 0, 5)
    fill(bootstrap, topic, 1, 5, first=5)
    rows, end = bench(topic).read()
    assert names(rows) == list(range(10))
    assert end.to_json()["topics"][topic]["next"] == {"0": 5, "1": 5}


def test_the_next_batch_goes_on_where_the_last_one_ended(bench, bootstrap, make_topic):
    topic = make_topic(1)
    fill(bootstrap, topic, 0, 3)
    source = bench(topic)
    _, end = source.read()
    fill(bootstrap, topic, 0, 2, first=3)
    rows, _ = source.read(start=end)
    assert names(rows) == [3, 4]


def test_offsets_come_back_from_json_as_they_are(bench, bootstrap, make_topic):
    topic = make_topic(2)
    fill(bootstrap, topic, 1, 3)
    _, end = bench(topic).read()
    assert type(end).from_json(end.to_json()) == end


def test_a_start_at_the_latest_record_stays_the_same_when_the_first_batch_is_repeated(bench, bootstrap, make_topic):
    topic = make_topic(1)
    fill(bootstrap, topic, 0, 3)
    source = bench(topic, read=Reading(start="latest"))
    first = source.planner.first()
    fill(bootstrap, topic, 0, 2, first=3)
    assert source.new_planner().first() == first
    rows, _ = source.read()
    assert names(rows) == [3, 4]


def test_a_start_at_a_time(bench, bootstrap, make_topic):
    topic = make_topic(1)
    fill(bootstrap, topic, 0, 10, timestamp=1_700_000_000_000)
    rows, _ = bench(topic, read=Reading(start="2023-11-14T22:13:20.004Z")).read()
    assert names(rows) == [4, 5, 6, 7, 8, 9]


def test_a_start_at_offsets(bench, bootstrap, make_topic):
    topic = make_topic(2)
    fill(bootstrap, topic, 0, 5)
    fill(bootstrap, topic, 1, 5, first=5)
    rows, _ = bench(topic, read=Reading(start={0: 4})).read()
    assert names(rows) == [4, 5, 6, 7, 8, 9]


def test_a_start_at_offsets_of_partitions_that_are_not_there(bench, bootstrap, make_topic):
    topic = make_topic(2)
    fill(bootstrap, topic, 0, 3)
    with pytest.raises(UnknownPartition, match="has no partition 2") as refused:
        bench(topic, read=Reading(start={0: 1, 2: 0})).read()
    assert refused.value.hint == "its partitions are 0 to 1"
    assert names(bench(topic, read=Reading(start={0: 1, 2: 0}, topics=topic)).read()[0]) == [1, 2]


def test_a_batch_has_no_more_rows_than_declared_and_the_partitions_stay_side_by_side(bench, bootstrap, make_topic):
    topic = make_topic(2)
    fill(bootstrap, topic, 0, 100, timestamp=1_700_000_000_000)
    fill(bootstrap, topic, 1, 100, timestamp=1_700_000_000_000)
    source = bench(topic, read=Reading(rows=50))
    start, seen = source.planner.first(), []
    while True:
        rows, end = source.read(start=start)
        if not rows:
            break
        assert len(rows) <= 50
        at = end.to_json()["topics"][topic]["next"]
        assert abs(at["0"] - at["1"]) <= 1
        seen += names(rows)
        start = end
    assert sorted(seen) == sorted([*range(100), *range(100)])


def test_a_batch_has_no_more_bytes_than_declared(bench, bootstrap, make_topic):
    topic = make_topic(1)
    with Producer(bootstrap, settings=AT_ONCE) as producer:
        for number in range(20_000):
            producer.submit(topic, b'{"n": %d, "more": "%s"}' % (number, b"x" * 200), partition=0)
    rows, _ = bench(topic, read=Reading(bytes=1_000_000)).read()
    assert 0 < len(rows) <= 6_000


def test_the_bytes_of_a_batch_are_those_of_its_records_unpacked(bench, bootstrap, make_topic):
    topic = make_topic(1)
    with Producer(bootstrap, settings={"compression.type": "zstd", **AT_ONCE}) as producer:
        for number in range(20_000):
            producer.submit(topic, b'{"n": %d, "more": "%s"}' % (number, b"x" * 200), partition=0)
    rows, _ = bench(topic, read=Reading(bytes=1_000_000)).read()
    assert 0 < len(rows) <= 6_000


def test_batches_grow_while_they_are_quick_and_shrink_when_they_are_slow(bench, bootstrap, make_topic, monkeypatch):
    monkeypatch.setattr(planner, "SMALL", 5)
    monkeypatch.setattr(planner, "AT_FIRST", 20)
    topic = make_topic(1)
    fill(bootstrap, topic, 0, 400, timestamp=1_000)
    source = bench(topic, read=Reading(rows=60))
    start, sizes = source.planner.first(), []
    for seconds in (1, 1, 1, 10, 61, 61, 61, 61, 1):
        rows, start = source.read(start=start)
        sizes.append(len(rows))
        source.clock.seconds += seconds
    limits = [20, 40, 60, 60, 60, 30, 15, 7, 5]
    assert all(limit / 2 < size <= limit for size, limit in zip(sizes, limits, strict=True)), sizes


def test_a_new_partition_is_found_and_read_from_its_beginning(bench, bootstrap, make_topic):
    topic = make_topic(1)
    fill(bootstrap, topic, 0, 2)
    source = bench(topic)
    _, end = source.read()
    with Admin(bootstrap) as admin:
        admin.add_partitions(topic, 2)
    fill(bootstrap, topic, 1, 3, first=2)
    assert source.read(start=end)[0] == []
    source.clock.seconds += 11
    assert names(source.read(start=end)[0]) == [2, 3, 4]


def test_a_pattern_finds_topics_while_it_runs(bench, bootstrap, make_topic):
    first = make_topic(1)
    fill(bootstrap, first, 0, 1)
    source = bench(first, read=Reading(topics=f"{first}.*"))
    rows, end = source.read()
    with Admin(bootstrap) as admin:
        admin.create(f"{first}-more", partitions=1)
    fill(bootstrap, f"{first}-more", 0, 2, first=10)
    source.clock.seconds += 11
    assert names(rows) == [0]
    assert names(source.read(start=end)[0]) == [10, 11]


def test_a_pattern_goes_on_when_one_of_its_topics_is_deleted(bench, bootstrap, make_topic):
    first = make_topic(1)
    more = f"{first}-more"
    with Admin(bootstrap) as admin:
        admin.create(more, partitions=1)
        fill(bootstrap, more, 0, 2, first=10)
        source = bench(first, read=Reading(topics=f"{first}.*"))
        rows, end = source.read()
        admin.delete(more)
    fill(bootstrap, first, 0, 1)
    assert names(rows) == [10, 11]
    source.planner.check_gone(end)
    assert (first, 0) in source.planner.latest().next
    assert names(source.read(start=end)[0]) == [0]


@pytest.mark.parametrize(("records", "seconds"), [(9, 11), (0, 0), (2, 0)])
def test_a_topic_that_was_made_again_is_noticed(bench, bootstrap, make_topic, records, seconds):
    """When it is looked at again; or at once, where it ends earlier: it has not lost its end."""
    topic = make_topic(1)
    fill(bootstrap, topic, 0, 3)
    source = bench(topic)
    _, end = source.read()
    with Admin(bootstrap) as admin:
        admin.delete(topic)
        admin.create(topic, partitions=1)
    fill(bootstrap, topic, 0, records)
    source.clock.seconds += seconds
    with pytest.raises(TopicReplaced, match="was deleted and created again"):
        source.planner.next(end)


def test_a_run_until_it_has_caught_up_takes_nothing_that_comes_later(bench, bootstrap, make_topic):
    topic = make_topic(1)
    fill(bootstrap, topic, 0, 3)
    source = bench(topic)
    source.planner.stop_at_latest()
    fill(bootstrap, topic, 0, 3, first=3)
    assert names(source.read()[0]) == [0, 1, 2]


def test_a_source_that_follows_another_reads_no_further_than_that_has_and_does_not_beat(
    bench, bootstrap, make_topic, tmp_path
):
    topic = make_topic(2)
    fill(bootstrap, topic, 0, 5)
    fill(bootstrap, topic, 1, 5, first=5)
    followed = tmp_path / "followed.json"
    followed.write_text(Followed({topic: {"0": 2}}).to_text())
    source = bench(topic, schema="n int, at timestamp", time="_timestamp", late="1 second", idle="10 seconds")
    source.spec = replace(source.spec, follow=str(followed))
    source.planner = source.new_planner()
    rows, end = source.read()
    assert names(rows) == [0, 1]
    source.clock.seconds += 60
    assert source.planner.next(end) == end
    followed.write_text(Followed({topic: {"0": 5, "1": 3}}).to_text())
    rows, end = source.read(start=end)
    assert names(rows) == [2, 3, 4, 5, 6, 7]
    followed.write_text(Followed({"another": {}}).to_text())
    assert names(source.read(start=end)[0]) == [8, 9]


def test_a_topic_that_the_followed_one_has_not_found_yet_waits_for_it(bench, bootstrap, make_topic, tmp_path):
    topic, other = make_topic(1), make_topic(1)
    fill(bootstrap, topic, 0, 3)
    fill(bootstrap, other, 0, 3, first=10)
    followed, pattern = tmp_path / "followed.json", f"{topic}|{other}"
    followed.write_text(Followed({topic: {"0": 2}}, (pattern,)).to_text())
    source = bench(topic, read=Reading(topics=pattern))
    source.spec = replace(source.spec, follow=str(followed))
    source.planner = source.new_planner()
    rows, end = source.read()
    assert names(rows) == [0, 1]
    followed.write_text(Followed({topic: {"0": 2}, other: {"0": 1}}, (pattern,)).to_text())
    rows, end = source.read(start=end)
    assert names(rows) == [10]
    followed.write_text(Followed({topic: {"0": 2}}, (topic,)).to_text())
    assert names(source.read(start=end)[0]) == [11, 12]  # it does not read it at all


def test_a_source_that_follows_another_does_not_begin_beyond_it(bench, bootstrap, make_topic, tmp_path):
    topic = make_topic(1)
    fill(bootstrap, topic, 0, 5)
    followed = tmp_path / "followed.json"
    followed.write_text(Followed({topic: {"0": 2}}).to_text())
    source = bench(topic, read=Reading(start="latest"))
    source.spec = replace(source.spec, follow=str(followed))
    source.planner = source.new_planner()
    assert source.planner.first().next == {(topic, 0): 2}
    with Admin(bootstrap) as admin:
        admin.delete_records(topic, {0: 3})
    source = bench(topic)
    source.spec = replace(source.spec, follow=str(followed))
    source.planner = source.new_planner()
    assert source.planner.first().next == {(topic, 0): 3}  # what was before it is gone


def test_an_idle_source_beats_with_the_time_that_passed(bench, bootstrap, make_topic):
    topic = make_topic(1)
    source = bench(topic, schema="n int, at timestamp", time="at", late="1 second", idle="10 seconds")
    start = source.planner.first()
    assert source.planner.next(start) == start
    source.clock.seconds += 9
    assert source.planner.next(start).idle == 0
    source.clock.seconds += 3
    beaten = source.planner.next(start)
    assert beaten.idle == 12_000
    source.clock.seconds += 9
    assert source.planner.next(beaten).idle == 12_000
    source.clock.seconds += 1
    assert source.planner.next(beaten).idle == 22_000


def test_a_record_ends_the_idle_time(bench, bootstrap, make_topic):
    topic = make_topic(1)
    source = bench(topic, schema="n int, at timestamp", time="at", late="1 second", idle="10 seconds")
    start = source.planner.first()
    source.clock.seconds += 9
    fill(bootstrap, topic, 0, 1)
    end = source.planner.next(start)
    source.clock.seconds += 5
    assert source.planner.next(end).idle == 0
