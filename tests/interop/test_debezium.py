"""Debezium 3.3 and a capture of ours read the same PostgreSQL at the same time: event by event they tell the same, with
schemas and all, but for what is said here. Events of an outbox are routed by Debezium's own transform.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from runnel import Broker
from runnel.capture.outbox import Outbox
from runnel.capture.postgres.source import PostgresSource
from runnel.capture.selection import Selection
from tests.contract.capture.captured_postgres import LOGICAL, Database
from tests.contract.capture.lives import capture_of, running, wait_until
from tests.contract.capture.postgres.lives import end_of_log, has_come_to, in_small_pieces
from tests.contract.capture.postgres_types import MADE, OURS, TYPES, Type, extended
from tests.contract.views.postgres_server import DATABASE, USER, postgres_server
from tests.interop.debezium import comparing
from tests.interop.debezium.comparing import Both, as_told, by_topic, key_of, of_transaction, ours, told, with_a_word
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
# The layout of Debezium's outbox, with columns of several types.
OUTBOX = (
    "CREATE TABLE outbox(id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL,"
    " type varchar(255) NOT NULL, payload jsonb)",
)
EVENTS = (
    "'00000000-0000-0000-0000-000000000001', 'order', 'o1', 'Placed', '{\"b\": [1, null], \"a\": \"ü\"}'",
    "'00000000-0000-0000-0000-000000000002', 'customer', 'c 2', 'Moved', '\"text\"'",
    "'00000000-0000-0000-0000-000000000003', 'order', 'o1', 'Cancelled', NULL",
    "'00000000-0000-0000-0000-000000000004', 'or/der', '', 'Placed', '{}'",
)


def write(database: Database) -> None:
    for statements in WRITTEN:
        with database.transaction():
            database.run(*statements)
    with database.transaction():
        for each in TYPES:
            for number, (literal, _) in enumerate(each.values):
                database.run(f'INSERT INTO "{each.name}_" VALUES ({number}, {literal})')
    for event in EVENTS:
        database.run(f"INSERT INTO outbox VALUES ({event})")
    database.run("UPDATE outbox SET type = 'other' WHERE aggregateid = 'o1'", "DELETE FROM outbox")
    database.run("INSERT INTO hello VALUES (-1)")


def settings_of(port: int, prefix: str) -> dict[str, str]:
    router = {
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.outbox.table.fields.additional.placement": "type:header:eventType",
        "transforms.outbox.predicate": "outbox",
        "predicates": "outbox",
        "predicates.outbox.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.outbox.pattern": rf"{prefix}\\.{prefix}\\.outbox",
    }
    return postgres_settings(
        port,
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
        **router,
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> Iterator[Both]:
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server(LOGICAL))
        broker = stack.enter_context(Broker())
        database = Database(server, stack)
        prefix = database.schema
        database.run(*extended(), *MADE, "SET lc_monetary = 'C'", *TABLES, *OUTBOX)
        database.run(*(f'CREATE TABLE "{each.name}_" (id int PRIMARY KEY, v {each.sql})' for each in TYPES))
        engine = stack.enter_context(Engine(tmp_path_factory.mktemp("debezium"), settings_of(server.port, prefix)))
        stack.enter_context(in_small_pieces(1000))
        selection = Selection(tables=[rf"{prefix}\..*"])
        source = PostgresSource(server.url, prefix, selection.has)
        outbox = Outbox(rf"{prefix}\.outbox")
        options = {"transactions": True, "schemas": True, "outbox": outbox}
        capture = capture_of(prefix, source, broker.bootstrap, selection, **options)
        stack.enter_context(running(capture))
        wait_until(capture.is_streaming.is_set)
        hello = f"{prefix}.{prefix}.hello"
        engine.wait(lambda: database.run("INSERT INTO hello DEFAULT VALUES") or told(engine, hello))
        write(database)
        end = end_of_log(server.url)
        engine.wait(lambda: any(key_of(each) == {"id": -1} for each in told(engine, hello)))
        wait_until(lambda: has_come_to(capture, end))
        mine = {**by_topic(ours(broker, f"{prefix}.")), **by_topic(comparing.events(broker, "outbox.event."))}
        yield Both(prefix, prefix, by_topic(engine.records()), mine)


def comparable(record: Record) -> Any:
    return comparing.comparable(record, _make_comparable)


def _make_comparable(source: dict[str, Any]) -> None:
    source["sequence"] = json.loads(source["sequence"])[1]  # the other one is where they began to read
    if source["snapshot"] != "false":  # each has taken one of its own, and has other tables before and after this one
        source["snapshot"] = source["snapshot"].removesuffix("_in_data_collection")
        for name in ("ts_ms", "ts_us", "ts_ns", "txId", "lsn", "sequence"):
            source.pop(name)


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
    counts = {collection(each["data_collection"]): each["event_count"] for each in collections}
    routed = counts.pop("outbox", 0)  # which Debezium counts, though no topic has events of that table
    payload["data_collections"] = counts
    payload["event_count"] = payload["event_count"] and payload["event_count"] - routed
    return record.key["schema"], of_transaction(record.key["payload"]["id"]), record.value["schema"], payload


def collection(name: str) -> str:
    """Of messages Debezium writes a Java object's address, and we the end of their topic's name."""
    return "message" if "LogicalDecodingMessageId" in name else name.rpartition(".")[2]


@pytest.mark.parametrize("each", TYPES, ids=lambda each: each.name)
def test_a_type_is_told_as_debezium_tells_it_unless_the_table_says_why_not(both: Both, each: Type):
    debezium, mine = map(as_told, both.of_table(f"{each.name}_"))
    assert len(debezium) == len(mine) == len(each.values)
    if each.name in OURS:
        assert debezium != mine, f"it is the same now: {OURS[each.name]}"
    else:
        assert mine == debezium


def test_events_of_an_outbox_are_routed_as_debezium_routes_them(both: Both):
    debezium, mine = (
        {topic: records for topic, records in found.items() if topic.startswith("outbox.event.")}
        for found in (both.debezium, both.ours)
    )
    assert sorted(debezium) == ["outbox.event.customer", "outbox.event.or/der", "outbox.event.order"]
    expected = [comparing.event(each) for records in debezium.values() for each in records]
    # Kafka would refuse the name that Debezium leaves as it is.
    assert mine == by_topic(each._replace(topic=each.topic.replace("/", "_")) for each in expected)
