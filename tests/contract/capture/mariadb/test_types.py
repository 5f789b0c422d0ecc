"""Every built-in type as it stands in JSON, from the log and from a snapshot alike."""

import json

import pytest

from runnel.capture.events import Change
from tests.contract.capture.captured_mariadb import MariadbDatabase, events_of
from tests.contract.capture.mariadb_types import ENDING_READ, OURS, OURS_READ, TYPES, Type

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def captured(mariadb):
    """Of each type, the table and the values' JSON: from the log, and from a snapshot."""
    database = MariadbDatabase(mariadb)
    database.run("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
    database.run(*(f"CREATE TABLE `{each.name}_` (id int PRIMARY KEY, v {each.sql})" for each in TYPES))
    source = database.source()
    start = source.prepare()
    for each in TYPES:
        rows = ", ".join(f"({number}, {literal})" for number, (literal, _) in enumerate(each.values))
        database.run(f"INSERT INTO `{each.name}_` VALUES {rows}")
    tables, logged, read = {}, {}, {}
    for event in events_of(database, source, start):
        if isinstance(event, Change):
            name = event.table.id.name[:-1]
            tables[name] = event.table
            logged.setdefault(name, []).append(event.table.columns[1].form.write(event.after[1]))
    with source.snapshot() as snapshot:
        for table in snapshot.tables():
            rows = [row for piece in snapshot.rows(table) for row in piece]
            read[table.id.name[:-1]] = [table.columns[1].form.write(row[1]) for row in rows]
            assert table is tables[table.id.name[:-1]], "the catalog and the log tell of the same table"
    yield tables, logged, read
    database.close()


def shown(schema) -> str:
    return f"{schema['type']} {schema['name']}" if "name" in schema else schema["type"]


@pytest.mark.parametrize("each", TYPES, ids=lambda each: each.name)
def test_a_type_stands_in_json_as_the_table_says(captured, each: Type):
    tables, logged, read = captured
    expected = [text for _, text in each.values]
    assert logged[each.name] == expected
    assert read[each.name] == expected
    assert [json.loads(text) for text in expected]
    assert shown(tables[each.name].columns[1].form.schema) == each.schema


@pytest.mark.parametrize(
    "columns",
    [
        "a varchar(9), b text, place point, c text, d varchar(9)",
        "a varchar(9), b text, c text, d varchar(9), place geometry",
        "a text CHARACTER SET latin1, place point, b text CHARACTER SET utf16, c text, d text CHARACTER SET koi8r",
    ],
    ids=["in between", "last", "of several sets"],
)
def test_texts_beside_places_are_the_same_in_the_log_and_in_a_snapshot(mariadb, columns):
    database = MariadbDatabase(mariadb)
    database.run(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    source = database.source()
    start = source.prepare()
    database.run("INSERT INTO t (id, place, a, b, c, d) VALUES (1, POINT(1, 2), 'a', 'b', 'c', 'd')")
    (change,) = [event for event in events_of(database, source, start) if isinstance(event, Change)]
    with source.snapshot() as snapshot:
        (table,) = snapshot.tables()
        assert list(snapshot.rows(table)) == [[change.after]]
    assert table is change.table
    assert [value for value in change.after if isinstance(value, str)] == ["a", "b", "c", "d"]
    database.close()


def test_what_is_ours_alone_is_a_type_that_is_tested():
    assert {*OURS, *OURS_READ, *ENDING_READ} <= {each.name for each in TYPES}
