"""Debezium 3.3 and a capture of ours in the same modes: without schemas, and with the other forms of decimals, times,
bytes, intervals and hstores. One table has a column of every type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from runnel import Broker
from runnel.capture.forms import Binary, Decimals
from runnel.capture.postgres.forms import Hstores, Intervals, Modes, Times
from runnel.capture.postgres.source import PostgresSource
from runnel.capture.selection import Selection
from tests.contract.capture.captured_postgres import LOGICAL, Database
from tests.contract.capture.lives import capture_of, running, wait_until
from tests.contract.capture.postgres.lives import end_of_log, has_come_to, in_small_pieces
from tests.contract.capture.postgres_types import MADE, OURS, TYPES, Type, extended
from tests.contract.views.postgres_server import DATABASE, USER, Postgres, postgres_server
from tests.interop.debezium.comparing import Both, as_schema, by_topic, ours, told
from tests.interop.debezium.engine import Engine, Record, postgres_settings

pytestmark = pytest.mark.servers


class Way(NamedTuple):
    """`same` are types in which we differ otherwise, and not in this way."""

    modes: Modes
    schemas: bool = True
    same: frozenset[str] = frozenset()


WAYS = {
    "without schemas": Way(Modes(), schemas=False, same=frozenset({"enum_array", "tsvector_array"})),
    "texts": Way(
        Modes(Decimals.STRING, Binary.BASE64, Times.CONNECT, Intervals.STRING, Hstores.MAP),
        same=frozenset({"timestamp"}),  # milliseconds of any year fit
    ),
    "numbers": Way(
        Modes(Decimals.DOUBLE, Binary.HEX, Times.ADAPTIVE_TIME_MICROSECONDS), same=frozenset({"numeric_neg"})
    ),
}
COLUMNS = ", ".join(f'"{each.name}_" {each.sql}' for each in TYPES)


def settings_of(port: int, prefix: str, way: Way) -> dict[str, str]:
    modes = way.modes
    return postgres_settings(
        port,
        user=USER,
        database=DATABASE,
        prefix=prefix,
        slot=f"debezium_{prefix}",
        publication=f"debezium_{prefix}",
        publication_autocreate_mode="filtered",
        tables=rf"{prefix}\\..*",
        snapshot_mode="no_data",
        include_unknown_datatypes="true",
        decimal_handling_mode=modes.decimals.value,
        binary_handling_mode=modes.binary.value,
        time_precision_mode=modes.times.value,
        interval_handling_mode=modes.intervals.value,
        hstore_handling_mode=modes.hstores.value,
        converter_schemas_enable=str(way.schemas).lower(),
        **{"converter.replace.null.with.default": "false"},
    )


def write(database: Database) -> None:
    """The first value of each type, the second, and so on; and what else may become of a row."""
    for number in range(max(len(each.values) for each in TYPES)):
        given = {f'"{each.name}_"': each.values[number][0] for each in TYPES if number < len(each.values)}
        database.run(f"INSERT INTO every(id, {', '.join(given)}) VALUES ({number}, {', '.join(given.values())})")
    database.run("UPDATE every SET bool_ = NOT bool_ WHERE id = 0", "UPDATE every SET id = 100 WHERE id = 1")
    database.run("DELETE FROM every WHERE id = 2", "INSERT INTO hello VALUES (-1)")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres_server(LOGICAL) as server:
        for statement in (*extended(), *MADE):
            server.run(statement)
        yield server


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


@pytest.fixture(scope="module")
def both(way: Way, server: Postgres, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with ExitStack() as stack:
        database = Database(server, stack)
        prefix = database.schema
        database.run("SET lc_monetary = 'C'", "CREATE TABLE hello(id serial PRIMARY KEY)")
        database.run(f"CREATE TABLE every(id int PRIMARY KEY, {COLUMNS})")
        engine = stack.enter_context(Engine(tmp_path_factory.mktemp("debezium"), settings_of(server.port, prefix, way)))
        stack.enter_context(in_small_pieces(1000))
        selection = Selection(tables=[rf"{prefix}\..*"])
        source = PostgresSource(server.url, prefix, selection.has, modes=way.modes)
        capture = capture_of(prefix, source, broker.bootstrap, selection, schemas=way.schemas)
        stack.enter_context(running(capture))
        wait_until(capture.is_streaming.is_set)
        hello = f"{prefix}.{prefix}.hello"
        engine.wait(lambda: database.run("INSERT INTO hello DEFAULT VALUES") or told(engine, hello))
        write(database)
        end = end_of_log(server.url)
        engine.wait(lambda: any(plain(each.key) == {"id": -1} for each in told(engine, hello)))
        wait_until(lambda: has_come_to(capture, end))
        yield Both(prefix, prefix, by_topic(engine.records()), by_topic(ours(broker, f"{prefix}.")))


def plain(told: Any) -> Any:
    """Without its schema, where it has one."""
    return told["payload"] if isinstance(told, dict) and "payload" in told else told


def column(record: Record, name: str) -> Any:
    """What a record says of a column: its schema, where there are schemas, and its value."""
    after = plain(record.value)["after"].get(name)
    if "schema" not in record.value:
        return after
    (row,) = (field for field in record.value["schema"]["fields"] if field["field"] == "after")
    return next((as_schema(field) for field in row["fields"] if field["field"] == name), None), after


@pytest.mark.parametrize("each", TYPES, ids=lambda each: each.name)
def test_a_type_is_told_as_debezium_tells_it_in_the_same_modes(both: Both, way: Way, each: Type):
    count = len(each.values)
    debezium, mine = ([column(record, f"{each.name}_") for record in found[:count]] for found in both.of_table("every"))
    assert len(debezium) == len(mine) == count
    if each.name in OURS and each.name not in way.same:
        assert debezium != mine, f"it is the same now: {OURS[each.name]}"
    else:
        assert mine == debezium


def test_what_becomes_of_rows_is_told_as_debezium_tells_it(both: Both):
    debezium, mine = ([event(record) for record in found] for found in both.of_table("every"))
    assert [each[1] for each in mine if each[1]][-4:] == ["u", "d", "c", "d"]
    assert mine == debezium


def event(record: Record) -> Any:
    """Without the values, which are compared one by one: what is told of which key, with what else and where."""
    headers = {
        name: plain(value) for name, value in record.headers.items() if not name.startswith("__debezium.context")
    }
    value = plain(record.value)
    if value is None:
        return record.key, None, headers
    before, after = ((value[side] or {}).get("id") for side in ("before", "after"))
    source = {name: value["source"][name] for name in ("schema", "table", "txId", "lsn", "db", "name", "connector")}
    return record.key, value["op"], before, after, source, sorted(value), json.dumps(headers)
