"""A captured topic as a stream and as a table, read without Spark: on our broker and on Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runnel import Debezium
from runnel.client import Producer
from tests.contract.source.test_tables import Customers

HOLE = "__debezium_unavailable_value"
SCHEMA = Debezium("id int, name string, about string")


def value(op: str, id: int, name: str | None = None, about: str | None = None, **more: Any) -> bytes:
    row = {"id": id, "name": name, "about": about}
    return json.dumps({"before": None, "after": None if op == "d" else row, "op": op, **more}).encode()


class Captured(Customers):
    """A captured table."""

    def tell(self, op: str, id: int, name: str | None = None, about: str | None = None) -> None:
        self.send(value(op, id, name, about), key=b'{"id":%d}' % id)

    def found(self, batch: int) -> dict[int, tuple[str, str]]:
        return {row["id"]: (row["name"], row["about"]) for row in self.rows(batch)}


@pytest.fixture
def captured(bootstrap: str, tmp_path: Path, make_topic: Callable[[int], str]) -> Iterator[Callable[..., Captured]]:
    made: list[Captured] = []

    def make(*, changes: bool = False) -> Captured:
        made.append(Captured(bootstrap, tmp_path, make_topic(1), changes=changes, schema=SCHEMA))
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


def test_a_truncate_is_rejected_and_messages_are_passed_over(captured):
    table = captured()
    table.tell("r", 1, "Anne", "long")
    table.send(b'{"op":"t","before":null,"after":null}')
    table.send(b'{"op":"m","message":{}}', key=b"x")
    table.send(b'{"op":"m","message":{}}')
    assert table.found(0) == {1: ("Anne", "long")}
    reason = "the table was emptied, and which keys that takes away no record says"
    assert table.rejected(0) == [(1, 3, reason)]


def test_a_stream_has_its_changes_and_leaves_out_what_follows_a_delete(bench, bootstrap, make_topic):
    topic = make_topic(1)
    with Producer(bootstrap) as producer:
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
    with Producer(bootstrap) as producer:
        producer.produce(topic, value("c", 1, source={"ts_ms": 1_700_000_000_000}))
        producer.produce(topic, value("c", 2, source={}))
    source = bench(topic, schema=SCHEMA, time="_source_time", late="1 minute")
    start = source.planner.first()
    found, end = source.read()
    assert [(row["id"], row["_source_time"].timestamp()) for row in found] == [(1, 1_700_000_000.0)]
    reasons = [row["reason"] for each in source.aside(start, end) for row in each.rows.to_pylist()]
    assert reasons == ["field _source_time: the event time is missing"]
