"""A table's latest rows and its changes, read without Spark: on our broker and on Apache Kafka."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runnel import App, Reading
from runnel.client import Admin, Producer
from runnel.client.cluster import Cluster
from runnel.client.errors import TopicReplaced
from runnel.pipeline.source import aside
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import Offsets, ranges
from runnel.pipeline.source.planner import Planner
from runnel.pipeline.source.spec import Spec
from runnel.pipeline.tables import versions
from runnel.pipeline.tables.changes import rows_of
from runnel.pipeline.tables.partitions import LOOK_EVERY, Lookout
from runnel.pipeline.tables.topic_table import TopicTable, directory_of, ranges_read
from tests.filling import AT_ONCE

NOON = 1_700_000_000_000


class Customers:
    """A table, and a query that reads it batch by batch."""

    def __init__(self, bootstrap: str, directory: Path, topic: str, *, changes: bool, **declared: Any) -> None:
        schema = declared.pop("schema", "id int, name string")
        table = App("bench").table(topic, key="id", schema=schema, **declared)
        self.spec = Spec(
            query="bench",
            number=2,
            bootstrap=bootstrap,
            topic=topic,
            columns=table.columns,
            reading=table.reading,
            directory=str(directory),
            key=table.key,
            changes=changes,
        )
        self.topic = topic
        self.cluster = Cluster(bootstrap)
        self._producer = Producer(bootstrap, settings=AT_ONCE)
        self.seconds = 0.0
        self.lookout = Lookout(directory_of(self.spec), topic, self.cluster, clock=lambda: self.seconds)

    def close(self) -> None:
        self._producer.close()
        self.cluster.close()

    def widen(self, admin: Admin, count: int) -> None:
        """Who writes learns of new partitions when he pleases: this one at once."""
        admin.add_partitions(self.topic, count)
        self._producer.close()
        self._producer = Producer(self.spec.bootstrap, settings=AT_ONCE)

    # --- writing

    def put(self, id: int, name: str, *, partition: int = 0, **about: Any) -> None:
        self.send(b'{"id": %d, "name": "%s"}' % (id, name.encode()), key=b"%d" % id, partition=partition, **about)

    def delete(self, id: int, partition: int = 0) -> None:
        self.send(None, key=b"%d" % id, partition=partition)

    def send(self, value: bytes | None, *, partition: int = 0, **about: Any) -> None:
        self._producer.produce(self.topic, value, partition=partition, **about)

    # --- the latest rows

    def rows(self, batch: int, tasks: int = 1) -> list[dict[str, Any]]:
        """What the tasks of a batch see."""
        table = TopicTable(self.spec)
        found = [each for task in range(tasks) for each in table.rows(batch, task, tasks)]
        return pa.Table.from_batches(found).to_pylist() if found else []

    def names(self, batch: int, tasks: int = 1) -> dict[int, str]:
        found = self.rows(batch, tasks)
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: row["name"] for row in found}

    def rejected(self, batch: int) -> list[tuple[int, int, str]]:
        """Offset, how many went on, and why this one did not."""
        directory = aside.directory_of(self.spec.path, batch)
        found = [aside.read_aside(directory, self.spec.number, read) for read in ranges_read(self.spec, batch)]
        return [
            (row["offset"], each.in_time, row["reason"])
            for each in found
            if each is not None
            for row in each.rows.to_pylist()
        ]

    # --- the changes

    def first(self) -> Offsets:
        return Planner(self.spec, self.cluster).first()

    def changes(self, start: Offsets, batch: int) -> tuple[list[dict[str, Any]], Offsets]:
        """Of the next batch, and where it ends."""
        end = Planner(self.spec, self.cluster).next(start)
        moment = Moment(batch, NOON, 0)
        found = [each for read in ranges(start, end) for each in rows_of(self.spec, self.cluster, read, moment)]
        return (pa.Table.from_batches(found).to_pylist() if found else []), end


def told(rows):
    return [(row["_change"], row["id"], row["name"]) for row in rows]


@pytest.fixture
def customers(bootstrap: str, tmp_path: Path, make_topic: Callable[[int], str]) -> Iterator[Callable[..., Customers]]:
    made: list[Customers] = []

    def make(*, partitions: int = 1, changes: bool = False, **declared: Any) -> Customers:
        made.append(Customers(bootstrap, tmp_path, make_topic(partitions), changes=changes, **declared))
        made[-1].lookout.begin()
        return made[-1]

    yield make
    for each in made:
        each.close()


# --- the latest rows


def test_a_batch_sees_the_latest_row_of_each_key(customers):
    table = customers(partitions=2)
    table.put(1, "Ann")
    table.put(2, "Bob", partition=1)
    table.put(1, "Anna")
    table.put(3, "Cid")
    table.delete(3)
    assert table.names(0, tasks=2) == {1: "Anna", 2: "Bob"}


def test_the_next_batch_sees_what_has_changed(customers):
    table = customers()
    table.put(1, "Ann")
    table.put(2, "Bob")
    assert table.names(0) == {1: "Ann", 2: "Bob"}
    table.put(1, "Anna")
    table.delete(2)
    assert table.names(1) == {1: "Anna"}
    assert table.names(2) == {1: "Anna"}


def test_a_batch_that_is_repeated_sees_what_it_saw(customers):
    table = customers()
    table.put(1, "Ann")
    table.names(0)
    table.put(1, "Anna")
    before = table.rows(4)
    table.put(1, "Annabel")
    table.put(2, "Bob")
    assert table.rows(4) == before
    assert table.names(5) == {1: "Annabel", 2: "Bob"}


def test_an_empty_table_is_one(customers):
    table = customers()
    assert table.rows(0) == []
    table.put(1, "Ann")
    assert table.rows(0) == []
    assert table.names(1) == {1: "Ann"}


def test_columns_that_the_body_does_not_use_are_null_and_kept_for_another_body(customers):
    table = customers()
    table.put(1, "Ann")
    whole = table.spec
    table.spec = whole.using(frozenset({"id"}))
    assert table.rows(0) == [{"id": 1, "name": None}]
    table.spec = whole
    assert table.rows(0) == [{"id": 1, "name": "Ann"}]


def test_a_record_whose_time_no_timestamp_can_have_is_rejected(customers, admin):
    table = customers(partitions=1)
    table.spec = replace(table.spec, metadata=True)
    admin.alter(table.spec.topic, configs={"message.timestamp.after.max.ms": str(2**63 - 1)})
    table.put(7, "Old", timestamp=NOON)
    table.put(7, "New", timestamp=2**63 - 1)
    assert [row["name"] for row in table.rows(0)] == ["Old"]


def test_metadata_is_that_of_the_row_s_own_record(customers):
    table = customers(partitions=2)
    table.spec = replace(table.spec, metadata=True)
    table.put(7, "Old", partition=1)
    table.put(7, "New", partition=1, timestamp=NOON, headers=[("h", b"v")])
    assert table.rows(0, tasks=2) == [
        {
            "id": 7,
            "name": "New",
            "_topic": table.topic,
            "_partition": 1,
            "_offset": 1,
            "_timestamp": datetime.fromtimestamp(NOON / 1000, UTC),
            "_key": b"7",
            "_headers": [{"key": "h", "value": b"v"}],
        }
    ]


def test_what_does_not_fit_is_told_once_and_leaves_the_row_as_it_was(customers):
    table = customers()
    table.put(1, "Ann")
    table.send(b"broken", key=b"1")
    table.send(b'{"id": 2, "name": "Bob"}')
    table.send(None)
    table.send(b'{"name": "nobody"}', key=b"3")
    assert table.names(0) == {1: "Ann"}
    assert table.rejected(0) == [
        (1, 1, "not JSON: expecting value at character 1"),
        (2, 1, "no key"),
        (3, 1, "no key"),
        (4, 1, "field id: the key is missing"),
    ]
    table.put(5, "Eve")
    assert table.names(1) == {1: "Ann", 5: "Eve"}
    assert table.rejected(1) == []
    assert table.rejected(0) != []  # until the batch's own step forgets it


def test_two_who_look_at_once_see_the_same(customers, monkeypatch):
    """Somebody else has made the batch's version while this one was reading."""
    table = customers()
    table.put(1, "Ann")
    claim = versions.Versions.claim
    other: list[dict[int, str]] = []

    def too_late(self, batch, span):
        monkeypatch.setattr(versions.Versions, "claim", claim)
        table.put(1, "Anna")
        other.append(table.names(batch))
        return claim(self, batch, span)

    monkeypatch.setattr(versions.Versions, "claim", too_late)
    assert table.names(0) == {1: "Anna"}
    assert other == [{1: "Anna"}]


def test_files_that_were_lost_are_made_again(customers):
    table = customers()
    table.put(1, "Ann")
    table.put(2, "Bob")
    table.names(0)
    for path in directory_of(table.spec).rglob("*.arrow"):
        path.unlink()
    assert table.names(0) == {1: "Ann", 2: "Bob"}
    table.put(3, "Cid")
    assert table.names(1) == {1: "Ann", 2: "Bob", 3: "Cid"}
    assert [(read.start, read.end) for read in ranges_read(table.spec, 1)] == [(2, 3)]


def test_a_column_that_is_declared_later_is_read_from_the_records(customers, bootstrap, tmp_path):
    table = customers(schema="id int")
    table.send(b'{"id": 1, "name": "Ann"}', key=b"1")
    assert table.rows(0) == [{"id": 1}]
    later = Customers(bootstrap, tmp_path, table.topic, changes=False)
    assert later.names(1) == {1: "Ann"}
    later.close()


def test_only_what_two_batches_need_stays_on_the_disk(customers):
    table = customers()
    for batch in range(5):
        table.put(batch, "x")
        table.names(batch)
    names = sorted(path.name for path in directory_of(table.spec).rglob("*.*") if path.is_file())
    assert names == ["3.batch.json", "4.batch.json", "4.delta.arrow", "5.delta.arrow", "partitions.json"]


def test_a_new_partition_counts_from_the_batch_after_it_was_found(customers, admin: Admin):
    table = customers()
    table.put(1, "Ann")
    assert table.names(0) == {1: "Ann"}
    table.widen(admin, 2)
    table.put(2, "Bob", partition=1)
    assert table.names(1) == {1: "Ann"}
    table.lookout.look(1)
    assert table.names(1) == {1: "Ann"}
    assert table.names(2) == {1: "Ann", 2: "Bob"}
    table.lookout.look(2)
    assert table.names(3) == {1: "Ann", 2: "Bob"}


def test_a_look_is_taken_now_and_then(customers, admin: Admin):
    table = customers()
    table.lookout.look(0)
    table.widen(admin, 2)
    table.put(2, "Bob", partition=1)
    table.lookout.look(1)
    assert table.names(2) == {}
    table.seconds += LOOK_EVERY
    table.lookout.look(2)
    assert table.names(3) == {2: "Bob"}


def test_a_topic_that_was_made_anew_is_told(customers, admin: Admin):
    table = customers()
    admin.delete(table.topic)
    admin.create(table.topic, partitions=1)
    with pytest.raises(TopicReplaced):
        table.lookout.look(0)
    with pytest.raises(TopicReplaced):
        table.lookout.begin()


# --- the changes


def test_every_change_is_a_row(customers):
    table = customers(changes=True)
    table.put(1, "Ann")
    table.put(2, "Bob")
    rows, end = table.changes(table.first(), 0)
    assert told(rows) == [("insert", 1, "Ann"), ("insert", 2, "Bob")]
    table.put(1, "Anna")
    table.put(1, "Anna")
    table.delete(2)
    table.delete(9)
    table.put(2, "Bobby")
    rows, end = table.changes(end, 1)
    assert told(rows) == [
        ("update_before", 1, "Ann"),
        ("update_after", 1, "Anna"),
        ("delete", 2, "Bob"),
        ("insert", 2, "Bobby"),
    ]
    assert table.changes(end, 2) == ([], end)


def test_every_record_of_the_changes_is_counted_once(customers):
    table = customers(changes=True)
    table.put(1, "Ann")
    table.put(1, "Ann")
    table.delete(9)
    table.send(b"broken", key=b"1")
    table.put(1, "Anna")
    start = table.first()
    rows, end = table.changes(start, 3)
    assert [row["_change"] for row in rows] == ["insert", "update_before", "update_after"]
    (read,) = ranges(start, end)
    found = aside.read_aside(aside.directory_of(table.spec.path, 3), table.spec.number, read)
    assert (found.in_time, found.late, found.rejected) == (4, 0, 1)


def test_a_repeat_tells_the_same_changes(customers):
    table = customers(changes=True)
    table.put(1, "Ann")
    _, middle = table.changes(table.first(), 0)
    table.put(1, "Anna")
    rows, end = table.changes(middle, 1)
    table.put(1, "Annabel")
    moment = Moment(1, NOON, 0)
    (read,) = ranges(middle, end)
    again = pa.Table.from_batches(rows_of(table.spec, table.cluster, read, moment)).to_pylist()
    assert again == rows
    assert told(table.changes(end, 2)[0]) == [("update_before", 1, "Anna"), ("update_after", 1, "Annabel")]


def test_changes_whose_files_were_lost_are_made_of_the_records(customers):
    table = customers(changes=True)
    table.put(1, "Ann")
    _, end = table.changes(table.first(), 0)
    for path in directory_of(table.spec).rglob("*.arrow"):
        path.unlink()
    table.put(1, "Anna")
    assert told(table.changes(end, 1)[0]) == [("update_before", 1, "Ann"), ("update_after", 1, "Anna")]


def test_metadata_of_a_change_is_that_of_the_record_that_made_it(customers):
    table = customers(changes=True)
    table.spec = replace(table.spec, metadata=True)
    table.put(1, "Ann")
    table.put(1, "Anna", timestamp=NOON, headers=[("h", b"v")])
    table.delete(1)
    rows, _ = table.changes(table.first(), 0)
    assert [(row["_change"], row["name"], row["_offset"], row["_key"]) for row in rows] == [
        ("insert", "Ann", 0, b"1"),
        ("update_before", "Ann", 1, b"1"),
        ("update_after", "Anna", 1, b"1"),
        ("delete", "Anna", 2, b"1"),
    ]
    assert rows[1]["_timestamp"] == datetime.fromtimestamp(NOON / 1000, UTC)
    assert rows[1]["_headers"] == [{"key": "h", "value": b"v"}]
    assert (rows[1]["_topic"], rows[1]["_partition"]) == (table.topic, 0)


def test_changes_of_columns_that_the_body_does_not_use(customers):
    table = customers(changes=True)
    table.spec = table.spec.using(frozenset({"id"}))
    table.put(1, "Ann")
    table.put(1, "Anna")
    rows, _ = table.changes(table.first(), 0)
    assert told(rows) == [("insert", 1, None), ("update_before", 1, None), ("update_after", 1, None)]


def test_changes_of_many_batches_and_partitions_end_in_the_table(customers, seed):
    """Applied one after the other, they make what the latest rows are."""
    chance = random.Random(seed)
    table = customers(partitions=2, changes=True, read=Reading(rows=7))
    expected: dict[int, str] = {}
    with Producer(table.spec.bootstrap, settings=AT_ONCE) as producer:
        for number in range(200):
            id = chance.randrange(20)
            value = None if chance.random() < 0.3 else b'{"id": %d, "name": "%d"}' % (id, number % 5)
            producer.submit(table.topic, value, key=b"%d" % id, partition=id % 2)
            expected.pop(id, None)
            if value is not None:
                expected[id] = str(number % 5)
    kept: dict[int, str] = {}
    end, batch = table.first(), 0
    while True:
        start = end
        rows, end = table.changes(start, batch)
        if end == start:
            break
        batch += 1
        for row in rows:
            if row["_change"] in ("update_before", "delete"):
                assert kept.pop(row["id"]) == row["name"]
            else:
                assert row["id"] not in kept
                kept[row["id"]] = row["name"]
    assert batch > 20
    assert kept == expected
