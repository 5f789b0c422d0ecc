"""What tables are like, in the topic that is called as the prefix."""

import itertools

import pytest

from tests.contract.capture.lives import capture_of, caught_up, running, wait_until
from tests.contract.capture.topics import committed

numbers = itertools.count()


@pytest.fixture
def name():
    return f"schemas{next(numbers)}"


def told(broker, name):
    return [
        (each["type"], each["id"].split(".")[-1].strip('"'), [column["name"] for column in each["table"]["columns"]])
        for record in committed(broker.bootstrap, name)[name]
        for each in record.value["tableChanges"]
    ]


def live(broker, database, name, *statements, until=lambda: True):
    source, looking = database.source(name), database.source(name)
    with running(capture_of(name, source, broker.bootstrap, schema_changes=True)) as capture:
        wait_until(capture.is_streaming.is_set)
        for statement in statements:
            database.execute(statement)
        caught_up(capture, looking)
        wait_until(until)


def test_every_table_is_told_of_once_and_again_when_its_columns_change(broker, database, name):
    database.execute("INSERT INTO orders VALUES (1, 'a', 10)")
    live(broker, database, name, "UPDATE orders SET price = 11", "INSERT INTO loose VALUES (1, 2)")
    first = [
        ("CREATE", "loose", ["x", "y"]), ("CREATE", "orders", ["id", "name", "price"]),
        ("CREATE", "pairs", ["a", "b", "v"]),
    ]  # fmt: skip
    assert sorted(told(broker, name)) == first
    live(broker, database, name, "UPDATE orders SET price = 12")
    assert sorted(told(broker, name)) == first
    altered = ("ALTER TABLE orders ADD COLUMN city VARCHAR(9)", "UPDATE orders SET city = 'Graz'")
    # SQLite's capture may look between both, and see the column in its next look.
    live(broker, database, name, *altered, until=lambda: len(told(broker, name)) > len(first))
    assert told(broker, name)[3:] == [("ALTER", "orders", ["id", "name", "price", "city"])]


def test_the_types_are_the_databases_own(broker, database, name):
    live(broker, database, name)
    orders = next(
        each["table"]["columns"]
        for record in committed(broker.bootstrap, name)[name]
        for each in record.value["tableChanges"]
        if "orders" in each["id"]
    )
    expected = {"main": ["INTEGER", "VARCHAR(20)", "INTEGER"], "public": ["int4", "varchar", "int4"]}
    assert [each["typeName"] for each in orders] == expected.get(database.schema, ["INT", "VARCHAR", "INT"])
