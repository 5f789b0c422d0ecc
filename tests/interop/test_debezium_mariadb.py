"""Debezium 3.3 and a capture of ours read the same MariaDB at the same time: event by event they tell the same, with
schemas and all, but for what is said here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runnel import Broker
from runnel.capture.forms import Decimals
from runnel.capture.mariadb.forms import Modes, Times
from runnel.capture.mariadb.source import MariadbSource
from runnel.capture.selection import Selection
from tests.contract.capture.captured_mariadb import MariadbDatabase
from tests.contract.capture.lives import capture_of, caught_up, running, wait_until
from tests.contract.capture.mariadb_server import PASSWORD, USER, Mariadb, mariadb_server
from tests.contract.capture.mariadb_types import (
    DATE,
    DECIMAL,
    ENDING,
    ENDING_READ,
    MICROS,
    MILLIS,
    OURS,
    OURS_READ,
    TIME,
    TYPES,
    Type,
)
from tests.interop.debezium import comparing
from tests.interop.debezium.comparing import Both, as_told, by_topic, key_of, ours, told, with_a_word
from tests.interop.debezium.engine import Engine, Record, mariadb_settings

pytestmark = pytest.mark.servers

TABLES = (
    "CREATE TABLE there(id int PRIMARY KEY, name varchar(20) NOT NULL, born date)",
    "INSERT INTO there VALUES (1, 'a', '2024-02-29'), (2, 'b', NULL), (3, 'c', NULL)",
    "CREATE TABLE hello(id int AUTO_INCREMENT PRIMARY KEY)",
    "CREATE TABLE customers(id int PRIMARY KEY, name varchar(20) NOT NULL, note text, total decimal(10,2) DEFAULT 1)",
    "CREATE TABLE orders(a int, b varchar(9), n bigint, PRIMARY KEY (b, a))",
    "CREATE TABLE loose(x int, y boolean)",
    "CREATE TABLE emptied(id int PRIMARY KEY)",
)
# Each is a transaction.
WRITTEN = (
    ("INSERT INTO customers VALUES (1, 'a', NULL, 1.50), (2, 'b', 'short', NULL)",),
    ("INSERT INTO customers VALUES (3, 'c', repeat('x', 9000), 7)",),
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
    ("REPLACE INTO orders VALUES (3, 'y', 7), (4, 'w', 8)",),
    ("INSERT INTO loose VALUES (1, true), (1, true), (2, NULL)", "UPDATE loose SET y = false WHERE x = 2"),
    ("DELETE FROM loose WHERE x = 1",),
    ("INSERT INTO emptied VALUES (1)",),
    ("TRUNCATE emptied",),
    ("INSERT INTO emptied VALUES (2)",),
    ("ALTER TABLE customers ADD COLUMN city varchar(30)",),
    ("INSERT INTO customers VALUES (10, 'y', NULL, 0, 'Graz')",),
    ("ALTER TABLE customers DROP COLUMN note",),
    ("UPDATE customers SET city = 'Linz' WHERE id = 2",),
    ("CREATE TABLE later(id int PRIMARY KEY, v enum('a','b'))",),
    ("INSERT INTO later VALUES (1, 'b')",),
    ("DROP TABLE loose",),
)
THERE = 100  # the first number of typed rows that are there when the tables are read
COMPARED = [each for each in TYPES if each.name not in ENDING]
READ = [each for each in COMPARED if each.name not in ENDING_READ]
# Those that Debezium's modes are about.
MODAL = [each for each in TYPES if each.schema in (DECIMAL, DATE, TIME, MILLIS, MICROS)]
MODES = ((Decimals.STRING, Times.CONNECT), (Decimals.DOUBLE, Times.ADAPTIVE_TIME_MICROSECONDS))
DROPPED = "loose"
TOLD = ("there", "customers", "orders", "loose", "emptied", "later")


def typed_rows(types: Sequence[Type], first: int = 0) -> Iterator[str]:
    for each in types:
        rows = ", ".join(f"({number}, {literal})" for number, (literal, _) in enumerate(each.values, first))
        yield f"INSERT INTO `{each.name}_` VALUES {rows}"


def write(database: MariadbDatabase) -> None:
    """Each transaction in a second of its own: Debezium tells when a row was changed, and we, when it was committed."""
    for second, statements in enumerate(WRITTEN, int(time.time()) - len(WRITTEN)):
        database.run(f"SET timestamp = {second}")
        database.execute(*statements)
    database.run(*typed_rows(COMPARED))


@pytest.fixture(scope="module")
def server() -> Iterator[Mariadb]:
    with mariadb_server() as server:
        yield server


@pytest.fixture(scope="module")
def both(server: Mariadb, tmp_path_factory) -> Both:
    with closing(MariadbDatabase(server)) as database:
        database.run("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'", *TABLES)
        make_typed(database, COMPARED, READ)
        told_too = {"transactions": True, "schema_changes": True}
        also = {"skipped_operations": "none", "provide_transaction_metadata": "true"}
        way = Way("shop", "7", Modes(), also, told_too)
        return read_by_both(database, tmp_path_factory.mktemp("debezium"), way, lambda: write(database))


class Way(NamedTuple):
    """How both read a database: what they are called, and what they are told to write."""

    prefix: str
    server_id: str
    modes: Modes
    settings: dict[str, str]
    options: dict[str, bool]


def make_typed(database: MariadbDatabase, types: Sequence[Type], there: Sequence[Type]) -> None:
    """A table of each type, with rows in some of them."""
    database.run(*(f"CREATE TABLE `{each.name}_` (id int PRIMARY KEY, v {each.sql})" for each in types))
    database.run(*typed_rows(there, THERE))


def read_by_both(database: MariadbDatabase, folder: Path, way: Way, write: Callable[[], None]) -> Both:
    """The tables as they are, and then what is written. There is a table `hello`, by which both are known to read."""
    with ExitStack() as stack:
        broker = stack.enter_context(Broker())
        settings = mariadb_settings(
            database.server.port,
            user=USER,
            password=PASSWORD,
            prefix=way.prefix,
            database_server_id=way.server_id,
            database_include_list=database.schema,
            snapshot_mode="initial",
            **way.settings,
            **{"converter.replace.null.with.default": "false"},
        )
        engine = stack.enter_context(Engine(folder, settings))
        selection = Selection()
        source = MariadbSource(database.url, way.prefix, selection.has, modes=way.modes)
        looking = MariadbSource(database.url, f"{way.prefix}_looking", selection.has)
        stack.callback(source.close)
        stack.callback(looking.close)
        capture = capture_of(way.prefix, source, broker.bootstrap, selection, schemas=True, **way.options)
        stack.enter_context(running(capture))
        wait_until(capture.is_streaming.is_set)
        hello = f"{way.prefix}.{database.schema}.hello"
        engine.wait(lambda: database.run("INSERT INTO hello VALUES ()") or told(engine, hello))
        write()
        database.run("INSERT INTO hello VALUES (-1)")
        engine.wait(lambda: any(key_of(each) == {"id": -1} for each in told(engine, hello)))
        caught_up(capture, looking)
        return Both(way.prefix, database.schema, by_topic(engine.records()), by_topic(ours(broker, way.prefix)))


def comparable(record: Record) -> Any:
    return comparing.comparable(record, _make_comparable)


def _make_comparable(source: dict[str, Any]) -> None:
    if source["snapshot"] != "false":  # each has taken one of its own, and has other tables before and after this one
        source["snapshot"] = source["snapshot"].removesuffix("_in_data_collection")
        for name in ("ts_ms", "ts_us", "ts_ns", "file", "pos", "gtid", "server_id"):
            source.pop(name)


@pytest.mark.parametrize("table", TOLD)
def test_rows_are_told_as_debezium_tells_them(both: Both, table: str):
    debezium, mine = both.of_table(table)
    assert debezium
    if table == DROPPED:  # Debezium leaves its rows in the topic, where another table of that name would find them
        *mine, last = mine
        assert last.value["payload"]["op"] == "t"
    assert [comparable(each) for each in mine] == [comparable(each) for each in with_a_word(debezium)]


def test_transactions_are_told_as_debezium_tells_them(both: Both):
    """Those that end: Debezium tells no end where one holds a statement, such as TRUNCATE."""
    topic = f"{both.prefix}.transaction"
    debezium, mine = ([boundary(each) for each in told[topic]] for told in (both.debezium, both.ours))
    ended = {name for name, status, *_ in debezium if status == "END"}
    assert len(ended) > len(COMPARED)
    assert [each for each in mine if each[0] in ended] == [each for each in debezium if each[0] in ended]


def boundary(record: Record) -> Any:
    payload = dict(record.value["payload"])
    name, status, time = payload.pop("id"), payload.pop("status"), payload.pop("ts_ms")
    collections = payload["data_collections"] or ()
    payload["data_collections"] = {each["data_collection"]: each["event_count"] for each in collections}
    at = None if status == "BEGIN" else time  # Debezium has the time of whatever came before
    return name, status, at, payload, record.key, record.value["schema"]


def test_what_tables_are_like_is_told_as_debezium_tells_it(both: Both):
    debezium, mine = (list(changes(told[both.prefix])) for told in (both.debezium, both.ours))
    assert sorted(mine, key=str) == sorted(debezium, key=str)
    (told,) = {json.dumps(each.value["schema"]) for each in both.ours[both.prefix]}
    (expected,) = {json.dumps(each.value["schema"]) for each in both.debezium[both.prefix]}
    assert comparing.as_schema(json.loads(told)) == comparing.as_schema(json.loads(expected))


def changes(records: list[Record]) -> Iterator[Any]:
    """Without what the log does not say: the statement, defaults, lengths, sets of characters. Debezium begins by
    dropping what it is about to make.
    """
    for record in records:
        payload = record.value["payload"]
        if (payload["ddl"] or "").startswith("DROP TABLE IF EXISTS"):
            continue
        for change in payload["tableChanges"]:
            kept = (payload["databaseName"], payload["schemaName"], payload["source"]["table"], record.key)
            yield change["type"], change["id"], table_of(change["table"]), kept


def table_of(table: Any) -> Any:
    return table and (table["primaryKeyColumnNames"], [column_of(each) for each in table["columns"]])


def column_of(column: Any) -> Any:
    """A JSON is a LONGTEXT for Debezium if it was there at first."""
    names = ("name", "nativeType", "scale", "position", "optional", "comment", "enumValues")
    type_name = column["typeName"].removesuffix(" ZEROFILL")  # which the log does not say
    is_json = type_name in ("JSON", "LONGTEXT")
    kind = ("JSON", 12) if is_json else (type_name, column["jdbcType"])
    return kind, column["typeExpression"].removesuffix(" ZEROFILL") == type_name, {name: column[name] for name in names}


@pytest.mark.parametrize("each", COMPARED, ids=lambda each: each.name)
def test_a_type_is_told_as_debezium_tells_it_unless_the_table_says_why_not(both: Both, each: Type):
    debezium, mine = (as_told(changed(records)) for records in both.of_table(f"{each.name}_"))
    assert len(mine) == len(each.values)
    if each.name in OURS:
        assert debezium != mine, f"it is the same now: {OURS[each.name]}"
    else:
        assert mine == debezium


@pytest.mark.parametrize("each", READ, ids=lambda each: each.name)
def test_a_type_is_read_as_debezium_reads_it_unless_the_table_says_why_not(both: Both, each: Type):
    debezium, mine = (as_told(read(records)) for records in both.of_table(f"{each.name}_"))
    assert len(debezium) == len(mine) == len(each.values)
    if each.name in OURS_READ:
        assert debezium != mine, f"it is the same now: {OURS_READ[each.name]}"
    else:
        assert mine == debezium


def read(records: list[Record]) -> list[Record]:
    return [each for each in records if each.value["payload"]["op"] == "r"]


def changed(records: list[Record]) -> list[Record]:
    return [each for each in records if each.value["payload"]["op"] != "r"]


# --- in other modes


@pytest.fixture(scope="module", params=MODES, ids=lambda modes: f"{modes[0].value}-{modes[1].value}")
def otherwise(request, server: Mariadb, tmp_path_factory) -> Both:
    decimals, times = request.param
    number = str(8 + MODES.index(request.param))
    settings = {"decimal_handling_mode": decimals.value, "time_precision_mode": times.value}
    with closing(MariadbDatabase(server)) as database:
        database.run("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
        database.run("CREATE TABLE hello(id int AUTO_INCREMENT PRIMARY KEY)")
        make_typed(database, MODAL, MODAL)
        way = Way(f"shop{number}", number, Modes(decimals=decimals, times=times), settings, {})
        folder = tmp_path_factory.mktemp("debezium")
        return read_by_both(database, folder, way, lambda: database.run(*typed_rows(MODAL)))


@pytest.mark.parametrize("each", MODAL, ids=lambda each: each.name)
def test_a_type_is_told_and_read_as_debezium_does_it_in_other_modes(otherwise: Both, each: Type):
    debezium, mine = otherwise.of_table(f"{each.name}_")
    for some in (read, changed):
        told = as_told(some(mine))
        assert len(told) == len(each.values)
        assert told == as_told(some(debezium))
