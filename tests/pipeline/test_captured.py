"""A database's table in an app: captured while the app runs, joined, viewed and streamed. All in one Spark session."""

from __future__ import annotations

import json
import sqlite3

import pytest
from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Broker
from runnel.client import Producer
from runnel.testing import CRASH_AFTER_COMMIT, PAUSE, Player, raw, row
from tests.pipeline.scene import Scene
from tests.pipeline.waiting import wait_until

pytestmark = pytest.mark.servers

COLUMNS = "id long, name string, email string, country string, balance decimal(10,2)"


@pytest.fixture
def scene(spark, tmp_path):
    with Broker() as broker:
        broker.create_topic("clicks", 1, configs={"retention.ms": "-1"})
        yield Scene(broker, spark, tmp_path / "data")


@pytest.fixture
def write(tmp_path):
    connection = sqlite3.connect(tmp_path / "shop.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    columns = "id INTEGER PRIMARY KEY, name TEXT, email TEXT, country TEXT, balance NUMERIC"
    connection.execute(f"CREATE TABLE customers ({columns})")
    connection.execute("INSERT INTO customers VALUES (1, 'Anne', 'a@x', 'NO', 12.5), (2, 'Bob', 'b@x', 'SE', NULL)")
    yield connection.execute
    connection.close()


def shop(tmp_path):
    app = App("shop")
    clicks = app.stream("clicks", schema="n int, customer long")
    database = app.capture("shop", f"sqlite:{tmp_path / 'shop.sqlite'}", tables=["customers"])
    customers = database.table("customers", key="id", schema=COLUMNS)

    @app.view(clicks, customers, key="n")
    def named(clicks, customers):
        return clicks.join(customers, clicks.customer == customers.id, "left").select("n", "name", "balance")

    @app.view(customers.changes(), key="id")
    def norwegians(changes):
        return changes.where("country = 'NO'").select("id", "name", "_change")

    return app


def click(scene, n, customer):
    with Producer(scene.broker.bootstrap) as producer:
        producer.produce("clicks", json.dumps({"n": n, "customer": customer}).encode())


def test_a_captured_table_is_joined_and_filtered_into_a_view(scene, write, tmp_path):
    click(scene, 1, 1)
    scene.run(shop(tmp_path))
    assert [(row["n"], row["name"], str(row["balance"])) for row in scene.rows("named")] == [(1, "Anne", "12.50")]
    assert [(row["id"], row["name"]) for row in scene.rows("norwegians")] == [(1, "Anne")]
    write("UPDATE customers SET name = 'Anna', country = 'DK' WHERE id = 1")
    write("UPDATE customers SET country = 'NO' WHERE id = 2")
    write("INSERT INTO customers VALUES (3, 'Cecilie', 'c@x', 'NO', 1)")
    write("DELETE FROM customers WHERE id = 3")
    click(scene, 2, 1)
    scene.run(shop(tmp_path))
    assert {row["n"]: row["name"] for row in scene.rows("named")} == {1: "Anne", 2: "Anna"}
    assert [(row["id"], row["name"]) for row in scene.rows("norwegians")] == [(2, "Bob")]
    write("DROP TABLE customers")
    write("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT, country TEXT, balance NUMERIC)")
    write("INSERT INTO customers VALUES (4, 'Dag', 'd@x', 'NO', 1)")
    click(scene, 3, 1)
    click(scene, 4, 4)
    told = scene.run(shop(tmp_path))
    assert {row["n"]: row["name"] for row in scene.rows("named")} == {1: "Anne", 2: "Anna", 3: None, 4: "Dag"}
    assert [(row["id"], row["name"]) for row in scene.rows("norwegians")] == [(4, "Dag")]
    assert [(each.in_time, each.rejected) for each in told.values()] == [(4, 0), (2, 0)]  # emptied, and a row


def test_changes_are_a_stream_with_what_was_before_while_the_app_runs(scene, write, tmp_path):
    app = App("shop")
    database = app.capture("shop", f"sqlite:{tmp_path / 'shop.sqlite'}")
    changes = database.stream("customers", schema=COLUMNS, time="_source_time", late="1 minute")

    @app.stream(changes.with_metadata(), key="id")
    def moves(changes):
        moved = changes.where("_op = 'u' AND _before.country != country")
        return moved.select("id", F.col("_before.country").alias("from"), F.col("country").alias("to"), "_op")

    with scene.live(app):
        wait_until(lambda: len(scene.records("shop.main.customers")) == 2)  # as they were before
        write("UPDATE customers SET country = 'DK' WHERE id = 1")
        write("UPDATE customers SET name = 'Bo' WHERE id = 2")
        write("DELETE FROM customers WHERE id = 1")
        wait_until(lambda: scene.values("moves"))
    assert scene.values("moves") == [{"id": 1, "from": "NO", "to": "DK", "_op": "u"}]
    assert scene.records("shop.main.customers.rejected") == []


def test_rows_are_played_into_a_captured_table_and_it_is_emptied_without_a_database(spark, tmp_path):
    app = shop(tmp_path / "nowhere")
    played = Player(spark)(
        app,
        row("shop.main.customers", id=1, name="Anne", country="NO", balance=1.5),
        row("shop.main.customers", id=2, name="Bob", country="SE"),
        row("clicks", n=1, customer=1),
        PAUSE,
        raw("shop.main.customers", '{"op": "t"}'),
        row("shop.main.customers", id=3, name="Cecilie", country="NO"),
        row("clicks", n=2, customer=1),
        CRASH_AFTER_COMMIT,
    )
    assert [each["name"] for each in played.view("norwegians")] == ["Cecilie"]
    assert {each["n"]: each["name"] for each in played.view("named")} == {1: "Anne", 2: None}
