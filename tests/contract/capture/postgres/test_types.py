"""Every built-in type as it stands in JSON, from the log and from a snapshot alike."""

import json
from contextlib import ExitStack

import pytest

from runnel.capture.events import Change
from tests.contract.capture.captured_postgres import Database, events_of
from tests.contract.capture.postgres_types import MADE, TYPES, Type

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def captured(server):
    """Of each type, the table and the values' JSON: from the log, and from a snapshot."""
    with ExitStack() as stack:
        database = Database(server, stack)
        database.run(*MADE, "SET lc_monetary = 'C'")
        database.run(*(f'CREATE TABLE "{each.name}_" (id int PRIMARY KEY, v {each.sql})' for each in TYPES))
        source = database.source()
        start = source.prepare()
        with database.transaction():
            for each in TYPES:
                for number, (literal, _) in enumerate(each.values):
                    database.run(f'INSERT INTO "{each.name}_" VALUES ({number}, {literal})')
        tables, logged, read = {}, {}, {}
        for event in events_of(source, start):
            if isinstance(event, Change):
                name = event.table.id.name[:-1]
                tables[name] = event.table
                logged.setdefault(name, []).append(event.table.columns[1].form.write(event.after[1]))
        with source.snapshot() as snapshot:
            for table in snapshot.tables():
                rows = [row for piece in snapshot.rows(table) for row in piece]
                read[table.id.name[:-1]] = [table.columns[1].form.write(row[1]) for row in rows]
        yield tables, logged, read
        database.close()


def shown(schema) -> str:
    if schema["type"] == "array":
        return f"array of {shown(schema['items'])}"
    return f"{schema['type']} {schema['name']}" if "name" in schema else schema["type"]


@pytest.mark.parametrize("each", TYPES, ids=lambda each: each.name)
def test_a_type_stands_in_json_as_the_table_says(captured, each: Type):
    tables, logged, read = captured
    expected = [text for _, text in each.values]
    assert logged[each.name] == expected
    assert read[each.name] == expected
    assert [json.loads(text) for text in expected]
    assert shown(tables[each.name].columns[1].form.schema) == each.schema
