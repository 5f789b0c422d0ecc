"""Tables as inputs of a body: joined as their latest rows, or change by change. All in one Spark session."""

from __future__ import annotations

import json
import random
import signal

import pytest
from pyspark.sql import functions as F  # noqa: N812

from runnel import App, Broker, Reading
from runnel.app.trouble import QueryFailed
from runnel.client import Producer
from runnel.durable import VARIABLE
from runnel.errors import RunnelError
from runnel.pipeline.steps.keep import Keep
from runnel.pipeline.tables import table_input
from tests.pipeline.scene import Scene

pytestmark = pytest.mark.servers

OF_WORKERS = ("table.version", "table.batch")
STEPS = (*OF_WORKERS, "table.partitions")  # the last one is the driver's: test_partitions tries it
PARTITIONS = 2
KINDS = {
    "since": ("timestamp", "2026-01-02T03:04:05.678Z"),
    "birthday": ("date", "2000-02-29"),
    "rating": ("decimal(5,2)", 1.5),
    "share": ("float", 0.25),
    "tags": ("array<string>", ["a", None]),
    "place": ("struct<city:string,stairs:array<int>>", {"city": "here", "stairs": [1]}),
    "points": ("map<string,int>", {"x": 1}),
}
OF_EVERY_KIND = ", ".join(f"{name} {kind}" for name, (kind, _) in KINDS.items())
DEAD = "dead"


@pytest.fixture
def scene(spark, tmp_path):
    with Broker() as broker:
        for topic in ("customers", "clicks"):
            broker.create_topic(topic, PARTITIONS, configs={"retention.ms": "-1"})
        yield Scene(broker, spark, tmp_path / "data")


@pytest.fixture
def deaths(spark, tmp_path):
    """A directory: a worker that comes to a step takes the file of its name, and dies of the signal in it."""
    directory = tmp_path / "deaths"
    directory.mkdir()
    spark.sparkContext.environment[VARIABLE] = str(directory)
    yield directory
    del spark.sparkContext.environment[VARIABLE]


def expect(deaths, *points):
    for point in points:
        (deaths / point).write_text(str(int(signal.SIGKILL)))


def send(scene, topic, rows):
    """Rows by their id; a row that is none deletes, bytes are sent as they are."""
    with Producer(scene.broker.bootstrap) as producer:
        for id, row in rows:
            value = row if row is None or isinstance(row, bytes) else json.dumps({"id": id, **row}).encode()
            producer.submit(topic, value, key=str(id).encode(), partition=id % PARTITIONS)


def customers_are(scene, **names):
    """By c1="Ann"; None deletes."""
    send(scene, "customers", [(int(id[1:]), name and {"name": name}) for id, name in names.items()])


def clicks_of(scene, **customers):
    send(scene, "clicks", [(int(id[1:]), {"customer": customer}) for id, customer in customers.items()])


def joined_app(rows=100):
    app = App("shop")
    clicks = app.stream("clicks", schema="id int, customer int", read=Reading(rows=rows))
    customers = app.table("customers", key="id", schema=f"id int, name string, {OF_EVERY_KIND}")

    @app.view(clicks, customers.with_metadata(), key="id")
    def named(clicks, customers):
        names = customers.withColumnRenamed("id", "customer")
        about = F.to_json(F.struct(*KINDS, "_topic", "_partition", "_offset", "_key"), {"ignoreNullFields": "false"})
        return clicks.join(names, "customer", "left").select("id", "name", about.alias("about"))

    return app


def named(scene):
    return {row["id"]: row["name"] for row in scene.rows("named")}


def about(scene, id):
    return next(json.loads(row["about"]) for row in scene.rows("named") if row["id"] == id)


def test_a_stream_is_joined_with_the_latest_rows(scene):
    customers_are(scene, c1="Ann", c2="Bob", c3="Cid")
    clicks_of(scene, k1=1, k2=2, k3=9)
    scene.run(joined_app())
    assert named(scene) == {1: "Ann", 2: "Bob", 3: None}
    customers_are(scene, c1="Anna", c2=None, c9="Zoe")
    clicks_of(scene, k4=1, k5=2, k6=9, k7=3)
    told = scene.run(joined_app())
    assert named(scene) == {1: "Ann", 2: "Bob", 3: None, 4: "Anna", 5: None, 6: "Zoe", 7: "Cid"}
    assert told["named"].in_time == 4 + 3  # clicks, and what was read of the table


def test_values_of_every_type_and_metadata_are_joined(scene):
    values = {name: value for name, (_, value) in KINDS.items()}
    send(scene, "customers", [(1, {"name": "Ann", **values}), (3, {"name": "Cid"})])
    clicks_of(scene, k1=1, k3=3)
    scene.run(joined_app())
    metadata = {"_topic": "customers", "_partition": 1, "_offset": 0, "_key": "MQ=="}
    assert about(scene, 1) == values | metadata
    assert about(scene, 3) == dict.fromkeys(values) | metadata | {"_offset": 1, "_key": "Mw=="}


def test_a_large_table_that_changes_between_two_batches(scene, monkeypatch):
    """The first batch that is kept lets it change."""
    monkeypatch.setattr(table_input, "MANY", 0)
    keep = Keep.__call__

    def change(self, batch):
        monkeypatch.setattr(Keep, "__call__", keep)
        done = keep(self, batch)
        customers_are(scene, c1="Anna")
        return done

    monkeypatch.setattr(Keep, "__call__", change)
    customers_are(scene, c1="Ann")
    clicks_of(scene, k1=1, k3=1)
    scene.run(joined_app(rows=1))
    assert named(scene) == {1: "Ann", 3: "Anna"}


def test_a_batch_that_is_repeated_sees_the_table_that_it_saw(scene, monkeypatch):
    keep = Keep.__call__

    def fail(self, batch):
        monkeypatch.setattr(Keep, "__call__", keep)
        customers_are(scene, c1="Anna", c2="Bob")
        raise RuntimeError(DEAD)

    customers_are(scene, c1="Ann")
    clicks_of(scene, k1=1, k2=2)
    monkeypatch.setattr(Keep, "__call__", fail)
    with pytest.raises(QueryFailed, match=DEAD):
        scene.run(joined_app())
    assert named(scene) == {}
    scene.run(joined_app())
    assert named(scene) == {1: "Ann", 2: None}


def test_what_a_body_remembers_agrees_with_what_it_told_when_a_batch_is_repeated(scene, monkeypatch):
    """The batch took effect, and Spark does not know: it runs the body again, for what the body remembers."""
    app = App("shop")
    clicks = app.stream("clicks", schema="id int, customer int")
    customers = app.table("customers", key="id", schema="id int, name string")

    @app.view(clicks, customers, key="name")
    def counted(clicks, customers):
        return clicks.join(customers.withColumnRenamed("id", "customer"), "customer").groupBy("name").count()

    keep = Keep.__call__

    def fail(self, batch):
        monkeypatch.setattr(Keep, "__call__", keep)
        keep(self, batch)
        customers_are(scene, c1="Anna")
        raise RuntimeError(DEAD)

    customers_are(scene, c1="Ann")
    clicks_of(scene, k1=1, k2=1)
    monkeypatch.setattr(Keep, "__call__", fail)
    with pytest.raises(QueryFailed, match=DEAD):
        scene.run(app)
    clicks_of(scene, k3=1)
    scene.run(app)
    customers_are(scene, c1="Ann")
    clicks_of(scene, k4=1)
    scene.run(app)
    assert {row["name"]: row["count"] for row in scene.rows("counted")} == {"Ann": 3, "Anna": 1}


def test_a_value_of_a_table_that_does_not_fit_is_told_once(scene):
    customers_are(scene, c1="Ann")
    send(scene, "customers", [(1, b"broken"), (2, {"name": "Bob"})])
    clicks_of(scene, k1=1, k2=2)
    told = scene.run(joined_app())["named"]
    assert (told.in_time, told.rejected) == (4, 1)
    assert list(scene.aside("customers.rejected", "named")) == [("customers", 1, 1)]
    clicks_of(scene, k3=1)
    send(scene, "customers", [(4, b'{"id": "four"}')])
    told = scene.run(joined_app())["named"]
    assert (told.in_time, told.rejected) == (1, 1)
    assert named(scene) == {1: "Ann", 2: "Bob", 3: "Ann"}
    assert set(scene.aside("customers.rejected", "named")) == {("customers", 1, 1), ("customers", 0, 1)}


def test_a_body_that_asks_for_rows_while_it_is_called_is_told(scene):
    app = App("shop")
    clicks = app.stream("clicks", schema="id int, customer int")
    customers = app.table("customers", key="id", schema="id int, name string")

    @app.view(clicks, customers, key="id")
    def few(clicks, customers):
        return clicks.limit(customers.count())

    with pytest.raises(RunnelError, match="outside of a micro-batch"):
        scene.run(app)


def test_a_view_of_the_changes_is_the_table_and_the_changes_are_told(scene, seed):
    chance = random.Random(seed)
    app = App("shop")
    customers = app.table("customers", key="id", schema="id int, name string", read=Reading(rows=30))

    @app.view(customers.changes(), key="id")
    def copy(changes):
        return changes

    @app.stream(customers.changes().with_metadata(), key="place")
    def told(changes):
        return changes.selectExpr("concat(_partition, '-', _offset, _change) place", "_change kind", "id", "name")

    expected: dict[int, str] = {}
    kinds: list[tuple[str, int, str]] = []
    for _ in range(2):
        sent: list[tuple[int, dict[str, str] | None]] = []
        for _ in range(50):
            id = chance.randrange(10)
            name = None if chance.random() < 0.3 else chance.choice("abc")
            before = expected.pop(id, None)
            if name is not None:
                expected[id] = name
            if before != name:
                kinds += [] if before is None else [("delete" if name is None else "update_before", id, before)]
                kinds += [] if name is None else [("insert" if before is None else "update_after", id, name)]
            sent.append((id, name and {"name": name}))
        send(scene, "customers", sent)
        said = scene.run(app)
        assert [each.in_time for each in said.values()] == [50, 50]
        assert {row["id"]: row["name"] for row in scene.rows("copy")} == expected
    found = sorted((row["kind"], row["id"], row["name"]) for row in scene.values("told"))
    assert found == sorted(kinds)


def test_workers_that_die_at_a_step_are_made_good(scene, deaths):
    customers_are(scene, c1="Ann", c2="Bob")
    clicks_of(scene, k1=1, k2=2)
    expect(deaths, *(f"{step}:before:1" for step in OF_WORKERS))
    scene.run(joined_app())
    assert list(deaths.iterdir()) == []
    assert named(scene) == {1: "Ann", 2: "Bob"}
    customers_are(scene, c1="Anna")
    clicks_of(scene, k3=1)
    expect(deaths, *(f"{step}:after:1" for step in OF_WORKERS))
    scene.run(joined_app())
    assert list(deaths.iterdir()) == []
    assert named(scene) == {1: "Ann", 2: "Bob", 3: "Anna"}


def test_workers_that_die_while_they_tell_changes_are_made_good(scene, deaths):
    app = App("shop")
    customers = app.table("customers", key="id", schema="id int, name string")

    @app.view(customers.changes(), key="id")
    def copy(changes):
        return changes

    customers_are(scene, c1="Ann", c2="Bob")
    expect(deaths, "table.version:before:1", "table.version:after:1")
    told = scene.run(app)
    assert list(deaths.iterdir()) == []
    customers_are(scene, c1="Anna", c2=None)
    scene.run(app)
    assert {row["id"]: row["name"] for row in scene.rows("copy")} == {1: "Anna"}
    assert told["copy"].in_time == 2
