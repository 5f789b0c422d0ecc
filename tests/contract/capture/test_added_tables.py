"""Tables that are added to a capture and removed from it while it runs, from a database into the topics of a broker."""

from __future__ import annotations

import itertools
import threading

import pytest

from runnel.capture import capture as captures
from runnel.capture.choice import Choice
from runnel.capture.chosen import Mode
from runnel.capture.conditions import parse
from runnel.capture.mariadb import changes as mariadb_changes
from runnel.capture.postgres import changes as postgres_changes
from runnel.capture.postgres import replication
from runnel.capture.selection import Selection
from runnel.capture.sqlite import changes as sqlite_changes
from tests.contract.capture.lives import capture_of, caught_up, running, wait_until
from tests.contract.capture.signalling import signal
from tests.contract.capture.topics import check_transactions, committed

numbers = itertools.count()

ORDERS = Selection(tables=[r".*\.orders"])
KEYED = Selection(tables=[r".*\.orders", r".*\.pairs"])


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(captures, "SIGNAL_MICROS", 0)
    monkeypatch.setattr(captures, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(captures, "IDLE_MICROS", 0)
    for module in (postgres_changes, mariadb_changes):
        monkeypatch.setattr(module, "PASSED_SECONDS", 0.02)


class Lives:
    """Lives of a capture of one name, one after another."""

    def __init__(self, broker, database):
        self.broker, self.database, self.name = broker, database, f"added{next(numbers)}"
        self.asked = 0

    def begin(self, selection=ORDERS, mode=Mode.INITIAL):
        choice = Choice(selection)
        source = self.database.source(self.name, choice)
        self.looking = self.database.source(self.name, choice)
        how = {"choice": choice, "snapshot": mode, "chunk": 7, "transactions": True}
        return running(capture_of(self.name, source, self.broker.bootstrap, selection, **how))

    def ask(self, kind, *tables):
        self.asked += 1
        named = [rf"{self.database.schema}\.{each}" for each in tables]
        signal(self.broker.bootstrap, self.name, f"{kind}-tables", {"data-collections": named})

    def pause(self):
        self.asked += 1
        signal(self.broker.bootstrap, self.name, "pause-snapshot")

    def heeded(self, capture):
        """Wait until all that was asked for is done, and all is read."""
        wait_until(lambda: self.is_heeded(capture))

    def is_heeded(self, capture):
        state = capture.state
        is_done = state.signals == self.asked and state.is_complete and capture.is_streaming.is_set()
        return is_done and {str(table) for table in self.looking.tables()} == state.tables.keys()

    def tables(self, capture):
        return {name.partition(".")[2] for name in capture.state.tables}

    def told(self):
        return Told(self)


class Told:
    """What is in the topics, of transactions that are whole."""

    def __init__(self, lives):
        self._lives = lives
        self._topics = committed(lives.broker.bootstrap, f"{lives.name}.")
        check_transactions(self._topics, lives.name)

    def records(self, table):
        return self._topics.get(f"{self._lives.name}.{self._lives.database.schema}.{table}", [])

    def ops(self, table):
        return [each.op for each in self.records(table)]

    def check(self, *tables):
        """At rest they are as the last word of each key tells them."""
        for table in tables:
            rows = {each.key: each.value["after"] for each in self.records(table) if each.value is not None}
            found = sorted(tuple(map(str, row.values())) for row in rows.values() if row is not None)
            assert found == sorted(tuple(map(str, row)) for row in self._lives.database.rows(table)), table


@pytest.fixture
def lives(broker, database):
    return Lives(broker, database)


def orders(first, last):
    return [f"INSERT INTO orders VALUES ({number}, 'a', 1)" for number in range(first, last)]


def pairs(first, last):
    return [f"INSERT INTO pairs VALUES ('a', {number}, 1)" for number in range(first, last)]


def test_a_table_is_added_and_read_while_others_write(lives, database):
    database.execute(*orders(0, 5), *pairs(0, 60))
    with lives.begin() as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute("UPDATE pairs SET v = 2 WHERE b = 1", "UPDATE orders SET price = 2 WHERE id = 1")
        lives.ask("add", "pairs")
        number = 0
        while number < 200 and not lives.is_heeded(capture):
            number += 1
            database.execute(
                f"UPDATE pairs SET v = {number} WHERE b = {number % 60}",
                f"UPDATE orders SET price = {number} WHERE id = {number % 5}",
            )
        lives.heeded(capture)
        database.execute("DELETE FROM pairs WHERE b = 7", "INSERT INTO pairs VALUES ('b', 1, 1)")
        caught_up(capture, lives.looking)
    told = lives.told()
    told.check("orders", "pairs")
    assert told.ops("orders") == ["r"] * 5 + ["u"] * (1 + number)  # each change once
    assert {each.value["source"]["snapshot"] for each in told.records("pairs") if each.op == "r"} == {"incremental"}


def test_a_removed_table_is_told_no_more_also_in_the_next_life_and_read_again_when_it_is_added(lives, database, caplog):
    database.execute(*orders(0, 3), *pairs(0, 3))
    with lives.begin(KEYED) as capture:
        wait_until(capture.is_streaming.is_set)
        lives.ask("remove", "pairs")
        lives.heeded(capture)
        database.execute("UPDATE pairs SET v = 2", "UPDATE orders SET price = 2 WHERE id = 1")
        caught_up(capture, lives.looking)
        assert lives.tables(capture) == {"orders"}
    caplog.clear()
    with lives.begin(KEYED) as capture:
        database.execute("UPDATE pairs SET v = 3", "UPDATE orders SET price = 3 WHERE id = 1")
        caught_up(capture, lives.looking)
        said = rf"tables were asked for while it ran, whatever it was started with: removed {database.schema}\.pairs"
        assert caplog.text.count(said) == 1
        lives.ask("add", "pairs")
        lives.heeded(capture)
        database.execute("UPDATE pairs SET v = 4 WHERE b = 2")
        caught_up(capture, lives.looking)
        assert [each[1] for each in capture.state.asked] == [True]  # it is asked for once
    told = lives.told()
    assert told.ops("pairs") == ["r"] * 6 + ["u"]  # and nothing in between
    assert told.ops("orders") == ["r"] * 3 + ["u"] * 2
    told.check("orders", "pairs")


def test_a_capture_goes_on_without_any_table_and_with_one_that_is_added_then(lives, database):
    database.execute(*orders(0, 3), *pairs(0, 3))
    with lives.begin() as capture:
        wait_until(capture.is_streaming.is_set)
        lives.ask("remove", "orders")
        lives.heeded(capture)
        database.execute("UPDATE orders SET price = 2")
        caught_up(capture, lives.looking)
        assert lives.tables(capture) == set()
    with lives.begin(mode=Mode.NONE) as capture:
        wait_until(capture.is_streaming.is_set)
        lives.ask("add", "pairs")
        lives.heeded(capture)
        database.execute("UPDATE pairs SET v = 2 WHERE b = 1")
        caught_up(capture, lives.looking)
    told = lives.told()
    assert told.ops("orders") == ["r"] * 3
    assert told.ops("pairs") == ["u"]  # as no tables are to be read


@pytest.mark.parametrize("is_stopped", [False, True], ids=["while-it-runs", "before-the-next-life"])
def test_what_is_asked_for_in_the_middle_of_a_transaction_holds_from_its_end_on(
    lives, database, monkeypatch, is_stopped
):
    for module, name in ((sqlite_changes, "AT_ONCE"), (replication, "MESSAGES"), (mariadb_changes, "AT_ONCE")):
        monkeypatch.setattr(module, name, 5)
    publish, is_inside = captures.Capture._publish, threading.Event()

    def ask_inside(capture, out, state):
        publish(capture, out, state)
        if capture.state.position.index and not is_inside.is_set():
            is_inside.set()
            lives.ask("remove", "pairs")
            lives.ask("add", "loose")
            if is_stopped:
                capture.stop()

    monkeypatch.setattr(captures.Capture, "_publish", ask_inside)
    large = [each for number in range(20) for each in (*pairs(number, number + 1), *orders(number, number + 1))]
    with lives.begin(KEYED) as capture:
        wait_until(capture.is_streaming.is_set)
        database.execute(*large, "INSERT INTO loose VALUES (1, 1)")
        wait_until(is_inside.is_set)
        if not is_stopped:
            lives.heeded(capture)
            caught_up(capture, lives.looking)
    with lives.begin(KEYED) as capture:
        lives.heeded(capture)
        database.execute("UPDATE pairs SET v = 2", "UPDATE orders SET price = 2", "INSERT INTO loose VALUES (2, 2)")
        caught_up(capture, lives.looking)
        assert lives.tables(capture) == {"orders", "loose"}
    told = lives.told()
    assert told.ops("pairs") == ["c"] * 20
    assert told.ops("orders") == ["c"] * 20 + ["u"] * 20
    assert [(each.op, each.value["after"]["x"]) for each in told.records("loose")] == [("r", 1), ("c", 2)]


def test_what_cannot_be_done_is_told_and_passed_over(lives, database, caplog):
    database.execute("CREATE TABLE a_b (id INTEGER PRIMARY KEY)")
    database.execute("CREATE TABLE a$b (id INTEGER PRIMARY KEY)")
    database.execute(*orders(0, 1))
    schema = database.schema
    chosen = Selection(tables=[r".*\.(orders|a_b)"], rows={r".*\.(orders|pairs)": parse("price < 100")})
    with lives.begin(chosen) as capture:
        wait_until(capture.is_streaming.is_set)
        lives.ask("add", "nothing")
        lives.ask("remove", "nothing")
        lives.ask("add", r"a\$b")
        lives.ask("add", "pairs")
        lives.ask("remove", "a_b")
        lives.heeded(capture)
        database.execute("UPDATE orders SET price = 2")
        caught_up(capture, lives.looking)
        assert lives.tables(capture) == {"orders"}
        assert [each.expression for each in capture.state.asked] == [rf"{schema}\.a_b"]
    assert lives.told().ops("orders") == ["r", "u"]
    assert caplog.text.count(rf'has no table "{schema}\.nothing" (it has ') == 2
    assert f"the topic of both would be {lives.name}.{schema}.a_b" in caplog.text
    assert f'column of a condition "price" cannot be used: table {schema}.pairs has a, b, v' in caplog.text
    assert caplog.text.count("passes over a signal: ") == 4


def test_a_removal_behind_another_signal_is_heeded_by_a_start_that_would_fail_later(lives, database, monkeypatch):
    database.execute(*orders(0, 3))
    with lives.begin(KEYED) as capture:
        wait_until(capture.is_streaming.is_set)
    lives.pause()
    lives.ask("remove", "pairs")
    has_failed = threading.Event()

    def fail(_):
        has_failed.set()
        raise RuntimeError("it never comes to the changes")

    monkeypatch.setattr(captures.Capture, "_stream", fail)
    with pytest.raises(RuntimeError), lives.begin(KEYED) as capture:
        wait_until(has_failed.is_set)
    assert lives.tables(capture) == {"orders"}
    assert (capture.state.signals, capture.state.is_paused) == (2, True)


def test_a_start_that_has_chosen_only_what_was_removed_goes_on_and_can_be_asked_for_it_again(lives, database):
    database.execute(*orders(0, 3), *pairs(0, 3))
    with lives.begin(KEYED) as capture:
        wait_until(capture.is_streaming.is_set)
        lives.ask("remove", "pairs")
        lives.heeded(capture)
    with lives.begin(Selection(tables=[r".*\.pairs"])) as capture:
        lives.heeded(capture)
        assert lives.tables(capture) == set()
        lives.ask("add", "pairs")
        lives.heeded(capture)
        assert lives.tables(capture) == {"pairs"}
