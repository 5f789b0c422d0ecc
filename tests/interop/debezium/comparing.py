"""What Debezium and a capture of ours wrote of the same database, topic by topic, as values that can be compared.

They leave out what differs from run to run: who wrote it, and when. And what we leave out on purpose: headers with the
names of Debezium's own parts, and the defaults of columns, by which Kafka Connect's JSON replaces nulls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from runnel import Broker
from tests.contract.capture.topics import committed
from tests.interop.debezium.engine import Engine, Record


class Both(NamedTuple):
    """By topic, what each of them wrote."""

    prefix: str
    schema: str
    debezium: dict[str, list[Record]]
    ours: dict[str, list[Record]]

    def of_table(self, name: str) -> tuple[list[Record], list[Record]]:
        topic = f"{self.prefix}.{self.schema}.{name}"
        return self.debezium.get(topic, []), self.ours.get(topic, [])


def told(engine: Engine, topic: str) -> list[Record]:
    return [each for each in engine.records() if each.topic == topic]


def key_of(record: Record) -> Any:
    return record.key and record.key["payload"]


def ours(broker: Broker, prefix: str) -> Iterator[Record]:
    for records in committed(broker.bootstrap, prefix).values():
        for each in records:
            headers = {name: json.loads(text) for name, text in each.headers.items()}
            yield Record(each.topic, None if each.key is None else json.loads(each.key), each.value, headers)


def by_topic(records: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.topic, []).append(record)
    return found


def comparable(record: Record, make_comparable: Callable[[dict[str, Any]], None]) -> Any:
    """`make_comparable` takes out of a source block what differs."""
    headers = {name: value for name, value in record.headers.items() if not name.startswith("__debezium.context")}
    if record.value is None:
        return record.key, None, headers
    payload = json.loads(json.dumps(record.value["payload"]))
    if "op" in payload:
        for name in ("ts_ms",) if payload["op"] == "m" else ("ts_ms", "ts_us", "ts_ns"):
            assert isinstance(payload.pop(name), int)
    if "source" in payload:
        assert payload["source"].pop("version")
        payload["source"]["snapshot"] = payload["source"]["snapshot"] or "false"  # the field's default
        make_comparable(payload["source"])
    block = payload.get("transaction")
    if block:
        block["id"] = of_transaction(block["id"])
    return record.key, as_schema(record.value["schema"]), payload, headers


def of_transaction(name: str) -> str:
    """Its number. Of PostgreSQL, Debezium has the place of its first change behind that in BEGIN, and of its end in
    END; we have that of the commit in both.
    """
    return name.partition(":")[0]


def as_schema(schema: Any) -> Any:
    """The fields of a source block by their names: Debezium has `sequence` in the middle of them."""
    if isinstance(schema, list):
        return [as_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        name: as_schema(part) for name, part in schema.items() if name != "default" or schema["field"] == "snapshot"
    }
    if str(found.get("name")).endswith(".Source"):
        found["fields"] = sorted(found["fields"], key=lambda field: str(field["field"]))
    return found


def with_a_word(records: list[Record]) -> list[Record]:
    """Without tombstones of rows that have no key, which nobody could use."""
    return [each for each in records if each.key is not None or each.value is not None]


def value_schema(record: Record) -> Any:
    """Of the column v in the row behind a change; None where the row has no such column."""
    after = next(field for field in record.value["schema"]["fields"] if field["field"] == "after")
    return next((as_schema(field) for field in after["fields"] if field["field"] == "v"), None)


def as_told(records: list[Record]) -> list[Any]:
    return [(value_schema(each), each.value["payload"]["after"].get("v")) for each in records]


def events(broker: Broker, prefix: str) -> Iterator[Record]:
    """Of an outbox, as they leave: keys, values and headers are what they are, without schemas and quotes."""
    for records in committed(broker.bootstrap, prefix).values():
        for each in records:
            yield Record(each.topic, each.key, each.value, each.headers)


def event(record: Record) -> Record:
    """One that Debezium routed, as Kafka Connect's converter of strings writes it, which its outbox is used with."""
    payload = record.value and record.value["payload"]
    value = None if payload is None else json.loads(payload)
    headers = {name: each["payload"] if isinstance(each, dict) else each for name, each in record.headers.items()}
    shown = {name: each for name, each in headers.items() if not name.startswith("__debezium.context")}
    return Record(record.topic, record.key["payload"], value, shown)
