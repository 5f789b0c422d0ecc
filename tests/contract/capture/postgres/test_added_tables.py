"""Tables that are added to a capture of PostgreSQL and removed from it while it runs, and its publication."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from runnel.capture import capture as captures
from runnel.capture.choice import Choice
from runnel.capture.postgres import changes, readiness
from runnel.capture.selection import Masked, Selection
from tests.contract.capture.captured_postgres import Database
from tests.contract.capture.lives import capture_of, caught_up, running, wait_until
from tests.contract.capture.signalling import signal
from tests.contract.capture.topics import committed

pytestmark = pytest.mark.servers

numbers = itertools.count()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(captures, "SIGNAL_MICROS", 0)
    monkeypatch.setattr(captures, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(captures, "IDLE_MICROS", 0)
    monkeypatch.setattr(changes, "PASSED_SECONDS", 0.02)


class Asking:
    """A capture of table t, of which more is asked while it runs."""

    def __init__(
        self, database: Database, broker: Any, selection: Selection | None = None, chosen: Any = None, **named: Any
    ) -> None:
        self.database, self.broker, self.name = database, broker, f"pgadded{next(numbers)}"
        database.run(
            "CREATE TABLE t(id int PRIMARY KEY)", "CREATE TABLE u(id int PRIMARY KEY)", "CREATE TABLE k(x int)"
        )
        selection = selection or Selection(tables=[rf"{database.schema}\.t"])
        choice = Choice(selection)
        self.source = database.source(chosen or choice.has, **named)
        self.work = capture_of(self.name, self.source, broker.bootstrap, selection, choice=choice)
        self.asked = 0

    def ask(self, kind: str, *tables: str) -> None:
        self.say(kind, *tables)
        self.heeded()

    def say(self, kind: str, *tables: str) -> None:
        self.asked += 1
        data = {"data-collections": [rf"{self.database.schema}\.{each}" for each in tables]}
        signal(self.broker.bootstrap, self.name, f"{kind}-tables", data)

    def heeded(self) -> None:
        """Wait until all that was asked for is done, and all is read."""
        wait_until(lambda: self.work.state.signals == self.asked)
        wait_until(lambda: {str(each) for each in self.source.tables()} == self.work.state.tables.keys())
        wait_until(lambda: self.work.state.is_complete)
        caught_up(self.work, self.source)

    def published(self, publication: str) -> set[str]:
        query = f"SELECT tablename FROM pg_publication_tables WHERE pubname = '{publication}'"
        return {name for (name,) in self.database.ask(query)}

    def tables(self) -> set[str]:
        return {name.partition(".")[2] for name in self.work.state.tables}

    def ops(self, table: str) -> list[str | None]:
        topic = f"{self.name}.{self.database.schema}.{table}"
        return [each.op for each in committed(self.broker.bootstrap, topic).get(topic, [])]


def test_a_table_leaves_and_enters_our_own_publication_and_one_without_a_key_is_told_with_the_sql(
    database, broker, caplog
):
    asking, own = Asking(database, broker), f"runnel_{database.schema}"
    with running(asking.work):
        wait_until(asking.work.is_streaming.is_set)
        assert asking.published(own) == {"t"}
        asking.ask("remove", "t")
        wait_until(lambda: asking.published(own) == set())
        asking.ask("add", "k")
        (passed,) = [each for each in caplog.messages if "passes over a signal" in each]
        assert f'ALTER TABLE "{database.schema}"."k" REPLICA IDENTITY FULL;' in passed
        database.run("INSERT INTO k VALUES (1)", "UPDATE k SET x = 2")  # nobody is kept from writing
        database.run("ALTER TABLE k REPLICA IDENTITY FULL")
        asking.ask("add", "u")
        assert asking.published(own) == {"u"}  # it is to be asked for again
        database.run("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
        caught_up(asking.work, asking.source)
        assert asking.tables() == {"u"}
    assert (asking.ops("t"), asking.ops("k"), asking.ops("u")) == ([], [], ["c"])


def test_an_administrators_publication_stays_as_it_is_and_what_it_lacks_is_told_with_the_sql(database, broker, caplog):
    given = f"runnel_{database.schema}_given"
    asking = Asking(database, broker, publication=given)
    database.run(f"CREATE PUBLICATION {given} FOR TABLE t")
    with running(asking.work):
        wait_until(asking.work.is_streaming.is_set)
        asking.ask("add", "u")
        added = f'ALTER PUBLICATION "{given}" ADD TABLE ONLY "{database.schema}"."u";'
        (passed,) = [each for each in caplog.messages if "passes over a signal" in each]
        assert added in passed
        asking.ask("remove", "t")
        database.run("INSERT INTO t VALUES (1)", f"ALTER PUBLICATION {given} ADD TABLE u")
        asking.ask("add", "u")
        database.run("INSERT INTO t VALUES (2)", "INSERT INTO u VALUES (1)")
        caught_up(asking.work, asking.source)
        assert asking.tables() == {"u"}
        assert asking.published(given) == {"t", "u"}
    assert (asking.ops("t"), asking.ops("u")) == ([], ["c"])


@pytest.mark.parametrize("identity", ["DEFAULT", "NOTHING"], ids=["fit", "to-be-mended"])
def test_a_table_is_not_removed_as_long_as_its_partitions_would_be_captured_instead(database, broker, caplog, identity):
    schema = database.schema
    database.run(
        "CREATE TABLE e(id int PRIMARY KEY, email text) PARTITION BY RANGE (id)",
        "CREATE TABLE e1 PARTITION OF e FOR VALUES FROM (0) TO (100)",
        "INSERT INTO e VALUES (1, 'anna@example.org')",
    )
    chosen = Selection(tables=[rf"{schema}\.(t|e.*)"], hidden={rf"{schema}\.e\.email": Masked()})
    asking = Asking(database, broker, chosen)
    with running(asking.work):
        wait_until(asking.work.is_streaming.is_set)
        database.run(f"ALTER TABLE e1 REPLICA IDENTITY {identity}")
        asking.ask("remove", "e")
        assert asking.tables() == {"t", "e"}
        assert f"its partitions {schema}.e1 would be captured instead" in caplog.text
        assert rf"(name them, too: --remove '{schema}\.e' --remove '{schema}\.e1')" in caplog.text
        asking.ask("remove", "e", r"e\d+")
        assert asking.tables() == {"t"}
    assert (asking.ops("e"), asking.ops("e1")) == (["r"], [])


def test_an_added_table_is_refused_by_a_source_that_was_opened_with_a_choice_of_its_own(database, broker, caplog):
    asking = Asking(database, broker, chosen=lambda table: table == database.table("t"))
    with running(asking.work):
        wait_until(asking.work.is_streaming.is_set)
        asking.ask("add", "u")
        assert asking.work.state.asked == ()
    assert "the source of this capture was opened with a choice that does not change" in caplog.text


def test_a_table_that_somebody_keeps_locked_does_not_hold_up_the_others(database, broker, caplog, monkeypatch):
    monkeypatch.setattr(captures, "POSTPONED_MICROS", 500_000)
    monkeypatch.setattr(readiness, "PUBLISH_SECONDS", 0.2)
    asking, own, other = Asking(database, broker), f"runnel_{database.schema}", database.connect()
    with running(asking.work):
        wait_until(asking.work.is_streaming.is_set)
        with other.transaction():
            other.execute("LOCK TABLE u IN SHARE MODE")  # as CREATE INDEX does
            asking.say("add", "u")
            wait_until(lambda: "heeds a signal later" in caplog.text)
            database.run("INSERT INTO t VALUES (1)")
            wait_until(lambda: asking.ops("t") == ["c"])
            assert asking.work.state.signals == 0
        asking.heeded()
        assert caplog.text.count("heeds a signal later") == 1
        with other.transaction():
            other.execute("LOCK TABLE u IN SHARE MODE")
            asking.ask("remove", "u")
            assert asking.published(own) == {"t", "u"}
            database.run("INSERT INTO t VALUES (2)")
            caught_up(asking.work, asking.source)
        assert caplog.text.count("stays published until the next start") == 1
        database.run("INSERT INTO u VALUES (1)")
        caught_up(asking.work, asking.source)
        asking.ask("remove", "k")
        wait_until(lambda: asking.published(own) == {"t"})
    assert (asking.ops("t"), asking.ops("u")) == (["c", "c"], [])
