"""A server that takes Orders for orders: whatever people write, a table has one name."""

from contextlib import closing

import pytest

from tests.contract.capture.captured_mariadb import MariadbDatabase, events_of, told, wait_for

pytestmark = pytest.mark.servers


@pytest.fixture
def database(alone):
    database = MariadbDatabase(alone)
    database.run("CREATE TABLE Items (id int PRIMARY KEY)", "CREATE TABLE Spare (id int PRIMARY KEY)")
    yield database
    database.close()


def test_statements_are_about_the_tables_that_the_server_takes_them_for(database):
    shouted = database.schema.upper()
    source = database.source(url=database.server.url_of(shouted))
    start = source.prepare()
    assert source.tables() == [database.table("items"), database.table("spare")]
    assert source.database == database.schema
    database.run("INSERT INTO ITEMS VALUES (1)", f"TRUNCATE TABLE {shouted}.Items", "DROP TABLE Items")
    database.run("RENAME TABLE sPARE TO iTEMS", "INSERT INTO items VALUES (2)")
    database.run("ALTER TABLE Items RENAME TO Others", "CREATE OR REPLACE TABLE OTHERS (x int)")
    assert told(events_of(database, source, start)) == [
        ("redefined", "items", ["id"]),
        ("c", None, {"id": 1}),
        ("t", "items"),
        ("gone", "items"),
        ("gone", "spare"),
        ("came", "items"),
        ("redefined", "items", ["id"]),
        ("c", None, {"id": 2}),
        ("gone", "items"),
        ("came", "others"),
        ("gone", "others"),
    ]


def test_a_dropped_database_takes_its_tables_with_it_however_it_is_written(database):
    source = database.source()
    with closing(source.changes(source.prepare())) as changes:
        database.run(f"DROP DATABASE {database.schema.upper()}")
        events = []
        wait_for(lambda: events.extend(changes.read(1.0)) or ("gone", "spare") in told(events))
    assert told(events) == [("gone", "items"), ("gone", "spare")]
