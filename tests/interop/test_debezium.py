"""Debezium 3.3 and a capture of ours read the same PostgreSQL at the same time: event by event they tell the same, with
schemas and all, but for what is said here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from runnel import Broker
from runnel.capture.postgres.source import PostgresSource
from runnel.capture.selection import Selection
from tests.contract.capture.captured_postgres import LOGICAL, Database
from tests.contract.capture.lives import capture_of, running, wait_until
from tests.contract.capture.postgres.lives import end_of_log, has_come_to, in_small_pieces
from tests.contract.capture.postgres_types import MADE, OURS, TYPES, Type, extended
from tests.contract.capture.topics import committed
from tests.contract.views.postgres_server import DATABASE, USER, postgres_server
from tests.interop.debezium.engine import Engine, Record, postgres_settings

pytestmark = pytest.mark.servers

LARGE = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 90) i)"
TABLES = (
    "CREATE TABLE there(id int PRIMARY KEY, name text NOT NULL, born date)",
    "INSERT INTO there VALUES (1, 'a', '2024-02-29'), (2, 'b', NULL), (3, 'c', NULL)",
    "CREATE TABLE hello(id serial PRIMARY KEY)",
    "CREATE TABLE customers(id int PRIMARY KEY, name text NOT NULL, note text, total numeric(10,2) DEFAULT 1)",
    "ALTER TABLE customers ALTER note SET STORAGE EXTERNAL",
    "CREATE TABLE orders(a int, b varchar(9), n bigint, PRIMARY KEY (b, a))",
    "ALTER TABLE orders REPLICA IDENTITY FULL",
    "CREATE TABLE loose(x int, y boolean)",
    "ALTER TABLE loose REPLICA IDENTITY FULL",
    "CREATE TABLE emptied(id int PRIMARY KEY)",
)
# Each is a transaction.
WRITTEN = (
    ("INSERT INTO customers VALUES (1, 'a', NULL, 1.50), (2, 'b', 'short', NULL)",),
    (f"INSERT INTO customers SELECT 3, 'c', {LARGE}, 7",),
    ("UPDATE customers SET total = 2 WHERE id = 3",),
    ("UPDATE customers SET note = 'other' WHERE id = 3", "UPDATE customers SET id = 4 WHERE id = 3"),
    ("DELETE FROM customers WHERE id = 1",),
    (
        "INSERT INTO orders VALUES (1, 'x', 1), (2, 'y', NULL)",
        "UPDATE orders SET n = 5 WHERE a = 1",
        "UPDATE orders SET a = 3 WHERE a = 2",
        "INSERT INTO customers VALUES (9, 'z', '', 0)",
        "DELETE FROM orders WHERE a = 1",
    ),
    ("INSERT INTO loose VALUES (1, true), (1, true), (2, NULL)", "UPDATE loose SET y = false WHERE x = 2"),
    ("DELETE FROM loose WHERE x = 1",),
    ("INSERT INTO emptied VALUES (1)",),
    ("TRUNCATE emptied, loose",),
    ("SELECT pg_logical_emit_message(true, 'of ours', 'content')", "INSERT INTO emptied VALUES (2)"),
    ("ALTER TABLE customers ADD COLUMN city text", "INSERT INTO customers VALUES (10, 'y', NULL, 0, 'Graz')"),
    ("ALTER TABLE customers DROP COLUMN note", "UPDATE customers SET city = 'Linz' WHERE id = 2"),
)
TOLD = ("there", "customers", "orders", "loose", "emptied")


class Both(NamedTuple):
    """By topic, what each of them wrote."""

    prefix: str
    debezium: dict[str, list[Record]]
    ours: dict[str, list[Record]]

    def of_table(self, name: str) -> tuple[list[Record], list[Record]]:
        topic = f"{self.prefix}.{self.prefix}.{name}"
        return self.debezium.get(topic, []), self.ours.get(topic, [])


def write(database: Database) -> None:
    for statements in WRITTEN:
        with database.transaction():
            database.run(*statements)
    with database.transaction():
        for each in TYPES:
            for number, (literal, _) in enumerate(each.values):
                database.run(f'INSERT INTO "{each.name}_" VALUES ({number}, {literal})')
    database.run("INSERT INTO hello VALUES (-1)")


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> Iterator[Both]:
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server(LOGICAL))
        broker = stack.enter_context(Broker())
        database = Database(server, stack)
        prefix = database.schema
        database.run(*extended(), *MADE, "SET lc_monetary = 'C'", *TABLES)
        database.run(*(f'CREATE TABLE "{each.name}_" (id int PRIMARY KEY, v {each.sql})' for each in TYPES))
        settings = postgres_settings(
            server.port,
            user=USER,
            database=DATABASE,
            prefix=prefix,
            slot=f"debezium_{prefix}",
            publication=f"debezium_{prefix}",
            publication_autocreate_mode="filtered",
            tables=rf"{prefix}\\..*",
            snapshot_mode="initial",
            skipped_operations="none",
            provide_transaction_metadata="true",
            include_unknown_datatypes="true",
            **{"converter.replace.null.with.default": "false"},
        )
        engine = stack.enter_context(Engine(tmp_path_factory.mktemp("debezium"), settings))
        stack.enter_context(in_small_pieces(1000))
        selection = Selection(tables=[rf"{prefix}\..*"])
        source = PostgresSource(server.url, prefix, selection.has)
        capture = capture_of(prefix, source, broker.bootstrap, selection, transactions=True, schemas=True)
        stack.enter_context(running(capture))
        wait_until(capture.is_streaming.is_set)
        hello = f"{prefix}.{prefix}.hello"
        engine.wait(lambda: database.run("INSERT INTO hello DEFAULT VALUES") or told(engine, hello))
        write(database)
        end = end_of_log(server.url)
        engine.wait(lambda: any(key_of(each) == {"id": -1} for each in told(engine, hello)))
        wait_until(lambda: has_come_to(capture, end))
        yield Both(prefix, by_topic(engine.records()), by_topic(ours(broker, prefix)))


def told(engine: Engine, topic: str) -> list[Record]:
    return [each for each in engine.records() if each.topic == topic]


def key_of(record: Record) -> Any:
    return record.key and record.key["payload"]


def ours(broker: Broker, prefix: str) -> Iterator[Record]:
    for records in committed(broker.bootstrap, f"{prefix}.").values():
        for each in records:
            headers = {name: json.loads(text) for name, text in each.headers.items()}
            yield Record(each.topic, None if each.key is None else json.loads(each.key), each.value, headers)


def by_topic(records: Iterator[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.topic, []).append(record)
    return found


def comparable(record: Record) -> Any:
    """Without what differs from run to run: who wrote it, and when. And without what we leave out on purpose: headers
    with the names of Debezium's own parts, and the defaults of columns, by which Kafka Connect's JSON replaces nulls.
    """
    headers = {name: value for name, value in record.headers.items() if not name.startswith("__debezium.context")}
    if record.value is None:
        return record.key, None, headers
    payload = json.loads(json.dumps(record.value["payload"]))
    if "op" in payload:
        for name in ("ts_ms",) if payload["op"] == "m" else ("ts_ms", "ts_us", "ts_ns"):
            assert isinstance(payload.pop(name), int)
    if "source" in payload:
        _make_comparable(payload["source"])
    block = payload.get("transaction")
    if block:
        block["id"] = of_transaction(block["id"])
    return record.key, as_schema(record.value["schema"]), payload, headers


def _make_comparable(source: dict[str, Any]) -> None:
    assert source.pop("version")
    source["sequence"] = json.loads(source["sequence"])[1]  # the other one is where they began to read
    source["snapshot"] = source["snapshot"] or "false"  # the field's default
    if source["snapshot"] != "false":  # each has taken one of its own, and has other tables before and after this one
        source["snapshot"] = source["snapshot"].removesuffix("_in_data_collection")
        for name in ("ts_ms", "ts_us", "ts_ns", "txId", "lsn", "sequence"):
            source.pop(name)


def of_transaction(name: str) -> str:
    """Its number. Behind that Debezium has the place of its first change in BEGIN, and of its end in END; we have that
    of the commit in both.
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


@pytest.mark.parametrize("table", TOLD)
def test_rows_are_told_as_debezium_tells_them(both: Both, table: str):
    debezium, mine = both.of_table(table)
    assert debezium
    assert [comparable(each) for each in mine] == [comparable(each) for each in with_a_word(debezium)]


def test_messages_of_applications_are_told_as_debezium_tells_them(both: Both):
    topic = f"{both.prefix}.message"
    assert both.debezium[topic]
    assert [comparable(each) for each in both.ours[topic]] == [comparable(each) for each in both.debezium[topic]]


def test_transactions_are_told_as_debezium_tells_them(both: Both):
    topic = f"{both.prefix}.transaction"
    debezium, mine = ([boundary(each) for each in told[topic]] for told in (both.debezium, both.ours))
    began = mine.index(debezium[0])  # ours began to read before
    assert len(debezium) > 2 * len(WRITTEN)
    assert mine[began:] == debezium


def boundary(record: Record) -> Any:
    payload = {**record.value["payload"], "id": of_transaction(record.value["payload"]["id"])}
    collections = payload["data_collections"] or ()
    payload["data_collections"] = {collection(each["data_collection"]): each["event_count"] for each in collections}
    return record.key["schema"], of_transaction(record.key["payload"]["id"]), record.value["schema"], payload


def collection(name: str) -> str:
    """Of messages Debezium writes a Java object's address, and we the end of their topic's name."""
    return "message" if "LogicalDecodingMessageId" in name else name.rpartition(".")[2]


def value_schema(record: Record) -> Any:
    """Of the column v in the row behind a change; None where the row has no such column."""
    after = next(field for field in record.value["schema"]["fields"] if field["field"] == "after")
    return next((field for field in after["fields"] if field["field"] == "v"), None)


def as_told(records: list[Record]) -> list[Any]:
    return [(value_schema(each), each.value["payload"]["after"].get("v")) for each in records]


@pytest.mark.parametrize("each", TYPES, ids=lambda each: each.name)
def test_a_type_is_told_as_debezium_tells_it_unless_the_table_says_why_not(both: Both, each: Type):
    debezium, mine = map(as_told, both.of_table(f"{each.name}_"))
    assert len(debezium) == len(mine) == len(each.values)
    if each.name in OURS:
        assert debezium != mine, f"it is the same now: {OURS[each.name]}"
    else:
        assert mine == debezium
