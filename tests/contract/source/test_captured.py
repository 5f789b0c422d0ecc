"""A captured topic as a stream and as a table, read without Spark: on our broker and on Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runnel import Debezium
from runnel.client import Admin, Producer
from runnel.pipeline.source import aside
from runnel.pipeline.source.moment import Moment
from runnel.pipeline.source.offsets import ranges
from runnel.pipeline.tables import keyed_rows
from runnel.pipeline.tables.changes import rows_of
from runnel.pipeline.tables.topic_table import directory_of, ranges_read
from tests.contract.source.test_tables import NOON, Customers
from tests.filling import AT_ONCE

HOLE = "__debezium_unavailable_value"
SCHEMA = Debezium("id int, name string, about string")


def value(op: str, id: int, name: str | None = None, about: str | None = None, **more: Any) -> bytes:
    row = {"id": id, "name": name, "about": about}
    return json.dumps({"before": None, "after": None if op == "d" else row, "op": op, **more}).encode()


class Captured(Customers):
    """A captured table."""

    def tell(self, op: str, id: int, name: str | None = None, about: str | None = None) -> None:
        self.send(value(op, id, name, about), key=b'{"id":%d}' % id)

    def empty(self, **about: Any) -> None:
        self.send(b'{"op":"t","before":null,"after":null}', **about)

    def counts(self, batch: int) -> tuple[int, int]:
        """Of the table in a batch: how many records were in time, and how many were rejected."""
        directory = aside.directory_of(self.spec.path, batch)
        read = ranges_read(self.spec, batch)
        found = [each for one in read if (each := aside.read_aside(directory, self.spec.number, one)) is not None]
        return sum(each.in_time for each in found), sum(each.rejected for each in found)

    def found(self, batch: int) -> dict[int, tuple[str, str]]:
        return {row["id"]: (row["name"], row["about"]) for row in self.rows(batch)}


@pytest.fixture
def captured(bootstrap: str, tmp_path: Path, make_topic: Callable[[int], str]) -> Iterator[Callable[..., Captured]]:
    made: list[Captured] = []

    def make(*, changes: bool = False, partitions: int = 1) -> Captured:
        made.append(Captured(bootstrap, tmp_path, make_topic(partitions), changes=changes, schema=SCHEMA))
        made[-1].lookout.begin()
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_table_has_what_the_database_has(captured):
    table = captured()
    table.tell("r", 1, "Anne", "long")
    table.tell("r", 2, "Bob")
    assert table.found(0) == {1: ("Anne", "long"), 2: ("Bob", None)}
    table.tell("u", 1, "Anna", "longer")
    table.tell("d", 2)
    table.send(None, key=b'{"id":2}')
    assert table.found(1) == {1: ("Anna", "longer")}
    assert table.rejected(1) == []


def test_a_value_that_an_update_did_not_change_stays_as_it_was(captured):
    table = captured()
    table.tell("r", 1, "Anne", "long")
    table.tell("u", 1, "Anna", HOLE)
    table.tell("u", 1, HOLE, HOLE)
    assert table.found(0) == {1: ("Anna", "long")}
    table.tell("u", 1, "Anni", HOLE)
    assert table.found(1) == {1: ("Anni", "long")}
    table.tell("u", 1, "Ann", "short")
    table.tell("u", 1, "A", HOLE)
    assert table.found(2) == {1: ("A", "short")}
    assert [each for batch in range(3) for each in table.rejected(batch)] == []


def test_a_value_that_nobody_knows_is_rejected_and_never_written_over_a_good_one(captured):
    table = captured()
    table.tell("r", 1, "Anne", "long")
    table.tell("d", 1)
    table.tell("u", 1, "Anna", HOLE)
    table.tell("u", 2, HOLE, HOLE)
    assert table.found(0) == {}
    assert [(offset, reason) for offset, _, reason in table.rejected(0)] == [
        (2, "field about: not told by the database, and no row was known"),
        (3, "field about, name: not told by the database, and no row was known"),
    ]


def test_the_changes_of_a_table_know_what_was_not_told(captured):
    table = captured(changes=True)
    table.tell("r", 1, "Anne", "long")
    _, end = table.changes(table.first(), 0)
    table.tell("u", 1, "Anna", HOLE)
    table.tell("u", 1, "Anna", HOLE)
    table.tell("d", 1)
    found, _ = table.changes(end, 1)
    assert [(row["_change"], row["name"], row["about"]) for row in found] == [
        ("update_before", "Anne", "long"),
        ("update_after", "Anna", "long"),
        ("delete", "Anna", "long"),
    ]


def test_messages_are_passed_over(captured):
    table = captured()
    table.tell("r", 1, "Anne", "long")
    table.send(b'{"op":"m","message":{}}', key=b"x")
    table.send(b'{"op":"m","message":{}}')
    assert table.found(0) == {1: ("Anne", "long")}
    assert table.counts(0) == (3, 0)


# --- what empties the source


def test_what_empties_the_source_empties_the_table(captured):
    table = captured()
    table.tell("r", 1, "Anne", "long")
    table.tell("r", 2, "Bob")
    assert table.found(0) == {1: ("Anne", "long"), 2: ("Bob", None)}
    table.tell("r", 3, "Cid")
    table.empty()
    table.tell("c", 2, "Bo")
    assert table.found(1) == {2: ("Bo", None)}
    assert table.counts(1) == (3, 0)
    table.empty()
    assert table.found(2) == {}
    table.empty()
    table.empty()
    table.tell("c", 1, "Anna")
    assert table.found(3) == {1: ("Anna", None)}
    assert (table.counts(2), table.counts(3)) == ((1, 0), (3, 0))


def test_a_value_of_before_is_not_known_when_the_table_was_emptied(captured):
    table = captured()
    table.tell("r", 1, "Anne", "long")
    table.found(0)
    table.tell("u", 1, "Anna", HOLE)
    table.empty()
    table.tell("u", 1, "Anni", HOLE)
    table.tell("c", 1, "Ann", "short")
    table.tell("u", 1, "A", HOLE)
    assert table.found(1) == {1: ("A", "short")}
    reason = "field about: not told by the database, and no row was known"
    assert table.rejected(1) == [(3, 4, reason)]


def test_a_table_whose_files_were_lost_is_emptied_again(captured):
    table = captured()
    table.tell("r", 1, "Anne")
    table.empty()
    table.tell("c", 2, "Bob")
    table.found(0)
    for path in directory_of(table.spec).rglob("*.arrow"):
        path.unlink()
    assert table.found(0) == {2: ("Bob", None)}
    table.tell("c", 3, "Cid")
    assert table.found(1) == {2: ("Bob", None), 3: ("Cid", None)}


def test_the_account_of_a_batch_that_emptied_the_table_can_be_made_again(captured):
    """As when a power cut has taken the file away."""
    table = captured()
    table.tell("r", 1, "Anne")
    table.tell("r", 2, "Bob")
    table.found(0)
    table.empty()
    table.send(b"broken", key=b"1")
    table.found(1)
    (read,) = ranges_read(table.spec, 1)
    directory = aside.directory_of(table.spec.path, 1)
    aside.path_of(directory, table.spec.number, read).unlink()
    for _ in rows_of(table.spec, table.cluster, read, Moment(1, NOON, 0)):
        pass
    assert table.counts(1) == (1, 1)


def test_the_changes_tell_a_delete_of_each_row_as_it_was(captured, monkeypatch):
    monkeypatch.setattr(keyed_rows, "BLOCK", 2)
    table = captured(changes=True)
    table.spec = replace(table.spec, metadata=True)
    for id in (1, 2, 3):
        table.tell("r", id, f"n{id}")
    _, middle = table.changes(table.first(), 0)
    table.tell("u", 2, "Bob")
    table.empty(timestamp=NOON, headers=[("h", b"v")])
    table.tell("c", 2, "Bo")
    found, end = table.changes(middle, 1)
    told = [(row["_change"], row["id"], row["name"], row["_offset"], row["_key"]) for row in found]
    assert told[:2] == [("update_before", 2, "n2", 3, b'{"id":2}'), ("update_after", 2, "Bob", 3, b'{"id":2}')]
    names = {1: "n1", 2: "Bob", 3: "n3"}
    deletes = [("delete", id, names[id], 4, b'{"id":%d}' % id) for id in names]
    assert sorted(told[2:5], key=itemgetter(1)) == deletes
    assert told[5:] == [("insert", 2, "Bo", 5, b'{"id":2}')]
    assert {row["_timestamp"].timestamp() for row in found[2:5]} == {NOON / 1000}
    assert [row["_headers"] for row in found[2:5]] == [[{"key": "h", "value": b"v"}]] * 3
    (read,) = ranges(middle, end)
    account = aside.read_aside(aside.directory_of(table.spec.path, 1), table.spec.number, read)
    assert (account.in_time, account.rejected) == (3, 0)
    for moment in (Moment(1, NOON, 0), None):  # a repeat, and a trial of a body that raises
        again = pa.Table.from_batches(rows_of(table.spec, table.cluster, read, moment)).to_pylist()
        assert again == found
    table.tell("c", 1, "Anna")
    assert [(row["_change"], row["id"]) for row in table.changes(end, 2)[0]] == [("insert", 1)]


def test_changes_whose_files_were_lost_know_that_the_table_was_emptied(captured):
    table = captured(changes=True)
    table.tell("r", 1, "Anne")
    table.empty()
    table.tell("c", 2, "Bob")
    _, end = table.changes(table.first(), 0)
    for path in directory_of(table.spec).rglob("*.arrow"):
        path.unlink()
    table.tell("c", 1, "Anna")
    table.tell("d", 2)
    assert [(row["_change"], row["name"]) for row in table.changes(end, 1)[0]] == [
        ("insert", "Anna"),
        ("delete", "Bob"),
    ]


@pytest.mark.parametrize("changes", [False, True])
def test_in_a_topic_of_several_partitions_it_is_rejected_with_what_to_do(captured, changes):
    table = captured(partitions=4, changes=changes)
    table.tell("r", 1, "Anne")
    table.empty()
    reason = (
        "the table was emptied, and its topic has 4 partitions: what came before in the others, no record says; "
        "use a topic with one partition, or delete the rows"
    )
    if not changes:
        assert table.found(0) == {1: ("Anne", None)}
        assert table.rejected(0) == [(1, 1, reason)]
        return
    start = table.first()
    found, end = table.changes(start, 0)
    assert [(row["_change"], row["name"]) for row in found] == [("insert", "Anne")]
    (read,) = ranges(start, end)
    account = aside.read_aside(aside.directory_of(table.spec.path, 0), table.spec.number, read)
    assert [(row["offset"], row["reason"]) for row in account.rows.to_pylist()] == [(1, reason)]


@pytest.mark.parametrize("changes", [False, True])
def test_a_batch_that_emptied_the_table_does_so_again_when_partitions_were_added(captured, admin: Admin, changes):
    table = captured(changes=changes)
    table.tell("r", 1, "Anne")
    table.empty()
    if not changes:
        assert table.found(0) == {}
        table.widen(admin, 2)
        table.lookout.look(0)
        for path in directory_of(table.spec).rglob("*.arrow"):
            path.unlink()
        assert table.found(0) == {}
        return
    start = table.first()
    found, end = table.changes(start, 0)
    table.widen(admin, 2)
    (read,) = ranges(start, end)
    again = pa.Table.from_batches(rows_of(table.spec, table.cluster, read, Moment(0, NOON, 0))).to_pylist()
    assert [row["_change"] for row in found] == ["insert", "delete"]
    assert again == found
    table.tell("r", 2, "Bob")
    table.empty()
    assert [row["_change"] for row in table.changes(end, 1)[0]] == ["insert"]


def test_a_stream_has_its_changes_and_leaves_out_what_follows_a_delete(bench, bootstrap, make_topic):
    topic = make_topic(1)
    with Producer(bootstrap, settings=AT_ONCE) as producer:
        for each in (value("c", 1, "Anne", source={"ts_ms": 1_700_000_000_000}), value("d", 1), None, b"{}"):
            producer.produce(topic, each, key=b"1")
    source = bench(topic, schema=SCHEMA)
    source.spec = replace(source.spec, metadata=True)
    start = source.planner.first()
    found, end = source.read()
    assert [(row["id"], row["_op"], row["_offset"]) for row in found] == [(1, "c", 0), (None, "d", 1)]
    aside = source.aside(start, end)
    assert [(each.in_time, each.rejected) for each in aside] == [(3, 1)]


def test_the_time_of_the_commit_can_be_the_event_time(bench, bootstrap, make_topic):
    topic = make_topic(1)
    with Producer(bootstrap, settings=AT_ONCE) as producer:
        producer.produce(topic, value("c", 1, source={"ts_ms": 1_700_000_000_000}))
        producer.produce(topic, value("c", 2, source={}))
    source = bench(topic, schema=SCHEMA, time="_source_time", late="1 minute")
    start = source.planner.first()
    found, end = source.read()
    assert [(row["id"], row["_source_time"].timestamp()) for row in found] == [(1, 1_700_000_000.0)]
    reasons = [row["reason"] for each in source.aside(start, end) for row in each.rows.to_pylist()]
    assert reasons == ["field _source_time: the event time is missing"]
