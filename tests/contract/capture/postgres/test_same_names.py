"""Two captures whose names give the same slot and publication, or one name with two clusters: the second takes nothing
away from the first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from runnel import Broker
from runnel.capture.capture import Capture
from runnel.capture.postgres import readiness
from runnel.capture.postgres.errors import SlotInUse
from runnel.capture.postgres.source import PostgresSource
from runnel.capture.selection import Selection
from tests.contract.capture.captured_postgres import Database
from tests.contract.capture.lives import capture_of, running, wait_until
from tests.contract.capture.topics import committed

pytestmark = pytest.mark.servers


@pytest.fixture(autouse=True)
def said_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "IN_USE_SECONDS", 0.1)


@pytest.fixture
def shop(database: Database) -> Database:
    database.run("CREATE TABLE customers(id int PRIMARY KEY)", "CREATE TABLE orders(id int PRIMARY KEY)")
    return database


@pytest.fixture(scope="module")
def other_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def selection(database: Database, table: str) -> Selection:
    return Selection(tables=[rf"{database.schema}\.{table}"])


def source_of(database: Database, name: str, table: str) -> PostgresSource:
    return database.source(selection(database, table).has, name=f"{database.schema}{name}")


def capture(database: Database, name: str, table: str, broker: Broker) -> Capture:
    source = source_of(database, name, table)
    chosen = selection(database, table)
    return capture_of(f"{database.schema}{name}", source, broker.bootstrap, chosen)


def published(database: Database) -> list[str]:
    found = database.ask(
        f"SELECT tablename FROM pg_publication_tables WHERE schemaname = '{database.schema}' ORDER BY 1"
    )
    return [name for (name,) in found]


@pytest.mark.parametrize("other", ["-app", ".app", "_App"])
def test_a_first_start_is_refused_while_another_capture_reads_and_leaves_it_alone(
    shop: Database, broker: Broker, other_broker: Broker, other: str, caplog: pytest.LogCaptureFixture
):
    with running(capture(shop, "-app", "customers", broker)) as first:
        wait_until(first.is_streaming.is_set)
        with caplog.at_level(logging.WARNING), running(capture(shop, other, "orders", other_broker)) as second:
            wait_until(lambda: [each for each in caplog.messages if "is in use: it is read by" in each])
            assert second.state.position is None
        assert published(shop) == ["customers"]
        shop.run("INSERT INTO customers VALUES (1)")
        topic = f"{shop.schema}-app.{shop.schema}.customers"
        wait_until(lambda: [each.op for each in committed(broker.bootstrap, topic).get(topic, [])] == ["c"])
        assert first.is_streaming.is_set()


def test_a_first_start_takes_nothing_out_of_the_publication_of_one_that_is_away(shop: Database):
    source_of(shop, "-app", "customers").prepare()
    source_of(shop, "_App", "orders").prepare()
    assert published(shop) == ["customers", "orders"]


def test_a_reader_that_has_just_ended_is_waited_for(shop: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(readiness, "IN_USE_SECONDS", 120.0)
    first, second = source_of(shop, "-app", "customers"), source_of(shop, "-app", "customers")
    changes = first.changes(first.prepare())

    def end(_: float) -> None:
        changes.close()

    monkeypatch.setattr(readiness.time, "sleep", end)
    assert second.prepare()


def test_whoever_reads_is_named(shop: Database):
    first = source_of(shop, "-app", "customers")
    changes = first.changes(first.prepare())
    told = rf'is in use: it is read by "runnel capture {shop.schema}-app", PID \d+, and nothing of it by us before'
    with pytest.raises(SlotInUse, match=told):
        source_of(shop, ".app", "orders").prepare()
    changes.close()
