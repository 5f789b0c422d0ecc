"""Every built-in type as it stands in JSON, from the log and from a snapshot alike."""

import json
from contextlib import ExitStack
from typing import Any, NamedTuple

import psycopg
import pytest

from runnel.capture.events import Change
from runnel.capture.postgres.connections import literal
from runnel.capture.tables import Table
from tests.contract.capture.captured_postgres import Database, events_of, skip_without
from tests.contract.capture.postgres_types import (
    EXTENSIONS,
    MADE,
    TYPES,
    WITHOUT_VALUES,
    XML,
    Type,
    extended,
    part_of,
    types_of,
)
from tests.contract.views.postgres_server import Postgres

pytestmark = pytest.mark.servers


class Captured(NamedTuple):
    """Of each type, the table and the values' JSON: from the log, and from a snapshot, of those that the server has."""

    tables: dict[str, Table]
    logged: dict[str, list[str]]
    read: dict[str, list[str]]
    types: list[Type]

    def told(self, name: str) -> tuple[str, list[str], list[str]]:
        return shown(self.tables[name].columns[1].form.schema), self.logged[name], self.read[name]


def parts_of(database: Database) -> set[str]:
    """The optional parts that the server has."""
    found = {name for (name,) in database.ask("SELECT name FROM pg_available_extensions")} & {*EXTENSIONS}
    built = database.ask("SELECT FROM pg_config WHERE name = 'CONFIGURE' AND setting LIKE '%libxml%'")
    return found | {XML} if built else found


def captured_types(server: Postgres) -> Captured:
    with ExitStack() as stack:
        database = Database(server, stack)
        parts = parts_of(database)
        types = types_of(database.version, parts)
        database.run(*extended(sorted(parts & {*EXTENSIONS})), *MADE, "SET lc_monetary = 'C'")
        database.run(*(f'CREATE TABLE "{each.name}_" (id int PRIMARY KEY, v {each.sql})' for each in types))
        source = database.source()
        start = source.prepare()
        with database.transaction():
            for each in types:
                for number, (literal, _) in enumerate(each.values):
                    database.run(f'INSERT INTO "{each.name}_" VALUES ({number}, {literal})')
        captured = Captured({}, {}, {}, types)
        for event in events_of(source, start):
            if isinstance(event, Change):
                assert event.after is not None
                name = event.table.id.name[:-1]
                captured.tables[name] = event.table
                captured.logged.setdefault(name, []).append(event.table.columns[1].form.write(event.after[1]))
        with source.snapshot() as snapshot:
            for table in snapshot.tables():
                rows = [row for piece in snapshot.rows(table) for row in piece]
                captured.read[table.id.name[:-1]] = [table.columns[1].form.write(row[1]) for row in rows]
        database.close()
        return captured


@pytest.fixture(scope="module")
def captured(server: Postgres) -> Captured:
    return captured_types(server)


def shown(schema: Any) -> str:
    if schema["type"] == "array":
        return f"array of {shown(schema['items'])}"
    return f"{schema['type']} {schema['name']}" if "name" in schema else schema["type"]


def expected(each: Type) -> tuple[str, list[str], list[str]]:
    values = [text for _, text in each.values]
    return each.schema, values, values


@pytest.mark.parametrize("each", TYPES, ids=lambda each: each.name)
def test_a_type_stands_in_json_as_the_table_says(captured: Captured, server: Postgres, each: Type):
    if each not in captured.types:
        skip_without(server, str(part_of(each)))
    assert captured.told(each.name) == expected(each)
    assert [json.loads(text) for _, text in each.values]


def test_every_built_in_type_stands_in_the_table_unless_it_has_no_values(database: Database):
    """Arrays aside, which are made of the forms of their items; and what is only made up for functions."""
    known = database.ask(
        "SELECT typname::text FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace "
        r"AND typtype IN ('b', 'r', 'm') AND typname NOT LIKE '\_%'"
    )
    tried = database.ask(
        "SELECT typname::text FROM pg_type WHERE oid IN "
        f"({', '.join(f'to_regtype({literal(each.sql)})' for each in TYPES)})"
    )
    assert {name for (name,) in known} - {name for (name,) in tried} == {*WITHOUT_VALUES}


@pytest.mark.parametrize("name", WITHOUT_VALUES)
def test_a_type_that_is_not_in_the_table_takes_no_values(database: Database, name: str):
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        database.ask(f"SELECT ''::{name}")
